"""Rows of the reports that list single events: GPU work, kernels with their calls, calls, ranges on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

from kerneldb.ingest.nsys import values
from kerneldb.ingest.nsys.columns import Column
from kerneldb.ingest.nsys.text import Table

SECONDS: Final = 1e9
AXES: Final = {
    f"{shape}_{axis}": f"{shape[:1].upper()}{letters}{axis.upper()}"
    for shape, letters in (("grid", "rd"), ("block", "lk"))
    for axis in "xyz"
}
NO_CALL: Final = "no_launch"
NO_OPERATOR: Final = "no_op"
NVTX_NAME: Final = "nvtx-name"
DEVICE: Final = r"^(.*?) ?\((\d+)\)$"
SHARED: Final = ("StcSMem", "DymSMem")


def named(table: Table, column: str = "Name") -> list[pl.Expr]:
    """`name` and `phase` of the rows: with the argument `nvtx-name`, names read `range/kernel`."""
    name = pl.col(column).fill_null("")
    if NVTX_NAME not in table.arguments:
        return [name.alias("name"), pl.lit(None, dtype=pl.String).alias("phase")]
    split = name.str.extract_groups(r"^(.*)/([^/]*)$")
    phase, kernel = split.struct.field("1"), split.struct.field("2")
    return [pl.coalesce(kernel, name).alias("name"), pl.when(kernel.is_not_null()).then(phase).alias("phase")]


def by_name(table: Table) -> Mapping[str, Column]:
    """The columns of a report by their names of today."""
    return {one.name: one for one in table.columns}


def gpu_trace(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `launches` of a cuda_gpu_trace, with the columns of identity, `device_name` and `quality`.

    Sizes in MB have three decimals: `quality` then says `shared_rounded`, and for copies `bytes_rounded` where the
    throughput does not give the exact number; a size that is rounded to nothing is unknown.
    """
    known = by_name(table)
    start, duration = known["Start"], known["Duration"]
    timed = rows.select(
        *named(table),
        pl.all().exclude("Name", "name", "phase"),
        start_ns=values.nanoseconds(start),
        duration_ns=values.nanoseconds(duration),
        kind=values.kind(pl.col("Name").fill_null("")),
        copy_kind=values.copy_kind(pl.col("Name").fill_null("")),
    )
    defects = _rounded_times(rows, start, duration)
    frame, lossy = _sized(rows, timed, known)
    shared = {name: known[name] for name in SHARED if name in known}
    rounded = {name: values.step(rows, one) > 1 for name, one in shared.items()}
    quality = [
        pl.lit(defects or None, dtype=pl.String),
        pl.when(pl.any_horizontal([pl.col(name).is_not_null() for name in rounded])).then(
            pl.lit("shared_rounded" if any(rounded.values()) else None, dtype=pl.String)
        ),
        pl.when(lossy).then(pl.lit("bytes_rounded")),
    ]
    return frame.select(
        *_plain(known),
        *_device(),
        *_shared(shared),
        "kind",
        "name",
        "phase",
        "bytes",
        "copy_kind",
        "start_ns",
        "duration_ns",
        end_ns=pl.col("start_ns") + pl.col("duration_ns"),
        launch_status=pl.lit(NO_CALL),
        quality=_joined(quality),
    )


def _rounded_times(rows: pl.DataFrame, start: Column, duration: Column) -> str:
    """What is coarser than 1 ns: the start in 2020 (seconds with six decimals), both with `--timeunit sec`."""
    coarse = {"start_rounded": values.step(rows, start), "duration_rounded": values.step(rows, duration)}
    return ",".join(name for name, size in coarse.items() if size > 1)


def _sized(rows: pl.DataFrame, timed: pl.DataFrame, known: Mapping[str, Column]) -> tuple[pl.DataFrame, pl.Expr]:
    """`bytes` of copies, as exact as the report allows, and whether a row's bytes are rounded."""
    size, rate = known["Bytes"], known["Throughput"]
    width = values.step(rows, size)
    sized = timed.with_columns(bytes_printed=values.real(size), rate_printed=values.real(rate))
    if width <= 1:
        return sized.with_columns(bytes=pl.col("bytes_printed").round().cast(pl.Int64)), pl.lit(value=False)
    exact = values.exact_bytes("bytes_printed", width, "rate_printed", values.step(rows, rate))
    near = pl.when(pl.col("bytes_printed") > 0).then(pl.col("bytes_printed").round().cast(pl.Int64))
    return sized.with_columns(exact=exact).with_columns(bytes=pl.coalesce("exact", near)), (
        pl.col("exact").is_null() & pl.col("bytes_printed").is_not_null()
    )


