"""The figures of `expected-nsight.tsv`, derived with independent scripts: each one is a test with its name."""

from __future__ import annotations

import ast
import csv
import functools
import gzip
import io
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.conftest import SHARED_DATA
from tests.ingest.conversion import Converted, convert_file
from tests.nsys.test_exported import parquet_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


Figure = tuple[str, str, str, str]


def figures(kind: str) -> Iterator[Figure]:
    """(sample, key, value, note) of one kind; none where the collection of traces is not there."""
    path = SHARED_DATA / "expected-nsight.tsv"
    if path.is_file():
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                if row["kind"] == kind:
                    yield row["sample"], row["key"], row["value"], row["note"] or ""


def named(figure: Figure) -> str:
    return f"{figure[0]}:{figure[1]}"


@pytest.fixture(scope="session")
def converted(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Converted]:
    @functools.cache
    def convert(sample: str) -> Converted:
        return convert_file(shared_data / sample, tmp_path_factory.mktemp("nsys"))

    return convert


def kernels(one: Converted) -> pl.DataFrame:
    rows = one.launches if "launches" in one.manifest.parts else pl.DataFrame(schema={"kind": pl.String})
    return rows.filter(pl.col("kind") == "kernel")


def of_kind(one: Converted, kind: str) -> pl.DataFrame:
    rows = one.launches if "launches" in one.manifest.parts else pl.DataFrame(schema={"kind": pl.String})
    return rows.filter(pl.col("kind") == kind)


def total(rows: pl.DataFrame, column: str) -> int:
    return int(rows[column].sum())


def top(one: Converted, rank: int) -> tuple[int, int, str]:
    """Total time, launches and name of the kernel name with the `rank`-th largest total."""
    by_name = kernels(one).group_by("name").agg(pl.col("duration_ns").sum(), pl.len().alias("n"))
    row = by_name.sort("duration_ns", descending=True).row(rank - 1, named=True)
    return row["duration_ns"], row["n"], row["name"]


def busy(one: Converted, device: int) -> int:
    """Length of the union of the kernel intervals of a device."""
    covered, end = 0, 0
    for start, stop in (
        kernels(one).filter(pl.col("device") == device).sort("start_ns").select("start_ns", "end_ns").rows()
    ):
        covered += max(0, stop - max(start, end))
        end = max(end, stop)
    return covered


def distinct_signatures(one: Converted) -> int:
    shape = [f"{name}_{axis}" for name in ("grid", "block") for axis in "xyz"]
    return kernels(one).select("name", *shape, "shared_bytes").unique().height


def short_names(one: Converted) -> int:
    from kerneldb.ingest import sqlite

    with sqlite.open_database(PATHS[one.manifest.trace_id]) as database:
        return len(database.rows("SELECT DISTINCT shortName FROM CUPTI_ACTIVITY_KIND_KERNEL"))


PATHS: dict[str, Any] = {}


def gpu(one: Converted) -> tuple[Any, ...]:
    row = one.table("devices").row(0, named=True)
    properties = ast.literal_eval(row["properties"])
    return (
        row["device"],
        row["name"],
        row["multiprocessors"],
        properties["memoryBandwidth"],
        int(row["clock_mhz"] * 1e6),
    )


