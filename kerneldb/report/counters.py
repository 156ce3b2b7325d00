"""The sections of a report that need hardware counters: classes, histograms, rooflines."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import require
from kerneldb.report import charts
from kerneldb.report.model import Chart, Column, Plan, Section, Table

if TYPE_CHECKING:
    from kerneldb.api import Database
    from kerneldb.report.asking import Asking

RULE: Final = "ncu"
KINDS: Final = frozenset({"profiled", "replay"})
"""Kinds of traces that hold counters, and no times of a program."""

HITS: Final = (
    "the counters of a hit rate were read in several runs of the kernel, which need not hit alike; kept as collected."
)
PERCENTS: Final = (
    Column("compute_pct", "SM", "percent"),
    Column("memory_pct", "memory", "percent"),
    Column("dram_pct", "DRAM", "percent"),
)
CLASSES: Final = Plan(
    "classes",
    "Classes by the rule {rule}",
    (
        Column("verdict", "class"),
        Column("n", "launches", "count"),
        Column("share_pct", "share of profiled", "percent"),
        Column("time_pct", "of their time", "percent"),
        *PERCENTS,
        Column("occupancy_pct", "occupancy", "percent"),
        Column("l1_hit_pct", "L1 hits", "percent", HITS),
        Column("l2_hit_pct", "L2 hits", "percent", HITS),
        Column("mean_ns", "mean duration", "ns"),
    ),
)
KERNELS: Final = Plan(
    "profiled_kernels",
    "Kernels by duration, under the profiler",
    (
        Column("duration_ns", "duration", "ns"),
        Column("verdict", "class"),
        Column("detail", "put down to"),
        Column("library", "library"),
        Column("kernel", "kernel", "code"),
        *PERCENTS,
        Column("l2_hit_pct", "L2 hits", "percent", HITS),
        Column("occupancy_pct", "occupancy", "percent"),
        Column("theoretical_occupancy_pct", "theoretical", "percent"),
    ),
)
SETUP: Final = Plan(
    "profiled_setup",
    "Traces with counters",
    (
        Column("trace", "trace"),
        Column("source", "source"),
        Column("device_names", "GPU"),
        Column("launches", "profiled launches", "count"),
        Column("run", "run"),
    ),
)
MIXED: Final = Plan(
    "mixed",
    "Kernels with launches of several classes",
    (
        Column("kernel", "kernel", "code"),
        Column("n", "launches", "count"),
        Column("total_ns", "profiled time", "ns"),
        Column("verdicts", "classes"),
        Column("compute_low", "SM from", "percent"),
        Column("compute_high", "to", "percent"),
        Column("memory_low", "memory from", "percent"),
        Column("memory_high", "to", "percent"),
    ),
    "None: all launches of each kernel and launch shape fall into one class.",
)
POINTS: Final = Plan(
    "counter_roofline",
    "Points of the roofline",
    (
        Column("kernel", "kernel", "code"),
        Column("category", "operations"),
        Column("intensity", "FLOP/byte", "number"),
        Column("ridge", "ridge", "number"),
        Column("flops_per_second", "FLOP/s", "rate"),
        Column("peak_flops_per_second", "peak FLOP/s", "rate"),
        Column("peak_bytes_per_second", "peak bytes/s", "rate"),
        Column("peaks_from", "peaks from"),
        Column("method", "work from"),
    ),
    "No operations counted: collect the SpeedOfLight_*Roofline* sections (kerneldb ncu command).",
)
ADVISED: Final = Plan(
    "ncu_rules",
    "What the rules of Nsight Compute advise",
    (
        Column("rule", "rule"),
        Column("at_stake_ns", "at most saved", "ns"),
        Column("share_pct", "of profiled time", "percent"),
        Column("n", "launches", "count"),
        Column("kernel", "most of all in", "code"),
        Column("speedup_pct", "there", "percent"),
        Column("message", "advice"),
    ),
)
HOT: Final = Plan(
    "hotspots",
    "Hottest lines",
    (
        Column("kernel", "kernel", "code"),
        Column("place", "line"),
        Column("text", "source", "code"),
        Column("share_pct", "of its samples", "percent"),
        Column("samples", "samples", "count"),
        Column("stall", "most frequent stall"),
        Column("stall_pct", "share of it", "percent"),
    ),
)
SHEET: Final = (
    "The counters hold no peaks: those of the data sheet of {} stand for them, at the clock of the sheet and not of "
    "the profile."
)
NO_PRODUCT: Final = (
    "No roof where no peaks were counted: of the GPU the file names {} only, which does not tell the product, and "
    "peaks differ from product to product. The SpeedOfLight_*Roofline* sections count them."
)
TENSOR: Final = re.compile(
    r"(op_(?P<instruction>[a-z]+)_)?src_(?P<source>\w+?)_dst_(?P<sums>\w+?)(_sparsity_(?P<sparse>on|off))?"
)
VECTOR: Final = {"ffma": "fp32 (FFMA)", "dfma": "fp64 (DFMA)", "hfma": "fp16 (HFMA)"}
METHODS: Final = {"section": "rates of operations and bytes", "totals": "operations and bytes over the duration"}
"""The operations and methods of `ncu_roofline` in words."""
NO_SHEET: Final = "No roof for some operations: neither the counters nor the data sheet tell the peak of their type."


def check_rule(database: Database, rule: str | None) -> None:
    """Raise UsageError, with the nearest names there are, for a rule that `bounds` does not know."""
    if rule is not None:
        require("rule", [rule], sorted({row["rule"] for row in database.bound_rules().rows()}))


def sections(ask: Asking, traces: Sequence[str], rule: str | None) -> list[Section]:
    """Classes, histograms and rooflines of the counters of `traces`; nothing where there are none.

    To a trace with times come the counters of its run, and of replays of its kernels, that were collected on the same
    model of GPU. Each model has
    sections of its own: peaks, classes and means of several are not of one kind.
    """
    grouped: dict[str, list[str]] = {}
    for row in ask.about(traces=list(traces)).rows("profiled"):
        grouped.setdefault(row["gpu"], []).append(row["trace"])
    found: list[Section] = []
    for gpu, names in grouped.items():
        suffix = f" of {gpu}" if len(grouped) > 1 else ""
        parts = _of_one_gpu(ask.about(traces=names, rule=rule or RULE))
        found += [dataclasses.replace(part, title=part.title + suffix) for part in parts]
    return found


def _of_one_gpu(ask: Asking) -> list[Section]:
    setup, classes, mixed, kernels = map(ask.table, (SETUP, CLASSES, MIXED, KERNELS))
    told = [table for plan in (ADVISED, HOT) if (table := ask.table(plan)).rows]
    figures = itertools.groupby(ask.rows("histograms"), key=lambda row: str(row["figure"]))
    sql = ask.sql("histograms")
    histograms = [_histogram(figure, list(rows), sql) for figure, rows in figures]
    points = ask.rows("counter_roofline")
    # Where the peaks of the roofline are from, if not from the counters, and why some points have none
    sheets = sorted({row["gpu"] for row in points if row["peaks_from"] not in {None, "counters"}})
    bare = [row for row in points if row["peaks_from"] is None]
    said = [SHEET.format(", ".join(sheets))] if sheets else []
    if any(row["gpu"] is None for row in bare):
        printed = sorted({str(row["printed"]) for row in bare if row["gpu"] is None and row["printed"]})
        said.append(NO_PRODUCT.format(", ".join(printed) or "nothing"))
    if any(row["gpu"] is not None for row in bare):
        said.append(NO_SHEET)
    return [
        Section("Kernel classes", (setup, classes, mixed, kernels, *told), (), _rule_sentence(ask)),
        Section("Counters", tuple(histograms)),
        Section("Roofline of the counters", tuple(_rooflines(ask, points, kernels)), (), " ".join(said)),
    ]


def _rule_sentence(ask: Asking) -> str:
    """Which rule classified, with its version and thresholds."""
    rule, rows = ask.params["rule"], ask.rows("rule")
    named = ", ".join(f"{row['parameter']} = {row['value']:g} {row['unit'] or ''}".strip() for row in rows)
    version = f", version {rows[0]['version']}" if rows else ""
    return (
        f"Rule {rule}{version}: {named or 'no thresholds'}. Each launch is judged on its own, and means are "
        "over launches, each with the same weight. Durations under a profiler enter no time sum."
    )


def _histogram(figure: str, rows: list[dict[str, Any]], sql: str) -> Chart:
    over = "hit rate" in figure and any(round(row["to_value"], 1) > 100 for row in rows)  # noqa: PLR2004 (percent)
    return Chart(f"{figure} (over 100: {HITS})" if over else figure, charts.histogram(rows, figure), sql)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A point of the roofline with the names of counters in words: `op_hgmma_src_bf16_dst_fp32_sparsity_off`."""
    category, method = row["category"], row["method"]
    found = TENSOR.fullmatch(category or "")
    if found is not None:
        sparse = ", sparse" if found["sparse"] == "on" else ""
        instruction = f" ({found['instruction'].upper()})" if found["instruction"] else ""
        category = f"{found['source']} tensor cores, sums in {found['sums']}{sparse}{instruction}"
    return {**row, "category": VECTOR.get(category, category), "method": METHODS.get(method, method)}


def _rooflines(ask: Asking, points: list[dict[str, Any]], kernels: Table) -> Iterator[Table | Chart]:
    """The physical roofline where operations were counted, and the normalised one."""
    table = ask.table(POINTS, 40)
    points = [_plain(point) for point in points]
    if points:
        yield Chart("Physical roofline", charts.roofline(points, charts.roofs(points, "category")), table.sql)
    yield table
    known = [row for row in kernels.rows if row["compute_pct"] is not None and row["dram_pct"] is not None]
    if known:
        means = {name: sum(row[name] for row in known) / len(known) for name in ("compute_pct", "dram_pct")}
        mean = {"kernel": f"mean of {len(known)} launches", "verdict": "mean of all", **means}
        titles = ("DRAM throughput in % of peak", "SM throughput in % of peak")
        drawn = charts.scatter([*known[:2000], mean], ("dram_pct", "compute_pct"), titles)
        yield Chart("Normalised roofline, overall and per kernel", drawn, kernels.sql)
