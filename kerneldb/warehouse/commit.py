"""Adds a converted trace, and takes traces out again. Each inside the one transaction of the caller."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from kerneldb.batch import MANY_ROWS
from kerneldb.errors import WarehouseError
from kerneldb.schemas.loader import statement
from kerneldb.warehouse import reconciliation, repeats, runs
from kerneldb.warehouse.statements import execute_all, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import duckdb

    from kerneldb.batch import Manifest

    Connection = duckdb.DuckDBPyConnection

TABLES = (
    "kernel_names",
    "op_calls",
    "signatures",
    "trace_files",
    "ingest_reports",
    "devices",
    "process_groups",
    "rollups",
    "ops",
    "op_tensors",
    "api_calls",
    "ranges",
    "launches",
    "memory_events",
    "sync_events",
    "cpu_samples",
    "samples",
    "call_sums",
    "metrics",
    "source_counters",
    "kernel_symbols",
    "kernel_sources",
    "power_samples",
    "measurements",
    "traces",
)
"""What a manifest may hold. Launches come after the tables that iterations are found by. The row of `traces` comes
last: who sees it sees the whole trace."""


MOST_IN_ITERATIONS = 200_000
"""Iterations are found while a trace of up to so many launches is added; `iterations` finds those of longer ones."""


MOST_SORTED = {"ranges": 1_000_000, "ops": 100_000}
"""So many rows are put in order of time. Operators come in stretches of time: in order but for a few of many."""


ORDER = {"launches": ("start_ns", "launch_index"), "ops": ("start_ns", "op_id"), "ranges": ("start_ns", "range_id")}
"""What the rows of a table are put in order by."""


FEWEST_BINNED = 200_000
"""Traces of more launches get bins of their time; the launches of others are read as fast."""
BINS = 8_192
"""A long trace gets at most so many bins, and more than half as many: a dozen or more are a column of a terminal."""


@dataclasses.dataclass(frozen=True, slots=True)
class Added:
    """What became of a trace: its name in the database, whether it was `known` before, whether rows were written.

    `linked` are the traces that it was linked with, as the statement of this name returns them; `concerned` are the ids
    of all traces of its run, and of that where it was before.
    """

    name: str
    known: bool
    written: bool
    linked: Sequence[dict[str, Any]] = ()
    concerned: Collection[str] = ()


def commit(con: Connection, manifest: Manifest, *, replace: bool, tags: Mapping[str, str]) -> Added:
    """Add the trace of `manifest` with its rollups.

    A trace that is there already is left alone, or with `replace` written anew; then it keeps its name, its tags and,
    where the manifest states nothing else, its run, label and phase. A name that another trace has gets a number behind
    it. `tags` come on top of those of the manifest.
    """
    trace_id = {"trace_id": manifest.trace_id}
    previous = con.execute(statement("commit", "previous"), trace_id).fetchone()
    if previous is not None and not replace:
        return Added(previous[0], known=True, written=False)
    name, run, label, default_phase = previous or (_free_name(con, manifest), None, None, None)
    beside = None
    if previous is not None:
        beside = runs.beside(con, [manifest.trace_id])
        execute_all(con, statement("remove", "rows"), trace_id)
    _insert(con, manifest)
    if launches := manifest.rows.get("launches", 0):
        if _may_iterate(manifest):
            _mark_iterations(con, manifest)
        con.execute(statement("commit", "roll_up"), trace_id)
        bin_up(con, manifest.trace_id, launches)
    kept = {"name": name, "run": run, "label": label, "default_phase": default_phase}
    con.execute(statement("commit", "finish_trace"), trace_id | kept)
    set_tags(con, [manifest.trace_id], {**({} if previous else manifest.tags), **tags})
    concerned = runs.added(con, [manifest.trace_id], beside)
    if previous is not None:
        execute_all(con, statement("remove", "orphans"), {})
    found = [] if runs.is_one(con) else linked(con, manifest.trace_id)
    return Added(name, previous is not None, True, found, concerned)


def linked(con: Connection, trace_id: str) -> list[dict[str, Any]]:
    """The traces that a trace was linked with, surest first, and why."""
    return rows_of(con, statement("commit", "linked"), {"trace_id": trace_id})


def _mark_iterations(con: Connection, manifest: Manifest) -> None:
    """By steps of the profiler, else by repeats. Most of it is planning, so only what may find any is asked."""

    def try_to(mark: str, question: str) -> None:
        if con.execute(statement("commit", question), {"trace_id": manifest.trace_id}).fetchone() == (True,):
            con.execute(statement("commit", mark), {"trace_id": manifest.trace_id})

    if manifest.rows.keys() & {"ops", "ranges"}:
        try_to("mark_steps", "has_steps")
    if manifest.rows["launches"] > repeats.MOST or not repeats.mark(con, manifest.trace_id):
        try_to("mark_repeats", "may_repeat")


def bin_up(con: Connection, trace_id: str, launches: int | None = None) -> None:
    """Note when the launches of a trace ran, and of a long one what ran in each bin of that time.

    `launches`: how many there are, of a trace that has no bins yet.
    """
    of_trace = {"trace_id": trace_id}
    if launches is None:
        con.execute(statement("commit", "forget_bins"), of_trace)
    con.execute(statement("commit", "span"), {**of_trace, "fewest_binned": FEWEST_BINNED, "bins": BINS})
    if launches is not None and launches <= FEWEST_BINNED:
        return
    if con.execute(statement("commit", "has_bins"), of_trace).fetchone() == (True,):
        con.execute(statement("commit", "bin_up"), of_trace)


def _insert(con: Connection, manifest: Manifest) -> None:
    unknown = set(manifest.parts) - set(TABLES)
    if unknown or not manifest.parts.get("traces"):
        problem = f"unknown tables {', '.join(sorted(unknown))}" if unknown else "no row of `traces`"
        message = f"{manifest.folder}: not a conversion this version can commit: {problem}"
        raise WarehouseError(message)
    for table in TABLES:
        if files := manifest.parts.get(table):
            chosen = BLOCKS.get(table)
            block = table if chosen is None else chosen(manifest)
            con.execute(statement("commit", block), {"files": [str(file.resolve()) for file in files]})


def _launches(manifest: Manifest) -> str:
    """How launches are inserted. To sort them takes longer than to write them, and much memory in long traces."""
    if not _is_timed(manifest):
        return "launches_untimed"
    is_long = manifest.rows["launches"] > MOST_IN_ITERATIONS
    return "launches" if is_long or _is_in_order(manifest, "launches") else "launches_in_order"


def _may_iterate(manifest: Manifest) -> bool:
    """Whether iterations are looked for, which takes long and much memory in long traces."""
    n = manifest.rows.get("launches", 0)
    return 0 < n <= MOST_IN_ITERATIONS and _is_timed(manifest)


def _is_timed(manifest: Manifest) -> bool:
    import polars as pl

    return "start_ns" in pl.read_parquet_schema(manifest.parts["launches"][0])


def _is_in_order(manifest: Manifest, table: str) -> bool:
    """Whether many rows are written as they would be sorted: then threads share them, and none sorts them again."""
    import polars as pl

    if manifest.rows[table] < MANY_ROWS:
        return False
    start, number = ORDER[table]
    parts = pl.concat([pl.scan_parquet(part) for part in manifest.parts[table]], how="diagonal_relaxed")
    rows = parts.select(start, number).collect()
    return rows[start].is_sorted(nulls_last=True) and rows[number].is_sorted()


def _sorted(table: str) -> Callable[[Manifest], str]:
    """How rows of `table` are inserted. Readers write those of a thread in order; to sort millions takes longer."""

    def chosen(manifest: Manifest) -> str:
        as_written = manifest.rows[table] > MOST_SORTED[table] or _is_in_order(manifest, table)
        return f"{table}_as_written" if as_written else table

    return chosen


BLOCKS = {"launches": _launches, "ranges": _sorted("ranges"), "ops": _sorted("ops")}
"""What chooses the statement for a table; others have one of their name."""


def _free_name(con: Connection, manifest: Manifest) -> str:
    wanted = {"trace_id": manifest.trace_id, "name": manifest.name}
    rows = con.execute(statement("commit", "names"), wanted).fetchall()
    return runs.free_name(manifest.name, {name for (name,) in rows})


def remove(con: Connection, trace_ids: Iterable[str]) -> None:
    """Remove the traces with all their rows, and the names, calls and signatures that no other trace uses."""
    gone = list(trace_ids)
    beside = runs.beside(con, gone)
    for trace_id in gone:
        execute_all(con, statement("remove", "rows"), {"trace_id": trace_id})
        con.execute(statement("remove", "tags"), {"trace_id": trace_id})
    concerned = runs.removed(con, beside)
    execute_all(con, statement("remove", "orphans"), {})
    reconciliation.refresh(con, concerned.union(gone))


def set_tags(con: Connection, trace_ids: Iterable[str], tags: Mapping[str, str | None]) -> None:
    """Set the tags of the traces; None takes a tag off."""
    for trace_id in trace_ids:
        for key, value in tags.items():
            con.execute(statement("traces", "unset_tag"), {"trace_id": trace_id, "key": key})
            if value is not None:
                row = {"trace_id": trace_id, "key": key, "value": value}
                con.execute(statement("traces", "set_tag"), row)
