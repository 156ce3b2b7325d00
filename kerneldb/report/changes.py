"""The report on what changed between two traces or runs: times, and hardware counters."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.analyses import THRESHOLD
from kerneldb.api.queries import statement
from kerneldb.errors import UsageError
from kerneldb.output.units import duration, size
from kerneldb.report import charts, contents
from kerneldb.report.asking import asking, literal, named
from kerneldb.report.counters import KINDS, RULE, check_rule
from kerneldb.report.gather import ALL_SHORT, made
from kerneldb.report.model import Chart, Column, Plan, Report, Section, Table

if TYPE_CHECKING:
    from kerneldb.api import Database
    from kerneldb.api.analyses import Difference

SHOWN: Final = 100
OTHERS: Final = 20
SIDES: Final = 2
OWN: Final = (
    "A verdict is about one launch: whether the mean of the kernel became longer or shorter beyond the shift that all "
    "kernels have in common. The change of the sum also has the number of launches in it, and may go the other way."
)
NO_OTHERS: Final = "None: every kernel changed beyond doubt."
TIMES: Final = ("total_before_ns", "total_after_ns", "delta_ns")

VERDICTS: Final = (
    Column("verdict", "a launch is"),
    Column("n", "kernels", "count"),
    Column("total_before_ns", "sum before", "ns"),
    Column("total_after_ns", "after", "ns"),
    Column("delta_ns", "Δ of the sum", "ns"),
)
CHANGES: Final = (
    contents.KERNEL,
    contents.OPERATOR,
    Column("problem", "problem"),
    Column("verdict", "a launch is"),
    Column("changed_in", "changed in"),
    Column("matched_by", "matched by"),
    Column("n_before", "launches before", "count"),
    Column("n_after", "after", "count"),
    Column("total_before_ns", "sum before", "ns"),
    Column("total_after_ns", "after", "ns"),
    Column("delta_ns", "Δ of the sum", "ns"),
    Column("own_delta_pct", "Δ of a launch", "percent"),
    Column("p_value", "p", "number"),
)
CLASSES: Final = Plan(
    "changed_classes",
    "Classes that changed, by the rule {rule}",
    (
        contents.KERNEL,
        Column("change", "change"),
        Column("verdict_before", "class before"),
        Column("verdict_after", "after"),
        Column("matched_by", "matched by"),
        Column("mean_before_ns", "mean duration before", "ns"),
        Column("mean_after_ns", "after", "ns"),
    ),
    "Nothing changed.",
)
SUMS: Final = (
    Column("n_before", "launches before", "count"),
    Column("n_after", "after", "count"),
    Column("total_before_ns", "time before", "ns"),
    Column("total_after_ns", "after", "ns"),
    Column("delta_ns", "Δ", "ns"),
)
DELTA_PCT: Final = Column("delta_pct", "Δ %", "percent")
MODULES: Final = Plan(
    "changed_modules",
    "Modules, as a tree; backward launches count with the module of their forward call",
    (Column("module", "module", "code"), *SUMS, DELTA_PCT, Column("self_delta_ns", "Δ of its own launches", "ns")),
    "No modules: record with_stack=True, or modules of PyTorch by kerneldb record.",
)
OPERATORS: Final = Plan(
    "changed_ops",
    "Operators",
    (
        Column("name", "operator", "code"),
        Column("change", "mostly"),
        *SUMS,
        Column("count_delta_ns", "Δ of their number", "ns"),
        Column("mean_delta_ns", "Δ of the mean", "ns"),
    ),
    "Nothing changed.",
)
METRICS: Final = Plan(
    "changed_metrics",
    "Means of the counters",
    (
        Column("title", "counter"),
        Column("metric", "metric", "code"),
        Column("unit", "unit"),
        Column("n_before", "launches before", "count"),
        Column("n_after", "after", "count"),
        Column("mean_before", "mean before", "number"),
        Column("mean_after", "after", "number"),
        Column("delta", "Δ", "number"),
        Column("delta_pct", "Δ", "percent"),
    ),
    "Nothing changed.",
)


def comparison(
    database: Database, before: str, after: str, threshold: float = THRESHOLD, rule: str | None = None
) -> Report:
    """The report on what changed from `before` to `after`, each a trace or several (`named`): times, and counters.

    `threshold` is that of `Database.diff`, `rule` classifies counters. Raises UsageError for an unknown name or
    rule, and where the two have nothing to compare.
    """
    check_rule(database, rule)
    sides = [named(database, name) for name in (before, after)]
    sections: list[Section] = []
    remarks: list[str] = []
    if all(any(row["kind"] not in KINDS for row in rows) for rows in sides):
        found = database.diff(before, after, threshold=threshold)
        remarks = found.remarks()
        sections += _times(found, {"before": before, "after": after, "threshold": threshold})
    with asking(database) as ask:
        names = ask.about(before=before, after=after, rule=rule or RULE, threshold=threshold)
        if sections:
            sections.insert(2, Section("Where in the network", (names.table(MODULES), names.table(OPERATORS))))
        if names.rows("counted_sides")[0]["sides"] == SIDES:
            summary = database.diff_counters(before, after, rule=rule or RULE).sentence()
            blocks = names.table(CLASSES), names.table(METRICS)
            sections.append(Section("Counters", blocks, (), f"{summary.capitalize()}."))
        if not sections:
            raise UsageError(
                f"{before} and {after} have nothing to compare: name two traces with times, or two sets of counters"
            )
        tables = [ask.about(trace=rows[0]["trace"]).table(contents.SETUP) for rows in sides]
    captions = (f"Before: {before}", f"After: {after}")
    setup = [dataclasses.replace(table, caption=caption) for table, caption in zip(tables, captions, strict=True)]
    said = " ".join(f"{remark[0].upper()}{remark[1:]}." for remark in remarks)
    return Report(f"{before} against {after}", made(database), (Section("Setup", tuple(setup), (), said), *sections))


def _times(found: Difference, names: dict[str, Any]) -> list[Section]:
    rows = [{**row, "problem": _problem(row)} for row in found.table.to_pylist()]
    shown = found.shown()
    changed = [row for row, is_shown in zip(rows, shown, strict=True) if is_shown]
    others = [row for row, is_shown in zip(rows, shown, strict=True) if not is_shown]
    sql, by_verdict = (literal(statement(name), names) for name in ("analysis_diff", "report_changed_verdicts"))
    top = [
        {"kernel": str(row["kernel"])[:ALL_SHORT], "delta_ms": row["delta_ns"] / 1e6, "verdict": row["verdict"]}
        for row in changed[:20]
    ]
    bars = charts.bars(top, "kernel", "delta_ms", "change in ms", colour="verdict") if top else None
    drawn = [Chart("Largest changes", bars, sql)] if bars else []
    changes = Table("Changes, largest first", CHANGES, changed[:SHOWN], sql, "Nothing changed.")
    verdicts = Table("Kernels by verdict, most time lost first", VERDICTS, _by_verdict(rows), by_verdict)
    return [
        Section("Sums", (verdicts,), (), _sums(found)),
        Section("What changed", (*drawn, changes), (), OWN),
        Section("What did not", (Table("Largest of the others", CHANGES, others[:OTHERS], sql, NO_OTHERS),)),
    ]


def _problem(row: dict[str, Any]) -> str | None:
    """The size of a product, else the bytes of a copy, else the grid: where both sides have the same."""
    if row["gemm_m"] is not None:
        batch = f"{row['gemm_batch']:,} × " if (row["gemm_batch"] or 1) > 1 else ""
        return f"gemm {batch}{row['gemm_m']}×{row['gemm_n']}×{row['gemm_k']}"
    if row["bytes"] is not None:
        return size(row["bytes"])
    grid = [row[f"grid_{axis}"] for axis in "xyz"]
    return None if None in grid else f"grid {'×'.join(map(str, grid))}"


def _by_verdict(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How many kernels have each verdict, and their times; what lost most time comes first."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        sums = found.setdefault(row["verdict"], {"verdict": row["verdict"], "n": 0, **dict.fromkeys(TIMES, 0)})
        sums["n"] += 1
        for name in TIMES:
            sums[name] += row[name]
    return sorted(found.values(), key=lambda sums: (-sums["delta_ns"], sums["verdict"]))


def _sums(found: Difference) -> str:
    change = "" if found.delta_pct is None else f" ({found.delta_pct:+.2f} %)"
    shift = found.common_shift_pct
    shifted = (
        "Too few kernels are the same in both to say whether all of them became slower or faster together."
        if shift is None
        else f"All kernels together shifted by {shift:+.2f} %."
    )
    known = f" {doubt[0].upper()}{doubt[1:]}." if (doubt := found.doubt()) else ""
    return f"GPU time {duration(found.before_ns)} before, {duration(found.after_ns)} after{change}. {shifted}{known}"
