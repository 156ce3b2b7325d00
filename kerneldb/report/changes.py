"""The report on what changed between two traces or runs: times, and hardware counters."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.answers import THRESHOLD
from kerneldb.api.queries import statement
from kerneldb.errors import UsageError
from kerneldb.output.units import duration
from kerneldb.report import charts, contents
from kerneldb.report.asking import asking, opened, quoted
from kerneldb.report.counters import check_rule
from kerneldb.report.gather import ALL_SHORT, Maker, made, named
from kerneldb.report.model import Chart, Column, Report, Section, Table

if TYPE_CHECKING:
    from kerneldb.api import Database
    from kerneldb.api.answers import Difference

RULE: Final = "ncu"
SHOWN: Final = 100
OTHERS: Final = 20
QUIET: Final = frozenset({"unchanged", "noise"})
SIDES: Final = 2

VERDICTS: Final = (Column("verdict", "verdict"), Column("n", "kernels", "count"))
CHANGES: Final = (
    contents.KERNEL,
    Column("verdict", "verdict"),
    Column("matched_by", "matched by"),
    Column("n_before", "launches before", "count"),
    Column("n_after", "after", "count"),
    Column("total_before_ns", "time before", "ns"),
    Column("total_after_ns", "after", "ns"),
    Column("delta_ns", "Δ", "ns"),
    Column("own_delta_pct", "Δ of the mean beyond the common shift", "percent"),
    Column("p_value", "p", "number"),
)
CLASSES: Final = (
    contents.KERNEL,
    Column("change", "change"),
    Column("verdict_before", "class before"),
    Column("verdict_after", "after"),
    Column("matched_by", "matched by"),
    Column("mean_before_ns", "mean duration before", "ns"),
    Column("mean_after_ns", "after", "ns"),
)
METRICS: Final = (
    Column("title", "counter"),
    Column("metric", "metric", "code"),
    Column("unit", "unit"),
    Column("n_before", "launches before", "count"),
    Column("n_after", "after", "count"),
    Column("mean_before", "mean before", "number"),
    Column("mean_after", "after", "number"),
    Column("delta", "Δ", "number"),
    Column("delta_pct", "Δ", "percent"),
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
    if all(any(row["kind"] != "profiled" for row in rows) for rows in sides):
        sections += _times(database, before, after, threshold)
    sections += _counters(database, before, after, rule or RULE)
    if not sections:
        message = f"{before} and {after} have nothing to compare: name two traces with times, or two sets of counters"
        raise UsageError(message)
    with asking(database) as ask:
        tables = [Maker(ask, rows[0]["trace"]).table(contents.SETUP) for rows in sides]
    captions = (f"Before: {before}", f"After: {after}")
    setup = [dataclasses.replace(table, caption=caption) for table, caption in zip(tables, captions, strict=True)]
    return Report(f"{before} against {after}", made(database), (Section("Setup", tuple(setup)), *sections))


def _times(database: Database, before: str, after: str, threshold: float) -> list[Section]:
    found = database.diff(before, after, threshold=threshold)
    rows: list[dict[str, Any]] = found.table.to_pylist()
    changed = [row for row in rows if row["verdict"] not in QUIET]
    others = [row for row in rows if row["verdict"] in QUIET]
    sql = _literal("FROM diff($before, $after, threshold := $threshold);", before, after, threshold=f"{threshold:g}")
    verdicts = [{"verdict": verdict, "n": n} for verdict, n in found.by_verdict.items()]
    by_verdict = "SELECT verdict, count(*) AS n " + sql.replace(";", " GROUP BY verdict ORDER BY n DESC;")
    top = [
        {"kernel": str(row["kernel"])[:ALL_SHORT], "delta_ms": row["delta_ns"] / 1e6, "verdict": row["verdict"]}
        for row in changed[:20]
    ]
    bars = charts.bars(top, "kernel", "delta_ms", "change in ms", colour="verdict") if top else None
    drawn = [Chart("Largest changes", bars, sql)] if bars else []
    changes = Table("Changes, largest first", CHANGES, changed[:SHOWN], sql, "Nothing changed.")
    return [
        Section("Sums", (Table("Kernels by verdict", VERDICTS, verdicts, by_verdict),), (), _sums(found)),
        Section("What changed", (*drawn, changes)),
        Section("What did not", (Table("Largest of the others", CHANGES, others[:OTHERS], sql),)),
    ]


def _sums(found: Difference) -> str:
    change = "" if found.delta_pct is None else f" ({found.delta_pct:+.2f} %)"
    shift = found.common_shift_pct
    shifted = (
        "Too few kernels match by signature to tell a shift of all."
        if shift is None
        else f"All kernels together shifted by {shift:+.2f} %."
    )
    return f"GPU time {duration(found.before_ns)} before, {duration(found.after_ns)} after{change}. {shifted}"


def _counters(database: Database, before: str, after: str, rule: str) -> list[Section]:
    names = {"before": before, "after": after}
    if database.sql(statement("report_counted_sides"), names).rows()[0]["sides"] < SIDES:
        return []
    found = database.diff_counters(before, after, rule=rule)
    classes = _table(
        database, "changed_classes", f"Classes that changed, by the rule {rule}", CLASSES, {**names, "rule": rule}
    )
    metrics = _table(database, "changed_metrics", "Means of the counters", METRICS, names)
    return [Section("Counters", (classes, metrics), (), f"{found.sentence().capitalize()}.")]


def _table(database: Database, query: str, caption: str, columns: tuple[Column, ...], params: dict[str, str]) -> Table:
    text = statement(f"report_{query}")
    sql = _literal(text, params["before"], params["after"], rule=quoted(params.get("rule", "")))
    return Table(caption, columns, database.sql(text, params).rows(), sql, "Nothing changed.")


def _literal(sql: str, before: str, after: str, **others: str) -> str:
    """A statement as a reader would type it. For reading only, never run here."""
    for name, value in {"before": quoted(before), "after": quoted(after), **others}.items():
        sql = sql.replace(f"${name}", value)
    return opened(sql)
