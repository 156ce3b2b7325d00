"""Makes, migrates and compacts databases: what changes definitions or files, and not rows.

In a lake, definitions change for everybody who is working with it, so only these functions do it, when a user asks.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.errors import UsageError, WarehouseVersionError
from kerneldb.schemas.loader import statement
from kerneldb.shell import kerneldb
from kerneldb.warehouse import Warehouse, examined, lakes, migrate
from kerneldb.warehouse.engine import literal, store_errors, transaction
from kerneldb.warehouse.session import session_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from kerneldb.warehouse.place import Place

    Connection = duckdb.DuckDBPyConnection

SAFE_HOURS: Final = 24
"""Files that no snapshot knows may belong to a commit that is under way; older ones do not."""
DAY_HOURS: Final = 24
"""With a SQLite catalog, DuckLake takes files for up to a day older than they are."""


@dataclasses.dataclass(frozen=True, slots=True)
class Compaction:
    """What `compact` found and left: Parquet files, their bytes, snapshots, and how many orphans it removed."""

    files_before: int
    files_after: int
    bytes_after: int
    snapshots: int
    removed: int
    orphans: int


def init(place: Place, data: str | None, timeout: float) -> None:
    """Make the database at `place`, or finish making it. `data` is where the Parquet files of a new lake go.

    Raises UsageError where `data` is missing, or given for a file.
    """
    if not place.is_lake:
        if data is not None:
            message = f"--data is for lakes; {place} is a file"
            raise UsageError(message)
        Warehouse.create_or_open(place, timeout)
        return
    if data is not None:
        lakes.create(place, _folder(data))
    with lakes.owner(place) as con, store_errors(place):
        examined(con, place)
        _bring_up(con, place)


def migrate_to_newest(place: Place, timeout: float) -> tuple[int, int]:
    """Bring tables, views and macros to this version; the version before and now.

    Raises WarehouseVersionError for a newer database.
    """
    if not place.is_lake:
        with session_of(place.path).reading(timeout) as con, store_errors(place):
            version = examined(con, place)[0].version
        Warehouse.open(place, timeout)
        return version, migrate.newest()
    with lakes.owner(place) as con, store_errors(place):
        found, is_ours = examined(con, place)
        if found.version == 0:
            message = f"{place} holds no tables; make them with: {kerneldb('db', 'init', database=place)}"
            raise WarehouseVersionError(message)
        _bring_up(con, place, anew=not is_ours)
    return found.version, migrate.newest()


def _folder(data: str) -> str:
    """`data` with a slash at its end; local folders are named from the root."""
    return data.rstrip("/") + "/" if data.startswith(lakes.REMOTE) else f"{Path(data).absolute()}/"


def _bring_up(con: Connection, place: Place, *, anew: bool = False) -> None:
    """Make what is missing: definitions in one transaction, then the fillers of empty tables in two."""
    migrate.upgrade(con, place, anew=anew)
    tables = [table for (table,) in con.execute(statement("lake", "tables")).fetchall()]
    unfinished = migrate.inspect(con, place).unfinished
    empty = unfinished.split() if unfinished else _never_filled(con, tables)
    rows = con.execute(statement("lake", "fillers"), {"tables": empty}).fetchall()
    if not unfinished and rows:
        with transaction(con):
            con.execute(statement("lake", "mark_unfinished"), {"tables": " ".join(empty)})
            for fill, _ in rows:
                con.execute(fill)
    if rows:
        with transaction(con):
            for _, clear in rows:
                con.execute(clear)
            con.execute(statement("lake", "forget_unfinished"))
    with transaction(con):
        for table in lakes.INLINED:
            con.execute(statement("lake", "inlined").format(table=literal(table)))


def _never_filled(con: Connection, tables: Sequence[str]) -> list[str]:
    return [t for t in tables if con.execute(statement("lake", "figures"), {"table": t}).fetchone() is None]


def compact(place: Place, keep_hours: int, orphan_hours: int, timeout: float) -> Compaction:
    """Merge small files; drop snapshots older than `keep_hours` with their files, and orphans past `orphan_hours`.

    Rows stay. Others go on reading and committing meanwhile; who looks at a snapshot for longer than `keep_hours` loses
    it. Raises UsageError for files, which DuckDB keeps in order itself, and for `orphan_hours` that a commit under way
    may outlast.
    """
    if not place.is_lake:
        message = f"{place} is a file, which needs no compaction"
        raise UsageError(message)
    if orphan_hours < SAFE_HOURS:
        message = f"orphans younger than {SAFE_HOURS} hours may belong to a commit that is under way"
        raise UsageError(message)
    with lakes.owner(place) as con, store_errors(place):
        before = _counts(con)
        _require_own_files(con, place)
        for step in ("flush_inlined", "rewrite_deleted", "merge"):
            lakes.repeated(place, timeout, functools.partial(_run, con, step))
        old = con.execute(statement("lake", "old_snapshots").format(hours=keep_hours)).fetchall()
        if old:
            con.execute(statement("lake", "expire").format(versions=[number for (number,) in old])).fetchall()
        clean_up_hours = keep_hours + (DAY_HOURS if place.catalog == "sqlite" else 0)
        removed = con.execute(statement("lake", "clean_up").format(hours=clean_up_hours)).fetchall()
        orphans = con.execute(statement("lake", "orphans").format(hours=orphan_hours)).fetchall()
        after = _counts(con)
        (snapshots,) = con.execute(statement("lake", "snapshots")).fetchone() or (0,)
    return Compaction(before[0], after[0], after[1], snapshots, len(removed), len(orphans))


def _require_own_files(con: Connection, place: Place) -> None:
    """Raise WarehouseError where the folder or prefix of the lake holds what orphans could be mistaken for."""
    data = lakes.data_path(con)
    found = con.execute(statement("lake", "odd_file"), {"data": data}).fetchone()
    if found is not None and found[0] is not None:
        raise lakes.not_of_the_lake(place, data, found[0])


def _run(con: Connection, step: str) -> None:
    con.execute(statement("lake", step)).fetchall()


def _counts(con: Connection) -> tuple[int, int]:
    files, size, deletes = con.execute(statement("lake", "file_counts")).fetchone() or (0, 0, 0)
    return files + deletes, size
