"""GPU activities of an export as rows of `launches`: kernels, copies, fills, and graphs that hide their kernels."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.distinct import coded_rows, once_each
from kerneldb.ingest.launches import Signer, name_id, with_occupancy
from kerneldb.ingest.nsys import reports
from kerneldb.ingest.nsys.host import Calls
from kerneldb.ingest.nsys.marks import THREAD
from kerneldb.ingest.nsys.operators import Operators
from kerneldb.ingest.nsys.ranges import Ranges
from kerneldb.ingest.nsys.store import Numbering, Schema, Store, frame
from kerneldb.ingest.output import Report

COMMON: Final[Schema] = dict.fromkeys(
    (
        *("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"),
        *("graphNodeId", "graphId"),
    ),
    pl.Int64,
) | {"deviceId": pl.Int32}
AXES: Final = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
NAMES: Final = ("demangledName", "shortName", "mangledName")
MEMORY: Final = ("staticSharedMemory", "dynamicSharedMemory", "sharedMemoryExecuted", "localMemoryPerThread")
KERNEL: Final[Schema] = {
    **COMMON,
    **dict.fromkeys((*NAMES, *MEMORY), pl.Int64),
    **dict.fromkeys((*AXES, "registersPerThread"), pl.Int32),
}
TABLES: Final[Mapping[str, tuple[str, Schema]]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("kernel", KERNEL),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("memcpy", {**COMMON, "bytes": pl.Int64, "copyKind": pl.Int64}),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("memset", {**COMMON, "bytes": pl.Int64}),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ("graph", COMMON),
}
STATUS: Final = pl.Enum(["graph", "linked", "no_op", "no_launch"])
KIND: Final = pl.Enum(["kernel", "memcpy", "memset", "graph"])
TIMING: Final = pl.Enum(["timeline"])
CONTAINMENT: Final = pl.Enum(["containment"])
COPY_LABELS: Final = (
    *("Unknown", "Host-to-Device", "Device-to-Host", "Host-to-Array", "Array-to-Host", "Array-to-Array"),
    *("Array-to-Device", "Device-to-Array", "Device-to-Device", "Host-to-Host", "Peer-to-Peer"),
    *("Unified Host-to-Device", "Unified Device-to-Host", "Unified Device-to-Device"),
)
"""ENUM_CUDA_MEMCPY_OPER.label by id, for exports of 2021 and before, which lack the table."""
SIGNED: Final = (
    *("kind", "name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("bytes", "copy_kind", "call_id"),
)


@dataclasses.dataclass(slots=True)
class Seen:
    """What went through: rows per kind, kernels whose name is not in the export, and the time they span."""

    kinds: Counter[str] = dataclasses.field(default_factory=Counter)
    unnamed: int = 0
    window: times.Window = (None, None)


class Activities:
    """Iterate `slices()` to its end; `seen`, `signer` and `symbols` are complete afterwards."""

    def __init__(
        self,
        store: Store,
        strings: pl.DataFrame,
        calls: Calls,
        ranges: Ranges,
        operators: Operators,
        arch_of_device: Mapping[int, str | None],
    ) -> None:
        self._store = store
        self._numbering = Numbering(store)
        self._arch_of_device = arch_of_device
        self._calls = calls
        self._strings = strings
        self._ranges = ranges
        self._operators = operators
        self._until = ranges.until
        self._copies = _copy_names(store)
        self._symbols: list[pl.DataFrame] = []
        self.signer = Signer(operators.calls if operators.count else None)
        self.seen = Seen()

    def slices(self) -> Iterator[pl.DataFrame]:
        """Rows of `launches` without trace_id. The index is the place in order of time, whatever the export's order."""
        done, placed = 0, self._placed()
        for table, (kind, schema) in TABLES.items():
            for part in self._store.frames(table, schema):
                own = placed.slice(done, part.height)
                done += part.height
                yield self._rows(part.hstack(own), kind)

    def _placed(self) -> pl.DataFrame:
        """Of each activity, for the tables one after the other, its `launch_index` and `call_ordinal`.

        Where there are operators also `call`, the place of its call: to find it twice would take longer.
        """
        asked = ("globalPid", "correlationId", "start") if self._operators.count else ("start",)
        starts, calls = [pl.Series(dtype=pl.Int64)], [pl.Series(dtype=pl.UInt32)]
        for table in TABLES:
            for part in self._store.frames(table, dict.fromkeys(asked, pl.Int64)):
                starts.append(part["start"])
                if self._operators.count:
                    calls.append(self._calls.places(part["globalPid"] // THREAD, part["correlationId"], part["start"]))
        order = _order(pl.concat(starts))
        starts.clear()
        if not self._operators.count:
            return pl.DataFrame({"launch_index": order}).with_columns(call_ordinal=pl.lit(None, pl.Int32))
        found = pl.concat(calls)
        return pl.DataFrame({"launch_index": order, "call_ordinal": self._ordinals(order, found), "call": found})

    def _ordinals(self, order: pl.Series, calls: pl.Series) -> pl.Series:
        """Which of the activities of its operator each is, in order of time."""
        op = self._calls.operators_of(calls)
        known = pl.DataFrame({"op": op, "place": order}).with_row_index("row").drop_nulls().sort("op", "place")
        number = pl.int_range(pl.len(), dtype=pl.Int32)
        first = pl.when(pl.col("op").ne_missing(pl.col("op").shift())).then(number).forward_fill()
        within = known.select("row", n=number - first)
        return pl.repeat(None, op.len(), dtype=pl.Int32, eager=True).scatter(within["row"], within["n"])

    def account(self, report: Report) -> None:
        """Count what is not known of the activities."""
        report.add("lost", "name of a kernel", self.seen.unnamed)
        self._numbering.account("lost", "a launch", report)

    def symbols(self) -> pl.DataFrame:
        """Rows of `kernel_symbols` without trace_id: the mangled name of each kernel, where it differs."""
        schema: Schema = {"demangledName": pl.Int64, "mangledName": pl.Int64, "launches": pl.Int64}
        pairs = pl.concat([pl.DataFrame(schema=schema), *self._symbols])
        counted = pairs.group_by("demangledName", "mangledName", maintain_order=True).agg(pl.col("launches").sum())
        texts = self._strings.select("id", "value")
        named = counted.join(texts.rename({"id": "demangledName", "value": "name"}), on="demangledName")
        named = named.join(texts.rename({"id": "mangledName", "value": "symbol"}), on="mangledName")
        differing = named.filter(pl.col("symbol") != pl.col("name"))
        ids = pl.Series("name_id", [name_id(name) for name in differing["name"]], dtype=pl.String)
        return differing.select(ids, "symbol", "launches")

    def _rows(self, part: pl.DataFrame, kind: str) -> pl.DataFrame:
        part = self._numbering.numbered(part.with_columns(pid=pl.col("globalPid") // THREAD), pl.col("pid") % THREAD)
        known = part["call"] if self._operators.count else None
        behind = self._calls.behind(part["pid"], part["correlationId"], part["start"], known)
        framed = behind.hstack(self._ranges.named(behind))
        rows = self._signed(_linked(part.hstack(framed), kind, self._operators), kind)
        if kind == "kernel":
            pairs = part.group_by("demangledName", "mangledName").len("launches")
            self._symbols.append(pairs.cast({"launches": pl.Int64}).drop_nulls())
        made = _columns(rows, kind)
        seen = self.seen
        seen.kinds[kind] += made.height
        lasted = times.span(made, "start_ns", pl.col("duration_ns"), self._until)
        seen.window = times.widened(seen.window, lasted)
        if kind != "kernel":
            return with_occupancy(made, {})
        blocks = {f"block_{axis.lower()}": rows[f"block{axis}"] for axis in "XYZ"}
        return with_occupancy(made.with_columns(**blocks), self._arch_of_device).drop(*blocks)

    def _signed(self, part: pl.DataFrame, kind: str) -> pl.DataFrame:
        """Add `signature_id`, from the distinct facts as they are stored, so that long names are read once each."""
        facts = {"kernel": (*NAMES[:2], *AXES), "memcpy": ("bytes", "copyKind"), "memset": ("bytes",)}.get(kind, ())
        if facts and self._operators.count:
            facts = (*facts, "call_id")
        if not facts:
            (signature,) = self.signer.sign(pl.DataFrame({"kind": [kind], "name": ["[CUDA graph]"]}))["signature_id"]
            return part.with_columns(signature_id=pl.lit(signature))
        coded, distinct = coded_rows(part.select(facts))
        described = self._described(distinct, kind).with_columns(kind=pl.lit(kind))
        signed = self.signer.sign(described.select(name for name in SIGNED if name in described.columns))
        self.seen.unnamed += int((described["name"] == "").gather(coded).sum())
        return part.with_columns(signed["signature_id"].gather(coded))

    def _described(self, distinct: pl.DataFrame, kind: str) -> pl.DataFrame:
        if kind == "memset":
            return distinct.with_columns(name=pl.lit("[CUDA memset]"))
        if kind == "memcpy":
            named = distinct.join(self._copies, on="copyKind", how="left", maintain_order="left")
            return named.with_columns(pl.col("name").fill_null("[CUDA memcpy Unknown]")).with_columns(
                copy_kind=reports.copy_kind(pl.col("name"))
            )
        texts = self._strings.rename({"id": "demangledName", "value": "full"})
        shorts = self._strings.rename({"id": "shortName", "value": "short"})
        named = distinct.join(texts, on="demangledName", how="left", maintain_order="left")
        named = named.join(shorts, on="shortName", how="left", maintain_order="left")
        shape = {f"{axis[:-1]}_{axis[-1].lower()}": pl.col(axis) for axis in AXES}
        call = ("call_id",) if "call_id" in named.columns else ()
        return named.select(*call, name=pl.coalesce("full", "short", pl.lit("")), **shape)


def _linked(rows: pl.DataFrame, kind: str, operators: Operators) -> pl.DataFrame:
    """`rows` with `launch_status`, and with the call of the operator, which kernels of a graph do not have."""
    in_graph = pl.col("graphNodeId").is_not_null() | pl.lit(kind == "graph")
    status = (
        pl.when(in_graph)
        .then(pl.lit("graph", STATUS))
        .when(pl.col("op_id").is_not_null())
        .then(pl.lit("linked", STATUS))
        .when(pl.col("api_index").is_not_null())
        .then(pl.lit("no_op", STATUS))
        .otherwise(pl.lit("no_launch", STATUS))
    )
    linked = rows.with_columns(launch_status=status)
    if not operators.count:
        return linked
    return linked.with_columns(
        pl.when(pl.col("launch_status") == "linked").then(operators.call_of(rows["op_id"])).alias("call_id")
    )


def _order(starts: pl.Series) -> pl.Series:
    """Place of each activity in order of start."""
    places = pl.int_range(starts.len(), dtype=pl.Int64, eager=True)
    if starts.is_sorted():
        return places
    return pl.repeat(0, starts.len(), dtype=pl.Int64, eager=True).scatter(starts.arg_sort(nulls_last=True), places)


def _copy_names(store: Store) -> pl.DataFrame:
    labels = frame(store, "ENUM_CUDA_MEMCPY_OPER", {"id": pl.Int64, "label": pl.String}).drop_nulls()
    if labels.is_empty():
        labels = pl.DataFrame({"id": range(len(COPY_LABELS)), "label": COPY_LABELS})
    name = pl.concat_str(pl.lit("[CUDA memcpy "), "label", pl.lit("]"))
    return labels.unique("id", maintain_order=True).select(copyKind=pl.col("id").cast(pl.Int64), name=name)


RESOURCES: Final[Mapping[str, tuple[str, type[pl.DataType]]]] = {
    "registers": ("registersPerThread", pl.Int32),
    "static_shared_bytes": ("staticSharedMemory", pl.Int64),
    "dynamic_shared_bytes": ("dynamicSharedMemory", pl.Int64),
    "shared_config_bytes": ("sharedMemoryExecuted", pl.Int64),
    "scratch_bytes": ("localMemoryPerThread", pl.Int64),
}


def _columns(rows: pl.DataFrame, kind: str) -> pl.DataFrame:
    """The same columns for every kind: parts of one table are read together."""
    resources = [
        (pl.col(stored) if stored in rows.columns else pl.lit(None)).cast(as_type).alias(name)
        for name, (stored, as_type) in RESOURCES.items()
    ]
    made = rows.select(
        pl.col("launch_index", "signature_id", "api_index", "api_call", "launch_start_ns", "launch_duration_ns"),
        pl.col("range_id", "phase", "range_path", "launch_status", "op_id", "call_ordinal"),
        *resources,
        kind=pl.lit(kind, KIND),
        timing=pl.lit("timeline", TIMING),
        process=once_each(rows["pid"], pl.col("pid") % THREAD),
        device="deviceId",
        context="contextId",
        stream="streamId",
        start_ns="start",
        end_ns="end",
        duration_ns=times.between("start", "end"),
        correlation_id="correlationId",
        link_method=pl.when(pl.col("op_id").is_not_null()).then(pl.lit("containment", CONTAINMENT)),
        graph_id="graphId",
        graph_node_id="graphNodeId",
    )
    return made.with_columns(shared_bytes=pl.col("static_shared_bytes") + pl.col("dynamic_shared_bytes"))
