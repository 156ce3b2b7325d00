"""Matrix products of traces that profilers without shapes wrote: planned, and on the CPU replayed, with real files."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kerneldb
from kerneldb.api.planning import Request
from kerneldb.cli import cli
from kerneldb.names import decode
from tests.conftest import made_once

PRODUCTS = "category = 'GEMM'"

TIMED = (
    "nsys/nsightful_cuda_gpu_trace.csv.gz",
    "nsys/nsightful_power_iteration.sqlite",
    "nsys/nsysai_h100_2gpu_1s.sqlite",
    "rocprof/rocprofv3_gfx1151_llamacpp_prefill_kernel_trace.csv",
    "rocprof/rpd_matmul_result.rpd",
    "rocprof/synthetic_gfx1151.db",
)
PROFILED = (
    "ncu/deepseek-ocr-v2/kernel_0003.details.csv",
    "ncu/h200-decoder-raw.csv.gz",
    "ncu/rtx5070_gemm_tiled.csv",
    "ncu/superbench_cublaslt_ncu.log",
)
MORE_TIMED = (
    "nsys/nsightful_cuda_kern_exec_trace.csv.gz",
    "rocprof/synthetic_gfx1151_full.db",
    "rocprof/synthetic_merged_2proc.db",
)
MORE_PROFILED = (
    "ncu/deepseek-ocr-v2/kernel_0005.details.csv",
    "ncu/h200-decoder-details.csv.gz",
)
WITHOUT_PRODUCTS = {
    "timed": ("rocprof/rocprofv3_docs_kernel_trace.csv",),
    "profiled": ("ncu/rtx5070_saxpy.csv",),
    "more timed": ("rocprof/rocprofv3_gfx1151_llamacpp_decode_kernel_trace.csv",),
    "more profiled": ("ncu/mojo_profile.ncu2024.2.details.auto.csv",),
}
SAMPLES = {"timed": TIMED, "profiled": PROFILED, "more timed": MORE_TIMED, "more profiled": MORE_PROFILED}
LISTED = """
    SELECT f.path, k.trace, bool_or(k.is_primary) AS is_primary, count(*) AS n
    FROM all_launches AS k JOIN trace_files AS f USING (trace_id)
    WHERE k.category = 'GEMM' GROUP BY ALL
"""


@dataclass(frozen=True)
class Samples:
    """Samples in one database. Durations under a counter profiler are planned apart from others, so there are two."""

    database: kerneldb.Database
    samples: tuple[str, ...]
    root: Path

    @property
    def traces(self) -> dict[str, str]:
        """The traces with matrix products, by sample."""
        rows = self.database.sql(LISTED).rows()
        return {str(Path(row["path"]).relative_to(self.root)): row["trace"] for row in rows}


def ingest(factory: pytest.TempPathFactory, name: str, root: Path) -> Samples:
    """A database of these samples, and of some without products."""
    files = [root / one for one in (*SAMPLES[name], *WITHOUT_PRODUCTS[name])]
    made = made_once(factory, f"{name}.duckdb", lambda path: kerneldb.open(path).ingest(files))
    return Samples(kerneldb.open(made), SAMPLES[name], root)


@pytest.fixture(scope="module")
def timed(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """Timelines of nsys and of AMD's profilers."""
    return ingest(tmp_path_factory, "timed", shared_data)


