"""Reports of `nsys stats` about the host: sums of calls and ranges, unified memory, and how long kernels wait to start.

Names and columns: the section "Statistical Reports Shipped With Nsight Systems" of the documentation, 2023 to 2025.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import polars as pl

from kerneldb.ingest.nsys import reports, sniff
from kerneldb.ingest.nsys.sniff import Column
from kerneldb.ingest.nsys.text import Table

CALLS: Final = "cuda_api_sum"
EXECUTION: Final = "cuda_kern_exec_sum"
CATEGORIES: Final[Mapping[str, tuple[str, ...]]] = {
    "CUDA_KERNEL": ("cuda_gpu_kern_sum", "cuda_gpu_sum"),
    "MEMORY_OPER": ("cuda_gpu_mem_time_sum", "cuda_gpu_sum"),
    "CUDA_API": (CALLS,),
}
"""Category of a row of cuda_gpu_sum or cuda_api_gpu_sum → reports that sum the same."""
HOST: Final = frozenset({*sniff.HOST_SUMS, "api_sum", "range_sum", "event_sum"})
"""Sums over calls or ranges. The last three are those of reports whose name nothing tells."""
UNIFIED: Final = frozenset({"um_sum", "um_total_sum", "um_cpu_page_faults_sum"})
STATISTICS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Total Time", "Total Proj Time", "Total Message Volume"), "sum"),
    **dict.fromkeys(("Num Calls", "Instances", "Range Instances", "Count"), "count"),
    **{f"{prefix}{name}": name.lower() for prefix in ("", "Proj ") for name in ("Avg", "Min", "Max", "StdDev")},
    **dict.fromkeys(("Med", "Proj Med"), "median"),
}
OTHERS: Final[Mapping[str, tuple[str, str]]] = {
    "Total Range Time": ("range_time.sum", "ns"),
    "Total GPU Ops": ("gpu_operations.count", "count"),
}
"""What nvtx_gpu_proj_sum has beyond that: column → metric and unit."""
NAMES: Final = ("Name", "Range", "Operation")
DETAILS: Final = ("Style", "Event Type", "Source")
"""Columns that tell rows of one name apart."""
PLACES: Final = ("Virtual Address", "CPU Instruction Address")
STAGES: Final[Mapping[str, str]] = {"T": "total", "A": "api", "Q": "queue", "K": "kernel"}
"""First letter of a column of cuda_kern_exec_sum → what it sums: all, the call, the wait in the queue, the kernel."""
LAUNCH: Final = "kernel_launch"


def host(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `metrics`, such as `cuda_api__time.sum`, one per statistic and name; the name is the instance."""
    known = reports.by_name(table)
    name = next(one for one in NAMES if one in known)
    detail = next((one for one in DETAILS if one in known), None)
    text = pl.col(name).fill_null("")
    text = text.str.replace(reports.VERSION, "") if table.report == CALLS else text
    instance = (
        text
        if detail is None
        else pl.when(pl.col(detail).is_null())
        .then(text)
        .otherwise(pl.concat_str(text, pl.lit(" ("), detail, pl.lit(")")))
    )
    subject = table.report.removesuffix("_sum")
    what, unit = ("bytes", "byte") if table.report == "mpi_msg_size_sum" else ("time", "ns")
    times = {column: (f"{what}.{statistic}", unit) for column, statistic in STATISTICS.items()}
    wanted = {**times, **OTHERS}
    parts = [
        reports.figure(rows, known[column], f"{subject}__{metric}", of, [instance.alias("instance")])
        for column, (metric, of) in wanted.items()
        if column in known
    ]
    return _of_report(table, parts)


def unified(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `metrics` of unified memory, such as `unified_memory__gpu_page_faults`, per address if one is named."""
    known = reports.by_name(table)
    place = next((one for one in PLACES if one in known), None)
    instance = pl.lit(None, dtype=pl.String) if place is None else pl.col(place)
    parts = [
        reports.figure(rows, one, f"unified_memory__{_snake(name)}", _unit(one), [instance.alias("instance")])
        for name, one in known.items()
        if "Address" not in name
    ]
    return _of_report(table, parts)


def launch_times(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `metrics` with the columns of identity: `kernel_launch__queue_time.avg`, …; the instance is the call."""
    return _of_report(table, list(_stages(table, rows)))


def _stages(table: Table, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    known = reports.by_name(table)
    identity = [*_kernel(table), pl.col("API Function").alias("instance")]
    for letter, stage in STAGES.items():
        for name, statistic in STATISTICS.items():
            if f"{letter}{name}" in known:
                metric = f"{LAUNCH}__{stage}_time.{statistic}"
                yield reports.figure(rows, known[f"{letter}{name}"], metric, "ns", identity)
    for name, metric in {"Count": "launches", "QCount": "queued"}.items():
        yield reports.figure(rows, known[name], f"{LAUNCH}__{metric}.count", "count", identity)


def executions(table: Table, rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Rows of `rollups` with the columns of identity of a cuda_kern_exec_sum, and how many of them are not exact.

    It prints averages and no total: their product with the number of launches is exact to the nanosecond where the
    last digit of the average, times that number, is.
    """
    known = reports.by_name(table)
    n = pl.col("Count").cast(pl.Int64)
    average, deviation = (reports.real(known[name]) for name in ("KAvg", "KStdDev"))
    total = (n * average).round().cast(pl.Int64)
    rounded = (n.cast(pl.Float64) * reports.step(rows, known["KAvg"])) >= 1.0
    made = rows.select(
        *_kernel(table),
        origin=pl.lit("report"),
        timing=pl.lit("timeline"),
        device=pl.col("DevId").cast(pl.Int32),
        n=n,
        timed=n,
        total_ns=total,
        min_ns=reports.whole(known["KMin"]),
        max_ns=reports.whole(known["KMax"]),
        median_ns=reports.real(known["KMed"]),
        sum_squares_ns2=(n - 1) * deviation.pow(2) + n * average.pow(2),
    )
    return made, int(rows.select(rounded.sum()).item())


def _kernel(table: Table) -> list[pl.Expr]:
    return [*reports.named(table, "Kernel Name")[:1], pl.lit("kernel").alias("kind")]


def _of_report(table: Table, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).filter(pl.col("value").is_not_null()).with_columns(section=pl.lit(table.report))


def _snake(name: str) -> str:
    return re.sub(r"\W+", "_", name.strip()).lower()


def _unit(column: Column) -> str:
    if column.factor is None:
        return "count"
    return "byte/s" if "Throughput" in column.name else "byte"
