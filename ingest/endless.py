"""Definitions in a stranger's SQLite database that would keep a reader busy without end, or fill its memory.

Profilers write tables, and views that no reader needs, but for those that show whole tables under another name. What
has its rows or values computed is refused where a reader asks it, by what its definition says: SQLite may need all
memory or time for a statement of a few words, even to prepare it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NoReturn

from kerneldb.errors import UnreadableTraceError

Master = tuple[str, str, int | None, str | None]
"""A row of the list of tables: type, name, first page, SQL."""
Column = tuple[str, str | None, int]
"""Name, default, and whether it is hidden: 2 where its values are computed (PRAGMA table_xinfo)."""

COMPUTED: Final = 2
LONGEST: Final = 200
"""Characters of a name or of a default: either may be a text that each row gives again."""
MOST_NAMED: Final = 50_000
ASKED: Final = re.compile(r'\b(?:FROM|JOIN)\s+(?:main\.)?("(?:[^"]|"")*"|\w+)', re.IGNORECASE)
ORDINARY: Final = re.compile(r"CREATE\s+TABLE\b", re.ASCII | re.IGNORECASE)
TOKEN: Final = re.compile(r'"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|\w+|\S', re.ASCII)
NAME: Final = re.compile(r'["`[]|\w', re.ASCII)
WORDS: Final = {"CREATE": "C", "VIEW": "V", "AS": "a", "SELECT": "S", "FROM": "F", "UNION": "U", "ALL": "A"}
ONE: Final = r"(?:n\.)?[n*](?:a?n)?"
SELECT: Final = rf"S{ONE}(?:,{ONE})*Fn(?:a?n)?"
PLAIN: Final = re.compile(rf"CVn(?:\(n(?:,n)*\))?a{SELECT}(?:UA{SELECT})*")
"""The kinds of the words of a view that shows columns of tables, one after the other."""


class Definitions:
    """The tables and views of the database at `path`, by the rows of its list and what `columns` says of a table."""

    def __init__(self, path: Path, masters: Iterable[Master], columns: Callable[[str], list[Column] | None]) -> None:
        self._path = path
        self._columns = columns
        shown = [one for one in masters if one[0] in {"table", "view"}]
        self._all = {_small(name): (kind, name, sql or "") for kind, name, _, sql in shown}
        self._good: set[str] = set()
        self._require_few()

    def require_stored(self, sql: str) -> None:
        """Raise UnreadableTraceError where `sql` asks a table or view that has its rows or values computed."""
        for asked in ASKED.findall(sql):
            name = _unquoted(asked)
            if name in self._good or name not in self._all:
                continue
            self._require(name)
            self._good.add(name)

    def _require(self, name: str) -> None:
        kind, shown, sql = self._all[name]
        if kind == "table":
            self._require_table(f"its table {shown}", shown, sql)
            return
        tables = shown_by(sql)
        if tables is None or len({*tables}) < len(tables):
            self._refuse(f"its view {shown}", "computes its rows, or pairs or repeats those of tables")
        for table in tables:
            if table in self._all:  # else SQLite says that it is not there
                kind, inner, of_table = self._all[table]
                if kind == "view":
                    self._refuse(f"its view {shown}", f"shows the view {inner}")
                self._require_table(f"the table {inner} of its view {shown}", inner, of_table)

    def _require_table(self, what: str, table: str, sql: str) -> None:
        if ORDINARY.match(sql) is None:
            self._refuse(what, "is a virtual one")
        for name, default, hidden in self._columns(table) or ():
            if hidden == COMPUTED:
                self._refuse(what, f"has the values of its column {name} computed")
            if default is not None and len(default) > LONGEST:
                self._refuse(what, f"has {len(default):,} characters as the default of its column {name}")

    def _require_few(self) -> None:
        """Refuse views that name each other again and again: SQLite follows each to know the columns."""
        views = {name: sql for name, (kind, _, sql) in self._all.items() if kind == "view"}
        named = {name: [one for one in _words(sql) if one in views and one != name] for name, sql in views.items()}
        weights: dict[str, int] = {}
        for _ in range(len(views)):
            before = dict(weights)
            weights = {name: 1 + sum(before.get(one, 0) for one in inner) for name, inner in named.items()}
            if sum(weights.values()) > MOST_NAMED:
                self._refuse("its views", "name each other again and again")
            if weights == before:
                return

    def _refuse(self, what: str, why: str) -> NoReturn:
        remedy = "Export it again with the profiler."
        raise UnreadableTraceError(f"{self._path}: {what} {why}, which no profiler writes. {remedy}")


def shown_by(sql: str) -> list[str] | None:
    """The tables of a view that shows columns of whole tables, in small letters; None for any other view."""
    words = TOKEN.findall(sql)
    kinds = "".join(map(_kind, words))
    if PLAIN.fullmatch(kinds) is None:
        return None
    return [_unquoted(words[at + 1]) for at, kind in enumerate(kinds) if kind == "F"]


def _words(sql: str) -> Iterable[str]:
    """The words of a definition, in small letters."""
    return map(_unquoted, TOKEN.findall(sql))


def _kind(word: str) -> str:
    if word.upper() in WORDS:
        return WORDS[word.upper()]
    if word in {"*", ",", ".", "(", ")"}:
        return word
    return "n" if len(word) <= LONGEST and NAME.match(word) else "x"


def _unquoted(word: str) -> str:
    """A name in small letters, of which SQLite has those of ASCII."""
    mark = word[0]
    inner = word[1:-1].replace(mark * 2, mark) if len(word) > 1 and mark in '"`[' else word
    return _small(inner)


def _small(name: str) -> str:
    return name.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
