"""The sections of a report that need hardware counters: classes, histograms, rooflines."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import statement
from kerneldb.report import charts
from kerneldb.report.asking import quoted
from kerneldb.report.model import Chart, Column, Section, Table

if TYPE_CHECKING:
    from kerneldb.report.asking import Asking

RULE: Final = "ncu"
MANY: Final = 12
"""Above this number of traces, queries are shown with the first few names only."""

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
    Column("method", "method"),
)
NO_ROOFLINE: Final = "No operations counted: collect the SpeedOfLight_*Roofline* sections (kerneldb ncu-command)."


def sections(ask: Asking, traces: Sequence[str], rule: str | None) -> list[Section]:
    """Classes, histograms and rooflines of the counters of `traces` and of their runs; nothing where there are none."""
    asked = _Asked(ask, [row["trace"] for row in ask.rows("report_profiled", {"traces": list(traces)})], rule)
    if not asked.traces:
        return []
    classes = asked.table("classes", f"Classes by the rule {asked.rule}", CLASSES, ruled=True)
    kernels = asked.table("profiled_kernels", "Kernels by duration, under the profiler", KERNELS, ruled=True)
    setup = asked.table("profiled_setup", "Traces with counters", SETUP, ruled=False)
    return [
        Section("Kernel classes", (setup, classes, asked.mixed(), kernels), (), asked.sentence()),
        Section("Counters", tuple(asked.histograms())),
        Section("Roofline of the counters", tuple(asked.rooflines(kernels.rows))),
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

    def _rows(self, name: str, *, ruled: bool = False) -> list[dict[str, Any]]:
        params: dict[str, Any] = {"traces": self.traces}
        return self._ask.rows(f"report_{name}", {**params, "rule": self.rule} if ruled else params)

    def _shown(self, name: str) -> str:
        """The statement as a reader would type it."""
        some = self.traces[:MANY]
        names = ", ".join(map(quoted, some))
        more = f" /* and {len(self.traces) - MANY} more */" if len(self.traces) > MANY else ""
        return (
            _query(name).replace("$traces::VARCHAR[]", f"[{names}]{more}").replace("$rule", quoted(self.rule)).strip()
        )
