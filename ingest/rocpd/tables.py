"""Where things are in a rocpd database: tables by PRAGMA, whatever the schema version says.

Every table carries the GUID of its process as a suffix (`rocpd_string_0000…`), with or without separators (rocprof-sys
takes an MD5 sum); `rocpd_metadata` repeats it. A merged file has one set per process, and views over all without it.
An `id` is the primary key of its table, so joins inside one set need no GUID. Columns: schema 3.0 has places (nid, pid,
tid, agent, queue, stream) in every table, the draft of 4.1 in `rocpd_track`.
Source: rocprofiler-sdk, source/share/rocprofiler-sdk-rocpd/*.sql.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest.amd.agents import Agent, agent_of, moved, numbered
from kerneldb.ingest.amd.launches import is_halved
from kerneldb.ingest.sqlite import Database, gathered, quoted

if TYPE_CHECKING:
    from kerneldb.ingest.sqlite import Schema

SUFFIXED: Final = re.compile(r"(rocpd_[a-z_]*?[a-z])(_?[0-9a-f]{8}(?:_?[0-9a-f]{4}){3}_?[0-9a-f]{12})", re.IGNORECASE)
SHORTEST: Final = 8
"""Characters of a suffix that metadata may state; less could end the name of any table."""
PLACE: Final = ("nid", "pid", "tid", "agent_id", "queue_id", "stream_id")
PLACED: Final = dict.fromkeys(("track_id", *PLACE), pl.Int64)
SYMBOLS: Final = {
    **dict.fromkeys(("id", "code_object_id"), pl.Int64),
    **dict.fromkeys(("kernel_name", "display_name"), pl.String),
    **dict.fromkeys(("kernarg_segment_size", "group_segment_size", "private_segment_size"), pl.Int64),
    **dict.fromkeys(("sgpr_count", "arch_vgpr_count", "accum_vgpr_count"), pl.Int64),
}
CATEGORY: Final = r"^([A-Z_]+|[a-z][a-z_]*)$"
"""Domains are written in capitals by rocprofv3 and in small letters by rocprof-sys."""
CLONE: Final = r"( \[clone \.kd\]| \(\.kd\)|\.kd)$"


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
        return self.database.count(self.tables[base]) if self.has(base) else 0

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
        conditions = [*([f"({where})"] if where else []), *(["K._rowid_ BETWEEN ? AND ?"] if spans else [])]
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
    tables, stated = database.tables(), _stated_suffixes(database)
    by_suffix: dict[str, dict[str, str]] = defaultdict(dict)
    for name in tables:
        base, suffix = _split(name, stated)
        if base.startswith("rocpd_"):
            by_suffix[suffix][base] = name
    if len(by_suffix) > 1:
        views = database.views()
        bare = {base: name for base, name in by_suffix.pop("", {}).items() if name not in views}
        if bare:
            by_suffix[""] = bare
    _refuse_mixed(database, by_suffix.get("", {}))
    return [
        Part(database, suffix, found, {base: frozenset(tables[name]) for base, name in found.items()})
        for suffix, found in by_suffix.items()
    ]


def _refuse_mixed(database: Database, bare: Mapping[str, str]) -> None:
    """Raise UnreadableTraceError where tables without a suffix hold the rows of several processes.

    An `id` is unique only among the rows of one GUID: joins would give a launch the kernels of all processes.
    """
    for name in bare.values():
        if "guid" in database.tables()[name]:
            sql = " ".join(("SELECT count(*) FROM (SELECT DISTINCT guid FROM", quoted(name), "LIMIT 2)"))
            if database.rows(sql)[0][0] > 1:
                message = (
                    f"{database.path}: the table {name} holds several processes (GUIDs), whose ids are not unique. "
                    "Ingest the files of the processes, or merge them with `rocpd merge`."
                )
                raise UnreadableTraceError(message)


def _stated_suffixes(database: Database) -> list[str]:
    """Suffixes as the tables of metadata say them, the longest first: GUIDs of unknown form too."""
    found: set[str] = set()
    for name, columns in database.tables().items():
        if name.startswith("rocpd_metadata") and {"tag", "value"} <= set(columns):
            sql = " ".join(("SELECT value FROM", quoted(name), "WHERE tag = 'uuid'"))
            found.update(str(value) for (value,) in database.rows(sql) if len(str(value)) >= SHORTEST)
    return sorted(found, key=len, reverse=True)


def _split(name: str, stated: Sequence[str]) -> tuple[str, str]:
    """A table's name without its suffix, and the suffix."""
    for suffix in stated:
        if name.lower().endswith(suffix.lower()):
            return name[: -len(suffix)].rstrip("_"), suffix
    found = SUFFIXED.fullmatch(name)
    return (found.group(1), found.group(2)) if found else (name, "")


