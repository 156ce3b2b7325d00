"""Databases of strangers: whether what a file or lake defines is what kerneldb defines, before any of it is asked.

A file brings views and macros that run inside every question. They reach no other file, but they could answer with
false numbers or without end: a macro named `sum` or `+` is called in place of the function. So a file that this user
has not opened as it is now is looked at first. What kerneldb makes must be there as kerneldb makes it, and nothing of
the file may stand in for functions of DuckDB, or run beside our statements; views and macros that differ are made anew.
What else a user keeps in the file stays. The rows are what the stranger says they are: nothing can tell. A lake is of
many, so nothing is made anew there unless a user asks; what differs is refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import platformdirs

from kerneldb.errors import WarehouseVersionError
from kerneldb.schemas import loader
from kerneldb.schemas.loader import statement
from kerneldb.shell import kerneldb
from kerneldb.warehouse.statements import execute_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.warehouse.place import Place

    Connection = duckdb.DuckDBPyConnection

EXCLUDED: Final = re.compile(r"EXCLUDE \(([^()]*)\)")
CANDIDATES: Final = "Candidate macros:"
KEPT: Final = 512
"""So much is remembered, the latest: of a small file how it looks, and what it holds."""
SMALL: Final = 1 << 25
"""To read a file of so many bytes takes less time than to check it."""
NAMED: Final = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Ours:
    """What kerneldb makes in a database: digests of views and macros, and table, name and type of each column."""

    statements: str
    defaults: str
    columns: tuple[tuple[str, str, str], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Defined:
    """What a database defines: `functions` and `columns` are rows of the statements of these names."""

    functions: list[tuple[str, bool, list[list[str]]]]
    columns: list[tuple[str, str, str, str | None]]

    def macros(self) -> list[tuple[str, ...]]:
        """Name, kind, arguments and statement of those with names of ours."""
        ours = set(names()["macros"])
        made = [(name, one) for name, _, every in self.functions if name in ours for one in every]
        return sorted((name, *rest) for name, (schema, *rest) in made if schema == "main")

    def typed(self) -> list[tuple[str, str, str]]:
        """Table, name and type of each column."""
        return [(table, name, kind) for table, name, kind, _ in self.columns]


@contextlib.contextmanager
def aside(con: Connection) -> Iterator[None]:
    """A context in which nothing of the file is found by name: statements mean what they say."""
    con.execute(statement("strangers", "aside"))
    try:
        yield
    finally:
        con.execute(statement("session", "use"))


def names() -> dict[str, list[str]]:
    """The names of all that kerneldb makes in a database, by kind: tables, views, macros."""
    made = loader.headers().values()
    return {f"{kind}s": [one.name for one in made if one.kind == kind] for kind in ("table", "view", "macro")}


def require_usable(con: Connection, place: Place) -> Defined:
    """What the file defines. Raises WarehouseVersionError for what changes the meaning of statements of kerneldb."""
    with aside(con):
        found = _defined(con)
        shadows = [name for name, is_of_duckdb, _ in found.functions if is_of_duckdb]
        wrong = [f"the macro {name} replaces a function of DuckDB" for name in shadows]
        if not wrong:  # else what is asked next could mean something else
            wrong = _ask(con, "misfits") + (_ask(con, "triggers") if _has_triggers() else [])
    made = [f"{table}.{name}" for table, name, _, default in found.columns if default not in {None, "NULL"}]
    wrong += [f"the column {name} has a default, or is made of others" for name in made]
    if wrong:
        raise _changed(place, wrong)
    return found


def require_columns(found: Defined, place: Place, ours: Ours) -> None:
    """Raise WarehouseVersionError unless the tables have the columns that kerneldb makes."""
    differing = set(found.typed()).symmetric_difference(ours.columns)
    if differing:
        raise _changed(place, [f"the column {table}.{name} {kind}" for table, name, kind in sorted(differing)])


def is_genuine(con: Connection, ours: Ours, found: Defined, *, of_lake: bool = False) -> bool:
    """Whether views and macros are those that kerneldb makes: their statements, arguments, and defaults of these."""
    with aside(con):
        macros = _rows(con, "macros_of_lake") if of_lake else found.macros()
        return _statements(con, macros) == ours.statements and _defaults(con) == ours.defaults


def read(con: Connection) -> Ours:
    """What a database that kerneldb just made defines."""
    with aside(con):
        found = _defined(con)
        return Ours(_statements(con, found.macros()), _defaults(con), tuple(found.typed()))


def _defined(con: Connection) -> Defined:
    return Defined(_rows(con, "functions"), _rows(con, "columns"))


def _statements(con: Connection, macros: list[tuple[str, ...]]) -> str:
    return _digest([tuple(map(_ordered, row)) for row in (*_rows(con, "views"), *macros)])


def _ordered(text: str) -> str:
    """A statement with names to leave out in one order: DuckDB prints them in another one each time."""
    return EXCLUDED.sub(lambda found: f"EXCLUDE ({', '.join(sorted(found[1].split(', ')))})", text)


def _defaults(con: Connection) -> str:
    """To be asked where the arguments are known to be ours: what has others could run."""
    return _digest([(name, *_signatures(con, name)) for name in names()["macros"]])


def _digest(rows: object) -> str:
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:32]


def drop_ours(con: Connection) -> None:
    """Drop the views and macros that have names of ours."""
    with aside(con):
        for (drop,) in _rows(con, "ours"):
            execute_all(con, drop, {})


def _signatures(con: Connection, macro: str) -> list[str]:
    try:
        con.execute(statement("strangers", "asked_wrong").format(macro=macro))
    except duckdb.Error as error:
        return str(error).partition(CANDIDATES)[2].split("\n\nLINE")[0].strip().splitlines()
    raise AssertionError(macro)


def _rows(con: Connection, name: str) -> list[tuple[Any, ...]]:
    sql = statement("strangers", name)
    known = {key: value for key, value in names().items() if f"${key}" in sql}
    return con.execute(sql, known or None).fetchall()


def _ask(con: Connection, name: str) -> list[str]:
    return [row[0] for row in _rows(con, name)]


def _has_triggers() -> bool:
    return not duckdb.__version__.startswith("1.")


def _changed(place: Place, found: list[str]) -> WarehouseVersionError:
    more = f" and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
    return WarehouseVersionError(
        f"{place} was changed by something else than kerneldb: {'; '.join(found[:NAMED])}{more}. "
        "Answers could be wrong; read the traces anew, or take that out of the file"
    )


def look_at_lake(con: Connection) -> str:
    """All that the catalog of a lake defines, in a line."""
    with aside(con):
        return f"lake-{_digest(con.execute(statement('lake', 'defined')).fetchall())}"


def not_genuine(lake: Place) -> WarehouseVersionError:
    """The error of a lake whose views and macros are not those of this version, which it says they are."""
    return WarehouseVersionError(
        f"{lake}: views or macros were changed by something else than kerneldb, so answers could be wrong; if the lake "
        f"is yours, make them anew once nobody writes to it: {kerneldb('db', 'migrate', database=lake)}"
    )


def look(path: Path) -> str:
    """The file and its write-ahead log as they are now, in a line. Nobody can set the time of a change of an inode."""
    resolved = path.resolve()
    words = [hashlib.sha256(os.fsencode(resolved)).hexdigest()[:16]]
    for file in (resolved, resolved.with_name(f"{resolved.name}.wal")):
        with contextlib.suppress(OSError):
            found = file.stat()
            words.append(f"{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}")
    return " ".join(words)


def content(path: Path) -> str | None:
    """What a small file holds, in a line: a copy of one that was checked is as that one is."""
    with contextlib.suppress(OSError):
        if path.is_file() and path.stat().st_size <= SMALL and not path.with_name(f"{path.name}.wal").exists():
            return f"holds-{hashlib.sha256(path.read_bytes()).hexdigest()}"
    return None


def is_known(seen: str | None) -> bool:
    """Whether a file that looks so, or holds this, was checked, or written by kerneldb since."""
    return seen in _remembered()


def remember(*seen: str | None) -> None:
    """Files that look so, or hold this, are as they should be. Without a cache folder they are checked next time."""
    new = {one.partition(" ")[0]: one for one in seen if one is not None}
    known = [one for one in _remembered() if one.partition(" ")[0] not in new]
    with contextlib.suppress(OSError, RuntimeError):
        place = _place()
        number, name = tempfile.mkstemp(dir=place.parent)
        with os.fdopen(number, "w", encoding="ascii") as file:
            file.write("".join(f"{one}\n" for one in [*known, *new.values()][-KEPT:]))
        Path(name).replace(place)


def _remembered() -> list[str]:
    with contextlib.suppress(OSError, RuntimeError, UnicodeDecodeError):
        return _place().read_text(encoding="ascii").splitlines()
    return []


def _place() -> Path:
    return platformdirs.user_cache_path("kerneldb", ensure_exists=True) / "known-databases"
