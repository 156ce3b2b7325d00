"""What can stand at the cursor in SQL: tables behind FROM, columns of what is read, values of the column before them.

`Words` has all that a database offers, the likeliest first; `Words.at` picks by the text around the cursor, for the
editor, the WHERE bar and shells alike. It looks at words alone: a text that is being written mostly does not parse.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kerneldb.api.queries import Connection

Kind = Literal["column", "value", "table", "view", "macro", "keyword", "function"]

MOST: Final = 200
HELD: Final = 3
"""So many characters are also looked for inside of words."""
LAUNCHES: Final = "kernels"
"""What a condition is over, and what `selection` has the columns of."""

TOKEN: Final = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|(?P<text>'(?:[^']|'')*(?:'|(?P<open>\Z)))|(?P<word>\w+)|[^\s\w]""", re.DOTALL
)
COMPARED: Final = re.compile(
    r"(?<!\w)(\w+)\s*(?:=|<>|!=|\b(?:NOT\s+)?I?LIKE|\b(?:NOT\s+)?IN\s*\((?:\s*'(?:[^']|'')*'\s*,)*)\s*$", re.IGNORECASE
)
AT_CURSOR: Final = re.compile(r"(?:(\w+)\.)?(\w*)\Z")
SUBQUERY: Final = re.compile(r"(?:\bWITH\s|,)\s*(\w+)\s+AS\s*\(", re.IGNORECASE)

READERS: Final = frozenset(("from", "join", "describe", "summarize"))
CLAUSES: Final = "where group order having limit qualify select union on using window offset set"
BETWEEN_TABLES: Final = "as left right inner full cross semi anti natural outer lateral asof"


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """A word with its kind; `part_of` is the table of a column and the column of a value, `meaning` is for people."""

    word: str
    kind: Kind
    part_of: str | None = None
    meaning: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Offers:
    """What can stand in place of `begun`, which ends at the cursor: first itself, then words that begin like it."""

    begun: str
    found: Sequence[Offer] = ()

    @property
    def rest(self) -> str:
        """What the first one has behind `begun`; empty where it does not begin like it."""
        first = self.found[0].word if self.found else ""
        return first[len(self.begun) :] if self.begun and _begins(first, self.begun) else ""


class Words:
    """All that a database offers, the likeliest first."""

    def __init__(self, offers: Sequence[Offer] = ()) -> None:
        self.all = offers

    @functools.cached_property
    def columns(self) -> dict[str, list[Offer]]:
        """The columns by table; the selected launches have those of all."""
        found: dict[str, list[Offer]] = {}
        for one in self.all:
            if one.kind == "column":
                found.setdefault(one.part_of or "", []).append(one)
        return {"selection": found.get(LAUNCHES, []), **found}

    @functools.cached_property
    def values(self) -> dict[str, list[Offer]]:
        """The values by column."""
        found: dict[str, list[Offer]] = {}
        for one in self.all:
            if one.kind == "value":
                found.setdefault(one.part_of or "", []).append(one)
        return found

    @functools.cached_property
    def _of_conditions(self) -> Words:
        return Words([one for one in self.all if one.part_of == LAUNCHES or one.kind in {"value", "keyword"}])

    def in_condition(self, before: str) -> Offers:
        """What can stand behind `before`, the begin of a condition over the launches."""
        return self._of_conditions.at(f"WHERE {before}")

    def at(self, before: str, after: str = "") -> Offers:
        """What can stand between `before` and `after`, the parts of a statement."""
        for token in TOKEN.finditer(before):
            if token["open"] is not None:
                return _offers(before[token.start() :], self._values(before[: token.start()]))
        ((table, begun),) = AT_CURSOR.findall(before)[:1]
        names, here = Reading(before + after).tables, Reading(before[: len(before) - len(begun)])
        if table:
            return _offers(begun, self.columns.get(names.get(table.lower(), table.lower()), ()))
        if here.expects_table:
            subqueries = (Offer(name, "table", None, "of this statement") for name in SUBQUERY.findall(before + after))
            tables = (one for one in self.all if one.kind in {"table", "view", "macro"})
            return _offers(begun, [*subqueries, *tables])
        return _offers(begun, self._anything(before[: len(before) - len(begun)], names))

    def _values(self, before: str, *, known: bool = False) -> Iterable[Offer]:
        """Values of the column that `before` ends with a comparison of; without one (unless `known`) all of them."""
        if (compared := COMPARED.search(before)) is not None:
            return self.values.get(compared[1].lower(), ())
        return () if known else itertools.chain(*self.values.values())

    def _anything(self, before: str, names: dict[str, str]) -> Iterator[Offer]:
        if Reading(before).is_blank:
            yield from (one for one in self.all if one.kind == "keyword")
        yield from self._values(before, known=True)
        for table in dict.fromkeys(names.values()) or [LAUNCHES]:
            yield from self.columns.get(table, ())
        yield from (Offer(name, "table", None, table) for name, table in names.items() if name != table)
        yield from (one for one in self.all if one.kind != "value")


class Reading:
    """What a text reads: `tables` has the names of tables and their aliases, each with its table.

    `expects_table` is whether a table comes behind the text, `is_blank` whether it has comments at most.
    """

    def __init__(self, text: str) -> None:
        self.tables: dict[str, str] = {}
        self.expects_table, self.is_blank = False, True
        self._among_tables = False
        self._table: str | None = None
        outer: list[tuple[bool, str | None]] = []
        for token in TOKEN.finditer(text):
            if token[0] == "(":
                outer.append((self._among_tables, self._table))
                self._behind(among_tables=False)
            elif token[0] == ")" and outer:
                self._among_tables, self._table = outer.pop()
                self.expects_table = False
            elif token[0] == ",":
                self._behind(among_tables=self._among_tables)
            elif token["word"]:
                self._take(token["word"].lower())

    def _behind(self, *, among_tables: bool) -> None:
        self._among_tables = self.expects_table = among_tables
        self._table = None

    def _take(self, word: str) -> None:
        self.is_blank = False
        if word in READERS or word in CLAUSES.split():
            self._behind(among_tables=word in READERS)
        elif self.expects_table and word not in BETWEEN_TABLES.split():
            self.tables[word] = self._table = word
            self.expects_table = False
        elif self._table is not None and word not in BETWEEN_TABLES.split():
            self.tables[word], self._table = self._table, None


def words(con: Connection) -> Words:
    """What the database of a connection offers."""
    from kerneldb.api import queries

    return Words([Offer(**row) for row in queries.rows(con, "completion")])


def _offers(begun: str, offers: Iterable[Offer]) -> Offers:
    """Those of `offers` that `begun` is, then those that go on where it ends, then those that hold it; a word once."""
    lower, ranked = begun.lower(), (dict[str, Offer](), dict[str, Offer](), dict[str, Offer]())
    for one in offers:
        word = one.word.lower()
        if word.startswith(lower):
            ranked[word != lower].setdefault(word, _spelled(one, begun))
        elif len(begun) >= HELD and lower in word:
            ranked[2].setdefault(word, one)
    return Offers(begun, [one for rank in ranked for one in rank.values()][:MOST])


def _spelled(offer: Offer, begun: str) -> Offer:
    """Keywords go on in the case of letters in which they were begun."""
    return dataclasses.replace(offer, word=offer.word.lower()) if offer.kind == "keyword" and begun.islower() else offer


def _begins(word: str, begun: str) -> bool:
    return word.lower().startswith(begun.lower())