SQLITE: dict[str, Callable[[Converted], Any]] = {
    "kernel_launches": lambda one: kernels(one).height,
    "kernel_time_ns_total": lambda one: total(kernels(one), "duration_ns"),
    "first_start_ns": lambda one: kernels(one)["start_ns"].min(),
    "last_end_ns": lambda one: kernels(one)["end_ns"].max(),
    "distinct_demangled": lambda one: kernels(one)["name"].n_unique(),
    "distinct_short": short_names,
    "distinct_signature(demangled,grid,block,smem)": distinct_signatures,
    "devices": lambda one: ",".join(str(number) for number in sorted(kernels(one)["device"].unique())),
    "streams": lambda one: kernels(one)["stream"].n_unique(),
    "sum_dynamic_smem_bytes": lambda one: total(kernels(one), "dynamic_shared_bytes"),
    "graph_node_kernels": lambda one: kernels(one)["graph_node_id"].drop_nulls().len(),
    "busy_ns_dev0": lambda one: busy(one, 0),
    "busy_ns_dev1": lambda one: busy(one, 1),
    "memcpy_count": lambda one: of_kind(one, "memcpy").height,
    "memcpy_bytes": lambda one: total(of_kind(one, "memcpy"), "bytes"),
    "memcpy_time_ns": lambda one: total(of_kind(one, "memcpy"), "duration_ns"),
    "memset_count": lambda one: of_kind(one, "memset").height,
    "memset_bytes": lambda one: total(of_kind(one, "memset"), "bytes"),
    "memset_time_ns": lambda one: total(of_kind(one, "memset"), "duration_ns"),
    "schema_version": lambda one: one.trace["era"].removeprefix("sqlite "),
    "gpu0": gpu,
}


@pytest.mark.parametrize("figure", list(figures("nsys_sqlite")), ids=named)
def test_export(converted: Callable[[str], Converted], shared_data: Path, figure: Figure) -> None:
    sample, key, value, note = figure
    one = converted(sample)
    PATHS[one.manifest.trace_id] = shared_data / sample
    if key.startswith("top"):
        nanoseconds, launches, name = top(one, int(key[3]))
        count, _, start = note.partition(" ")
        assert (str(nanoseconds), f"x{launches}") == (value, count)
        assert name.startswith(start.strip())
    elif value == "TARGET_INFO_GPU absent":
        assert one.table("devices").is_empty()
    else:
        assert str(SQLITE[key](one)) == value


def rollups(one: Converted) -> pl.DataFrame:
    names = one.table("signatures").join(one.table("kernel_names").select("name_id", "name"), on="name_id")
    return one.table("rollups").join(names.select("signature_id", "name"), on="signature_id")


def header_of(path: Path) -> str:
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    return " | ".join(next(csv.reader(io.StringIO(text))))


SUMS: dict[str, Callable[[Converted], Any]] = {
    "rows": lambda one: rollups(one).height,
    "instances_total": lambda one: total(rollups(one), "n"),
    "time_ns_total": lambda one: total(rollups(one), "total_ns"),
    "distinct_names": lambda one: rollups(one)["name"].n_unique(),
}
TRACE: dict[str, Callable[[Converted], Any]] = {
    "rows": lambda one: one.launches.height,
    "kernel_rows": lambda one: kernels(one).height,
    "memop_rows": lambda one: one.launches.height - kernels(one).height,
    "kernel_time_ns_total": lambda one: total(kernels(one), "duration_ns"),
}


@pytest.mark.parametrize("figure", list(figures("nsys_csv")), ids=named)
def test_report(converted: Callable[[str], Converted], shared_data: Path, figure: Figure) -> None:
    sample, key, value, note = figure
    one = converted(sample)
    sums = "rollups" in one.manifest.parts
    if key == "header":
        assert header_of(shared_data / sample) == value
        assert one.trace["era"] == ("cuda_gpu_kern_sum csv" if sums else "cuda_gpu_trace csv")
    elif key.startswith("top"):
        rank = int(key[3])
        ranked = rollups(one).sort("total_ns", descending=True).row(rank - 1, named=True) if sums else None
        found = (ranked["total_ns"], ranked["name"]) if ranked else top(one, rank)[::2]
        assert str(found[0]) == value
        assert found[1].startswith(note.strip())
    else:
        assert str((SUMS if sums else TRACE)[key](one)) == value


