"""Brings a file to the schema of this version: tables by migrations, views and macros by making them all anew."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from kerneldb.errors import WarehouseVersionError
from kerneldb.schemas import loader
from kerneldb.schemas.loader import statement
from kerneldb.warehouse.attach import transaction

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

    Connection = duckdb.DuckDBPyConnection


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """What a file holds: the version of its tables (0: no tables at all), and the hash of its views and macros."""

    version: int
    objects_hash: str | None

    @property
    def is_current(self) -> bool:
        """Whether nothing is to be done."""
        return self.version == newest() and self.objects_hash == loader.objects_hash()


def newest() -> int:
    """The version of the tables that this kerneldb makes."""
    return loader.migrations()[-1].version


def inspect(con: Connection, path: Path) -> State:
    """The state of the attached file. Raises WarehouseVersionError where it is newer than this, or something else."""
    relations = {row[0] for row in con.execute(statement("version", "relations")).fetchall()}
    if not relations:
        return State(0, None)
    if not {"schema_version", "schema_info", "schema_docs"} <= relations:
        message = f"{path} is a DuckDB database, but no kerneldb warehouse; give another path with --db"
        raise WarehouseVersionError(message)
    version = int(_scalar(con, "schema") or 0)
    if version > newest():
        message = (
            f"{path} was written by a newer kerneldb (schema {version}; this one knows up to {newest()}): "
            "pip install --upgrade kerneldb"
        )
        raise WarehouseVersionError(message)
    return State(version, _scalar(con, "objects_hash"))


def _scalar(con: Connection, name: str) -> Any:
    row = con.execute(statement("version", name)).fetchone()
    return None if row is None else row[0]


def upgrade(con: Connection, path: Path) -> State:
    """Bring the attached file to this version, in one transaction; returns what it was."""
    found = inspect(con, path)
    if found.is_current:
        return found
    with transaction(con):
        for step in loader.migrations():
            if step.version > found.version:
                con.execute(step.sql)
                con.execute(statement("version", "record"), {"version": step.version, "name": step.name})
        _renew_objects(con)
    return found


def _renew_objects(con: Connection) -> None:
    docs = loader.docs()
    kept = {"objects": [doc.object for doc in docs if doc.column_name is None and doc.kind != "table"]}
    for (drop,) in con.execute(statement("version", "stale_objects"), kept).fetchall():
        con.execute(drop)
    con.execute(loader.objects())
    for table, columns in loader.reference().items():
        con.execute(statement("reference", f"clear_{table}"))
        con.execute(statement("reference", f"fill_{table}"), columns)
    con.execute(statement("version", "clear_docs"))
    columns = {name: [getattr(doc, name) for doc in docs] for name in loader.DOC_COLUMNS}
    con.execute(statement("version", "insert_docs"), columns)
    comments = con.execute(statement("version", "comments")).fetchall()
    con.execute("\n".join(comment for (comment,) in comments))
    con.execute(statement("version", "forget_hash"))
    con.execute(statement("version", "store_hash"), {"hash": loader.objects_hash()})
