"""The small tables of a part: texts, processes, threads, agents, tracks, kernel symbols."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any, Final

import polars as pl

from kerneldb.ingest.amd.agents import Agent, agent_of, numbered
from kerneldb.ingest.amd.resources import is_halved
from kerneldb.ingest.rocpd.layout import PLACE, Part

SYMBOLS: Final[dict[str, type[pl.DataType]]] = {
    "id": pl.Int64,
    "code_object_id": pl.Int64,
    "kernel_name": pl.String,
    "display_name": pl.String,
    "kernarg_segment_size": pl.Int64,
    "group_segment_size": pl.Int64,
    "private_segment_size": pl.Int64,
    "sgpr_count": pl.Int64,
    "arch_vgpr_count": pl.Int64,
    "accum_vgpr_count": pl.Int64,
}
CATEGORY: Final = r"^([A-Z_]+|[a-z][a-z_]*)$"
"""Domains are written in capitals by rocprofv3 and in small letters by rocprof-sys."""
CLONE: Final = r"( \[clone \.kd\]| \(\.kd\)|\.kd)$"


@dataclasses.dataclass(frozen=True)
class Dimensions:
    """Lookups of one part. `label` names its process where several parts have the same process id."""

    part: Part
    label: str | None = None

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
        return self.part.rows("rocpd_info_node", ("id", "hostname", "release"))

    @functools.cached_property
    def processes(self) -> list[dict[str, Any]]:
        """Processes with what the tool was told."""
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
            own = {key: value for key, value in row.items() if key not in ("id", "extdata") and value is not None}
            found[int(row["id"])] = agent_of({**parsed(row["extdata"]), "agent_type": row["type"], **own})
        return dict(zip(found, numbered(found.values()), strict=True))

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
