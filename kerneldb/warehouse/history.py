"""Stores what each run of a program took, and the changes that are found in the histories of its series."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import re
from typing import TYPE_CHECKING, Any, Final

from kerneldb.history.model import VERSION, WINDOW, Line, Run
from kerneldb.ids import content_id
from kerneldb.schemas.loader import statement
from kerneldb.warehouse.statements import execute_all, execute_rows, rows_of, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb

    from kerneldb.history.model import Change
    from kerneldb.warehouse import Warehouse

    Connection = duckdb.DuckDBPyConnection
    Row = Mapping[str, Any]

NOTED: Final = re.compile(r"driver|version|uuid", re.IGNORECASE)
"""Metadata of a trace that say what it ran on."""
NO_FACT: Final = ("schemaVersion", "schema_version")
STATED: Final = ("driver", "gpu", "uuid")
"""Tags that do."""
NUMBERS: Final = re.compile(r"([-_.]\d+)+$")
"""The date or number at the end of the name of a trace."""


@dataclasses.dataclass(frozen=True, slots=True)
class Added:
    """How many runs came into the history, and how many changes the looked at runs have; None: none was looked at."""

    runs: int
    changes: int | None


def update(warehouse: Warehouse) -> Added:
    """Take traces with a commit into the history, and look for changes where a run is new.

    Where ruptures is not installed, the runs are taken and the search stays due.
    """
    with warehouse.connection() as con:
        pending = rows_of(con, statement("history", "pending"))
    for row in pending:
        warehouse.write(functools.partial(add, row=row))
    can_search = importlib.util.find_spec("ruptures") is not None
    return Added(len(pending), sum(search(warehouse, one) for one in due(warehouse)) if can_search else None)


def due(warehouse: Warehouse) -> list[str]:
    """The series with a run that the search has not seen."""
    with warehouse.connection() as con:
        return [row["series_id"] for row in rows_of(con, statement("history", "due"), {"version": VERSION})]


def add(con: Connection, row: Row) -> None:
    """Store the run of a trace, a row of the statement `pending`, with its sums."""
    of_trace = {"trace_id": row["trace_id"]}
    execute_all(con, statement("history", "forget_run"), of_trace)
    found = rows_of(con, statement("history", "units"), of_trace)[0]
    units = found["iterations"] or 1
    con.execute(statement("history", "add_run"), _run(row) | {"units": units})
    if found["launches"]:
        params = of_trace | {"units": units, "steady": found["iterations"] > 0}
        con.execute(statement("history", "roll_up"), params)
    con.execute(statement("history", "roll_up_energy"), of_trace | {"trace": row["trace"]})


def _run(row: Row) -> dict[str, Any]:
    tags = row["tags"] or {}
    workload = tags.get("workload") or row["label"] or NUMBERS.sub("", row["trace"]) or row["trace"]
    series = (workload, row["branch"], row["device_name"], row["rank"])
    return {
        "trace_id": row["trace_id"],
        "series_id": content_id("h1", *series),
        **dict(zip(("workload", "branch", "device_name", "rank"), series, strict=True)),
        "commit": row["commit"],
        "happened_at": row["commit_time"] or row["recorded_at"] or row["ingested_at"],
        "recorded_at": row["recorded_at"],
        "environment": json.dumps(environment(row), sort_keys=True),
    }


def environment(row: Row) -> dict[str, str]:
    """Versions of driver and software, host and board, as far as the trace or its tags say them."""
    try:
        metadata = json.loads(row["metadata"] or "{}")
    except ValueError:
        metadata = {}
    noted = {
        key: str(value)
        for key, value in (metadata.items() if isinstance(metadata, dict) else ())
        if NOTED.search(key) and key not in NO_FACT and isinstance(value, str | int | float)
    }
    stated = {key: value for key, value in (row["tags"] or {}).items() if key in STATED}
    facts = {"host": row["host"], "framework": row["framework_version"], "tool": row["tool_version"]}
    return noted | {key: str(value) for key, value in facts.items() if value} | stated


def search(warehouse: Warehouse, series_id: str) -> int:
    """Look for changes among the newest runs of a series and those before its oldest new run; how many are found."""
    from kerneldb.history.search import changes

    of_series = {"series_id": series_id}
    with warehouse.connection() as con:
        runs = rows_of(con, statement("history", "runs"), of_series)
        found: list[Change] = []
        again: list[str] = []
        for begin, end in _windows([row["scanned"] == VERSION for row in runs]):
            chosen = [Run(row["trace_id"], row["commit"], json.loads(row["environment"])) for row in runs[begin:end]]
            points = table_of(con, statement("history", "points"), {"trace_ids": [run.trace_id for run in chosen]})
            inner = _inner(chosen, begin, len(runs) - end)
            again += inner
            found += [one for one in changes(chosen, _lines(points.to_pydict()), len(runs)) if one.trace_id in inner]
    warehouse.write(lambda con: _store(con, series_id, again, found))
    return len(found)


def _windows(seen: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Overlapping stretches of runs, from half a window before the first that was not seen to the last run."""
    first = seen.index(False) if False in seen else len(seen)
    begin = max(0, min(first, len(seen)) - WINDOW + 1)
    while begin < len(seen):
        end = min(begin + WINDOW, len(seen))
        yield begin, end
        if end == len(seen):
            return
        begin += WINDOW // 2


def _inner(runs: Sequence[Run], before: int, after: int) -> list[str]:
    """The middle half of a window, where both sides of a change are long; at the ends of the history, up to these.

    Changes are looked for again there, and stay as they are elsewhere.
    """
    quarter = WINDOW // 4
    return [run.trace_id for run in runs[quarter if before else 0 : len(runs) - quarter if after else len(runs)]]


def _lines(points: Mapping[str, list[Any]]) -> list[Line]:
    """The points, which are in order of subject, name and place, as lines."""
    lines: list[Line] = []
    for subject, name, *point in zip(*(points[key] for key in ("subject", "name", "place", "value", "n")), strict=True):
        if not lines or (lines[-1].subject, lines[-1].name) != (subject, name):
            lines.append(Line(subject, name, [], [], []))
        for values, value in zip((lines[-1].places, lines[-1].values, lines[-1].counts), point, strict=True):
            values.append(value)  # type: ignore[attr-defined]  # lists, made above
    return lines


def _store(con: Connection, series_id: str, again: Sequence[str], found: Sequence[Change]) -> None:
    of_series = {"series_id": series_id}
    con.execute(statement("history", "forget_changes"), of_series | {"trace_ids": list(again)})
    if found:
        rows = [{**dataclasses.asdict(change), **of_series} for change in found]
        execute_rows(con, statement("history", "add_changes"), list(rows[0]), [list(row.values()) for row in rows])
    con.execute(statement("history", "mark_scanned"), of_series | {"version": VERSION})
