"""What `kerneldb db doctor` says of a trace of Nsight Compute."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb.batch import Manifest
from kerneldb.ingest.doctor import Diagnostic, launched, read_table

RAW: Final = "`ncu --import REPORT.ncu-rep --page raw --csv`"
COMPUTE: Final = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY: Final = tuple(
    f"{unit}_throughput.avg.pct_of_peak_sustained_elapsed" for unit in ("gpu__dram", "dram_", "gpu__compute_memory")
)
"""Of these the normalised roofline is made, as in launch_counters."""
DURATION: Final = "gpu__time_duration.sum"
PASSES: Final = "profiler__replayer_passes"
MANY_PASSES: Final = 50
ROOFLINE: Final = (
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained|"
    "derived__sm__sass_thread_inst_executed_op_ffma_pred_on_x2",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed|"
    "derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2",
    "dram__bytes.sum.peak_sustained",
    "dram__cycles_elapsed.avg.per_second",
    "dram__bytes.sum.per_second",
)
"""What the roofline of single precision needs (SpeedOfLight_RooflineChart.section), alternatives between bars."""
COUNTED: Final = (
    r"^(?:sm__ops_path_tensor_\w+\.sum(?:\.per_\w+)?|smsp?__sass_thread_inst_executed_op_[fdh]fma_pred_on\.sum)$"
)
"""Operations from which the view ncu_roofline makes points where the peaks of single precision are missing."""
TRAFFIC: Final = ("dram__bytes.sum", "dram__bytes_read.sum", "dram__bytes_op_read.sum", "dram__bytes.sum.per_second")
OLD_NAME: Final = r"^[a-z0-9]+(?:_[a-z0-9]+)+(?:\.\w+)*$"
OLD_NAMES: Final = "Names of nvprof (`flop_count_sp`) do not exist in ncu: `ncu --query-metrics` lists those that do."
SECTIONS: Final = "Profile with `--set roofline` or `--set full`, and print the raw page."
CLOCKS: Final = (
    "ncu locks the clocks to base while it profiles (`--clock-control base`) and empties the caches before each pass: "
    "durations and peaks are those of that clock, and never enter time sums."
)


def diagnostics(manifest: Manifest) -> Iterator[Diagnostic]:
    """Launches, metrics for the roofline, replay passes, metrics that ncu could not collect, and clocks."""
    if "source_counters" in manifest.parts and "launches" not in manifest.parts:
        yield from _source_page(read_table(manifest, "source_counters"))
        return
    launches, metrics = read_table(manifest, "launches"), read_table(manifest, "metrics")
    if launches.is_empty():
        kernels = read_table(manifest, "rollups").height
        yield Diagnostic("ok", "GPU events", f"Sums over the launches of {kernels:,} kernels.")
        yield Diagnostic("note", "summary", "A summary holds no single launches.", f"Print the launches: {RAW}.")
        return
    yield launched(launches, "profiled launches")
    yield from _launches(launches)
    if not metrics.is_empty():
        yield from _roofline(metrics)
        yield from _collected(metrics)
        yield from _passes(metrics)
    if launches["phase"].count() == 0:
        remedy = "Profile with `--nvtx` and mark phases (`torch.cuda.nvtx.range`), or ingest with `--phase NAME`."
        yield Diagnostic("note", "phases", "No NVTX ranges: launches have no phase.", remedy)
    yield Diagnostic("note", "clocks", CLOCKS, "Pass `--clock-control none` to profile at the clocks of the program.")


def _source_page(counters: pl.DataFrame) -> Iterator[Diagnostic]:
    kernels, rows = counters["kernel_index"].n_unique(), counters.filter(level="sass")["instruction"].len()
    message = f"Counters of instructions and source lines of {kernels:,} kernels ({rows:,} values of instructions)."
    yield Diagnostic("ok", "source page", message)
    remedy = f"Print the launches too: {RAW}."
    yield Diagnostic("note", "launches", "A source page prints no launches and no counters of whole kernels.", remedy)
    if counters["file"].null_count() == counters.height:
        remedy = "Compile with `-lineinfo`, and print with `--print-source cuda,sass`."
        yield Diagnostic("note", "source lines", "The page names no source file.", remedy)


def _launches(launches: pl.DataFrame) -> Iterator[Diagnostic]:
    total = launches.height
    untimed = launches["duration_ns"].null_count()
    if untimed:
        remedy = f"Collect `{DURATION}` too (section SpeedOfLight)."
        yield Diagnostic("warning", "times", f"{untimed:,} of {total:,} launches have no duration.", remedy)
    rounded = launches["quality"].count()
    if rounded:
        message = f"Shared memory of {rounded:,} of {total:,} launches is rounded by the details page, and left out."
        yield Diagnostic("note", "shared memory", message, f"Print {RAW}, or the page with `--print-units base`.")


def _roofline(metrics: pl.DataFrame) -> Iterator[Diagnostic]:
    with_value = metrics.filter(pl.col("value").is_not_null() & pl.col("instance").is_null())
    present = set(with_value["metric"].unique())
    missing = [names.split("|")[0] for names in ROOFLINE if not present.intersection(names.split("|"))]
    if not missing:
        yield Diagnostic("ok", "roofline", "All metrics of ncu's single-precision roofline are there.")
        return
    shares = COMPUTE in present and not present.isdisjoint(MEMORY)
    worked = with_value.filter(pl.col("metric").str.contains(COUNTED) & (pl.col("value") > 0))
    if not worked.is_empty() and present.intersection(TRAFFIC):
        launches = worked["launch_index"].n_unique()
        message = (
            f"Roofline: {launches:,} launches have operations and DRAM traffic, so an intensity; peaks of single "
            f"precision are missing ({', '.join(missing[:2])}{', …' if len(missing) > len(missing[:2]) else ''})."
        )
        yield Diagnostic("note", "roofline", message, SECTIONS)
        return
    said = "only the normalised form (SM % against DRAM %) is possible" if shares else "no roofline is possible"
    few = ", ".join(missing[:3]) + (", …" if len(missing) > len(missing[:3]) else "")
    if shares and len(missing) == len(ROOFLINE):
        said += "; this is what `--set basic` collects"
    message = f"Roofline: {said}. Missing: {few}."
    yield Diagnostic("note" if shares else "warning", "roofline", message, SECTIONS)


def _collected(metrics: pl.DataFrame) -> Iterator[Diagnostic]:
    absent = pl.col("text").is_in(["n/a", "no data"]).any() & (pl.col("value").count() == 0)
    never = metrics.group_by("metric").agg(absent.alias("never")).filter("never")["metric"].sort().to_list()
    if never:
        few = ", ".join(never[:4]) + (", …" if len(never) > len(never[:4]) else "")
        remedy = OLD_NAMES if any("__" not in name and re.match(OLD_NAME, name) for name in never) else ""
        yield Diagnostic("note", "metrics", f"{len(never):,} metrics have no value in any launch: {few}.", remedy)


def _passes(metrics: pl.DataFrame) -> Iterator[Diagnostic]:
    passes = metrics.filter((pl.col("metric") == PASSES) & pl.col("value").is_not_null())["value"]
    if passes.is_empty():
        return
    low, high = (int(float(str(value))) for value in (passes.min(), passes.max()))
    message = f"Each kernel ran {low if low == high else f'{low} to {high}'} times to collect its counters."
    remedy = "Fewer sections need fewer passes." if high > MANY_PASSES else ""
    yield Diagnostic("note", "replay passes", message, remedy)
