"""Reads for a front end that stays open: each on a connection of its own, to be given up from another thread.

A `Reading` runs in a worker thread. Its work gets a connection whose file is attached for as long as the work takes;
`cancel` interrupts the engine, so that a question nobody waits for any more costs nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from kerneldb.api import queries, timeline
from kerneldb.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from kerneldb.api.queries import Connection, Relation
    from kerneldb.selection import Selection
    from kerneldb.warehouse import Warehouse


T = TypeVar("T")
MOST_BYTES: Final = 1 << 28
"""Of the rows of a statement, as Arrow."""


class ReadCancelledError(QueryError):
    """The reading was cancelled before it was done."""


class Reading(Generic[T]):
    """One piece of work on one connection. `run` it in a thread; `cancel` it from any other one."""

    def __init__(self, warehouse: Callable[[], Warehouse], work: Callable[[Connection], T]) -> None:
        self._warehouse = warehouse
        self._work = work
        self._guard = threading.Lock()
        self._con: Connection | None = None
        self._cancelled = False
        self.done = False

    def run(self) -> T:
        """The result of the work.

        Raises ReadCancelledError after `cancel`, SelectionError where the WHERE text is at fault, QueryError for what
        else the engine refuses, WarehouseError where the file cannot be had.
        """
        from kerneldb.warehouse.execute import query_errors

        self._check()
        try:
            with self._warehouse().connection() as con, query_errors():
                try:
                    self._hold(con)
                    return self._work(con)
                finally:
                    self._hold(None)
        except KeyboardInterrupt as interrupted:
            # In worker threads the engine's interrupt has one source only: `cancel`.
            raise ReadCancelledError from interrupted
        finally:
            self.done = True

    def cancel(self) -> None:
        """Give up: the work ends soon. An interrupt between two statements is forgotten, so call again until it did."""
        with self._guard:
            self._cancelled = True
            if self._con is not None:
                self._con.interrupt()

    def _hold(self, con: Connection | None) -> None:
        with self._guard:
            self._con = con
        if con is not None:
            self._check()

    def _check(self) -> None:
        if self._cancelled:
            raise ReadCancelledError


def check(con: Connection, selection: Selection) -> None:
    """Raise SelectionError where the WHERE text does not parse or bind, UsageError for an unknown trace."""
    if selection.traces:
        queries.require("trace", selection.traces, [row["name"] for row in queries.rows(con, "trace_names")])
    selection.relation(con)


PLACE_BITS: Final = 40
"""Bits of a launch key that hold the launch's index in its trace; the bits above hold the trace's place."""


def kernels(con: Connection, selection: Selection, level: str) -> pa.Table:
    """Launches and time per operator, kernel or signature, largest first: what `kerneldb top` prints, and more.

    As there, rollups answer where there is no condition.
    """
    queries.bind_sums(con, selection, level)
    return queries.table(con, "tui_kernels")


def kernels_more(con: Connection, selection: Selection, level: str) -> pa.Table:
    """Quantiles, rates, energy and replay per operator, kernel or signature: `schemas/queries/tui_kernels_more.sql`."""
    queries.bind_keyed(con, selection.relation(con), level)
    return queries.table(con, "tui_kernels_more")


def traces(con: Connection, names: Sequence[str]) -> list[dict[str, Any]]:
    """All traces with their sizes and times; those of `names` count as they do among them alone."""
    whole = queries.rollups(con, names)
    if names:
        whole = whole.union(con.table("kernel_rollups").filter(~queries.among("trace", names)))
    con.register("whole", whole)
    return queries.rows(con, "tui_overview_traces")


class Runs:
    """Numbers that follow each other in a few runs, none of which is held in memory."""

    def __init__(self, runs: Sequence[range]) -> None:
        self._runs = runs
        self._starts = list(itertools.accumulate(map(len, runs), initial=0))

    def __len__(self) -> int:
        return self._starts[-1]

    def slice(self, start: int, count: int) -> list[int]:
        """`count` numbers from the place `start`; fewer at the end."""
        found: list[int] = []
        for run, begin in zip(self._runs, self._starts, strict=False):
            found += run[max(start - begin, 0) : max(start + count - begin, 0)]
        return found

    def find(self, number: int) -> int | None:
        """The place of a number; None where it is not there."""
        for run, begin in zip(self._runs, self._starts, strict=False):
            if number in run:
                return begin + run.index(number)
        return None


class Numbers:
    """Numbers in any order, in memory: `array` is int64."""

    def __init__(self, array: pa.ChunkedArray) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def slice(self, start: int, count: int) -> list[int]:
        """`count` numbers from the place `start`; fewer at the end."""
        found: list[int] = self._array.slice(start, count).to_pylist()
        return found

    def find(self, number: int) -> int | None:
        """The place of a number; None where it is not there."""
        import pyarrow.compute as pc

        place = pc.index(self._array, number).as_py()
        return None if place < 0 else int(place)


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchKeys:
    """The selected launches in an order: `keys` hold the place of the trace in `traces` (from 1) and launch index.

    `shifts` are what takes times of a trace, by its id, to the timeline of the selection.
    """

    traces: tuple[str, ...]
    keys: Runs | Numbers
    shifts: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, start: int, count: int) -> list[tuple[str, int]]:
        """(trace id, launch index) of `count` launches from `start`."""
        return [self.split(key) for key in self.keys.slice(start, count)]

    def split(self, key: int) -> tuple[str, int]:
        """The trace id and the launch index of a key."""
        place, index = key >> PLACE_BITS, key & ((1 << PLACE_BITS) - 1)
        return self.traces[place - 1], index

    def find(self, trace_id: str, index: int) -> int | None:
        """The place of the launch in the order; None where it is not selected."""
        if trace_id not in self.traces:
            return None
        return self.keys.find(((self.traces.index(trace_id) + 1) << PLACE_BITS) + index)


def launch_keys(con: Connection, selection: Selection, order: str | None, *, descending: bool) -> LaunchKeys:
    """The keys of the selected launches, by the column `order` of `kernels` (None: by trace and index), then by key.

    All launches of traces, as they began, need no list of keys.
    """
    import duckdb

    column = duckdb.ColumnExpression
    traces = tuple(row["trace_id"] for row in queries.rows(con, "tui_trace_order"))
    shifts = {one.trace_id: one.shift_ns for one in timeline.axis(con, selection.traces).traces}
    if order is None and not descending and not queries.has_condition(selection.where):
        runs = queries.rows(con, "tui_launch_runs", {"traces": list(selection.traces) or None})
        if all(run["dense"] for run in runs):
            return LaunchKeys(
                traces, Runs([range(run["first_key"], run["first_key"] + run["n"]) for run in runs]), shifts
            )
    by = column(order or "key")
    placed = [(by.desc() if descending else by.asc()).nulls_last(), *([column("key")] if order else [])]
    ordered = queries.relation(con, "tui_launch_keys", selection).sort(*placed)
    return LaunchKeys(traces, Numbers(ordered.select(column("key")).to_arrow_table().column(0)), shifts)


def launch_page(con: Connection, keys: LaunchKeys, start: int, count: int) -> list[dict[str, Any] | None]:
    """`count` launches of `keys` from `start`; None for one that is not there any more.

    `offset_ns` is when a launch began on the timeline of the selection; of a trace that has none there, since the first
    of its events.
    """
    wanted = keys.slice(start, count)
    if not wanted:
        return []
    traces, indexes = (sorted(set(values)) for values in zip(*wanted, strict=True))
    rows = queries.rows(con, "tui_launch_page", {"traces": traces, "indexes": indexes})
    by_key = {(row["trace_id"], row["launch_index"]): row for row in rows}
    for row in by_key.values():
        if row["start_ns"] is not None and row["trace_id"] in keys.shifts:
            row["offset_ns"] = row["start_ns"] + keys.shifts[row["trace_id"]]
    return [by_key.get(key) for key in wanted]


def answer(con: Connection, text: str, selection: Selection, most: int) -> tuple[pa.Table, bool]:
    """The first `most` rows of the one statement `text`, or as many as take `MOST_BYTES`, and whether there are more.

    The statement may read the selected launches as `selection`. Raises QueryError with the engine's message, which
    marks the place.
    """
    import pyarrow as pa

    from kerneldb.warehouse.execute import streamed

    selection.bind(con)
    with _plain_errors(con, text):
        count = len(con.extract_statements(text))
        if count != 1:
            raise QueryError(f"give one statement at a time; this text has {count}")
        found: Relation | None = _statement(con, text)
        if found is None:
            return pa.table({}), False
        reader = streamed(found.limit(most + 1))
        batches = list(_taken(reader))
        shown = pa.Table.from_batches(batches, reader.schema)
        more = shown.num_rows > most or next(reader, None) is not None
    return shown.slice(0, most), more


def _taken(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Batches, until they take `MOST_BYTES`: a text of a few megabytes may be in every row of a join."""
    held = 0
    for batch in reader:
        yield batch
        held += batch.nbytes
        if held > MOST_BYTES:
            return


