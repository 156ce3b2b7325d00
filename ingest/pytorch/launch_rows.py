"""GPU activities as rows of `launches`, slice by slice, and the distinct signatures and names they leave behind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import polars as pl

from kerneldb.ingest.pytorch import fields
from kerneldb.ingest.pytorch.collect import GPU_TEXT, Collector
from kerneldb.ingest.pytorch.host import MODULE_PREFIX, STEP_PREFIX, Host, api_labels
from kerneldb.ingest.pytorch.identity import CallRow, signature_row
from kerneldb.ingest.pytorch.launches import Activities
from kerneldb.ingest.signing import name_id

SLICE_ROWS: Final = 1 << 17
COPY_KIND: Final = re.compile(r"([HDP]to[HDP])|Copy(Host|Device)To(Host|Device)", re.IGNORECASE)
LIMITER: Final = re.compile(r'"limitingFactors":\s*"([^"]*)"')
KEYS: Final = ("kind", "name", "grid", "block", "moved", "copy_kind", "signed_call")
COLLECTIVE: Final[dict[str, type[pl.DataType]]] = {
    "collective_name": pl.String,
    "collective_dtype": pl.String,
    "collective_in_elements": pl.Int64,
    "collective_out_elements": pl.Int64,
    "group_size": pl.Int32,
    "group_name": pl.String,
    "group_description": pl.String,
    "group_ranks": pl.String,
    "collective_seq": pl.Int64,
}


class LaunchRows:
    """Iterate `slices()` to its end; `signatures`, `names` and `statuses` are complete afterwards."""

    def __init__(self, activities: Activities, host: Host, collected: Collector, calls: Sequence[CallRow]) -> None:
        self._gpu = activities.frame
        self._host = host
        self._calls = calls
        self._kernels = _kernel_table(collected)
        self._apis = api_labels(collected)
        self._processes = [row[0] for row in collected.threads.rows()]
        self._notes = collected.notes.rows()
        self._collectives = _collective_table(collected)
        self._signatures: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.statuses: Counter[str] = Counter()

    def slices(self) -> Iterator[pl.DataFrame]:
        """Rows of `launches` without trace_id, in order of time."""
        for part in self._gpu.iter_slices(SLICE_ROWS):
            rows = self._rows(part)
            self.statuses.update(dict(rows.group_by("launch_status").len().iter_rows()))
            yield rows

    def signatures(self) -> pl.DataFrame:
        """Fact columns of `signatures`."""
        frame = pl.DataFrame(list(self._signatures.values()), infer_schema_length=None)
        return frame.unique("signature_id", keep="first", maintain_order=True)

    def names(self) -> pl.DataFrame:
        """Fact columns of `kernel_names`."""
        kinds = {key[1]: key[0] for key in reversed(self._signatures)}
        rows = [{"name_id": name_id(name), "name": name, "kind": kind} for name, kind in kinds.items()]
        return pl.DataFrame(rows)

    def _rows(self, part: pl.DataFrame) -> pl.DataFrame:
        part = part.join(self._kernels, on="kernel", how="left", maintain_order="left")
        part = part.join(self._collectives, on="collective", how="left", maintain_order="left")
        part = self._signed(self._called(part))
        return _columns(self._framed(part))

    def _called(self, part: pl.DataFrame) -> pl.DataFrame:
        """Add what the launching call says: `api_…` columns."""
        apis, index = self._host.apis, part["api"]
        threads = apis["thread"].gather(index)
        process = pl.Series("api_process", self._processes, dtype=pl.String).gather(threads)
        label = pl.DataFrame({"api_code": apis["api"].gather(index)})
        labels = self._apis.rename({name: f"api_{name}" for name in self._apis.columns if name != "api"})
        named = label.join(labels, left_on="api_code", right_on="api", how="left", maintain_order="left")
        times = [apis["ts"].gather(index).alias("api_ts"), apis["dur"].gather(index).alias("api_dur"), process]
        return part.hstack(times).hstack(named.drop("api_code"))

    def _signed(self, part: pl.DataFrame) -> pl.DataFrame:
        """Add signature ids, from the distinct facts. Kernels of a graph have no call: the operator is not theirs."""
        kernel = pl.col("kind") == "kernel"
        call = self._host.ops["call"].gather(part["op"]).alias("call")
        part = part.hstack([call]).with_columns(
            grid=pl.coalesce("grid", pl.when(kernel).then("api_grid")),
            block=pl.coalesce("block", pl.when(kernel).then("api_block")),
            moved=pl.when(~kernel).then(pl.coalesce("bytes", "size")),
            signed_call=pl.when(pl.col("status") == "linked").then("call"),
        )
        distinct = part.select(KEYS).unique(maintain_order=True)
        ids = [self._signature(row)["signature_id"] for row in distinct.iter_rows()]
        distinct = distinct.with_columns(signature_id=pl.Series(ids, dtype=pl.String))
        return part.join(distinct, on=KEYS, how="left", nulls_equal=True, maintain_order="left")

    def _signature(self, key: tuple[Any, ...]) -> dict[str, Any]:
        found = self._signatures.get(key)
        if found is None:
            kind, name, grid, block, moved, copy_kind, call = key
            made = None if call is None else self._calls[call]
            found = self._signatures[key] = signature_row(kind, name, grid, block, (moved, copy_kind), made)
        return found

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
            module_name=pl.coalesce("module_name", "module_note"), python_name=pl.coalesce("python_name", innermost)
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
    table = pl.DataFrame(rows, schema=dict.fromkeys(GPU_TEXT, pl.String), orient="row")
    return table.select(
        pl.Series("kernel", range(len(rows)), dtype=pl.UInt32),
        pl.Series("kind", kinds, pl.String),
        pl.col("name").fill_null(""),
        "grid",
        "block",
        pl.Series("copy_kind", copies, pl.String),
        pl.Series("limiter", [_limiter(row[5]) for row in rows], pl.String),
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


def _collective_table(collected: Collector) -> pl.DataFrame:
    rows = collected.collectives.rows()
    table = pl.DataFrame(rows, schema=COLLECTIVE, orient="row", strict=False)
    return table.with_columns(pl.Series("collective", range(len(rows)), dtype=pl.UInt32))


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
        phase=pl.coalesce("phase", pl.when(~step).then("gpu_phase")),
        range_path=pl.coalesce("path", "gpu_phase"),
        module="module_name",
        python_line="python_name",
        shared_bytes=pl.coalesce("shared memory", "api_shared"),
        registers=pl.col("registers per thread").cast(pl.Int32, strict=False),
        occupancy=pl.col("est. achieved occupancy %") / 100,
        occupancy_limiter="limiter",
        blocks_per_multiprocessor="blocks per SM",
        queued_ns=pl.when(pl.col("queued") > 0).then("queued"),
        graph_id="graph id",
        graph_node_id="graph node id",
        collective="collective_name",
        **{name: pl.col(name) for name in list(COLLECTIVE)[1:]},
    )
