"""Rows of the CSV files as launches, calls, ranges, memory events, metrics and sums."""

from __future__ import annotations

from typing import Final

import polars as pl

from kerneldb.ingest.amd.launches import STATIC_ONLY, WORK_ITEMS, copy_kind
from kerneldb.ingest.amd.memory import signed
from kerneldb.ingest.amd.output import nullable
from kerneldb.ingest.amd.ranges import Marker
from kerneldb.ingest.rocprof_csv.agents import AgentMap
from kerneldb.ingest.rocprof_csv.table import INTEGERS

AXES: Final = "xyz"
TEXTS: Final = ("name", "agent", "process", "thread", "guid", "domain", "function", "direction", "operation")
TEXT_COLUMNS: Final = (*TEXTS, "source_agent", "target_agent", "address", "flags", "counter", "stat_name")
COLUMNS: Final[dict[str, type[pl.DataType]]] = {
    **dict.fromkeys(TEXT_COLUMNS, pl.String),
    **dict.fromkeys(sorted(INTEGERS), pl.Int64),
}


def kernels(rows: pl.DataFrame, agents: AgentMap, process: str | None, timing: str, from_rocpd: bool) -> pl.DataFrame:
    """Launches as `Launches.add` takes them, from a kernel trace or from counter collection."""
    rows = nullable(rows, COLUMNS)
    exact = pl.coalesce("lds_total", "lds_block") if from_rocpd else pl.col("lds_total")
    static = pl.lit(None, dtype=pl.Int64) if from_rocpd else pl.col("lds_block")
    products = pl.when(pl.col("grid_x").is_null() & (pl.col("workgroup") > 0))
    return rows.select(
        "stream",
        "queue",
        "name",
        agents.devices(rows["agent"]).alias("device"),
        kind=pl.lit("kernel"),
        timing=pl.lit(timing),
        process=pl.coalesce("process", pl.lit(process, dtype=pl.String)),
        start_ns="start",
        end_ns="end",
        correlation_id="correlation",
        reported_grid_unit=pl.lit(WORK_ITEMS),
        **{f"reported_grid_{axis}": pl.col(f"grid_{axis}") for axis in AXES},
        **{f"block_{axis}": pl.col(f"workgroup_{axis}") for axis in AXES},
        total_blocks=products.then((pl.col("grid") + pl.col("workgroup") - 1) // pl.col("workgroup")),
        threads_per_block=products.then("workgroup"),
        shared_bytes=pl.coalesce(exact, static),
        static_shared_bytes=static,
        quality=pl.when(exact.is_null() & static.is_not_null()).then(pl.lit(STATIC_ONLY)),
        scratch_bytes="scratch",
        registers_reported="vgpr",
        agprs_reported="agpr",
        sgprs_reported="sgpr",
        graph_id=pl.when(pl.col("graph") != 0).then("graph"),
        graph_node_id=pl.when(pl.col("graph") != 0).then("graph_node"),
    )


def copies(rows: pl.DataFrame, agents: AgentMap, process: str | None) -> pl.DataFrame:
    """Copies as `Launches.add` takes them. The file prints no size; some releases of rocpd do."""
    rows = nullable(rows, COLUMNS)
    names = rows["direction"]
    kinds = {name: copy_kind(name) for name in names.unique().drop_nulls()}
    target, source = (agents.devices(rows[f"{side}_agent"]) for side in ("target", "source"))
    copied = names.replace_strict(kinds, default=None, return_dtype=pl.String)
    # Without a file of agents, the host looks like a device.
    device = pl.when(copied == "DtoH").then(pl.coalesce(source, target)).otherwise(pl.coalesce(target, source))
    return rows.select(
        "stream",
        pl.Series("device", pl.select(device).to_series()),
        copied.alias("copy_kind"),
        kind=pl.lit("memcpy"),
        name="direction",
        process=pl.coalesce("process", pl.lit(process, dtype=pl.String)),
        start_ns="start",
        end_ns="end",
        correlation_id="correlation",
        bytes="size",
    )


def calls(rows: pl.DataFrame) -> pl.DataFrame:
    """Calls as `Host.add` takes them."""
    return nullable(rows, COLUMNS).select(
        "process",
        "thread",
        kind="domain",
        name=pl.col("function").fill_null(""),
        start_ns="start",
        end_ns="end",
        correlation_id="correlation",
    )


def markers(rows: pl.DataFrame) -> list[Marker]:
    """Roctx ranges; the text stands where other files print the function. Thread 0 means a range of the process."""
    columns = ("process", "thread", "function", "start", "end")
    found = nullable(rows, COLUMNS).drop_nulls(("start", "end")).select(columns)
    return [
        Marker(process, None if thread in (None, "0") else thread, text or "", start, end)
        for process, thread, text, start, end in found.iter_rows()
    ]


def memory(rows: pl.DataFrame, agents: AgentMap, process: str | None, scratch: bool) -> pl.DataFrame:
    """Allocations as `memory_rows` takes them."""
    rows = nullable(rows, COLUMNS)
    addresses = [_address(text) for text in rows["address"]]
    return rows.select(
        "thread",
        agents.devices(rows["agent"]).alias("device"),
        pl.Series("address", addresses, dtype=pl.Int64),
        process=pl.coalesce("process", pl.lit(process, dtype=pl.String)),
        start_ns="start",
        end_ns="end",
        bytes="size",
        operation="operation",
        level=pl.lit("SCRATCH" if scratch else "REAL"),
    )


def _address(text: str | None) -> int | None:
    try:
        return signed(int(text, 0)) if text else None
    except ValueError:
        return None


def sums(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `rollups` without ids, and the kernel's name beside them."""
    rows = nullable(rows, {**COLUMNS, "deviation_ns": pl.Float64, "mean_ns": pl.Float64})
    calls_made = pl.col("calls").cast(pl.Float64)
    mean = pl.coalesce("mean_ns", pl.col("total_ns") / calls_made)
    return rows.drop_nulls(("stat_name", "calls")).select(
        "total_ns",
        "min_ns",
        "max_ns",
        name="stat_name",
        kind=pl.lit("kernel"),
        origin=pl.lit("report"),
        timing=pl.lit("timeline"),
        n="calls",
        timed="calls",
        sum_squares_ns2=calls_made * mean**2 + (calls_made - 1).clip(lower_bound=0) * pl.col("deviation_ns") ** 2,
    )
