"""Where a database is: a DuckDB file, or a lake (DuckLake: a catalog in PostgreSQL or SQLite, rows in Parquet)."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Final

from kerneldb.errors import UsageError

PREFIX: Final = "ducklake:"
FORMS: Final = "'ducklake:postgres:dbname=lake host=db.example' or 'ducklake:sqlite:/shared/lake.sqlite'"
SECRET: Final = re.compile(
    r"(password\s*=\s*)(''(?:[^'\\]|\\.)+''|'(?:[^'\\]|\\.)*'|[^\s&]+)|(://[^:/@\s]*:)[^\s]+(?=@)", re.IGNORECASE
)
"""In quotes, or in the doubled ones of an SQL literal. A password in a URL ends at the last @ of its word."""
HALF: Final = re.compile("[\ud800-\udfff]")
"""What stands for bytes of a path that are not UTF-8."""
NAME: Final = re.compile(r"\bdbname\s*=\s*'?([\w.-]+)|://[^/]*/([\w.-]+)")


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A database file, or a lake.

    `path` is the file. A lake has a path too: that of its SQLite catalog, or, with PostgreSQL, one in the current
    folder; files that belong to a run of kerneldb (the journal of a replay) lie beside it. `catalog` is
    'postgres' or 'sqlite' for lakes, with what `address` says of it, and None for files.
    """

    path: Path
    catalog: str | None = None
    address: str = ""

    @classmethod
    def of(cls, given: str | Path | Place) -> Place:
        """The place that a user named.

        Raises UsageError for a lake whose catalog is neither PostgreSQL nor SQLite, and for a path that is not UTF-8.
        """
        if isinstance(given, Place):
            return given
        text = str(given)
        if not text.isascii() and HALF.search(text):
            message = f"{text}: the engine opens databases only where their path is UTF-8; rename it"
            raise UsageError(message)
        if not text.startswith(PREFIX):
            return cls(Path(given))
        catalog, _, address = text.removeprefix(PREFIX).partition(":")
        if catalog == "sqlite" and address:
            path = Path(address).absolute()
            return cls(path, catalog, str(path))
        if catalog == "postgres":
            found = NAME.search(address)
            return cls(Path(f"{found[1] or found[2] if found else 'lake'}.ducklake"), catalog, address)
        message = f"{masked(text)} is not a lake that kerneldb can open; it takes {FORMS}"
        raise UsageError(message)

    @property
    def is_lake(self) -> bool:
        """Whether this is a lake and not a file."""
        return self.catalog is not None

    @property
    def uri(self) -> str:
        """A lake as DuckDB attaches it, passwords included."""
        return f"{PREFIX}{self.catalog}:{self.address}"

    def exists(self) -> bool:
        """Whether the file, or the SQLite catalog, is there; of a PostgreSQL server this is found out by trying."""
        return self.catalog == "postgres" or self.path.exists()

    def __str__(self) -> str:
        """As users wrote it, without passwords."""
        return masked(self.uri) if self.is_lake else str(self.path)


def masked(text: str) -> str:
    """`text` with the passwords of connection strings and URLs taken out."""
    return SECRET.sub(lambda found: f"{found[1] or found[3]}***", text)
