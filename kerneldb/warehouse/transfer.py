"""Moves traces between databases: into a lake from the scratch file of a conversion, and from file to lake and back.

Notes, results of replays and inferred calls go along. They may grow after the traces were copied, so they are
compared on every copy, by the rules of store/results.sql: what is there stays, unless the source got further with it;
so a second copy writes nothing. What is copied from is attached as `source`. Large tables go into a lake as Parquet
files that are written before its transaction and registered in it, so that commits do not keep each other waiting while
rows are written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.errors import UsageError
from kerneldb.schemas.loader import statement
from kerneldb.warehouse import commit, lakes, migrate, reconciliation, runs, strangers
from kerneldb.warehouse.engine import allow, literal, store_errors, transaction
from kerneldb.warehouse.place import Place
from kerneldb.warehouse.session import session_of
from kerneldb.warehouse.statements import execute_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb

    from kerneldb.batch import Manifest
    from kerneldb.warehouse import Warehouse

    Connection = duckdb.DuckDBPyConnection

STAGED_FROM: Final = 500
"""Tables with so many rows of a trace become files of their own; fewer rows are inserted with the transaction."""
PER_COMMIT: Final = 8
"""Traces in one transaction: a commit to a lake costs some round trips, however much it adds."""
ODD: Final = re.compile(r"[^\w.-]", re.ASCII)
LONGEST_NAME: Final = 80
DIMENSIONS: Final = ("kernel_names", "op_calls", "signatures")


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """What is to be added of traces of `source`.

    `files` are Parquet files in the lake's own folder, by (trace id, table); all other rows are inserted: `rows` maps a
    table to the ids of the traces that have some there.
    """

    trace_ids: Sequence[str]
    files: Mapping[tuple[str, str], str]
    rows: Mapping[str, Sequence[str]]


@contextlib.contextmanager
def source(con: Connection, path: Path) -> Iterator[None]:
    """Attach the DuckDB file `path` as `source`."""
    con.execute(statement("lake", "attach_source").format(path=literal(path.absolute())))
    try:
        yield
    finally:
        con.execute(statement("lake", "detach_source"))


def known(con: Connection, trace_ids: Sequence[str]) -> set[str]:
    """Those of the traces that the database holds."""
    rows = con.execute(statement("lake", "known"), {"trace_ids": list(trace_ids)}).fetchall()
    return {trace_id for (trace_id,) in rows}


def prepare(con: Connection, trace_ids: Sequence[str], data: str | None) -> Parts:
    """Find the rows of traces of `source`. Large tables are written into the folder `data` of a lake, unseen there.

    Every attempt has file names of its own, so that nothing is ever written over; what a killed one leaves behind is an
    orphan, which `compact` removes when it is old. Without `data`, nothing is written.
    """
    con.execute(statement("lake", "used_names"), {"trace_ids": list(trace_ids)})
    files: dict[tuple[str, str], str] = {}
    rows: dict[str, list[str]] = {}
    ours = {"database": "source", "tables": strangers.names()["tables"]}
    for (table,) in con.execute(statement("lake", "trace_tables"), ours).fetchall():
        sql = statement("lake", "counts").format(table=table)
        counts = con.execute(sql, {"trace_ids": list(trace_ids)}).fetchall()
        large = [trace_id for trace_id, n in counts if n >= STAGED_FROM] if data is not None else []
        files |= {(trace_id, table): _write(con, f"{data}main/{table}/", table, trace_id) for trace_id in large}
        rows[table] = [trace_id for trace_id, _ in counts if trace_id not in large]
    return Parts(trace_ids, files, rows)


def _write(con: Connection, folder: str, table: str, trace_id: str) -> str:
    named = ODD.sub("-", trace_id)[:LONGEST_NAME]  # an id of a stranger may be any text
    file = f"{folder}{named}-{uuid.uuid4().hex[:12]}.parquet"
    copy = statement("lake", "stage")
    con.execute(copy.format(table=table, trace_id=literal(trace_id), file=literal(file)))
    return file


def discard(parts: Parts, added: Sequence[str]) -> None:
    """Remove files of traces that another commit has added meanwhile. On S3 they wait for `compact`."""
    for (trace_id, _), file in parts.files.items():
        if trace_id not in added and not file.startswith(lakes.REMOTE):
            Path(file).unlink(missing_ok=True)


def add(con: Connection, parts: Parts, *, replace: bool, tags: Mapping[str, str]) -> list[str]:
    """Add traces of `source`, with names, calls, signatures and tags; the ids of those that were not there before.

    With `replace`, traces that are there are written anew, and keep name, run, label and tags. Runs inside the
    transaction of the caller, which no other commit overlaps.
    """
    ids = {"trace_ids": list(parts.trace_ids)}
    present = known(con, parts.trace_ids)
    wanted = [trace_id for trace_id in parts.trace_ids if replace or trace_id not in present]
    for table in DIMENSIONS:
        con.execute(statement("lake", f"copy_{table}"), {} if table == "signatures" else ids)
    again = present.intersection(wanted)
    beside = runs.beside(con, again) if again else None
    facts = con.execute(statement("lake", "source_traces"), ids).fetchall()
    names = {name for (name,) in con.execute(statement("lake", "names")).fetchall()}
    for trace_id, name in facts:
        if trace_id in wanted:
            _add_trace(con, trace_id, runs.free_name(name, names), tags, there=trace_id in present)
            names.add(name)
    _add_rows(con, parts, wanted)
    concerned = runs.added(con, wanted, beside, noted=True) if wanted else set()
    if present and replace:
        execute_all(con, statement("remove", "orphans"), {})
    reconciliation.refresh(con, concerned)
    return wanted


def _add_trace(con: Connection, trace_id: str, name: str, tags: Mapping[str, str], *, there: bool) -> None:
    key = {"trace_id": trace_id}
    run, label, phase = None, None, None
    if there:
        previous = con.execute(statement("commit", "previous"), key).fetchone()
        name, run, label, phase = previous or (name, None, None, None)
        execute_all(con, statement("remove", "rows"), key)
    else:
        con.execute(statement("lake", "copy_tags"), key)
    con.execute(
        statement("lake", "copy_trace"), key | {"name": name, "run": run, "label": label, "default_phase": phase}
    )
    commit.set_tags(con, [trace_id], tags)


def _add_rows(con: Connection, parts: Parts, wanted: Sequence[str]) -> None:
    for (trace_id, table), file in parts.files.items():
        if trace_id in wanted:
            sql = statement("lake", "add_file").format(table=literal(table), file=literal(file))
            con.execute(sql).fetchall()
    for table, trace_ids in parts.rows.items():
        if inserted := [trace_id for trace_id in trace_ids if trace_id in wanted]:
            con.execute(statement("lake", "copy_rows").format(table=table), {"trace_ids": inserted})


def batches(trace_ids: Sequence[str], size: int) -> Iterator[list[str]]:
    """The ids in portions for one transaction each."""
    numbers = iter(trace_ids)
    while portion := list(itertools.islice(numbers, size)):
        yield portion


@dataclasses.dataclass(frozen=True, slots=True)
class Learned:
    """How much goes over, or went: notes, items of replay runs, runs, and launches whose call was found."""

    notes: int = 0
    items: int = 0
    runs: int = 0
    finds: int = 0

    def __bool__(self) -> bool:
        """Whether there is anything at all."""
        return any(dataclasses.astuple(self))


@dataclasses.dataclass(frozen=True, slots=True)
class Copied:
    """What a copy wrote: the ids of the traces that were missing, and what was learned of any of them."""

    trace_ids: Sequence[str]
    learned: Learned


def find_learned(con: Connection, trace_ids: Sequence[str]) -> Learned:
    """Find what `source` knows of the traces and the database does not; it is left in temporary tables."""
    if con.execute(statement("results", "held")).fetchone() == (False,):
        return Learned()
    ids = {"trace_ids": list(trace_ids)}
    con.execute(statement("lake", "used_names"), ids)
    for name in ("list_notes", "list_concerned", "list_items", "list_runs"):
        con.execute(statement("results", name))
    con.execute(statement("results", "list_finds"), ids)
    return Learned(*con.execute(statement("results", "listed")).fetchone() or ())


def add_learned(con: Connection, trace_ids: Sequence[str]) -> Learned:
    """Copy what `source` knows of the traces, which are there. Runs inside the transaction of the caller."""
    found = find_learned(con, trace_ids)
    if found.items or found.finds:  # signatures, names and calls may be new since the traces were copied
        ids = {"trace_ids": list(trace_ids)}
        for table in DIMENSIONS:
            con.execute(statement("lake", f"copy_{table}"), {} if table == "signatures" else ids)
    for part in ("notes", "items", "runs", "finds"):
        if getattr(found, part):
            execute_all(con, statement("results", part), {})
    if found.finds:
        for (trace_id,) in con.execute(statement("results", "found_traces")).fetchall():
            key = {"trace_id": trace_id}
            for name in ("unmark", "mark", "forget_rollups"):
                con.execute(statement("found", name), key)
            con.execute(statement("commit", "roll_up"), key)
    if found.items or found.runs or found.finds:
        reconciliation.refresh(con)
    return found


def transfer(target: Warehouse, place: Place, trace_ids: Sequence[str]) -> Copied:
    """Copy traces of the database at `place` into `target`, with what was learned of them.

    Traces that are there stay as they are; notes, results of replays and inferred calls are added to them, too. Raises
    UsageError where both are lakes.
    """
    if not target.place.is_lake:
        return _pull(target, place, trace_ids)
    if place.is_lake:
        message = "traces cannot be copied directly from lake to lake: pull them into a file, and push them from there"
        raise UsageError(message)
    added = [
        trace_id
        for portion in batches(trace_ids, PER_COMMIT)
        for trace_id in publish(target.place, target.lock_timeout, place.path, portion)
    ]
    return Copied(added, publish_learned(target.place, target.lock_timeout, place.path, trace_ids))


def _pull(target: Warehouse, place: Place, trace_ids: Sequence[str]) -> Copied:
    def attach_source(con: Connection) -> None:
        if place.is_lake:
            lakes.attach(con, place, "attach_lake_source")
            allow(con, [lakes.data_path(con, "source")])
        else:
            con.execute(statement("lake", "attach_source").format(path=literal(place.path.absolute())))

    added: list[str] = []
    with (
        session_of(target.path).writing(target.lock_timeout, prepare=attach_source) as con,
        store_errors(target.place),
    ):
        for portion in batches(trace_ids, PER_COMMIT):
            parts = prepare(con, portion, None)
            with transaction(con):
                added += add(con, parts, replace=False, tags={})
        with transaction(con):
            learned = add_learned(con, trace_ids)
    return Copied(added, learned)


def publish_learned(place: Place, timeout: float, path: Path, trace_ids: Sequence[str]) -> Learned:
    """Add what the DuckDB file `path` knows of traces of a lake, in one transaction; what it wrote.

    Nothing is committed where the lake has all of it.
    """
    with (
        lakes.writing(place, [path.parent]) as con,
        store_errors(place),
        source(con, path),
    ):
        if not find_learned(con, trace_ids):
            return Learned()
        return lakes.retried(con, place, timeout, lambda con: add_learned(con, trace_ids))


def publish(
    place: Place,
    timeout: float,
    path: Path,
    trace_ids: Sequence[str],
    *,
    replace: bool = False,
    tags: Mapping[str, str] | None = None,
) -> list[str]:
    """Add traces of the DuckDB file `path` to a lake, in one transaction; the ids of those that it wrote.

    However many programs add a trace at the same time, and however often it is tried, it is there once.
    """
    inside = lakes.SPOOLS in path.resolve().parents
    with (
        lakes.writing(place, [lakes.SPOOLS if inside else path.parent]) as con,
        store_errors(place),
        source(con, path),
    ):
        there = set() if replace else known(con, trace_ids)
        wanted = [trace_id for trace_id in trace_ids if trace_id not in there]
        if not wanted:
            return []
        parts = prepare(con, wanted, lakes.data_path(con))
        added = lakes.retried(con, place, timeout, lambda con: add(con, parts, replace=replace, tags=tags or {}))
    discard(parts, added)
    return added


def commit_to_lake(
    place: Place, timeout: float, manifest: Manifest, *, replace: bool, tags: Mapping[str, str]
) -> commit.Added:
    """Add a converted trace to a lake.

    The trace goes into a scratch file first, by the statements that any other database takes, and from there into the
    lake.
    """
    with lakes.reading(place) as con:
        before = _name(con, manifest.trace_id)
        if before is not None and not replace:
            return commit.Added(before, known=True, written=False)
    scratch = manifest.folder / "scratch.duckdb"
    scratch.unlink(missing_ok=True)
    with (
        session_of(scratch).writing(timeout, [manifest.folder], create=True) as con,
        store_errors(Place(scratch)),
    ):
        migrate.make_scratch(con)
        with transaction(con):
            commit.commit(con, manifest, replace=False, tags={})
    written = bool(publish(place, timeout, scratch, [manifest.trace_id], replace=replace, tags=tags))
    with lakes.reading(place) as con:
        name = _name(con, manifest.trace_id) or manifest.name
        return commit.Added(name, before is not None, written, commit.linked(con, manifest.trace_id) if written else ())


def _name(con: Connection, trace_id: str) -> str | None:
    row = con.execute(statement("traces", "name_of"), {"trace_id": trace_id}).fetchone()
    return None if row is None else row[0]
