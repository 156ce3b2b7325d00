"""The GPU side of a trace: which call and operator launched each activity, in columns that stay narrow."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.launches import name_id
from kerneldb.ingest.pytorch import fields, rocm
from kerneldb.ingest.pytorch.collect import Collector
from kerneldb.ingest.pytorch.host import GPU, MODULE_PREFIX, RANGE, STEP_PREFIX, Host, api_labels, end_of
from kerneldb.ingest.pytorch.identity import CallRow, signature_row
from kerneldb.ingest.pytorch.nesting import ANNOTATION, CALL, enclosing_of
from kerneldb.ingest.threads import mapped

STREAM_TID: Final = r"(\d+)\s*$"
INTEGERS: Final = (
    *("ts", "dur", "External id", "correlation", "device", "stream", "context", "queued", "bytes", "size"),
    *("registers per thread", "shared memory", "graph id", "graph node id", "toDevice", "inDevice"),
)
OPTIONAL: Final = {
    **dict.fromkeys(INTEGERS, pl.Int64),
    "est. achieved occupancy %": pl.Float64,
    "blocks per SM": pl.Float64,
    "warps per SM": pl.Float64,
    **dict.fromkeys(("collective", "mark"), pl.UInt32),
}
SLICE_ROWS: Final = 1 << 15
COPY_KIND: Final = re.compile(r"([HDP]to[HDP])|Copy(Host|Device)To(Host|Device)", re.IGNORECASE)
LIMITER: Final = r'"limitingFactors":\s*"([^"]*)"'
KEYS: Final = ("kind", "name", "grid", "block", "moved", "copy_kind", "signed_call")
COLLECTIVE: Final = {
    **dict.fromkeys(("collective_name", "collective_dtype"), pl.String),
    **dict.fromkeys(("collective_in_elements", "collective_out_elements"), pl.Int64),
    "group_size": pl.Int32,
    **dict.fromkeys(("group_name", "group_description", "group_ranks"), pl.String),
    "collective_seq": pl.Int64,
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
    absent = [pl.lit(None, dtype=kind).alias(name) for name, kind in OPTIONAL.items() if name not in gpu.columns]
    gpu = _placed(gpu.with_columns(absent), collected)
    launching = _launching(host, collected)
    gpu = gpu.hstack([_calls(gpu, launching)])
    # torch 2.0-2.3 wrote copies of the correlation as external ids (kineto #843).
    known = gpu.filter(pl.col("External id").is_not_null() & pl.col("correlation").is_not_null())
    trusted = known.filter(pl.col("External id") == pl.col("correlation")).height * 2 <= known.height
    gpu = _operated(gpu, host, trusted)
    names = pl.Series([row[1] or "" for row in collected.apis.rows()], dtype=pl.String)
    graph_calls = names.str.contains("GraphLaunch").gather(host.apis["api"])
    order = pl.col("launch_index").rank("ordinal").over("op") - 1
    ordinal = pl.when(pl.col("op").is_not_null()).then(order).cast(pl.Int32)
    gpu = gpu.with_columns(status=_status(gpu, launching, graph_calls), ordinal=ordinal)
    return Activities(_annotated(gpu, host, collected.window_end_ns), not trusted)


def _placed(gpu: pl.DataFrame, collected: Collector) -> pl.DataFrame:
    """Sort by time and complete device and stream: the pid of a GPU row is the device where no argument says so."""
    places = collected.threads.table("thread", "pid", "tid").select(
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
    """Runtime and driver calls that have a correlation: (correlation, api, api_ts, api_external, process)."""
    codes = [code for code, row in enumerate(collected.apis.rows()) if row[0] in fields.LAUNCHING_APIS]
    apis = host.apis.filter(pl.col("api").is_in(codes))
    for name in ("correlation", "External id"):
        if name not in apis.columns:
            apis = apis.with_columns(pl.lit(None, dtype=pl.Int64).alias(name))
    known = apis.filter(pl.col("correlation") > 0)
    process = pl.Series("process", [row[0] for row in collected.threads.rows()], dtype=pl.String)
    return known.select(
        "correlation", api="order", api_ts="ts", api_external="External id", process=process.gather(known["thread"])
    )


def _calls(gpu: pl.DataFrame, launching: pl.DataFrame) -> pl.Series:
    """The call of the same correlation; of several, the one with the same external id, else the latest one before.

    None where calls of several processes (merged traces) fit alike: a row of the GPU does not name its process.
    """
    wanted = gpu.select("launch_index", "correlation", "ts", "External id")
    if launching["correlation"].is_unique().all():
        narrow = launching.select("correlation", "api")
        return wanted.join(narrow, on="correlation", how="left", maintain_order="left")["api"]
    fits = (pl.col("External id").eq_missing(pl.col("api_external")), pl.col("api_ts") <= pl.col("ts"))
    ordered = (
        wanted.join(launching, on="correlation", how="inner")
        .with_columns(fit=2 * fits[0].cast(pl.Int8) + fits[1].fill_null(value=False).cast(pl.Int8))
        .sort("fit", "api_ts", descending=True, nulls_last=True)
    )
    fitting = ordered.filter(pl.col("fit") == pl.col("fit").max().over("launch_index"))
    best = (
        fitting.filter(pl.col("process").n_unique().over("launch_index") == 1)
        .unique("launch_index", keep="first", maintain_order=True)
        .select("launch_index", "api")
    )
    return wanted.join(best, on="launch_index", how="left", maintain_order="left")["api"]


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
        [_interval(notes, "order", RANGE, ANNOTATION, None), _interval(bare, "launch_index", GPU, CALL, until)]
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


class LaunchRows:
    """Iterate `slices()` to its end; `signatures`, `names` and `statuses` are complete afterwards."""

    def __init__(self, activities: Activities, host: Host, collected: Collector, calls: Sequence[CallRow]) -> None:
        self._gpu = activities.frame
        self._host = host
        self._calls = calls
        self._kernels = _kernel_table(collected)
        self._apis = api_labels(collected)
        self._shapes = self._distinct_shapes()
        self._processes = [row[0] for row in collected.threads.rows()]
        self._notes = collected.notes.rows()
        self._collectives = collected.collectives.table("collective", **COLLECTIVE)
        self._marks = collected.said.table("mark", "mark_text", "mark_note", "mark_module")
        self._signatures: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.statuses: Counter[str] = Counter()

    def slices(self) -> Iterator[pl.DataFrame]:
        """Rows of `launches` without trace_id, in order of time."""
        signed = map(self._signed, mapped(self._called, self._gpu.iter_slices(SLICE_ROWS)))
        for rows in mapped(self._rows, signed):
            self.statuses.update(dict(rows.group_by("launch_status").len().iter_rows()))
            yield rows

    def _rows(self, signed: tuple[pl.DataFrame, pl.DataFrame]) -> pl.DataFrame:
        part, signatures = signed
        named = part.join(signatures, on=KEYS, how="left", nulls_equal=True, maintain_order="left")
        return _columns(self._framed(named))

    def _distinct_shapes(self) -> pl.DataFrame:
        """Grid and block by codes of kernel and launching call; ROCm writes some of them on the call alone."""
        codes = self._host.apis["api"].gather(self._gpu["api"]).alias("api_code")
        pairs = self._gpu.select("kernel").hstack([codes]).unique(maintain_order=True)
        calls = self._apis.select(api_code="api", call="name", api_grid="grid", api_block="block")
        named = pairs.join(self._kernels, on="kernel", how="left", maintain_order="left")
        named = named.join(calls, on="api_code", how="left", maintain_order="left")
        of_call = {side: pl.when(pl.col("kind") == "kernel").then(f"api_{side}") for side in ("grid", "block")}
        given = named.with_columns(pl.coalesce(side, of_call[side]).alias(side) for side in of_call)
        return rocm.shapes(given).select("kernel", "api_code", *rocm.SHAPE)

    def signatures(self) -> pl.DataFrame:
        """Fact columns of `signatures`."""
        frame = pl.DataFrame(list(self._signatures.values()), infer_schema_length=None)
        return frame.unique("signature_id", keep="first", maintain_order=True)

    def names(self) -> pl.DataFrame:
        """Fact columns of `kernel_names`: of launches, and of kernels that ROCm names in a call that captured them."""
        kinds = {key[1]: key[0] for key in reversed(self._signatures)}
        kinds |= {name: "kernel" for name in self._apis["kernel"].unique().sort().drop_nulls() if name not in kinds}
        rows = [{"name_id": name_id(name), "name": name, "kind": kind} for name, kind in kinds.items()]
        return pl.DataFrame(rows)

    def _called(self, part: pl.DataFrame) -> pl.DataFrame:
        """Add what codes stand for, what the launching call says (`api_…`), and `KEYS`.

        Kernels of a graph have no call: the operator is not theirs.
        """
        part = part.join(self._kernels, on="kernel", how="left", maintain_order="left")
        part = part.join(self._collectives, on="collective", how="left", maintain_order="left")
        part = part.join(self._marks, on="mark", how="left", maintain_order="left")
        apis, index = self._host.apis, part["api"]
        threads = apis["thread"].gather(index)
        process = pl.Series("api_process", self._processes, dtype=pl.String).gather(threads)
        label = pl.DataFrame({"api_code": apis["api"].gather(index)})
        labels = self._apis.rename({name: f"api_{name}" for name in self._apis.columns if name != "api"})
        named = label.join(labels, left_on="api_code", right_on="api", how="left", maintain_order="left")
        times = [apis["ts"].gather(index).alias("api_ts"), apis["dur"].gather(index).alias("api_dur"), process]
        call = self._host.ops["call"].gather(part["op"]).alias("call")
        part = part.drop("grid", "block").hstack([*times, *named, call])
        part = part.join(self._shapes, on=("kernel", "api_code"), how="left", nulls_equal=True, maintain_order="left")
        return part.with_columns(
            moved=pl.when(pl.col("kind") != "kernel", pl.coalesce("bytes", "size") >= 0).then(
                pl.coalesce("bytes", "size")
            ),
            signed_call=pl.when(pl.col("status") == "linked").then("call"),
        )

    def _signed(self, part: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """`part` with the signature of each of its distinct `KEYS`; in order, so that equal files give equal rows."""
        distinct = part.select(KEYS).unique(maintain_order=True)
        for key in distinct.iter_rows():
            if key not in self._signatures:
                kind, name, grid, block, moved, copy_kind, code = key
                made = None if code is None else self._calls[code]
                self._signatures[key] = signature_row(kind, name, grid, block, (moved, copy_kind), made)
        ids = [self._signatures[key]["signature_id"] for key in distinct.iter_rows()]
        return part, distinct.with_columns(signature_id=pl.Series(ids, dtype=pl.String))

    def _framed(self, part: pl.DataFrame) -> pl.DataFrame:
        """Add names of annotations, module and Python line."""
        host = self._host
        module = _first(host.apis["module"].gather(part["api"]), host.ops["module"].gather(part["op"]))
        python = _first(host.apis["python"].gather(part["api"]), host.ops["python"].gather(part["op"]))
        names = host.ranges["name"]
        module_note, stack = self._noted(part["op"])
        framed = part.hstack(
            [
                host.ranges["phase"].gather(part["note"]).alias("phase"),
                host.ranges["path"].gather(part["note"]).alias("path"),
                names.gather(part["gpu_note"]).alias("gpu_phase"),
                names.gather(module).str.strip_prefix(MODULE_PREFIX).alias("module_name"),
                names.gather(python).alias("python_name"),
                module_note,
                stack,
            ]
        )
        innermost = pl.col("stack_note").str.split(";").list.first()
        return framed.with_columns(
            module_name=pl.coalesce("mark_module", "module_name", "module_note"),
            python_name=pl.coalesce("python_name", innermost),
            marked=pl.coalesce("mark_text", "mark_note"),
        )

    def _noted(self, ops: pl.Series) -> tuple[pl.Series, pl.Series]:
        """Module and call stack that older torch wrote into the arguments of the operators."""
        modules = pl.Series("module_note", [row[1] or None for row in self._notes], dtype=pl.String)
        stacks = pl.Series("stack_note", [row[0] or None for row in self._notes], dtype=pl.String)
        recorded = self._host.ops
        empty = pl.repeat(None, ops.len(), dtype=pl.UInt32, eager=True)
        codes = recorded["note"].gather(ops) if "note" in recorded.columns else empty
        return modules.gather(codes), stacks.gather(codes)


def _first(one: pl.Series, other: pl.Series) -> pl.Series:
    return pl.select(pl.coalesce(one, other)).to_series()


def _kernel_table(collected: Collector) -> pl.DataFrame:
    rows = collected.kernels.rows()
    kinds = [fields.KIND_OF.get(row[0] or "", "kernel") for row in rows]
    copies = [_copy_kind(kind, row[1], row[2]) for kind, row in zip(kinds, rows, strict=True)]
    table = pl.DataFrame(rows, schema=dict.fromkeys(fields.KERNEL, pl.String), orient="row")
    return table.select(
        pl.Series("kernel", range(len(rows)), dtype=pl.UInt32),
        pl.Series("kind", kinds, pl.String),
        pl.col("name").fill_null(""),
        "grid",
        "block",
        pl.Series("copy_kind", copies, pl.String),
        pl.col("kind").alias("rocm_kind"),
        pl.col("occupancy").str.extract(LIMITER).alias("limiter"),
    )


def _copy_kind(kind: str, name: str | None, recorded: str | None) -> str | None:
    """Direction of a copy as the name or ROCm's `kind` argument prints it: HtoD, DtoH, DtoD, HtoH or PtoP."""
    match = COPY_KIND.search(name or "") or COPY_KIND.search(recorded or "")
    if kind != "memcpy" or match is None:
        return None
    return match.group(1) or f"{match.group(2)[0].upper()}to{match.group(3)[0].upper()}"


