"""The GPU side of a trace: one row per activity, linked to its call and operator, with its signature."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from kerneldb.ingest.pytorch import fields, link
from kerneldb.ingest.pytorch.collect import GPU_TEXT, Collector
from kerneldb.ingest.pytorch.host import GPU, RANGE, Host, enclosing_of
from kerneldb.ingest.pytorch.identity import CallRow, name_id, signature_row

COPY_KIND: Final = re.compile(r"([HDP]to[HDP])|Copy(Host|Device)To(Host|Device)", re.IGNORECASE)
LIMITER: Final = re.compile(r'"limitingFactors":\s*"([^"]*)"')
STREAM_TID: Final = r"(\d+)\s*$"
COLLECTIVE_COLUMNS: Final = (
    "collective",
    "collective_dtype",
    "collective_in_elements",
    "collective_out_elements",
    "group_size",
    "group_name",
    "group_description",
    "group_ranks",
    "collective_seq",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Launches:
    """Rows of `launches` (without trace_id), and the fact columns of `signatures` and `kernel_names`."""

    rows: pl.DataFrame
    signatures: pl.DataFrame
    names: pl.DataFrame
    copied_external_ids: bool


def read_launches(collected: Collector, host: Host, calls: Sequence[CallRow]) -> Launches:
    """Build the GPU side. `calls` are the rows of `op_calls` in code order."""
    gpu = collected.frame("gpu")
    if gpu is None:
        return Launches(pl.DataFrame(), pl.DataFrame(), pl.DataFrame(), copied_external_ids=False)
    gpu = _complete(gpu).join(_kernel_table(collected), on="kernel", how="left", maintain_order="left")
    gpu = _placed(gpu, collected)
    gpu = _launched(gpu, host.apis)
    gpu = _processed(gpu, collected)
    trusted = _trusts_external_id(gpu)
    gpu = _operated(gpu, host.ops, trusted)
    gpu = _annotated(gpu, host.ranges)
    gpu, signatures = _signed(gpu, calls)
    names = gpu.select("name", "kind").unique(maintain_order=True)
    names = names.with_columns(name_id=pl.Series([name_id(name) for name in names["name"]], dtype=pl.String))
    names = names.select("name_id", "name", "kind").unique("name_id", keep="first", maintain_order=True)
    return Launches(_columns(gpu, collected, host.ranges), signatures, names, not trusted)


INTEGERS: Final = (
    *("ts", "dur", "External id", "correlation", "device", "stream", "queued", "bytes", "size"),
    *("registers per thread", "shared memory", "graph id", "graph node id", "toDevice", "inDevice"),
)
OPTIONAL: Final = {
    **dict.fromkeys(INTEGERS, pl.Int64),
    "context": pl.String,
    "est. achieved occupancy %": pl.Float64,
    "blocks per SM": pl.Float64,
    "collective": pl.UInt32,
}


def _complete(gpu: pl.DataFrame) -> pl.DataFrame:
    return gpu.with_columns(
        [pl.lit(None, dtype=kind).alias(name) for name, kind in OPTIONAL.items() if name not in gpu.columns]
    )


def _kernel_table(collected: Collector) -> pl.DataFrame:
    rows = collected.kernels.rows()
    table = pl.DataFrame(rows, schema=dict.fromkeys(GPU_TEXT, pl.String), orient="row")
    kinds = [fields.KIND_OF.get(row[0] or "", "kernel") for row in rows]
    return table.with_columns(
        pl.Series("kernel", range(len(rows)), dtype=pl.UInt32),
        pl.Series(
            "copy_kind", [_copy_kind(kind, row[1], row[2]) for kind, row in zip(kinds, rows, strict=True)], pl.String
        ),
        pl.Series("limiter", [_limiter(row[5]) for row in rows], pl.String),
        pl.Series("kind", kinds, pl.String),
        pl.col("name").fill_null(""),
    )


def _copy_kind(kind: str, name: str | None, recorded: str | None) -> str | None:
    """Direction of a copy as the name or ROCm's `kind` argument prints it: HtoD, DtoH, DtoD, HtoH or PtoP."""
    match = COPY_KIND.search(name or "") or COPY_KIND.search(recorded or "")
    if kind != "memcpy" or match is None:
        return None
    return match.group(1) or f"{match.group(2)[0].upper()}to{match.group(3)[0].upper()}"


