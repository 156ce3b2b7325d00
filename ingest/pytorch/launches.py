"""The GPU side of a trace: activities in order of time, with the rows that are written of them."""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from kerneldb import repeated, times
from kerneldb.ingest.launches import INT32_MAX, name_id, with_occupancy
from kerneldb.ingest.pytorch import fields, rocm
from kerneldb.ingest.pytorch.callers import ROWS, Callers
from kerneldb.ingest.pytorch.collect import Collector, Interner
from kerneldb.ingest.pytorch.host import GPU, MODULE_PREFIX, RANGE, STEP_PREFIX, api_labels, end_of
from kerneldb.ingest.pytorch.identity import SHAPE, CallRow, signature_row, triple
from kerneldb.ingest.pytorch.nesting import ANNOTATION, CALL, enclosing_of
from kerneldb.ingest.runs import Stretch, gathered, stretches
from kerneldb.ingest.threads import ahead, mapped

SLICE_ROWS: Final = 1 << 15
COPY_KIND: Final = re.compile(r"([HDP]to[HDP])|Copy(Host|Device)To(Host|Device)", re.IGNORECASE)
LIMITER: Final = r'"limitingFactors":\s*"([^"]*)"'
MOST_KNOWN: Final = 1 << 16
"""Signatures by their facts, which need not be made again: of a trace with more, some are made twice."""
KEYS: Final = ("kind", "name", "grid", "block", "moved", "copy_kind", "signed_call")
FACTS: Final = {
    **dict.fromkeys(("signature_id", "kind", "name_id"), pl.String),
    **dict.fromkeys((*SHAPE, "bytes"), pl.Int64),
    **dict.fromkeys(
        ("copy_kind", "call_id", "op", "input_dims", "input_strides", "input_dtypes", "scalars", "name"), pl.String
    ),
}
COLLECTIVE: Final = {
    **dict.fromkeys(("collective_name", "collective_dtype"), pl.String),
    **dict.fromkeys(("collective_in_elements", "collective_out_elements"), pl.Int64),
    "group_size": pl.Int32,
    **dict.fromkeys(("group_name", "group_description", "group_ranks"), pl.String),
    "collective_seq": pl.Int64,
}