def _columns(part: pl.DataFrame) -> pl.DataFrame:
    step = pl.col("gpu_phase").str.starts_with(STEP_PREFIX)
    method = pl.when("contained").then(pl.lit("containment"))
    return part.select(
        pl.col("launch_index").cast(pl.Int64),
        "kind",
        "signature_id",
        pl.col("device").cast(pl.Int32, strict=False),
        "context",
        "stream",
        *rocm.REPORTED,
        "reported_grid_unit",
        "quality",
        pl.lit("timeline").alias("timing"),
        start_ns="ts",
        end_ns=pl.col("ts") + pl.col("dur"),
        duration_ns="dur",
        process="api_process",
        correlation_id="correlation",
        api_index=pl.col("api").cast(pl.Int64),
        api_call="api_name",
        launch_status=pl.col("status").cast(pl.String),
        link_method=method.when(pl.col("op").is_not_null()).then(pl.lit("external_id")),
        launch_start_ns="api_ts",
        launch_duration_ns="api_dur",
        op_id=pl.col("op").cast(pl.Int64),
        call_ordinal="ordinal",
        range_id=pl.coalesce("note", "gpu_note").cast(pl.Int64),
        phase=pl.coalesce("phase", pl.when(~step).then("gpu_phase"), "marked"),
        range_path=pl.concat_str(pl.coalesce("path", "gpu_phase"), "marked", separator="/", ignore_nulls=True).replace(
            "", None
        ),
        module="module_name",
        python_line="python_name",
        # What a launching call says is on top of what the code needs, which ROCm does not print.
        shared_bytes="shared memory",
        dynamic_shared_bytes=pl.when(pl.col("shared memory").is_null()).then("api_shared"),
        registers=pl.col("registers per thread").cast(pl.Int32, strict=False),
        # Kineto writes 0 where it made no estimate, as for kernels of libraries that CUDA cannot look into.
        occupancy=pl.when(pl.col("est. achieved occupancy %") > 0).then(pl.col("est. achieved occupancy %") / 100),
        occupancy_limiter="limiter",
        blocks_per_multiprocessor="blocks per SM",
        warps_per_multiprocessor="warps per SM",
        queued_ns=pl.when(pl.col("queued") > 0).then("queued"),
        graph_id="graph id",
        graph_node_id="graph node id",
        collective="collective_name",
        **{name: pl.col(name) for name in list(COLLECTIVE)[1:]},
    )
