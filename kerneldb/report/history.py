"""The history of a program as a page: what changed, and a small chart of each line that has something to tell."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import ask, statement
from kerneldb.report import charts
from kerneldb.report.asking import literal
from kerneldb.report.model import Chart, Column, Report, Section, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kerneldb.api.history import History
    from kerneldb.warehouse import Warehouse

LINES: Final = 24
"""Charts of a series."""
RUNS: Final = 400
"""Its newest runs."""
COLUMNS: Final = (
    Column("happened_at", "when"),
    Column("commits", "commits"),
    Column("subject", "what"),
    Column("name", "name", "code"),
    Column("change_pct", "change", "percent"),
    Column("low_pct", "from", "percent"),
    Column("high_pct", "to", "percent"),
    Column("impact_ns", "of an iteration", "ns"),
    Column("cause", "cause"),
    Column("detail", "beside it"),
)
NO_QUERY: Final[dict[str, Any]] = {"workload": None, "branch": None, "subject": None, "since": None}


def report(warehouse: Warehouse, found: History) -> Report:
    """A section of the changes of each series, with its charts."""
    changes = found.changes.to_pylist()
    runs = sum(row["runs"] for row in found.series)
    title = "History: " + ", ".join(dict.fromkeys(row["workload"] for row in found.series))
    sections = tuple(_section(warehouse, series, changes) for series in found.series)
    return Report(title, f"{runs:,} runs, {len(changes):,} changes", sections)


def _section(warehouse: Warehouse, series: Mapping[str, Any], changes: list[dict[str, Any]]) -> Section:
    own = [
        row | {"commits": f"{row['first_commit'][:9]}..{row['last_commit'][:9]}"}
        for row in changes
        if row["series_id"] == series["series_id"]
    ]
    place = ", ".join(str(series[key]) for key in ("branch", "device_name", "rank") if series[key] is not None)
    sql = literal(statement("history_changes"), NO_QUERY | {"workload": series["workload"], "branch": series["branch"]})
    table = Table("Changes, newest first", COLUMNS, own, sql, f"No change in {series['runs']:,} runs.")
    text = (
        f"{series['runs']:,} runs from {series['first_at']:%Y-%m-%d %H:%M} to {series['last_at']:%Y-%m-%d %H:%M} UTC."
    )
    return Section(f"{series['workload']} ({place})", (table, *_charts(warehouse, series["series_id"], own)), text=text)


def _charts(warehouse: Warehouse, series_id: str, changes: list[dict[str, Any]]) -> Iterator[Chart]:
    asked = {"series_id": series_id, "runs": RUNS, "lines": LINES}
    sql = literal(statement("history_points"), asked)
    points = ask(warehouse, "history_points", asked)
    for (subject, name), rows in itertools.groupby(points, lambda row: (row["subject"], row["name"])):
        marks = {row["trace_id"] for row in changes if (row["subject"], row["name"]) == (subject, name)}
        shown = [{**row, "happened_at": str(row["happened_at"]), "changed": row["trace_id"] in marks} for row in rows]
        unit = "mJ" if subject == "energy" else "ns"
        yield Chart(f"{subject} {name}", charts.line_of_runs(shown, unit), sql)