class Activities:
    """GPU activities in order of time: each is numbered, has a status, its place in its operator and what is around it.

    `numbers`: device as recorded → as in `devices`. `shapes` is complete before the first of `parts`, `window` after
    the last.
    """

    def __init__(self, collected: Collector, callers: Callers, numbers: Mapping[int, int]) -> None:
        self._callers = callers
        self._until = collected.window_end_ns
        names = pl.Series([row[1] or "" for row in collected.apis.rows()], dtype=pl.String)
        self._graph_calls = names.str.contains("GraphLaunch")
        self._launched = pl.zeros(collected.rows["op"].height, pl.Int32, eager=True)
        self._rows = collected.shelf.runs("ts")
        self._open = pl.DataFrame(schema=callers.notes.columns)
        self.window: times.Window = (None, None)
        pairs = []
        with contextlib.closing(ahead(callers.launched, 1)) as parts:
            for part in parts:
                self._rows.add(part.with_columns(pl.col("device").replace(numbers)))
                pairs.append(part.select("kernel", "api_code").unique())
        self.shapes = pl.concat(pairs).unique(maintain_order=True) if pairs else pl.DataFrame()

    def parts(self) -> Iterator[pl.DataFrame]:
        """All of them, some at a time."""
        given = 0
        for stretch in stretches([self._rows, self._callers.notes], ROWS):
            gpu = self._rows.between(stretch).sort("ts", "id", nulls_last=True)
            gpu = gpu.with_row_index("launch_index", offset=given)
            given += gpu.height
            gpu = gpu.with_columns(self._status(gpu), self._ordinal(gpu))
            self.window = times.widened(self.window, times.span(gpu, "ts", pl.col("dur"), self._until))
            yield self._annotated(gpu, stretch)
        self._rows.clear()

    def _ordinal(self, gpu: pl.DataFrame) -> pl.Series:
        """The position of each within its operator."""
        by_op = gpu.select("op").with_row_index("row").drop_nulls().sort("op", maintain_order=True)
        place, op = pl.int_range(pl.len(), dtype=pl.Int32), pl.col("op")
        first, last = op.ne_missing(op.shift()), op.ne_missing(op.shift(-1))  # `over` costs ten times as much
        within = by_op.select("row", "op", last.alias("last"), n=place - pl.when(first).then(place).forward_fill())
        within = within.with_columns(n=within["n"] + self._launched.gather(within["op"]))
        ends = within.filter("last")
        self._launched.scatter(ends["op"], ends["n"] + 1)
        return (
            pl.repeat(None, gpu.height, dtype=pl.Int32, eager=True).scatter(within["row"], within["n"]).alias("ordinal")
        )

    def _status(self, gpu: pl.DataFrame) -> pl.Series:
        """Launch status of each; `before_window` where its correlation is older than all that are on the host."""
        first = self._callers.first
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
        by_graph = self._graph_calls.gather(gpu["api_code"]).alias("by_graph")
        return gpu.select("correlation", "graph id", "op", "api").hstack([by_graph]).select(status=status)["status"]

    def _annotated(self, gpu: pl.DataFrame, stretch: Stretch) -> pl.DataFrame:
        """Add the annotation around the activity on its own stream, where none is around the call."""
        notes = pl.concat([self._open, self._callers.notes.between(stretch).sort("id")]).with_row_index("order")
        if stretch[1] is not None:
            self._open = notes.filter(end_of(None) > stretch[1]).drop("order")
        bare = gpu.filter(pl.col("note").is_null())
        if notes.is_empty() or bare.is_empty():
            nothing = {"gpu_note": pl.Int64, "gpu_label": pl.UInt32}
            return gpu.with_columns(pl.lit(None, kind).alias(name) for name, kind in nothing.items())
        items = pl.concat(
            [
                _interval(notes, "order", RANGE, ANNOTATION, None),
                _interval(bare, "launch_index", GPU, CALL, self._until),
            ]
        )
        found = enclosing_of(items.drop_nulls("ts")).filter(pl.col("source") == GPU)
        around = found["annotation"]
        narrow = pl.DataFrame({
            "launch_index": found["order"],
            "gpu_note": notes["id"].gather(around).cast(pl.Int64),
            "gpu_label": notes["label"].gather(around),
        })  # fmt: skip
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

    def __init__(
        self, activities: Activities, places: Interner, collected: Collector, calls: Sequence[CallRow],
        arch_of_device: Mapping[int, str | None],
    ) -> None:  # fmt: skip
        self._gpu = activities
        self._archs = arch_of_device
        self._calls = calls
        self._kernels = _kernel_table(collected)
        self._apis = api_labels(collected)
        self._shapes = self._distinct_shapes()
        self._processes = pl.Series("api_process", [row[0] for row in collected.threads.rows()], dtype=pl.String)
        self._notes = _note_table(collected)
        self._labels = repeated.ends(pl.Series([row[1] for row in collected.labels.rows()], dtype=pl.String))
        self._modules = self._labels.str.strip_prefix(MODULE_PREFIX)
        self._places = places.table("place", "path", "phase").select(pl.col("path", "phase").map_batches(repeated.ends))
        self._collectives = collected.collectives.table("collective", **COLLECTIVE)
        self._marks = collected.said.table("mark", "mark_text", "mark_note", "mark_module")
        self._signatures: dict[tuple[Any, ...], str] = {}
        self._facts = [pl.DataFrame(schema=FACTS)]
        self.statuses: Counter[str] = Counter()

    def slices(self) -> Iterator[pl.DataFrame]:
        """Rows of `launches` without trace_id, in order of time."""
        with contextlib.closing(ahead(self._gpu.parts, 1)) as stretches_of_time:
            parts = (part for stretch in stretches_of_time for part in stretch.iter_slices(SLICE_ROWS))
            signed = map(self._signed, mapped(self._called, parts))
            for rows in mapped(self._rows, signed):
                self.statuses.update(dict(rows.group_by("launch_status").len().iter_rows()))
                yield rows

    def _rows(self, signed: tuple[pl.DataFrame, pl.DataFrame]) -> pl.DataFrame:
        part, signatures = signed
        named = part.join(signatures, on=KEYS, how="left", nulls_equal=True, maintain_order="left")
        resources = named.select("name", threads_per_block="threads")
        rows = with_occupancy(_columns(self._framed(named)).hstack(resources), self._archs)
        return rows.drop(resources.columns)

    def _distinct_shapes(self) -> pl.DataFrame:
        """Grid and block by codes of kernel and launching call; ROCm writes some of them on the call alone."""
        calls = self._apis.select(api_code="api", call="name", api_grid="grid", api_block="block")
        named = self._gpu.shapes.join(self._kernels, on="kernel", how="left", maintain_order="left")
        named = named.join(calls, on="api_code", how="left", maintain_order="left")
        of_call = {side: pl.when(pl.col("kind") == "kernel").then(f"api_{side}") for side in ("grid", "block")}
        given = named.with_columns(pl.coalesce(side, of_call[side]).alias(side) for side in of_call)
        shapes = rocm.shapes(given)
        return shapes.select(
            "kernel", "api_code", *rocm.SHAPE, threads=pl.Series(map(_threads, shapes["block"]), dtype=pl.Int64)
        )

    def signatures(self) -> pl.DataFrame:
        """Fact columns of `signatures`."""
        return pl.concat(self._facts).drop("name").unique("signature_id", keep="first", maintain_order=True)

    def names(self) -> pl.DataFrame:
        """Fact columns of `kernel_names`: of launches, and of kernels that ROCm names in a call that captured them."""
        launched = pl.concat(facts.select("name_id", "name", "kind") for facts in self._facts)
        captured = [(name_id(name), name, "kernel") for name in self._apis["kernel"].unique().sort().drop_nulls()]
        others = pl.DataFrame(captured, schema=launched.schema, orient="row")
        return pl.concat([launched, others]).unique("name_id", keep="first", maintain_order=True)

    def _called(self, part: pl.DataFrame) -> pl.DataFrame:
        """Add what codes stand for, what the launching call says (`api_…`), and `KEYS`.

        Kernels of a graph have no call: the operator is not theirs.
        """
        part = part.join(self._kernels, on="kernel", how="left", maintain_order="left")
        part = part.join(self._collectives, on="collective", how="left", maintain_order="left")
        part = part.join(self._marks, on="mark", how="left", maintain_order="left")
        labels = self._apis.rename({name: f"api_{name}" for name in self._apis.columns if name != "api"})
        process = self._processes.gather(part["api_thread"])
        part = part.drop("grid", "block").hstack([process])
        part = part.join(labels, left_on="api_code", right_on="api", how="left", maintain_order="left")
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
        fresh, ids = [], []
        if len(self._signatures) > MOST_KNOWN:
            self._signatures.clear()
        for key in distinct.iter_rows():
            if key not in self._signatures:
                kind, name, grid, block, moved, copy_kind, code = key
                made = None if code is None else self._calls[code]
                row = signature_row(kind, name, grid, block, (moved, copy_kind), made)
                fresh.append({**row, "name": name})
                self._signatures[key] = row["signature_id"]
            ids.append(self._signatures[key])
        self._facts.append(pl.DataFrame(fresh, schema=FACTS))
        return part, distinct.with_columns(signature_id=pl.Series(ids, dtype=pl.String))

    def _framed(self, part: pl.DataFrame) -> pl.DataFrame:
        """Add names of annotations, module and Python line. No text is made anew for each row: it may be long."""
        places, notes = gathered(self._places, part["place"]), gathered(self._notes, part["note_of_op"])
        names = {"gpu_phase": "gpu_label", "python_name": "python"}
        labels = [self._labels.gather(part[code]).alias(name) for name, code in names.items()]
        modules = self._modules.gather(part["module"]).alias("module_name")
        return part.hstack([*places, *notes, *labels, modules]).with_columns(
            module_name=pl.coalesce("mark_module", "module_name", "module_note"),
            python_name=pl.coalesce("python_name", "innermost_note"),
            marked=pl.coalesce("mark_text", "mark_note"),
        )


def _threads(block: str | None) -> int | None:
    """Threads of a block as printed; more than any GPU runs are not known."""
    sides = [side for side in triple(block) if side is not None]
    return math.prod(sides) if sides and math.prod(sides) <= INT32_MAX else None


def _note_table(collected: Collector) -> pl.DataFrame:
    """Module and call stack that older torch wrote into the arguments of the operators, by code."""
    rows = collected.notes.rows()
    said = {"module_note": 1, "stack_note": 0}
    notes = pl.DataFrame({
        name: pl.Series([row[place] or None for row in rows], dtype=pl.String) for name, place in said.items()
    })  # fmt: skip
    return notes.with_columns(innermost_note=pl.col("stack_note").str.split(";").list.first())


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
