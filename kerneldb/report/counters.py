"""The sections of a report that need hardware counters: classes, histograms, rooflines."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import require, statement
from kerneldb.report import charts
from kerneldb.report.asking import opened, quoted
from kerneldb.report.model import Chart, Column, Section, Table

if TYPE_CHECKING:
    from kerneldb.api import Database
    from kerneldb.report.asking import Asking

RULE: Final = "ncu"

HITS: Final = (
    "the counters of a hit rate were read in several runs of the kernel, which need not hit alike; kept as collected."
)
PERCENTS: Final = (
    Column("compute_pct", "SM", "percent"),
    Column("memory_pct", "memory", "percent"),
    Column("dram_pct", "DRAM", "percent"),
)
CLASSES: Final = (
    Column("verdict", "class"),
    Column("n", "launches", "count"),
    Column("share_pct", "share of profiled", "percent"),
    Column("time_pct", "of their time", "percent"),
    *PERCENTS,
    Column("occupancy_pct", "occupancy", "percent"),
    Column("l1_hit_pct", "L1 hits", "percent", HITS),
    Column("l2_hit_pct", "L2 hits", "percent", HITS),
    Column("mean_ns", "mean duration", "ns"),
)
KERNELS: Final = (
    Column("duration_ns", "duration", "ns"),
    Column("verdict", "class"),
    Column("detail", "put down to"),
    Column("library", "library"),
    Column("kernel", "kernel", "code"),
    *PERCENTS,
    Column("l2_hit_pct", "L2 hits", "percent", HITS),
    Column("occupancy_pct", "occupancy", "percent"),
    Column("theoretical_occupancy_pct", "theoretical", "percent"),
)
SETUP: Final = (
    Column("trace", "trace"),
    Column("source", "source"),
    Column("device_names", "GPU"),
    Column("launches", "profiled launches", "count"),
    Column("run", "run"),
)
MIXED: Final = (
    Column("kernel", "kernel", "code"),
    Column("n", "launches", "count"),
    Column("total_ns", "profiled time", "ns"),
    Column("verdicts", "classes"),
    Column("compute_low", "SM from", "percent"),
    Column("compute_high", "to", "percent"),
    Column("memory_low", "memory from", "percent"),
    Column("memory_high", "to", "percent"),
)
NOT_MIXED: Final = "None: all launches of each kernel and launch shape fall into one class."
POINTS: Final = (
    Column("kernel", "kernel", "code"),
    Column("category", "operations"),
    Column("intensity", "FLOP/byte", "number"),
    Column("ridge", "ridge", "number"),
    Column("flops_per_second", "FLOP/s", "rate"),
    Column("peak_flops_per_second", "peak FLOP/s", "rate"),
    Column("peak_bytes_per_second", "peak bytes/s", "rate"),
    Column("peaks_from", "peaks from"),
    Column("method", "work from"),
)
SHEET: Final = (
    "The counters hold no peaks: those of the data sheet of {} stand for them, at the clock of the sheet and not of "
    "the profile."
)
NO_PRODUCT: Final = (
    "No roof where no peaks were counted: of the GPU the file names {} only, which does not tell the product, and "
    "peaks differ from product to product. The SpeedOfLight_*Roofline* sections count them."
)
NO_SHEET: Final = "No roof for some operations: neither the counters nor the data sheet tell the peak of their type."
NO_ROOFLINE: Final = "No operations counted: collect the SpeedOfLight_*Roofline* sections (kerneldb ncu command)."


def check_rule(database: Database, rule: str | None) -> None:
    """Raise UsageError, with the nearest names there are, for a rule that `bounds` does not know."""
    if rule is not None:
        require("rule", [rule], sorted({row["rule"] for row in database.bound_rules().rows()}))


def sections(ask: Asking, traces: Sequence[str], rule: str | None) -> list[Section]:
    """Classes, histograms and rooflines of the counters of `traces`; nothing where there are none.

    To a trace with times come the counters of its run that were collected on the same model of GPU. Each model has
    sections of its own: peaks, classes and means of several are not of one kind.
    """
    grouped: dict[str, list[str]] = {}
    for row in ask.rows("report_profiled", {"traces": list(traces)}):
        grouped.setdefault(row["gpu"], []).append(row["trace"])
    found: list[Section] = []
    for gpu, names in grouped.items():
        suffix = f" of {gpu}" if len(grouped) > 1 else ""
        parts = _of_one_gpu(_Asked(ask, names, rule))
        found += [dataclasses.replace(part, title=part.title + suffix) for part in parts]
    return found


def _of_one_gpu(asked: _Asked) -> list[Section]:
    classes = asked.table("classes", f"Classes by the rule {asked.rule}", CLASSES, ruled=True)
    kernels = asked.table("profiled_kernels", "Kernels by duration, under the profiler", KERNELS, ruled=True)
    setup = asked.table("profiled_setup", "Traces with counters", SETUP, ruled=False)
    return [
        Section("Kernel classes", (setup, classes, asked.mixed(), kernels), (), asked.sentence()),
        Section("Counters", tuple(asked.histograms())),
        Section("Roofline of the counters", tuple(asked.rooflines(kernels.rows)), (), asked.peaks()),
    ]


def _histogram(figure: str, rows: list[dict[str, Any]], sql: str) -> Chart:
    over = "hit rate" in figure and any(round(row["to_value"], 1) > 100 for row in rows)  # noqa: PLR2004 (percent)
    return Chart(f"{figure} (over 100: {HITS})" if over else figure, charts.histogram(rows, figure), sql)


def _mean(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """All launches as one: the point of the whole set."""
    means = {name: sum(row[name] for row in rows) / len(rows) for name in ("compute_pct", "dram_pct")}
    return {"kernel": f"mean of {len(rows)} launches", "verdict": "mean of all", **means}


def _query(name: str) -> str:
    return statement(f"report_{name}")


class _Asked:
    """Asks about the counters of some traces."""

    def __init__(self, ask: Asking, traces: list[str], rule: str | None) -> None:
        self._ask = ask
        self.traces = traces
        self.rule = rule or RULE

    def sentence(self) -> str:
        """Which rule classified, with its version and thresholds."""
        rows = self._ask.rows("report_rule", {"rule": self.rule})
        named = ", ".join(f"{row['parameter']} = {row['value']:g} {row['unit'] or ''}".strip() for row in rows)
        version = f", version {rows[0]['version']}" if rows else ""
        return (
            f"Rule {self.rule}{version}: {named or 'no thresholds'}. Each launch is judged on its own, and means are "
            "over launches, each with the same weight. Durations under a profiler enter no time sum."
        )

    def table(self, name: str, caption: str, columns: tuple[Column, ...], *, ruled: bool) -> Table:
        """The rows of a statement as a table."""
        return Table(caption, columns, self._rows(name, ruled=ruled), self._shown(name))

    def mixed(self) -> Table:
        """Where one verdict for a kernel would hide what single launches do."""
        rows = self._rows("mixed", ruled=True)
        return Table("Kernels with launches of several classes", MIXED, rows, self._shown("mixed"), NOT_MIXED)

    def histograms(self) -> list[Chart]:
        """A chart a figure."""
        grouped = itertools.groupby(self._rows("histograms"), key=lambda row: str(row["figure"]))
        sql = self._shown("histograms")
        return [_histogram(figure, list(rows), sql) for figure, rows in grouped]

    def rooflines(self, kernels: list[dict[str, Any]]) -> list[Table | Chart]:
        """The physical roofline where operations were counted, and the normalised one."""
        found: list[Table | Chart] = []
        points = self._rows("counter_roofline")
        sql = self._shown("counter_roofline")
        if points:
            found.append(Chart("Physical roofline", charts.roofline(points, charts.roofs(points, "category")), sql))
        found.append(Table("Points of the roofline", POINTS, points[:40], sql, NO_ROOFLINE))
        known = [row for row in kernels if row["compute_pct"] is not None and row["dram_pct"] is not None]
        if known:
            titles = ("DRAM throughput in % of peak", "SM throughput in % of peak")
            drawn = charts.scatter([*known[:2000], _mean(known)], ("dram_pct", "compute_pct"), titles)
            found.append(Chart("Normalised roofline, overall and per kernel", drawn, self._shown("profiled_kernels")))
        return found

    def peaks(self) -> str:
        """Where the peaks of the roofline are from, if not from the counters, and why some points have none."""
        points = self._rows("counter_roofline")
        sheets = sorted({row["gpu"] for row in points if row["peaks_from"] not in {None, "counters"}})
        bare = [row for row in points if row["peaks_from"] is None]
        said = [SHEET.format(", ".join(sheets))] if sheets else []
        if any(row["gpu"] is None for row in bare):
            printed = sorted({str(row["printed"]) for row in bare if row["gpu"] is None and row["printed"]})
            said.append(NO_PRODUCT.format(", ".join(printed) or "nothing"))
        if any(row["gpu"] is not None for row in bare):
            said.append(NO_SHEET)
        return " ".join(said)

    def _rows(self, name: str, *, ruled: bool = False) -> list[dict[str, Any]]:
        params: dict[str, Any] = {"traces": self.traces}
        return self._ask.rows(f"report_{name}", {**params, "rule": self.rule} if ruled else params)

    def _shown(self, name: str) -> str:
        """The statement as a reader would type it, with every trace: fewer would give other numbers."""
        names = ", ".join(map(quoted, self.traces))
        return opened(_query(name).replace("$traces::VARCHAR[]", f"[{names}]").replace("$rule", quoted(self.rule)))
