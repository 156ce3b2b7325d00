"""Printed numbers as whole nanoseconds and bytes, with what the printing lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.nsys.sniff import KIBIBYTES_2020, Column
from kerneldb.ingest.nsys.text import Table

COPY_KIND: Final = r"(?i)memcpy (?:[^\]]*?)([HDPA])(?:ost|evice|eer|rray)?(?:-to-|to)([HDPA])"
SHARP: Final = 0.5
"""Bytes that the last digit of a throughput may mean, for the size to be taken from it."""
SECONDS: Final = 1e9
AXES: Final = {
    f"{shape}_{axis}": f"{shape[:1].upper()}{letters}{axis.upper()}"
    for shape, letters in (("grid", "rd"), ("block", "lk"))
    for axis in "xyz"
}
DEVICE: Final = r"^(.*?) ?\((\d+)\)$"
VERSION: Final = r"_v\d+$"
"""What a call of CUDA has behind its name: the version of its signature."""
SHARED: Final = ("StcSMem", "DymSMem")
ORIGINS: Final[Mapping[str, str]] = {
    "cuda_gpu_kern_gb_sum": "report_grid",
    "cuda_gpu_kern_sum": "report",
    "cuda_gpu_mem_time_sum": "report",
    "cuda_gpu_sum": "report",
    "cuda_api_gpu_sum": "report",
    "nvtx_kern_sum": "report_phase",
}
"""Report of sums → `rollups.origin`: per launch shape, per name, per range around the launch."""
SIZES: Final = "cuda_gpu_mem_size_sum"
NAMES: Final = {
    "nvtx_kern_sum": "Kernel Name",
    "cuda_gpu_mem_time_sum": "Operation",
    "cuda_gpu_sum": "Operation",
    "cuda_api_gpu_sum": "Operation",
}
STATISTICS: Final = {"Total": "sum", "Count": "count", "Avg": "avg", "Med": "median", "Min": "min", "Max": "max"}
METRIC: Final = "memory_operation__bytes"


def whole(column: Column, factor: float | None = None) -> pl.Expr:
    """The column in base units, rounded to whole ones. `factor` counts where the header names no unit.

    Numbers that 64 bits do not hold stay far too large: such times are refused, and counted.
    """
    scale = column.factor or factor or 1.0
    text = pl.col(column.name)
    scaled = (text.cast(pl.Float64) * scale).clip(-times.SATURATED, times.SATURATED).round().cast(pl.Int64)
    return scaled if scale != 1.0 else pl.coalesce(text.cast(pl.Int64, strict=False), scaled)


def real(column: Column, factor: float | None = None) -> pl.Expr:
    """The column in base units."""
    return pl.col(column.name).cast(pl.Float64) * (column.factor or factor or 1.0)


def step(rows: pl.DataFrame, column: Column, factor: float | None = None) -> float:
    """The last printed digit in base units: 1e6 for seconds with three decimals."""
    decimals = rows[column.name].str.extract(r"\.(\d+)$").str.len_chars().max()
    digits = decimals if isinstance(decimals, int) else 0
    return float((column.factor or factor or 1.0) / 10.0 ** min(digits, sys.float_info.max_10_exp))


def kind(name: pl.Expr) -> pl.Expr:
    """`kernel`, `memcpy` or `memset` from the printed name, such as `[CUDA memcpy Host-to-Device]`."""
    copies = name.str.contains(r"^\[(?:CUDA|Unified Memory) (?:[\w ]+ )?[Mm]emcpy")
    return (
        pl.when(copies)
        .then(pl.lit("memcpy"))
        .when(name.str.starts_with("[CUDA memset"))
        .then(pl.lit("memset"))
        .otherwise(pl.lit("kernel"))
    )


def copy_kind(name: pl.Expr) -> pl.Expr:
    """Direction of a copy (HtoD, DtoH, DtoD, HtoH, PtoP, HtoA, …) from its printed name; NULL for others."""
    found = name.str.extract_groups(COPY_KIND)
    letters = [found.struct.field(str(number)).str.to_uppercase() for number in (1, 2)]
    return pl.when(name.str.contains(r"^\[(?:CUDA|Unified Memory) ")).then(
        pl.concat_str(letters[0], pl.lit("to"), letters[1])
    )


def shape(column: str, prefix: str) -> list[pl.Expr]:
    """`prefix_x`, `_y`, `_z` from a printed triple such as `"   8   32    1"`."""
    numbers = pl.col(column).str.extract_all(r"\d+")
    return [
        numbers.list.get(position, null_on_oob=True).cast(pl.Int32).alias(f"{prefix}_{axis}")
        for position, axis in enumerate("xyz")
    ]


def exact_bytes(size: str, step_bytes: float, throughput: str, step_rate: float) -> pl.Expr:
    """Bytes of a copy from its rounded size and its throughput, NULL where the two do not single out one number.

    nsys since 2021 prints throughput as `bytes * (1000000000 / duration)` in whole numbers, so that of a short copy
    carries more digits of its size than the size column. `size`, `throughput`: columns in bytes and bytes/s with their
    last digits; the duration is in `duration_ns`.
    """
    per_byte = 1_000_000_000 // pl.when(pl.col("duration_ns") > 0).then("duration_ns")
    candidate = (pl.col(throughput) / per_byte).round()
    sharp = step_rate < per_byte * SHARP
    near = (pl.col(size) - candidate).abs() <= step_bytes / 2 + 1e-6
    same = (candidate * per_byte - pl.col(throughput)).abs() <= step_rate / 2 + 1e-6
    return pl.when(sharp & near & same).then(candidate.cast(pl.Int64))


def named(table: Table, column: str = "Name") -> list[pl.Expr]:
    """`name` and `phase` of the rows: with the argument `nvtx-name`, names read `range/kernel`."""
    name = pl.col(column).fill_null("")
    if "nvtx-name" not in table.arguments:
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
        start_ns=whole(start),
        duration_ns=whole(duration),
        kind=kind(pl.col("Name").fill_null("")),
        copy_kind=copy_kind(pl.col("Name").fill_null("")),
    )
    defects = _rounded_times(rows, start, duration)
    frame, lossy = _sized(rows, timed, known)
    shared = {name: known[name] for name in SHARED if name in known}
    rounded = {name: step(rows, one) > 1 for name, one in shared.items()}
    device = pl.col("Device").str.extract_groups(DEVICE)
    quality = [
        pl.lit(defects or None, dtype=pl.String),
        pl.when(pl.any_horizontal([pl.col(name).is_not_null() for name in rounded])).then(
            pl.lit("shared_rounded" if any(rounded.values()) else None, dtype=pl.String)
        ),
        pl.when(lossy).then(pl.lit("bytes_rounded")),
    ]
    joined = pl.concat_str(quality, separator=",", ignore_nulls=True)
    return frame.select(
        *_plain(known),
        device.struct.field("2").cast(pl.Int32).alias("device"),
        pl.when(device.struct.field("1") != "").then(device.struct.field("1")).alias("device_name"),
        *_shared(shared),
        pl.col("kind", "name", "phase", "bytes", "copy_kind", "start_ns", "duration_ns"),
        end_ns=pl.col("start_ns") + pl.col("duration_ns"),
        launch_status=pl.lit("no_launch"),
        quality=pl.when(joined != "").then(joined),
    )


def _rounded_times(rows: pl.DataFrame, start: Column, duration: Column) -> str:
    """What is coarser than 1 ns: the start in 2020 (seconds with six decimals), both with `--timeunit sec`."""
    coarse = {"start_rounded": step(rows, start), "duration_rounded": step(rows, duration)}
    return ",".join(name for name, size in coarse.items() if size > 1)


def _sized(rows: pl.DataFrame, timed: pl.DataFrame, known: Mapping[str, Column]) -> tuple[pl.DataFrame, pl.Expr]:
    """`bytes` of copies, as exact as the report allows, and whether a row's bytes are rounded."""
    size, rate = known.get("Bytes"), known.get("Throughput")
    if size is None:
        return timed.with_columns(bytes=pl.lit(None, dtype=pl.Int64)), pl.lit(value=False)
    width = step(rows, size)
    sized = timed.with_columns(bytes_printed=real(size), rate_printed=real(rate) if rate else pl.lit(None, pl.Float64))
    if width <= 1:
        return sized.with_columns(bytes=pl.col("bytes_printed").round().cast(pl.Int64)), pl.lit(value=False)
    exact = exact_bytes("bytes_printed", width, "rate_printed", step(rows, rate) if rate else 1.0)
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


