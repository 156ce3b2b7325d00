"""Where things stand in a rocpd database: tables by PRAGMA, whatever the schema version says.

Every table carries the GUID of its process as a suffix (`rocpd_string_0000…`), with or without separators (rocprof-sys
takes an MD5 sum); `rocpd_metadata` repeats it. A merged file has one set per process, and views over all without it.
An `id` is the primary key of its table, so joins inside one set need no GUID. Columns: schema 3.0 has places (nid, pid,
tid, agent, queue, stream) in every table, the draft of 4.1 in `rocpd_track`.
Source: rocprofiler-sdk, source/share/rocprofiler-sdk-rocpd/*.sql.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from kerneldb.ingest.sqlite import Database, gathered, quoted

if TYPE_CHECKING:
    from kerneldb.ingest.sqlite import Schema

SUFFIXED: Final = re.compile(r"(rocpd_[a-z_]*?[a-z])(_?[0-9a-f]{8}(?:_?[0-9a-f]{4}){3}_?[0-9a-f]{12})", re.IGNORECASE)
METADATA: Final = "rocpd_metadata"
SHORTEST: Final = 8
"""Characters of a suffix that metadata may tell; less could end the name of any table."""
IN_SPAN: Final = "K._rowid_ BETWEEN ? AND ?"
PLACE: Final = ("nid", "pid", "tid", "agent_id", "queue_id", "stream_id")


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """The tables of one GUID: name without suffix → name in the file, and columns of each."""

    database: Database
    suffix: str
    tables: Mapping[str, str]
    columns: Mapping[str, frozenset[str]]

    def has(self, base: str) -> bool:
        """Whether the part has this table."""
        return base in self.tables

    def count(self, base: str) -> int:
        """Number of rows; zero where there is no such table."""
        if not self.has(base):
            return 0
        sql = " ".join(("SELECT count(*) FROM", quoted(self.tables[base])))
        return int(self.database.rows(sql)[0][0])

    def rows(self, base: str, wanted: Sequence[str]) -> list[dict[str, Any]]:
        """A small table whole, as dicts with exactly the wanted columns."""
        if not self.has(base):
            return []
        found = self.database.rows(self._select(base, wanted))
        return [dict(zip(wanted, row, strict=True)) for row in found]

    def frame(self, base: str, wanted: Schema) -> pl.DataFrame:
        """A table whole, with exactly the wanted columns."""
        frames = list(self.frames(base, wanted))
        return pl.concat(frames) if frames else pl.DataFrame(schema=dict(wanted))

    def frames(self, base: str, wanted: Schema, where: str = "", params: Sequence[Any] = ()) -> Iterator[pl.DataFrame]:
        """A table in batches. What it lacks is looked for in the row's event; `where` is about both: K and E.

        What neither has is not asked of SQLite: a NULL costs as much to fetch as a value.
        """
        if not self.has(base):
            return
        known = self.columns[base] | self._of_event(base) | {"event_extdata"}
        read = {name: kind for name, kind in wanted.items() if name in known} or dict(wanted)
        absent = [pl.lit(None, dtype=kind).alias(name) for name, kind in wanted.items() if name not in read]
        spans = self.database.spans(self.tables[base])
        conditions = [*([f"({where})"] if where else []), *([IN_SPAN] if spans else [])]
        sql = " ".join((self._select(base, list(read)), *(["WHERE"] if conditions else []), " AND ".join(conditions)))
        for frame in gathered(self.database.frames(sql, read, params, spans)):
            yield frame.with_columns(absent).select(*wanted) if absent else frame

    def has_category(self, base: str) -> bool:
        """Whether the event of each row, which says the domain of a call, can be found."""
        return "category_id" in self._of_event(base)

    def _of_event(self, base: str) -> frozenset[str]:
        reachable = base != "rocpd_event" and "event_id" in self.columns.get(base, frozenset())
        return self.columns.get("rocpd_event", frozenset()) if reachable else frozenset()

    def _select(self, base: str, wanted: Sequence[str]) -> str:
        own, of_event = self.columns[base], self._of_event(base)
        chosen = [_column(name, own, of_event) for name in wanted]
        join: tuple[str, ...] = ()
        if any(name in of_event and name not in own for name in wanted) or any(one.startswith("E.") for one in chosen):
            join = ("LEFT JOIN", quoted(self.tables["rocpd_event"]), "AS E ON E.id = K.event_id")
        return " ".join(("SELECT", ", ".join(chosen), "FROM", quoted(self.tables[base]), "AS K", *join))


def _column(name: str, own: frozenset[str], of_event: frozenset[str]) -> str:
    if name == "event_extdata":
        return "E.extdata AS event_extdata" if "extdata" in of_event else "NULL AS event_extdata"
    if name in own:
        return f"K.{quoted(name)}"
    return f"E.{quoted(name)}" if name in of_event else f"NULL AS {quoted(name)}"


def parts(database: Database) -> list[Part]:
    """One part per GUID in the order of the file; what carries none is a part of its own, unless it is a view."""
    tables, told = database.tables(), _told_suffixes(database)
    by_suffix: dict[str, dict[str, str]] = defaultdict(dict)
    for name in tables:
        base, suffix = _split(name, told)
        if base.startswith("rocpd_"):
            by_suffix[suffix][base] = name
    if len(by_suffix) > 1:
        views = database.views()
        bare = {base: name for base, name in by_suffix.pop("", {}).items() if name not in views}
        if bare:
            by_suffix[""] = bare
    return [
        Part(database, suffix, found, {base: frozenset(tables[name]) for base, name in found.items()})
        for suffix, found in by_suffix.items()
    ]


def _told_suffixes(database: Database) -> list[str]:
    """Suffixes as the tables of metadata say them, the longest first: GUIDs of a form that nobody foresaw."""
    found: set[str] = set()
    for name, columns in database.tables().items():
        if name.startswith(METADATA) and {"tag", "value"} <= set(columns):
            sql = " ".join(("SELECT value FROM", quoted(name), "WHERE tag = 'uuid'"))
            found.update(str(value) for (value,) in database.rows(sql) if len(str(value)) >= SHORTEST)
    return sorted(found, key=len, reverse=True)


def _split(name: str, told: Sequence[str]) -> tuple[str, str]:
    """A table's name without its suffix, and the suffix."""
    for suffix in told:
        if name.lower().endswith(suffix.lower()):
            return name[: -len(suffix)].rstrip("_"), suffix
    found = SUFFIXED.fullmatch(name)
    return (found.group(1), found.group(2)) if found else (name, "")
