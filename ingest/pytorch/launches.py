"""The GPU side of a trace: which call and operator launched each activity, in columns that stay narrow."""

from __future__ import annotations

import dataclasses
from typing import Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.pytorch import fields, link
from kerneldb.ingest.pytorch.collect import Collector
from kerneldb.ingest.pytorch.host import GPU, RANGE, Host, enclosing_of, end_of

STREAM_TID: Final = r"(\d+)\s*$"
INTEGERS: Final = (
    *("ts", "dur", "External id", "correlation", "device", "stream", "context", "queued", "bytes", "size"),
    *("registers per thread", "shared memory", "graph id", "graph node id", "toDevice", "inDevice"),
)
OPTIONAL: Final = {
    **dict.fromkeys(INTEGERS, pl.Int64),
    "est. achieved occupancy %": pl.Float64,
    "blocks per SM": pl.Float64,
    "collective": pl.UInt32,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Activities:
    """GPU activities in order of time, with the row positions of what launched them (NULL: unknown).

    `api` and `op` point into the frames of `Host`, `note` and `gpu_note` at the annotation around the call and the
    activity itself. `status` is the launch status, `ordinal` the position within the operator call.
    """

    frame: pl.DataFrame
    copied_external_ids: bool


def read_activities(collected: Collector, host: Host) -> Activities | None:
    """Link the GPU side to the host side; None where the trace has no GPU activity."""
    gpu = collected.frame("gpu")
    if gpu is None:
        return None
    gpu = _placed(_complete(gpu), collected)
    launching = _launching(host, collected)
    gpu = gpu.hstack([_calls(gpu, launching)])
    trusted = _trusts_external_id(gpu)
    gpu = _operated(gpu, host, trusted)
    gpu = gpu.with_columns(status=_status(gpu, launching, _graph_calls(host, collected)), ordinal=_ordinal())
    return Activities(_annotated(gpu, host, collected.window_end_ns), not trusted)


def _complete(gpu: pl.DataFrame) -> pl.DataFrame:
    return gpu.with_columns(
        [pl.lit(None, dtype=kind).alias(name) for name, kind in OPTIONAL.items() if name not in gpu.columns]
    )


def _placed(gpu: pl.DataFrame, collected: Collector) -> pl.DataFrame:
    """Sort by time and complete device and stream: the pid of a GPU row is the device where no argument says so."""
    rows = collected.threads.rows()
    places = pl.DataFrame(
        {
            "thread": pl.Series(range(len(rows)), dtype=pl.UInt32),
            "pid": pl.Series([row[0] for row in rows], dtype=pl.String),
            "tid": pl.Series([row[1] for row in rows], dtype=pl.String),
        }
    ).select(
        "thread",
        place_device=pl.col("pid").str.extract(r"^(?:GPU )?(\d+)$").cast(pl.Int64, strict=False),
        place_stream=pl.col("tid").str.extract(STREAM_TID).cast(pl.Int64, strict=False),
    )
    gpu = gpu.join(places, on="thread", how="left", maintain_order="left").with_columns(
        device=pl.coalesce("device", "inDevice", "toDevice", "place_device"),
        stream=pl.coalesce("stream", "place_stream"),
    )
    gpu = gpu.drop("place_device", "place_stream", "inDevice", "toDevice")
    return gpu.sort("ts", "order", nulls_last=True).drop("order").with_row_index("launch_index")


def _launching(host: Host, collected: Collector) -> pl.DataFrame:
    """Runtime and driver calls that have a correlation: (correlation, api, api_ts, api_external)."""
    codes = [code for code, row in enumerate(collected.apis.rows()) if row[0] in fields.LAUNCHING_APIS]
    apis = host.apis.filter(pl.col("api").is_in(codes))
    for name in ("correlation", "External id"):
        if name not in apis.columns:
            apis = apis.with_columns(pl.lit(None, dtype=pl.Int64).alias(name))
    known = apis.filter(pl.col("correlation") > 0)
    return known.select("correlation", api="order", api_ts="ts", api_external="External id")


def _calls(gpu: pl.DataFrame, launching: pl.DataFrame) -> pl.Series:
    """The call of the same correlation; of several (merged processes), the best fitting one."""
    wanted = gpu.select("launch_index", "correlation", "ts", "External id")
    if launching["correlation"].is_unique().all():
        narrow = launching.select("correlation", "api")
        return wanted.join(narrow, on="correlation", how="left", maintain_order="left")["api"]
    best = (
        wanted.join(launching, on="correlation", how="inner")
        .sort(
            pl.col("External id").eq_missing(pl.col("api_external")),
            pl.col("api_ts") <= pl.col("ts"),
            "api_ts",
            descending=True,
            nulls_last=True,
        )
        .unique("launch_index", keep="first", maintain_order=True)
        .select("launch_index", "api")
    )
    return wanted.join(best, on="launch_index", how="left", maintain_order="left")["api"]


def _trusts_external_id(gpu: pl.DataFrame) -> bool:
    """False where most ids are copies of their correlation, as torch 2.0-2.3 wrote them (kineto #843)."""
    known = gpu.filter(pl.col("External id").is_not_null() & pl.col("correlation").is_not_null())
    same = known.filter(pl.col("External id") == pl.col("correlation")).height
    return same * 2 <= known.height


def _operated(gpu: pl.DataFrame, host: Host, trusted: bool) -> pl.DataFrame:
    """Add `op`: innermost around the call, else by a trustworthy `External id`; `contained` says which."""
    contained = host.apis["op"].gather(gpu["api"]).cast(pl.UInt32).alias("op")
    gpu = gpu.hstack([contained]).with_columns(contained=pl.col("op").is_not_null())
    if not trusted or "External id" not in host.ops.columns or not contained.null_count():
        return gpu
    by_id = host.ops.filter(pl.col("External id") > 0).select("External id", named="order")
    by_id = by_id.unique("External id", keep="first", maintain_order=True)
    gpu = gpu.join(by_id, on="External id", how="left", maintain_order="left")
    return gpu.with_columns(op=pl.coalesce("op", "named")).drop("named")


def _graph_calls(host: Host, collected: Collector) -> pl.Series:
    """Per runtime call, whether it launches a graph."""
    names = pl.Series([row[1] or "" for row in collected.apis.rows()], dtype=pl.String)
    return names.str.contains("GraphLaunch").gather(host.apis["api"])


def _status(gpu: pl.DataFrame, launching: pl.DataFrame, graph_calls: pl.Series) -> pl.Series:
    """Launch status of each activity; `before_window` where its correlation is older than all that are on the host."""
    first = launching["correlation"].min()
    before = pl.lit(False) if first is None else (pl.col("correlation") < pl.lit(first)).fill_null(False)
    status = (
        pl.when(pl.col("by_graph").fill_null(False) | (pl.col("graph id").fill_null(0) > 0))
        .then(pl.lit("graph"))
        .when(pl.col("op").is_not_null())
        .then(pl.lit("linked"))
        .when(pl.col("api").is_not_null())
        .then(pl.lit("no_op"))
        .when(before)
        .then(pl.lit("before_window"))
        .otherwise(pl.lit("no_launch"))
    )
    with_graphs = gpu.select("correlation", "graph id", "op", "api").with_columns(
        by_graph=graph_calls.gather(gpu["api"])
    )
    return with_graphs.select(status.alias("status"))["status"].cast(pl.Categorical)


def _ordinal() -> pl.Expr:
    """Position of an activity among those of the same operator call, in launch order."""
    order = pl.col("launch_index").rank("ordinal").over("op")
    return pl.when(pl.col("op").is_not_null()).then(order - 1).cast(pl.Int32)


def _annotated(gpu: pl.DataFrame, host: Host, until: int | None) -> pl.DataFrame:
    """Add the annotation around the call, or else around the activity on its own stream (gpu_user_annotation)."""
    around_call = host.apis["annotation"].gather(gpu["api"]).alias("note")
    around_op = host.ops["annotation"].gather(gpu["op"]).alias("op_note")
    gpu = gpu.hstack([around_call, around_op]).with_columns(note=pl.coalesce("note", "op_note")).drop("op_note")
    notes = host.ranges.filter(pl.col("cat") == "gpu_user_annotation")
    bare = gpu.filter(pl.col("note").is_null())
    if notes.is_empty() or bare.is_empty():
        return gpu.with_columns(gpu_note=pl.lit(None, dtype=pl.Int32))
    items = pl.concat(
        [
            _interval(notes, "order", RANGE, link.ANNOTATION, None),
            _interval(bare, "launch_index", GPU, link.CALL, until),
        ]
    )
    found = enclosing_of(items.drop_nulls("ts")).filter(pl.col("source") == GPU)
    narrow = found.select(launch_index="order", gpu_note="annotation")
    return gpu.join(narrow, on="launch_index", how="left", maintain_order="left")


def _interval(frame: pl.DataFrame, index: str, source: int, kind: int, until: int | None) -> pl.DataFrame:
    return frame.select(
        "thread",
        times.kept_time("ts").alias("ts"),
        end_of(until).alias("end"),
        pl.lit(kind, dtype=pl.Int8).alias("kind"),
        pl.col(index).alias("index"),
        source=pl.lit(source, dtype=pl.UInt8),
    )