@pytest.fixture(scope="module")
def profiled(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """Reports of ncu."""
    return ingest(tmp_path_factory, "profiled", shared_data)


HELD = [
    *("timed", "profiled"),
    *(pytest.param(name, marks=pytest.mark.volume) for name in ("more timed", "more profiled")),
]


@pytest.fixture(scope="module", params=HELD)
def held(request: pytest.FixtureRequest, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """Each of them."""
    return ingest(tmp_path_factory, request.param, shared_data)


def replay(database: kerneldb.Database, *arguments: str) -> Result:
    """`kerneldb replay` of the matrix products."""
    return CliRunner().invoke(cli, ["--db", str(database.path), "replay", "--where", PRODUCTS, *arguments])


def lines(result: Result) -> list[dict[str, Any]]:
    """Its output, one row per line."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def proposed(database: kerneldb.Database, *traces: str) -> Counter[str]:
    """How many matrix products of each trace have candidates in a plan."""
    planned = database.plan_replay(Request(where=PRODUCTS, traces=traces))
    names = {row["trace_id"]: row["name"] for row in database.sql("SELECT trace_id, name FROM traces").rows()}
    return Counter(
        names[trace_id]
        for item in planned.plan.items
        if item.candidates and all(one.why for one in item.candidates)
        for kernel in item.kernels
        if decode(kernel.name, kernel.kind).category == "GEMM"
        for trace_id, places in (kernel.places or {}).items()
        for _ in places
    )


def test_products_of_every_sample_have_candidates(held: Samples) -> None:
    """Those of files that print the work of another one again, where nothing else is asked for."""
    assert set(held.traces) == set(held.samples)
    listed = held.database.sql(LISTED).rows()
    assert proposed(held.database) == {row["trace"]: row["n"] for row in listed if row["is_primary"]}
    for row in listed:
        if not row["is_primary"]:
            assert proposed(held.database, row["trace"]) == {row["trace"]: row["n"]}


def test_a_dry_run_of_samples_is_inferred_whole(profiled: Samples) -> None:
    table = lines(replay(profiled.database, "--dry-run", "--format", "ndjson"))
    assert {row["route"] for row in table} == {"inferred"}
    assert sum(row["replayable_pct"] for row in table) == pytest.approx(100)
    assert sum(row["launches"] for row in table) > 0


def test_a_sample_without_products_says_so(profiled: Samples) -> None:
    result = replay(profiled.database, "--trace", "rtx5070_saxpy", "--dry-run")
    assert result.exit_code == 2
    assert "no launch is selected" in result.output


@pytest.mark.parametrize(
    ("sample", "dims"),
    [
        ("ncu/rtx5070_gemm_tiled.csv", [[2048, 2048], [2048, 2048]]),
        ("ncu/h200-decoder-raw.csv.gz", [[512, 6848], [6848, 1280]]),
        ("nsys/nsightful_power_iteration.sqlite", [[1, 8192], [8192, 8192]]),
    ],
)
def test_the_first_candidate_has_the_sizes_of_the_program(
    timed: Samples, profiled: Samples, sample: str, dims: list[list[int]]
) -> None:
    held = profiled if sample in PROFILED else timed
    listed = lines(replay(held.database, "--trace", held.traces[sample], "--calls", "--format", "ndjson"))
    first = max((row for row in listed if row["rank"] == 1), key=lambda row: row["total_ns"])
    assert first["op"] == "aten::mm"
    assert json.loads(first["input_dims"]) == dims


def test_the_first_candidate_has_no_more_tiles_than_blocks_ran(timed: Samples) -> None:
    """128 blocks with tiles of 64 × 256 on an H100 of 132 multiprocessors: not one for each of 3,200 heads."""
    sample = timed.traces["nsys/nsysai_h100_2gpu_1s.sqlite"]
    listed = lines(replay(timed.database, "--trace", sample, "--calls", "--format", "ndjson"))
    first = [row for row in listed if row["rank"] == 1 and row["grid"] == "1x16x8"]
    assert first
    assert {row["input_dims"] for row in first} == {"[[8, 1024, 256], [8, 256, 256]]"}


def test_what_stands_in_for_quantised_weights_is_said(timed: Samples) -> None:
    sample = timed.traces["rocprof/rocprofv3_gfx1151_llamacpp_prefill_kernel_trace.csv"]
    listed = lines(replay(timed.database, "--trace", sample, "--calls", "--format", "ndjson"))
    assert all("fp16 in place of q" in row["why"] for row in listed)
    widths = {json.loads(row["input_dims"])[-1][-1] for row in listed if row["rank"] == 1}
    assert {2560, 4096, 8192, 9216} <= widths


@pytest.mark.thorough
def test_a_replay_on_the_cpu_ends_with_the_table(profiled: Samples) -> None:
    pytest.importorskip("torch")
    fast = ("--top", "1", "--device", "cpu", "--no-energy", "--runs", "2", "--warmup", "1")
    sample = profiled.traces["ncu/h200-decoder-raw.csv.gz"]
    table = lines(replay(profiled.database, "--trace", sample, *fast, "--format", "ndjson"))
    assert {row["route"] for row in table if row["category"] == "GEMM"} == {"inferred"}
    assert "TOTAL inferred" in {row["category"] for row in table}
    calls = profiled.database.sql("SELECT DISTINCT route, status, grade FROM replay_calls").rows()
    assert calls == [{"route": "inferred", "status": "ok", "grade": "L3"}]
