"""Figures of `expected-pytorch.json`, derived from the files by other programs, from the converted tables."""

from __future__ import annotations

import functools
import gzip
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.conftest import SHARED_DATA
from tests.ingest.conversion import Converted, convert_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

FILE = SHARED_DATA / "expected-pytorch.json"
EXPECTED: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
FLOAT_STEP_US = 2.0**-10
"""What float64 resolves at these traces' times, 4.4e12 µs."""
FIGURES = [(trace, figure) for trace, figures in EXPECTED.items() for figure in figures]


def kernels(launches: pl.DataFrame) -> pl.DataFrame:
    return launches.filter(pl.col("kind") == "kernel")


def microseconds(nanoseconds: Any) -> float:
    return round(int(nanoseconds or 0) / 1000, 3)


def union(intervals: Iterable[tuple[int, int]]) -> int:
    """Length of the union of all (start, end), in ns."""
    total, end = 0, -1
    for start, stop in sorted(intervals):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def busy(launches: pl.DataFrame) -> int:
    return union(launches.select("start_ns", "end_ns").iter_rows())


def busy_of_the_file(path: Path) -> int:
    """The same from plain JSON with decimal numbers."""
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    activities = [event for event in events if event.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset"}]
    return union((int(event["ts"] * 1000), int((event["ts"] + event["dur"]) * 1000)) for event in activities)


def shapes(launches: pl.DataFrame) -> int:
    axes = [f"{side}_{axis}" for side in ("grid", "block") for axis in "xyz"]
    return kernels(launches).select("name", *axes).unique().height


def top3(launches: pl.DataFrame) -> list[list[Any]]:
    sums = kernels(launches).group_by("name").agg(pl.col("duration_ns").sum(), pl.len().alias("n"))
    ordered = sums.sort("duration_ns", descending=True).head(3)
    return [[name, microseconds(total), n] for name, total, n in ordered.iter_rows()]


def nccl(launches: pl.DataFrame) -> pl.DataFrame:
    return kernels(launches).filter(pl.col("name").str.contains("(?i)nccl"))


FROM_LAUNCHES: dict[str, Callable[[pl.DataFrame], Any]] = {
    "kernels": lambda launches: kernels(launches).height,
    "memcpy": lambda launches: launches.filter(pl.col("kind") == "memcpy").height,
    "memset": lambda launches: launches.filter(pl.col("kind") == "memset").height,
    "kernel_us": lambda launches: microseconds(kernels(launches)["duration_ns"].sum()),
    "gpu_us": lambda launches: microseconds(launches["duration_ns"].sum()),
    "busy_us": lambda launches: microseconds(busy(launches)),
    "span_us": lambda launches: microseconds(launches["end_ns"].max() - launches["start_ns"].min()),  # type: ignore[operator]
    "memcpy_bytes": lambda launches: launches.filter(pl.col("kind") == "memcpy")["bytes"].sum(),
    "names": lambda launches: kernels(launches)["name"].n_unique(),
    "launch_configs": shapes,
    "nccl": lambda launches: nccl(launches).height,
    "nccl_us": lambda launches: microseconds(nccl(launches)["duration_ns"].sum()),
    "top3": top3,
    "no_external_id": lambda launches: launches.filter(pl.col("launch_status") != "linked").height,
}


@pytest.fixture(scope="module")
def traces(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Converted]:
    """Converts a shared trace once."""
    return functools.cache(lambda name: convert_file(shared_data / "pytorch" / name, tmp_path_factory.mktemp("spool")))


@pytest.mark.parametrize(
    ("trace", "figure"), FIGURES, ids=[f"{trace.split('.')[0]}-{figure}" for trace, figure in FIGURES]
)
def test_figure(traces: Callable[[str], Converted], trace: str, figure: str) -> None:
    found = traces(trace)
    value = found.table("ops").height if figure == "cpu_ops" else FROM_LAUNCHES[figure](found.launches)
    expected = EXPECTED[trace][figure]
    if figure == "busy_us":
        assert value == pytest.approx(expected, abs=FLOAT_STEP_US * found.launches.height)
    else:
        assert value == expected


@pytest.mark.parametrize("trace", EXPECTED)
def test_busy_time_is_exact(traces: Callable[[str], Converted], shared_data: Path, trace: str) -> None:
    """The expected `busy_us` were summed in float64; in whole ns, plain JSON and the tables agree to the last one."""
    assert busy(traces(trace).launches) == busy_of_the_file(shared_data / "pytorch" / trace)


@pytest.mark.parametrize("trace", ["gpt2-train.json.gz", "kineto-tb-resnet50-workers0.json.gz"])
def test_theoretical_occupancy_is_what_kineto_estimates_of_launches_that_fill_the_gpu(
    traces: Callable[[str], Converted], trace: str
) -> None:
    """Kineto rounds to whole percents, and estimates no more than the blocks of the launch."""
    rows = kernels(traces(trace).launches)
    assert rows["theoretical_occupancy"].null_count() == rows["theoretical_limiter"].null_count() == 0
    known = rows.filter(pl.col("occupancy").is_not_null()).with_columns(
        apart=pl.col("theoretical_occupancy") - pl.col("occupancy")
    )
    full = known.filter(pl.col("blocks_per_multiprocessor") > 64)
    assert full.height > 300
    assert known["apart"].min() > -0.0051  # type: ignore[operator]
    assert full["apart"].max() < 0.0051  # type: ignore[operator]


def test_the_figures_are_there(shared_data: Path) -> None:
    assert len(FIGURES) == 45