def _limiter(text: str | None) -> str | None:
    match = LIMITER.search(text) if text else None
    return match.group(1) if match else None


def _placed(gpu: pl.DataFrame, collected: Collector) -> pl.DataFrame:
    """Device, stream and process of each activity, in order of time.

    The pid of a GPU row is the device where no argument says so.
    """
    rows = collected.threads.rows()
    places = pl.DataFrame(
        {
            "thread": pl.Series(range(len(rows)), dtype=pl.UInt32),
            "pid": pl.Series([row[0] for row in rows], dtype=pl.String),
            "tid": pl.Series([row[1] for row in rows], dtype=pl.String),
        }
    )
    gpu = gpu.join(places, on="thread", how="left", maintain_order="left")
    pid = pl.col("pid").str.extract(r"^(?:GPU )?(\d+)$").cast(pl.Int64, strict=False)
    gpu = gpu.with_columns(
        device=pl.coalesce("device", "inDevice", "toDevice", pid),
        stream=pl.coalesce("stream", pl.col("tid").str.extract(STREAM_TID).cast(pl.Int64, strict=False)),
    )
    return gpu.sort("ts", "order", nulls_last=True).with_row_index("launch_index")


def _launched(gpu: pl.DataFrame, apis: pl.DataFrame) -> pl.DataFrame:
    """Add the runtime or driver call of the same correlation; of several (merged processes), the best fitting one."""
    launching = apis.filter(pl.col("cat").is_in(fields.LAUNCHING_APIS))
    for name in ("correlation", "External id"):
        if name not in launching.columns:
            launching = launching.with_columns(pl.lit(None, dtype=pl.Int64).alias(name))
    calls = launching.filter(pl.col("correlation") > 0).select(
        "correlation",
        api_index="order",
        api_thread="thread",
        api_call="name",
        api_ts="ts",
        api_dur="dur",
        api_external="External id",
        api_op="op",
        api_annotation="annotation",
        api_module="module",
        api_python="python",
        api_grid="grid",
        api_block="block",
        api_shared="shared",
    )
    pairs = gpu.select("launch_index", "correlation", "ts", "External id").join(calls, on="correlation", how="inner")
    best = (
        pairs.sort(
            pl.col("External id").eq_missing(pl.col("api_external")),
            pl.col("api_ts") <= pl.col("ts"),
            "api_ts",
            descending=True,
            nulls_last=True,
        )
        .unique("launch_index", keep="first", maintain_order=True)
        .drop("correlation", "ts", "External id")
    )
    gpu = gpu.join(best, on="launch_index", how="left", maintain_order="left")
    return gpu.with_columns(before=_before_window(launching))


def _processed(gpu: pl.DataFrame, collected: Collector) -> pl.DataFrame:
    """Add the process that launched each activity, where its call is in the file."""
    rows = collected.threads.rows()
    processes = pl.DataFrame(
        {
            "api_thread": pl.Series(range(len(rows)), dtype=pl.UInt32),
            "api_process": pl.Series([row[0] for row in rows], dtype=pl.String),
        }
    )
    return gpu.join(processes, on="api_thread", how="left", maintain_order="left")


def _before_window(launching: pl.DataFrame) -> pl.Expr:
    """True where the launch precedes everything recorded on the host: its correlation is older than all of these."""
    first = launching.filter(pl.col("correlation") > 0)["correlation"].min()
    if first is None:
        return pl.lit(False)
    return (pl.col("correlation") < pl.lit(first)).fill_null(False)