@dataclasses.dataclass(frozen=True)
class Dimensions:
    """Lookups of one part.

    `label` names its process where several parts have the same process id; `first` is the number of its GPU 0.
    """

    part: Part
    label: str | None = None
    first: int = 0

    @functools.cached_property
    def metadata(self) -> dict[str, str]:
        """Tag → value."""
        return {str(row["tag"]): str(row["value"]) for row in self.part.rows("rocpd_metadata", ("tag", "value"))}

    @functools.cached_property
    def strings(self) -> pl.DataFrame:
        """id, string."""
        return self.part.frame("rocpd_string", {"id": pl.Int64, "string": pl.String})

    @functools.cached_property
    def categories(self) -> dict[int, str]:
        """Category id → name: texts, or in schema 4 a table of their own."""
        if self.part.has("rocpd_info_category"):
            return {row["id"]: row["name"] for row in self.part.rows("rocpd_info_category", ("id", "name"))}
        return dict(self.strings.filter(pl.col("string").str.contains(CATEGORY)).iter_rows())

    @functools.cached_property
    def nodes(self) -> list[dict[str, Any]]:
        """Machines: id, hostname."""
        return self.part.rows("rocpd_info_node", ("id", "hostname", "machine_id", "release"))

    @functools.cached_property
    def processes(self) -> list[dict[str, Any]]:
        """Processes, and the settings of the tool."""
        columns = ("id", "pid", "nid", "init", "fini", "start", "end", "command", "environment", "extdata")
        return self.part.rows("rocpd_info_process", columns)

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """The settings of the tool, as it recorded them; empty where it did not."""
        found: dict[str, Any] = {}
        for process in self.processes:
            found.update(parsed(process["extdata"]))
        return found

    @functools.cached_property
    def agents(self) -> dict[int, Agent]:
        """Agent id → agent; columns of the table win over the JSON beside them."""
        columns = ("id", "type", "absolute_index", "logical_index", "type_index", "name", "product_name", "extdata")
        found = {}
        for row in self.part.rows("rocpd_info_agent", columns):
            if not isinstance(row["id"], int):
                continue
            own = {key: value for key, value in row.items() if key not in ("id", "extdata") and value is not None}
            found[row["id"]] = agent_of({**parsed(row["extdata"]), "agent_type": row["type"], **own})
        return moved(dict(zip(found, numbered(found.values()), strict=True)), self.first)

    @property
    def machine(self) -> str | None:
        """The machine that it ran on, where the file says it."""
        return next((str(node["machine_id"]) for node in self.nodes if node["machine_id"]), None)

    @functools.cached_property
    def symbols(self) -> pl.DataFrame:
        """Columns of SYMBOLS with `id` as kernel_id, and `name`: as displayed, else the symbol without its ending."""
        frame = self.part.frame("rocpd_info_kernel_symbol", SYMBOLS)
        shown = pl.when(pl.col("display_name") != "").then("display_name")
        return frame.with_columns(name=pl.coalesce(shown, pl.col("kernel_name").str.replace(CLONE, "")))

    @functools.cached_property
    def halved(self) -> bool:
        """Whether register counts suffer from the gfx950 fault of the profiler."""
        highest = self.symbols["accum_vgpr_count"].max() if self.symbols.height else None
        count = highest if isinstance(highest, int) else None
        return any(is_halved(agent.arch, count) for agent in self.agents.values() if agent.is_gpu)

    @property
    def process_label(self) -> str | None:
        """How rows name the only process of the part."""
        if self.label is not None:
            return self.label
        return str(self.processes[0]["pid"]) if len(self.processes) == 1 else None

    @functools.cached_property
    def _tracks(self) -> pl.DataFrame:
        wanted = {"id": pl.Int64, **dict.fromkeys(PLACE, pl.Int64)}
        return self.part.frame("rocpd_track", wanted).rename({"id": "track_id"})

    @functools.cached_property
    def _process_names(self) -> pl.DataFrame:
        rows = [(row["id"], self.label or str(row["pid"])) for row in self.processes]
        return pl.DataFrame(rows, schema={"pid": pl.Int64, "process": pl.String}, orient="row")

    @functools.cached_property
    def _thread_names(self) -> pl.DataFrame:
        frame = self.part.frame("rocpd_info_thread", {"id": pl.Int64, "tid": pl.Int64})
        return frame.select(tid="id", thread=pl.col("tid").cast(pl.String))

    def placed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add process, thread, agent_id, queue_id and stream_id, from the row or from its track."""
        if frame["track_id"].null_count() < frame.height and not self._tracks.is_empty():
            frame = frame.join(self._tracks, on="track_id", how="left", maintain_order="left", suffix="_track")
            both = [name for name in PLACE if f"{name}_track" in frame.columns]
            frame = frame.with_columns([pl.coalesce(name, f"{name}_track").alias(name) for name in both])
        frame = frame.join(self._process_names, on="pid", how="left", maintain_order="left")
        frame = frame.join(self._thread_names, on="tid", how="left", maintain_order="left")
        return frame.with_columns(
            process=pl.coalesce("process", pl.col("pid").cast(pl.String)),
            known_thread=pl.col("thread").is_not_null(),
            thread=pl.coalesce("thread", pl.col("tid").cast(pl.String)),
        )

    def device_of(self, agent_ids: pl.Series) -> pl.Series:
        """Device numbers of agents; NULL for CPUs and for agents that the file does not describe."""
        table = {key: agent.device for key, agent in self.agents.items() if agent.is_gpu}
        return agent_ids.replace_strict(table, default=None, return_dtype=pl.Int32)

    def text_of(self, ids: pl.Series) -> pl.Series:
        """Texts of `rocpd_string` by id."""
        asked = pl.DataFrame({"id": ids.cast(pl.Int64)})
        return asked.join(self.strings, on="id", how="left", maintain_order="left")["string"]


def parsed(text: object) -> dict[str, Any]:
    """An object from JSON text; empty for anything else."""
    try:
        value = json.loads(text) if isinstance(text, str | bytes) else None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
