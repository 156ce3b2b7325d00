"""Stores the balance of measured and predicted, anew for what changed. Inside the one transaction of the caller.

The sums over launches are SQL, the arithmetic is `kerneldb.reconciliation`. Both take longer than a small trace takes
to add, so what has nothing to do with a measurement is passed by.
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

    from kerneldb.reconciliation import Reconciled
    from kerneldb.reconciliation.model import Flow, Given

    Connection = duckdb.DuckDBPyConnection
    Row = Mapping[str, Any]

SOURCES: Final = frozenset({
    "devices", "kernel_names", "launches", "measurements", "ranges", "replay_calls", "replay_runs", "replays",
    "rollups", "signatures", "step_kernels", "step_replays", "traces",
})  # fmt: skip
"""The tables that the balance is made of."""


def is_concerned(sql: str) -> bool:
    """Whether a statement of a user names a table that the balance is made of, and so may change it."""
    return not SOURCES.isdisjoint(re.findall(r"\w+", sql.lower()))


def refresh(con: Connection, changed: Collection[str] | None = None) -> None:
    """Write the balance of all measured workloads anew; with `changed`, that of what these traces (ids) tell of.

    Traces that are gone, or in another run now, count as changed, and so do those that were in a run with them.
    """
    if con.execute(statement("reconciliation", "held")).fetchone() != (True,):
        return
    if changed is not None:
        told = {"trace_ids": sorted(changed)}
        if con.execute(statement("reconciliation", "concerns"), told).fetchone() != (True,):
            return
    workloads = _workloads(con)
    concerned = workloads if changed is None else _concerned(con, workloads, changed)
    con.execute(statement("reconciliation", "keep_workloads"), {"traces": _names(concerned)})
    _clear(con, workloads, concerned)
    if concerned:
        _write(con, _reconciled(con, concerned))
    execute_all(con, statement("reconciliation", "forget"), {})


def selected(con: Connection) -> Reconciled:
    """The balance of all measured workloads over the launches in `selection`, which is bound. Nothing is stored."""
    workloads = _workloads(con)
    con.execute(statement("reconciliation", "list_selected"))
    found = _reconciled(con, workloads, "_selected")
    execute_all(con, statement("reconciliation", "forget"), {})
    return found


def _workloads(con: Connection) -> Sequence[Row]:
    """The measured workloads; they, and what is found of their launches, lie in temporary tables until all is done."""
    con.execute(statement("reconciliation", "list_workloads"))
    return rows_of(con, statement("reconciliation", "workloads"))


def _concerned(con: Connection, workloads: Sequence[Row], changed: Collection[str]) -> Sequence[Row]:
    """The workloads of traces that changed, and all that are of one name, run or job with these."""
    runs = con.execute(statement("reconciliation", "runs_of"), {"trace_ids": sorted(changed)}).fetchall()
    touched = {("trace", one) for one in changed} | {("run", run) for (run,) in runs}
    while True:
        found = [one for one in workloads if not touched.isdisjoint(_ties(one))]
        more = touched.union(*map(_ties, found))
        if more == touched:
            return found
        touched = more


def _ties(workload: Row) -> set[tuple[str, Any]]:
    """What a workload has in common with others whose figures depend on it."""
    ids = {("trace", workload[name]) for name in ("trace_id", "kernels_trace_id", "launches_trace_id")}
    runs = {("run", workload[name]) for name in ("run", "trace_run")}
    found = ids | runs | {("name", workload["trace"]), ("job", _job(workload))}
    return {(kind, value) for kind, value in found if value is not None}


def _job(workload: Row) -> str:
    return str(workload["job"] or workload["trace"])


def _reconciled(con: Connection, workloads: Sequence[Row], suffix: str = "") -> Reconciled:
    """The balance of workloads; with a suffix, over the launches listed in the temporary table of that name."""
    from kerneldb.reconciliation import reconcile

    con.execute(statement("reconciliation", "list_launches"))
    return reconcile(_given(con, workloads, suffix))


def _given(con: Connection, workloads: Sequence[Row], suffix: str) -> Given:
    from kerneldb.reconciliation.model import Given, Launches, Replay, Run, Workload

    launches = [Launches(**row) for row in rows_of(con, statement("reconciliation", f"sums{suffix}"))]
    flows = _flows(con, "flows")
    names = {name for one in launches for name in (one.signature_id, one.inferred_id) if name is not None}
    replays = [
        Replay(**row)
        for name in ("replays", "replays_in_steps")
        for row in rows_of(con, statement("reconciliation", name), {"signatures": sorted(names)})
    ]
    run_ids = sorted({one.energy_run_id for one in replays if one.energy_run_id is not None})
    runs = [Run(**row) for row in rows_of(con, statement("reconciliation", "runs"), {"run_ids": run_ids})]
    known = {field.name for field in dataclasses.fields(Workload)}
    return Given(
        workloads=[Workload(**{name: row[name] for name in known}) for row in workloads],
        launches=launches,
        selected=flows if not suffix else _flows(con, f"flows{suffix}"),
        flows=flows,
        replays=replays,
        runs={run.run_id: run for run in runs},
    )


def _flows(con: Connection, name: str) -> dict[tuple[str, str], Flow]:
    from kerneldb.reconciliation.model import Flow

    found = [Flow(**row) for row in rows_of(con, statement("reconciliation", name))]
    return {(flow.trace_id, flow.workload): flow for flow in found}


def _clear(con: Connection, workloads: Sequence[Row], concerned: Sequence[Row]) -> None:
    """Take out the rows of the workloads that are concerned, and of those that are no more."""
    of_workloads = {"traces": _names(concerned), "present": _names(workloads)}
    execute_all(con, statement("reconciliation", "clear_workloads"), of_workloads)
    of_jobs = {"jobs": sorted(map(_job, concerned)), "present": sorted(map(_job, workloads))}
    con.execute(statement("reconciliation", "clear_jobs"), of_jobs)


def _names(workloads: Sequence[Row]) -> list[str]:
    return sorted({one["trace"] for one in workloads})


def _write(con: Connection, balance: Reconciled) -> None:
    columns = [column[0] for column in con.execute(statement("reconciliation", "columns")).description or ()]
    balances = [one.row() for one in balance.balances]
    _insert(con, "reconciliation", [{name: balance[name] for name in columns} for balance in balances])
    _insert(con, "reconciliation_components", [dataclasses.asdict(one) for one in balance.components])
    _insert(con, "reconciliation_kernels", [dataclasses.asdict(one) for one in balance.kernels])
    _insert(con, "reconciliation_jobs", [dataclasses.asdict(one) for one in balance.jobs])


def _insert(con: Connection, table: str, rows: Sequence[Row]) -> None:
    if not rows:
        return
    import pyarrow as pa

    con.register("reconciliation_rows", pa.table({name: [row[name] for row in rows] for name in rows[0]}))
    try:
        con.execute(statement("reconciliation", table))
    finally:
        con.unregister("reconciliation_rows")