def hints(con: Connection, text: str, selection: Selection) -> list[str]:
    """What texts may mean that a statement compares columns with, and that these never have."""
    from kerneldb.warehouse.absent import absent_texts

    selection.bind(con)
    return absent_texts(con, text)


def _statement(con: Connection, text: str) -> Relation:
    """The relation of a statement. What does not bind is handed to `execute`, whose message marks the place."""
    import duckdb

    try:
        return con.sql(text)
    except (duckdb.BinderException, duckdb.CatalogException):
        con.execute(text)
        raise


@contextlib.contextmanager
def _plain_errors(con: Connection, text: str) -> Iterator[None]:
    """Turn errors of the engine in a user's statement into QueryError: none of them is the fault of the WHERE text."""
    import duckdb

    from kerneldb.warehouse.execute import message_of, with_near_columns

    try:
        yield
    except duckdb.InterruptException:
        raise
    except duckdb.BinderException as error:
        raise QueryError(message_of(with_near_columns(con, text, error))) from error
    except duckdb.Error as error:
        raise QueryError(message_of(error)) from error


def catalogue(con: Connection) -> list[dict[str, Any]]:
    """Tables, views and macros with their columns and comments: `object`, `kind`, `column_name`, `type`, `meaning`."""
    return queries.rows(con, "serve_schema")


def export(con: Connection, text: str, selection: Selection, path: Path) -> int:
    """Write all rows of the statement `text` to `path`, in the format of its suffix; returns how many."""
    from kerneldb.output import Output, format_of, write
    from kerneldb.warehouse.execute import streamed

    selection.bind(con)
    with _plain_errors(con, text):
        output = Output(format=format_of(path) or "parquet", path=path)
        return write(streamed(_statement(con, text)), output).shown