def _operated(gpu: pl.DataFrame, ops: pl.DataFrame, trusted: bool) -> pl.DataFrame:
    """Add the operator: innermost around the call, else by a trustworthy `External id`."""
    if "External id" in ops.columns and trusted:
        by_id = ops.filter(pl.col("External id") > 0).select("External id", external_op="order")
        by_id = by_id.unique("External id", keep="first", maintain_order=True)
        gpu = gpu.join(by_id, on="External id", how="left", maintain_order="left")
    else:
        gpu = gpu.with_columns(external_op=pl.lit(None, dtype=pl.UInt32))
    facts = ops.select("call", op_id="order", op_module="module", op_python="python", op_annotation="annotation")
    gpu = gpu.with_columns(op_id=pl.coalesce(pl.col("api_op").cast(pl.UInt32), "external_op"))
    gpu = gpu.join(facts, on="op_id", how="left", maintain_order="left")
    graph = pl.col("api_call").str.contains("GraphLaunch").fill_null(False) | (pl.col("graph id").fill_null(0) > 0)
    return gpu.with_columns(
        link_method=pl.when(pl.col("api_op").is_not_null())
        .then(pl.lit("containment"))
        .when(pl.col("op_id").is_not_null())
        .then(pl.lit("external_id")),
        launch_status=pl.when(graph)
        .then(pl.lit("graph"))
        .when(pl.col("op_id").is_not_null())
        .then(pl.lit("linked"))
        .when(pl.col("api_index").is_not_null())
        .then(pl.lit("no_op"))
        .when(pl.col("before"))
        .then(pl.lit("before_window"))
        .otherwise(pl.lit("no_launch")),
    )


def _trusts_external_id(gpu: pl.DataFrame) -> bool:
    """False where most ids are copies of their correlation, as torch 2.0-2.3 wrote them (kineto #843)."""
    known = gpu.filter(pl.col("External id").is_not_null() & pl.col("correlation").is_not_null())
    same = known.filter(pl.col("External id") == pl.col("correlation")).height
    return same * 2 <= known.height


