"""Brings a database to the schema of this version: tables by migrations, views and macros by making them all anew."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from kerneldb.errors import WarehouseVersionError
from kerneldb.gpus import find_device
from kerneldb.schemas import loader
from kerneldb.schemas.loader import statement
from kerneldb.shell import kerneldb
from kerneldb.warehouse import commit, reconciliation, runs, strangers
from kerneldb.warehouse.engine import transaction
from kerneldb.warehouse.statements import execute_all

if TYPE_CHECKING:
    import duckdb

    from kerneldb.warehouse.place import Place

    Connection = duckdb.DuckDBPyConnection


OLDEST: Final = 6
"""The version of the tables of kerneldb 0.1.0."""
RUNS_SINCE: Final = 7
"""Since this version runs are proven, and times that no event can have had are refused."""


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """What a file holds: the version of its tables (0: no tables at all), and the hash of its views and macros.

    `unfinished` names tables of a lake that hold a row which was to be taken out again.
    """

    version: int
    objects_hash: str | None
    unfinished: str | None = None

    @property
    def is_current(self) -> bool:
        """Whether nothing is to be done."""
        return self.version == newest() and self.objects_hash == loader.objects_hash()


def newest() -> int:
    """The version of the tables that this kerneldb makes."""
    return loader.migrations()[-1].version


def inspect(con: Connection, path: Place) -> State:
    """The state of the attached database. Raises WarehouseVersionError for a newer one, and for something else."""
    relations = {row[0] for row in con.execute(statement("version", "relations")).fetchall()}
    if not relations:
        return State(0, None)
    if not {"schema_version", "schema_info", "schema_docs"} <= relations:
        kind = "lake" if path.is_lake else "DuckDB database"
        message = f"{path} is a {kind}, but not a kerneldb database; give another path with --db"
        raise WarehouseVersionError(message)
    version = _version(con)
    if version > newest():
        message = (
            f"{path} was written by a newer kerneldb (schema {version}; this one knows up to {newest()}): "
            "pip install --upgrade kerneldb"
        )
        raise WarehouseVersionError(message)
    if version < OLDEST:
        message = f"{path} was written before kerneldb 0.1.0 (schema {version}); read its traces into a new database"
        raise WarehouseVersionError(message)
    return State(version, _scalar(con, "objects_hash"), _scalar(con, "unfinished") if path.is_lake else None)


def _version(con: Connection) -> int:
    """The version that the tables say they have; 0 where it is no number."""
    found = _scalar(con, "schema")
    return found if isinstance(found, int) else 0


def require_finished(state: State, lake: Place) -> None:
    """Raise WarehouseVersionError unless the tables of the lake are there, all of them, and of this version.

    Views and macros of another version serve as they are: whoever defines them anew stops everybody's commits.
    """
    if state.version == 0 or state.unfinished:
        remedy = kerneldb("db", "init", database=lake)
        raise WarehouseVersionError(f"{lake}: the creation of this lake was interrupted; finish it with: {remedy}")
    if state.version < newest():
        message = (
            f"{lake} was made by an older kerneldb (schema {state.version}; this one has {newest()}); once nobody "
            f"writes to it: {kerneldb('db', 'migrate', database=lake)}"
        )
        raise WarehouseVersionError(message)


def _scalar(con: Connection, name: str) -> Any:
    row = con.execute(statement("version", name)).fetchone()
    return None if row is None else row[0]


def upgrade(con: Connection, path: Place, *, anew: bool = False) -> State:
    """Bring the attached database to this version, in one transaction; returns what it was.

    `anew`: make views and macros anew also where the file says that they are of this version.
    """
    found = inspect(con, path)
    if found.is_current and not anew:
        return found
    with transaction(con):
        if anew:  # no step is to meet those of a stranger
            strangers.drop_ours(con)
        for step in loader.steps_from(found.version):
            con.execute(step.sql)
            con.execute(statement("version", "record"), {"version": step.version, "name": step.name})
        _renew_objects(con, "comments_of_lake" if path.is_lake else "comments", anew=found.version > 0)
        if 0 < found.version < RUNS_SINCE:
            refuse_bad_times(con)
            runs.adopt(con)
        reconciliation.refresh(con)
    return found


def refuse_bad_times(con: Connection) -> None:
    """Keep the rules of `kerneldb.times` for all rows that are stored, and sum the traces concerned anew."""
    *changes, traces, done = loader.statement_names("times")
    for block in changes:
        execute_all(con, statement("times", block), {})
    for (trace_id,) in con.execute(statement("times", traces)).fetchall():
        con.execute(statement("runs", "forget_rollups"), {"trace_id": trace_id})
        con.execute(statement("commit", "roll_up"), {"trace_id": trace_id})
        commit.bin_up(con, trace_id)
    execute_all(con, statement("times", done), {})


def make_scratch(con: Connection) -> None:
    """Make the tables, and the macros that commits use, in the empty attached file; nobody asks it questions."""
    with transaction(con):
        for step in loader.steps_from(0):
            con.execute(step.sql)
        con.execute(loader.commit_macros())


def _renew_objects(con: Connection, comments: str, *, anew: bool) -> None:
    """Make views and macros, and fill reference tables; `anew`: also make the tables that are made of others, empty."""
    docs = loader.docs()
    made = loader.headers().values()
    kept = {f"{kind}s": [one.name for one in made if one.kind == kind] for kind in ("view", "macro")}
    for (drop,) in con.execute(statement("version", "stale_objects"), kept).fetchall():
        execute_all(con, drop, {})
    if anew:
        execute_all(con, statement("reconciliation", "drop"), {})
        con.execute(loader.derived_tables())
    con.execute(loader.objects())
    for table, columns in loader.reference().items():
        con.execute(statement("reference", f"clear_{table}"))
        con.execute(statement("reference", f"fill_{table}"), columns)
    _name_gpus(con)
    con.execute(statement("version", "clear_docs"))
    columns = {name: [getattr(doc, name) for doc in docs] for name in loader.DOC_COLUMNS}
    con.execute(statement("version", "insert_docs"), columns)
    con.execute("\n".join(comment for (comment,) in con.execute(statement("version", comments)).fetchall()))
    con.execute(statement("version", "forget_hash"))
    con.execute(statement("version", "store_hash"), {"hash": loader.objects_hash()})


def _name_gpus(con: Connection) -> None:
    """Say anew which GPU the stored devices are: this version may know more of them."""
    renamed = []
    for trace_id, device, name, arch, units, was in con.execute(statement("reference", "devices")).fetchall():
        gpu = find_device(name, arch, units)
        if (gpu.name if gpu else None) != was:
            renamed.append((trace_id, device, gpu.name if gpu else None))
    if renamed:
        columns = zip(("trace_id", "device", "gpu"), map(list, zip(*renamed, strict=True)), strict=True)
        con.execute(statement("reference", "set_gpus"), dict(columns))