def _shared(shared: Mapping[str, Column]) -> list[pl.Expr]:
    if len(shared) < len(SHARED):
        return []
    static, dynamic = (whole(shared[name]) for name in SHARED)
    return [
        static.alias("static_shared_bytes"),
        dynamic.alias("dynamic_shared_bytes"),
        (static + dynamic).alias("shared_bytes"),
    ]


def execution_trace(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `launches` of a cuda_kern_exec_trace: kernels only, each with the call that launched it."""
    known = by_name(table)
    return rows.select(
        *named(table, "Kernel Name"),
        *shape("GridXYZ", "grid"),
        *shape("BlockXYZ", "block"),
        kind=pl.lit("kernel"),
        start_ns=whole(known["Kernel Start"]),
        duration_ns=whole(known["Kernel Dur"]),
        end_ns=whole(known["Kernel Start"]) + whole(known["Kernel Dur"]),
        process="PID",
        device=pl.col("DevId").cast(pl.Int32),
        api_call=pl.col("API Function").str.replace(VERSION, ""),
        launch_start_ns=whole(known["API Start"]),
        launch_duration_ns=whole(known["API Dur"]),
        launch_status=pl.lit("no_op"),
        quality=pl.lit(_rounded_times(rows, known["Kernel Start"], known["Kernel Dur"]) or None, dtype=pl.String),
    )


def api_trace(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `api_calls` of a cuda_api_trace, vulkan_api_trace or mpi_event_trace without trace_id and api_index."""
    known = by_name(table)
    name = pl.col("Event" if "Event" in known else "Name").str.replace(VERSION, "")
    cuda = pl.when(name.str.contains(r"^cu[A-Z]")).then(pl.lit("cuda_driver")).otherwise(pl.lit("cuda_runtime"))
    return rows.select(
        kind=cuda if table.report == "cuda_api_trace" else pl.lit(table.report.partition("_")[0]),
        name=name,
        process="PID",
        thread="TID",
        start_ns=whole(known["Start"]),
        duration_ns=whole(known["Duration"]),
        correlation_id=_optional(known, "CorrId"),
        bytes=whole(known["Size"]) if "Size" in known else pl.lit(None, dtype=pl.Int64),
    )


def _optional(known: Mapping[str, Column], name: str) -> pl.Expr:
    return (pl.col(name) if name in known else pl.lit(None)).cast(pl.Int64)


def pushed_ranges(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `ranges` of an nvtx_pushpop_trace."""
    made = _ranges(table, rows, "nvtx_push_pop", "Start", "Duration")
    paths: dict[int, str] = {}
    for number, name, above in made.sort("depth").select("range_id", "name", "parent_id").iter_rows():
        paths[number] = f"{paths[above]}/{name}" if above in paths else name
    return made.with_columns(path=pl.col("range_id").replace_strict(paths, return_dtype=pl.String))


def projected_ranges(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `ranges` of an nvtx_gpu_proj_trace: each range from its first to its last GPU operation.

    GPU work outside of ranges (a row without name) is left out.
    """
    named = rows.filter(pl.col("Name").is_not_null())
    return _ranges(table, named, "nvtx_gpu_projection", "Projected Start", "Projected Duration")


def _ranges(table: Table, rows: pl.DataFrame, kind: str, start: str, duration: str) -> pl.DataFrame:
    known = by_name(table)
    return rows.select(
        range_id=pl.col("RangeId").cast(pl.Int64),
        kind=pl.lit(kind),
        name=pl.col("Name").fill_null(""),
        process="PID",
        thread="TID",
        start_ns=whole(known[start]),
        duration_ns=whole(known[duration]),
        parent_id=pl.col("ParentId").cast(pl.Int64),
        depth=pl.col("Lvl").cast(pl.Int32),
        finished=pl.lit(value=True),
    )


LAUNCHES: Final[Mapping[str, Callable[[Table, pl.DataFrame], pl.DataFrame]]] = {
    "cuda_gpu_trace": gpu_trace,
    "cuda_kern_exec_trace": execution_trace,
}
"""Reports of launches, the best first."""


def rollups(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `rollups` with the columns of identity.

    `StdDev` is that of a sample (n − 1; checked against the launches of an export), so the sum of squares is
    (n − 1)·s² + total²/n. 2020 prints neither it nor the median. Averages are computed from total and number.
    """
    known = by_name(table)
    number = next(known[name] for name in ("Kern Inst", "Instances", "Count") if name in known)
    unknown = pl.lit(None, dtype=pl.Float64)
    median, deviation = (real(known[name]) if name in known else unknown for name in ("Med", "StdDev"))
    n, total = pl.col(number.name).cast(pl.Int64), whole(known["Total Time"])
    return rows.select(
        *_identity(table, known),
        origin=pl.lit(ORIGINS[table.report]),
        timing=pl.lit("timeline"),
        n=n,
        timed=n,
        total_ns=total,
        min_ns=whole(known["Min"]),
        max_ns=whole(known["Max"]),
        median_ns=median,
        sum_squares_ns2=(n - 1) * deviation.pow(2) + total.cast(pl.Float64).pow(2) / n,
    )


def _identity(table: Table, known: Mapping[str, Column]) -> list[pl.Expr]:
    column = NAMES.get(table.report, "Name")
    name, phase = named(table, column)
    text = pl.col(column).fill_null("")
    found = [name, kind(text).alias("kind"), copy_kind(text).alias("copy_kind")]
    if "GridXYZ" in known:
        found += [*shape("GridXYZ", "grid"), *shape("BlockXYZ", "block")]
    return [*found, pl.col("NVTX Range").alias("phase") if "NVTX Range" in known else phase]


def sizes(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `metrics` with the columns of identity: `memory_operation__bytes.sum`, `.avg`, … per direction.

    `precision` is half of the last printed digit. 2020 prints KiB without saying so.
    """
    known = by_name(table)
    text = pl.col("Operation").fill_null("")
    identity = [text.alias("name"), kind(text).alias("kind"), copy_kind(text).alias("copy_kind")]
    parts = [
        figure(rows, known[name], f"{METRIC}.{suffix}", "byte", identity, KIBIBYTES_2020)
        for name, suffix in STATISTICS.items()
        if name in known
    ]
    return pl.concat(parts).with_columns(section=pl.lit(table.report))


def figure(
    rows: pl.DataFrame,
    column: Column,
    metric: str,
    unit: str,
    identity: Sequence[pl.Expr],
    factor: float | None = None,
) -> pl.DataFrame:
    """Rows of `metrics` with the columns of `identity`: one column of a report, in base units.

    `factor` counts where the header names no unit; numbers of things (`.count`) have none.
    """
    counted = metric.endswith(".count")
    scale = 1.0 if counted else factor
    return rows.select(
        *identity,
        metric=pl.lit(metric),
        value=real(column, scale),
        unit=pl.lit("count" if counted else unit),
        precision=pl.lit(step(rows, column, scale) / 2),
        source_metric=pl.lit(column.printed),
    )