def test_forms_of_one_report_agree(converted: Callable[[str], Converted], shared_data: Path, tmp_path: Path) -> None:
    """CSV printed by nsys 2024.2, SQLite and Parquet of one report: the same launches, times and signatures."""
    sample = "nsys/nsightful_power_iteration.sqlite"
    exported = converted(sample)
    printed = converted("nsys/nsightful_cuda_gpu_trace.csv.gz")
    parquet = convert_file(parquet_of(shared_data / sample, tmp_path / "nsightful_pqtdir"), tmp_path / "spool")
    columns = ["start_ns", "end_ns", "duration_ns", "signature_id", "kind", "correlation_id", "device", "stream"]
    wanted = exported.launches.sort("start_ns").select(columns).rows()
    assert printed.launches.sort("start_ns").select(columns).rows() == wanted
    assert parquet.launches.sort("start_ns").select(columns).rows() == wanted
    assert parquet.launches.drop("trace_id").equals(exported.launches.drop("trace_id"))


def test_sums_agree_with_the_launches(converted: Callable[[str], Converted]) -> None:
    """cuda_gpu_kern_sum, _kern_gb_sum and mem_time_sum against the export that they were printed from."""
    launches = converted("nsys/nsightful_power_iteration.sqlite").launches
    squares = pl.col("duration_ns").cast(pl.Float64).pow(2).sum()
    for sample, kinds, by_signature in (
        ("nsys/nsightful_cuda_gpu_kern_sum.csv.gz", ["kernel"], False),
        ("nsys/nsightful_cuda_gpu_kern_gb_sum.csv.gz", ["kernel"], True),
        ("nsys/nsightful_cuda_gpu_mem_time_sum.csv.gz", ["memcpy", "memset"], False),
    ):
        key = "signature_id" if by_signature else "name"
        rows = (
            launches.filter(pl.col("kind").is_in(kinds))
            .group_by(key)
            .agg(
                n=pl.len(),
                total=pl.col("duration_ns").sum(),
                low=pl.col("duration_ns").min(),
                high=pl.col("duration_ns").max(),
                median=pl.col("duration_ns").median(),
                squares=squares,
            )
        )
        reported = {row[key]: row for row in rollups(converted(sample)).to_dicts()}
        assert set(reported) == set(rows[key])
        for row in rows.to_dicts():
            found = reported[row[key]]
            assert (found["n"], found["total_ns"]) == (row["n"], row["total"])
            assert (found["min_ns"], found["max_ns"]) == (row["low"], row["high"])
            assert found["median_ns"] == pytest.approx(row["median"], abs=0.05)
            assert found["sum_squares_ns2"] == pytest.approx(row["squares"], rel=1e-4)


def test_phases_agree_with_the_sums_per_range(converted: Callable[[str], Converted]) -> None:
    """Each kernel's ranges, as nvtx_kern_sum of nsys 2024.2 lists them (a kernel once under each of its ranges)."""
    launches = kernels(converted("nsys/nsightful_power_iteration.sqlite"))
    ranges = launches.select("name", "duration_ns", range=pl.col("range_path").str.split("/")).explode("range")
    counted = ranges.group_by("range", "name").agg(n=pl.len(), total=pl.col("duration_ns").sum())
    reported = rollups(converted("nsys/nsightful_nvtx_kern_sum.csv.gz"))
    found = {(row["phase"], row["name"]): (row["n"], row["total_ns"]) for row in reported.to_dicts()}
    assert found == {(row["range"], row["name"]): (row["n"], row["total"]) for row in counted.to_dicts()}


def test_calls_agree_with_the_execution_trace(converted: Callable[[str], Converted]) -> None:
    columns = [
        "start_ns",
        "duration_ns",
        "launch_start_ns",
        "launch_duration_ns",
        "api_call",
        "signature_id",
        "process",
    ]
    exported = kernels(converted("nsys/nsightful_power_iteration.sqlite")).sort("start_ns")
    printed = converted("nsys/nsightful_cuda_kern_exec_trace.csv.gz").launches.sort("start_ns")
    assert printed.select(columns).rows() == exported.select(columns).rows()


def test_base_names(converted: Callable[[str], Converted]) -> None:
    base = converted("nsys/nsightful_cuda_gpu_trace-base.csv.gz")
    full = converted("nsys/nsightful_cuda_gpu_trace.csv.gz")
    assert base.launches["start_ns"].to_list() == full.launches["start_ns"].to_list()
    assert "gemv2T_kernel_val" in set(base.launches["name"])
