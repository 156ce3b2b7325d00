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
from kerneldb.warehouse.statements import execute_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.warehouse.place import Place

    Connection = duckdb.DuckDBPyConnection

EXCLUDED: Final = re.compile(r"EXCLUDE \(([^()]*)\)")
CANDIDATES: Final = "Candidate macros:"
KEPT: Final = 256
"""So many files are remembered, the latest."""
NAMED: Final = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Ours:
    """What kerneldb makes in a database: digests of views and macros, and table, name and type of each column."""

    statements: str
    defaults: str
    columns: tuple[tuple[str, str, str], ...]


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


def require_usable(con: Connection, place: Place) -> None:
    """Raise WarehouseVersionError where the file holds what would change the meaning of statements of kerneldb."""
    with aside(con):
        found = [f"the macro {name} stands for a function of DuckDB" for name in _ask(con, "shadows")]
        if not found:
            found = _ask(con, "misfits") + (_ask(con, "triggers") if _has_triggers() else [])
    if found:
        raise _changed(place, found)


def require_columns(con: Connection, place: Place, ours: Ours) -> None:
    """Raise WarehouseVersionError unless the tables have the columns that kerneldb makes."""
    with aside(con):
        differing = set(_rows(con, "columns")).symmetric_difference(ours.columns)
    if differing:
        raise _changed(place, [f"the column {table}.{name} {kind}" for table, name, kind in sorted(differing)])


def is_genuine(con: Connection, ours: Ours, *, of_lake: bool = False) -> bool:
    """Whether views and macros are those that kerneldb makes: their statements, arguments, and defaults of these."""
    with aside(con):
        return _statements(con, "macros_of_lake" if of_lake else "macros") == ours.statements and (
            _defaults(con) == ours.defaults
        )


def read(con: Connection) -> Ours:
    """What a database that kerneldb just made defines."""
    with aside(con):
        return Ours(_statements(con, "macros"), _defaults(con), tuple(_rows(con, "columns")))


def _statements(con: Connection, macros: str) -> str:
    return _digest([tuple(map(_ordered, row)) for name in ("views", macros) for row in _rows(con, name)])


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
        f"is yours, make them anew once nobody writes to it: kerneldb --db '{lake}' db migrate"
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


def is_known(seen: str) -> bool:
    """Whether a file that looks so was checked, or written by kerneldb since."""
    return seen in _remembered()


def remember(seen: str) -> None:
    """A file that looks so is as it should be. Without a cache folder it is checked again next time."""
    which = seen.partition(" ")[0]
    known = [one for one in _remembered() if one.partition(" ")[0] != which]
    with contextlib.suppress(OSError, RuntimeError):
        place = _place()
        number, name = tempfile.mkstemp(dir=place.parent)
        with os.fdopen(number, "w", encoding="ascii") as file:
            file.write("".join(f"{one}\n" for one in [*known, seen][-KEPT:]))
        Path(name).replace(place)


def _remembered() -> list[str]:
    with contextlib.suppress(OSError, RuntimeError, UnicodeDecodeError):
        return _place().read_text(encoding="ascii").splitlines()
    return []


def _place() -> Path:
    return platformdirs.user_cache_path("kerneldb", ensure_exists=True) / "known-databases"