def _annotated(gpu: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """Add the annotation: around the call, else around the activity on its own stream (gpu_user_annotation)."""
    gpu = gpu.with_columns(range_id=pl.coalesce("api_annotation", "op_annotation"))
    notes = ranges.filter(pl.col("cat") == "gpu_user_annotation")
    bare = gpu.filter(pl.col("range_id").is_null())
    if notes.is_empty() or bare.is_empty():
        return gpu.with_columns(gpu_range=pl.lit(None, dtype=pl.Int32))
    items = pl.concat(
        [
            _interval(notes, "order", RANGE, link.ANNOTATION),
            _interval(bare, "launch_index", GPU, link.CALL),
        ]
    ).drop_nulls("ts")
    found = enclosing_of(items).filter(pl.col("source") == GPU).select(launch_index="order", gpu_range="annotation")
    return gpu.join(found, on="launch_index", how="left", maintain_order="left")


def _interval(frame: pl.DataFrame, index: str, source: int, kind: int) -> pl.DataFrame:
    end = (pl.col("ts") + pl.col("dur").fill_null(0)).alias("end")
    return frame.select(
        "thread",
        "ts",
        end,
        pl.lit(kind, dtype=pl.Int8).alias("kind"),
        pl.col(index).alias("index"),
        source=pl.lit(source, dtype=pl.UInt8),
    )


def _signed(gpu: pl.DataFrame, calls: Sequence[CallRow]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Add signature ids, from the distinct facts.

    Kernels of a graph launch have no call: the enclosing operator is not theirs.
    """
    size = pl.when(pl.col("kind") != "kernel").then(pl.coalesce("bytes", "size"))
    gpu = gpu.with_columns(
        grid=pl.coalesce("grid", pl.when(pl.col("kind") == "kernel").then("api_grid")),
        block=pl.coalesce("block", pl.when(pl.col("kind") == "kernel").then("api_block")),
        moved=size,
        signed_call=pl.when(pl.col("launch_status") == "linked").then("call"),
    )
    keys = ["kind", "name", "grid", "block", "moved", "copy_kind", "signed_call"]
    distinct = gpu.select(keys).unique(maintain_order=True)
    rows = [_signature(row, calls) for row in distinct.iter_rows()]
    distinct = distinct.with_columns(signature_id=pl.Series([row["signature_id"] for row in rows], dtype=pl.String))
    gpu = gpu.join(distinct, on=keys, how="left", nulls_equal=True, maintain_order="left")
    signatures = pl.DataFrame(rows, infer_schema_length=None).unique("signature_id", keep="first", maintain_order=True)
    return gpu, signatures


def _signature(row: tuple[Any, ...], calls: Sequence[CallRow]) -> dict[str, Any]:
    kind, name, grid, block, moved, copy_kind, call = row
    return signature_row(kind, name, grid, block, (moved, copy_kind), None if call is None else calls[call])


def _columns(gpu: pl.DataFrame, collected: Collector, ranges: pl.DataFrame) -> pl.DataFrame:
    notes = ranges.select(pl.col("order").cast(pl.Int64).alias("range_id"), "phase", pl.col("path").alias("range_path"))
    gpu_notes = ranges.select(pl.col("order").cast(pl.Int64).alias("gpu_range"), pl.col("name").alias("gpu_phase"))
    gpu = gpu.with_columns(pl.col("range_id", "gpu_range").cast(pl.Int64))
    gpu = gpu.join(notes, on="range_id", how="left", maintain_order="left")
    gpu = gpu.join(gpu_notes, on="gpu_range", how="left", maintain_order="left")
    gpu = _with_frames(gpu, ranges).join(
        _collective_table(collected), on="collective", how="left", maintain_order="left"
    )
    step = pl.col("gpu_phase").str.starts_with("ProfilerStep")
    return gpu.select(
        pl.col("launch_index").cast(pl.Int64),
        "kind",
        "signature_id",
        pl.col("device").cast(pl.Int32),
        pl.col("context").cast(pl.Int64, strict=False),
        "stream",
        pl.lit("timeline").alias("timing"),
        start_ns="ts",
        end_ns=pl.col("ts") + pl.col("dur"),
        duration_ns="dur",
        process=pl.col("api_process"),
        correlation_id="correlation",
        api_index=pl.col("api_index").cast(pl.Int64),
        api_call="api_call",
        launch_status="launch_status",
        link_method="link_method",
        launch_start_ns="api_ts",
        launch_duration_ns="api_dur",
        op_id=pl.col("op_id").cast(pl.Int64),
        call_ordinal=_ordinal(),
        range_id=pl.coalesce("range_id", "gpu_range"),
        phase=pl.coalesce("phase", pl.when(~step).then("gpu_phase")),
        range_path=pl.coalesce("range_path", "gpu_phase"),
        module="module_name",
        python_line="python_name",
        shared_bytes=pl.coalesce("shared memory", "api_shared"),
        registers=pl.col("registers per thread").cast(pl.Int32),
        occupancy=pl.col("est. achieved occupancy %") / 100,
        occupancy_limiter="limiter",
        blocks_per_multiprocessor="blocks per SM",
        queued_ns=pl.when(pl.col("queued") > 0).then("queued"),
        graph_id="graph id",
        graph_node_id="graph node id",
        **{name: pl.col(name) for name in COLLECTIVE_COLUMNS if name != "collective"},
        collective="collective_name",
    )


def _ordinal() -> pl.Expr:
    """Position of an activity among those of the same operator call, in launch order."""
    order = pl.col("launch_index").rank("ordinal").over("op_id")
    return pl.when(pl.col("op_id").is_not_null()).then(order - 1).cast(pl.Int32)


def _with_frames(gpu: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    names = ranges.select(pl.col("order").cast(pl.Int64).alias("frame"), "name")
    module = pl.coalesce(pl.col("api_module"), pl.col("op_module")).cast(pl.Int64)
    python = pl.coalesce(pl.col("api_python"), pl.col("op_python")).cast(pl.Int64)
    gpu = gpu.with_columns(module_frame=module, python_frame=python)
    for key, made in (("module_frame", "module_name"), ("python_frame", "python_name")):
        table = names.rename({"frame": key, "name": made})
        gpu = gpu.join(table, on=key, how="left", maintain_order="left")
    return gpu.with_columns(pl.col("module_name").str.strip_prefix("nn.Module: "))


def _collective_table(collected: Collector) -> pl.DataFrame:
    rows = collected.collectives.rows()
    columns = ("collective_name", *COLLECTIVE_COLUMNS[1:])
    kinds = [pl.String, pl.String, pl.Int64, pl.Int64, pl.Int64, pl.String, pl.String, pl.String, pl.Int64]
    table = pl.DataFrame(rows, schema=dict(zip(columns, kinds, strict=True)), orient="row")
    return table.with_columns(
        pl.Series("collective", range(len(rows)), dtype=pl.UInt32), pl.col("group_size").cast(pl.Int32)
    )