def _plain(known: Mapping[str, Column]) -> list[pl.Expr]:
    taken = {
        **{name: (printed, pl.Int32) for name, printed in AXES.items()},
        "registers": ("Reg/Trd", pl.Int32),
        "correlation_id": ("CorrId", pl.Int64),
        "context": ("Ctx", pl.Int64),
        "stream": ("Strm", pl.Int64),
    }
    return [pl.col(printed).cast(kind).alias(name) for name, (printed, kind) in taken.items() if printed in known]


def _device() -> list[pl.Expr]:
    found = pl.col("Device").str.extract_groups(DEVICE)
    number, name = found.struct.field("2").cast(pl.Int32), found.struct.field("1")
    return [number.alias("device"), pl.when(name != "").then(name).alias("device_name")]


def _shared(shared: Mapping[str, Column]) -> list[pl.Expr]:
    if len(shared) < len(SHARED):
        return []
    static, dynamic = (values.whole(shared[name]) for name in SHARED)
    return [
        static.alias("static_shared_bytes"),
        dynamic.alias("dynamic_shared_bytes"),
        (static + dynamic).alias("shared_bytes"),
    ]


def _joined(parts: list[pl.Expr]) -> pl.Expr:
    text = pl.concat_str(parts, separator=",", ignore_nulls=True)
    return pl.when(text != "").then(text)


def execution_trace(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `launches` of a cuda_kern_exec_trace: kernels only, each with the call that launched it."""
    known = by_name(table)
    return rows.select(
        *named(table, "Kernel Name"),
        *values.shape("GridXYZ", "grid"),
        *values.shape("BlockXYZ", "block"),
        kind=pl.lit("kernel"),
        start_ns=values.nanoseconds(known["Kernel Start"]),
        duration_ns=values.nanoseconds(known["Kernel Dur"]),
        end_ns=values.nanoseconds(known["Kernel Start"]) + values.nanoseconds(known["Kernel Dur"]),
        process="PID",
        device=pl.col("DevId").cast(pl.Int32),
        api_call=pl.col("API Function").str.replace(r"_v\d+$", ""),
        launch_start_ns=values.nanoseconds(known["API Start"]),
        launch_duration_ns=values.nanoseconds(known["API Dur"]),
        launch_status=pl.lit(NO_OPERATOR),
        quality=pl.lit(_rounded_times(rows, known["Kernel Start"], known["Kernel Dur"]) or None, dtype=pl.String),
    )


def api_trace(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `api_calls` of a cuda_api_trace without trace_id and api_index."""
    known = by_name(table)
    name = pl.col("Name").str.replace(r"_v\d+$", "")
    return rows.select(
        kind=pl.when(name.str.contains(r"^cu[A-Z]")).then(pl.lit("cuda_driver")).otherwise(pl.lit("cuda_runtime")),
        name=name,
        process="PID",
        thread="TID",
        start_ns=values.nanoseconds(known["Start"]),
        duration_ns=values.nanoseconds(known["Duration"]),
        correlation_id=pl.col("CorrId").cast(pl.Int64),
    )


def projected_ranges(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `ranges` of an nvtx_gpu_proj_trace: each range from its first to its last GPU operation.

    GPU work outside of ranges (a row without name) is left out.
    """
    known = by_name(table)
    return rows.filter(pl.col("Name").is_not_null()).select(
        range_id=pl.col("RangeId").cast(pl.Int64),
        kind=pl.lit("nvtx_gpu_projection"),
        name=pl.col("Name"),
        process="PID",
        thread="TID",
        start_ns=values.nanoseconds(known["Projected Start"]),
        duration_ns=values.nanoseconds(known["Projected Duration"]),
        parent_id=pl.col("ParentId").cast(pl.Int64),
        depth=pl.col("Lvl").cast(pl.Int32),
        finished=pl.lit(value=True),
    )


LAUNCHES: Final[Mapping[str, Callable[[Table, pl.DataFrame], pl.DataFrame]]] = {
    "cuda_gpu_trace": gpu_trace,
    "cuda_kern_exec_trace": execution_trace,
}
"""Reports of launches, the best first."""
