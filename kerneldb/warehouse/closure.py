"""Stores the balance of measured and predicted, anew for what changed. Inside the one transaction of the caller.

The sums over launches are SQL, the arithmetic is `kerneldb.closure`. Both take longer than a small trace takes to add,
so what has nothing to do with a measurement is passed by.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final

from kerneldb.schemas.loader import statement
from kerneldb.warehouse.statements import execute_all, rows_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import duckdb

    from kerneldb.closure import Balance
    from kerneldb.closure.model import Flow, Given

    Connection = duckdb.DuckDBPyConnection
    Row = Mapping[str, Any]

SOURCES: Final = frozenset({
    "devices", "kernel_names", "launches", "measurements", "ranges", "replay_calls", "replay_runs", "replays",
    "rollups", "signatures", "traces",
})  # fmt: skip
"""The tables that the balance is made of."""


def is_concerned(sql: str) -> bool:
    """Whether a statement of a user names a table that the balance is made of, and so may change it."""
    return not SOURCES.isdisjoint(re.findall(r"\w+", sql.lower()))


def refresh(con: Connection, changed: Collection[str] | None = None) -> None:
    """Write the balance of all measured stages anew; with `changed`, that of what these traces (ids) tell of.

    Traces that are gone, or in another run now, count as changed, and so do those that were in a run with them.
    """
    if con.execute(statement("closure", "held")).fetchone() != (True,):
        return
    if changed is not None:
        told = {"trace_ids": sorted(changed)}
        if con.execute(statement("closure", "concerns"), told).fetchone() != (True,):
            return
    stages = _stages(con)
    concerned = stages if changed is None else _concerned(con, stages, changed)
    con.execute(statement("closure", "keep_stages"), {"traces": _names(concerned)})
    _clear(con, stages, concerned)
    if concerned:
        _write(con, _balanced(con, concerned))
    execute_all(con, statement("closure", "forget"), {})


def selected(con: Connection) -> Balance:
    """The balance of all measured stages over the launches in `selection`, which is bound. Nothing is stored."""
    stages = _stages(con)
    con.execute(statement("closure", "list_selected"))
    found = _balanced(con, stages, "_selected")
    execute_all(con, statement("closure", "forget"), {})
    return found


def _stages(con: Connection) -> Sequence[Row]:
    """The measured stages; they, and what is found of their launches, lie in temporary tables until all is done."""
    con.execute(statement("closure", "list_stages"))
    return rows_of(con, statement("closure", "stages"))


def _concerned(con: Connection, stages: Sequence[Row], changed: Collection[str]) -> Sequence[Row]:
    """The stages of traces that changed, and all that are of one name, run or job with these."""
    runs = con.execute(statement("closure", "runs_of"), {"trace_ids": sorted(changed)}).fetchall()
    touched = {("trace", one) for one in changed} | {("run", run) for (run,) in runs}
    while True:
        found = [one for one in stages if not touched.isdisjoint(_ties(one))]
        more = touched.union(*map(_ties, found))
        if more == touched:
            return found
        touched = more


def _ties(stage: Row) -> set[tuple[str, Any]]:
    """What a stage has in common with others whose figures depend on it."""
    ids = {("trace", stage[name]) for name in ("trace_id", "kernels_trace_id", "launches_trace_id")}
    runs = {("run", stage[name]) for name in ("run", "trace_run")}
    found = ids | runs | {("name", stage["trace"]), ("job", _job(stage))}
    return {(kind, value) for kind, value in found if value is not None}


def _job(stage: Row) -> str:
    return str(stage["job"] or stage["trace"])


def _balanced(con: Connection, stages: Sequence[Row], suffix: str = "") -> Balance:
    """The balance of stages; with a suffix, over the launches that are listed in the temporary table of that name."""
    from kerneldb.closure import balance

    con.execute(statement("closure", "list_launches"))
    return balance(_given(con, stages, suffix))


def _given(con: Connection, stages: Sequence[Row], suffix: str) -> Given:
    from kerneldb.closure.model import Given, Launches, Replay, Run, Stage

    launches = [Launches(**row) for row in rows_of(con, statement("closure", f"sums{suffix}"))]
    flows = _flows(con, "flows")
    names = {name for one in launches for name in (one.signature_id, one.found_id) if name is not None}
    replays = [Replay(**row) for row in rows_of(con, statement("closure", "replays"), {"signatures": sorted(names)})]
    run_ids = sorted({one.energy_run_id for one in replays if one.energy_run_id is not None})
    runs = [Run(**row) for row in rows_of(con, statement("closure", "runs"), {"run_ids": run_ids})]
    known = {field.name for field in dataclasses.fields(Stage)}
    return Given(
        stages=[Stage(**{name: row[name] for name in known}) for row in stages],
        launches=launches,
        selected=flows if not suffix else _flows(con, f"flows{suffix}"),
        flows=flows,
        replays=replays,
        runs={run.run_id: run for run in runs},
    )


def _flows(con: Connection, name: str) -> dict[tuple[str, str], Flow]:
    from kerneldb.closure.model import Flow

    found = [Flow(**row) for row in rows_of(con, statement("closure", name))]
    return {(flow.trace_id, flow.stage): flow for flow in found}


def _clear(con: Connection, stages: Sequence[Row], concerned: Sequence[Row]) -> None:
    """Take out the rows of the stages that are concerned, and of those that are no more."""
    of_stages = {"traces": _names(concerned), "present": _names(stages)}
    execute_all(con, statement("closure", "clear_stages"), of_stages)
    of_jobs = {"jobs": sorted(map(_job, concerned)), "present": sorted(map(_job, stages))}
    con.execute(statement("closure", "clear_jobs"), of_jobs)


def _names(stages: Sequence[Row]) -> list[str]:
    return sorted({one["trace"] for one in stages})


def _write(con: Connection, balance: Balance) -> None:
    columns = [column[0] for column in con.execute(statement("closure", "columns")).description or ()]
    books = [one.row() for one in balance.books]
    _insert(con, "closure", [{name: book[name] for name in columns} for book in books])
    _insert(con, "closure_terms", [dataclasses.asdict(one) for one in balance.terms])
    _insert(con, "closure_kernels", [dataclasses.asdict(one) for one in balance.kernels])
    _insert(con, "closure_jobs", [dataclasses.asdict(one) for one in balance.jobs])


def _insert(con: Connection, table: str, rows: Sequence[Row]) -> None:
    if not rows:
        return
    import pyarrow as pa

    con.register("closure_rows", pa.table({name: [row[name] for row in rows] for name in rows[0]}))
    try:
        con.execute(statement("closure", table))
    finally:
        con.unregister("closure_rows")
