"""Counters of replayed calls: the run under a profiler, what is stored, and who finds it."""

from __future__ import annotations

import dataclasses
import importlib.util
import shlex
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kerneldb
from kerneldb.api import counting
from kerneldb.cli import cli
from kerneldb.codec import CodecError
from kerneldb.gpus.counting import complaint, passes
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.host import profilers
from kerneldb.replay.host.counting import EXCHANGE, NO_KERNELS, why_not
from kerneldb.replay.options import Options
from kerneldb.replay.wire import journal
from kerneldb.replay.wire.messages import Counters
from kerneldb.replay.wire.plan import Item, PlannedKernel
from kerneldb.replay.wire.results import OK, Activity, CallResult, Grade, KernelResult, RunFacts
from kerneldb.warehouse import Warehouse
from tests.counters import fake_ncu

ROOT = Path(__file__).parents[2]
FAKE = Path(__file__).with_name("fake_ncu.py")
RESULTS = ROOT / "results" / "2026-11-24-h100-counters"
DECODER = ROOT / "examples" / "decoder-h200.json.gz"
AMD_PAGE = "rocprofv3_docs_counter_collection.csv"

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture(scope="module")
def ncu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that stands in for Nsight Compute."""
    path = tmp_path_factory.mktemp("ncu") / "ncu"
    path.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-P", str(FAKE)])} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> kerneldb.Database:
    opened = kerneldb.open(tmp_path_factory.mktemp("counted") / "k.duckdb")
    opened.ingest(DECODER)
    return opened


def run(database: kerneldb.Database, ncu: Path, *arguments: str, fault: str = "") -> Result:
    asked = ("replay", "--device", "cpu", "--runs", "1", "--ncu", str(ncu), "--csv", *arguments)
    return CliRunner(env={"FAKE_NCU": fault}).invoke(cli, ["--db", str(database.path), *asked])


@pytest.mark.thorough
@needs_torch
def test_counters_of_calls_are_those_of_the_recorded_kernels(
    database: kerneldb.Database, ncu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = database.sql("SELECT count(*) AS n, sum(duration_ns) AS ns FROM kernels").rows()
    broken = run(database, ncu, "--top", "4", "--counters", "roofline", fault="permission")
    assert broken.exit_code == 1
    assert "ERR_NVGPUCTRPERM" in broken.output
    assert "Profile as root" in broken.output
    monkeypatch.setattr(Options, "__post_init__", _impatient(Options.__post_init__))
    result = run(database, ncu, "--resume", "--counters", "roofline", fault="hang")
    assert result.exit_code == 0, result.output
    assert "hung under the profiler: silent for" in result.output
    # A kernel that hangs costs that kernel; the others have their counters, of two sessions.
    (done,) = database.sql(
        "SELECT count(*) FILTER (counters_reason IS NULL) AS n, count(*) AS of FROM replay_calls"
    ).rows()
    assert done == {"n": 3, "of": 4}
    found = database.sql("SELECT * FROM signature_counters WHERE method = 'replay'").rows()
    assert {row["metric"] for row in found} > {"dram__bytes.sum.per_second", "gpu__time_duration.sum"}
    # Bytes are those of a run of their own, of which no page is left.
    assert {row["mean"] for row in found if row["metric"] == "dram__bytes_write.sum"} <= {1e3, 2e3, 3e3}
    # They are launches of no program: nothing else of the trace has changed.
    assert database.sql("SELECT count(*) AS n, sum(duration_ns) AS ns FROM kernels").rows() == before
    trace, other = database.sql("SELECT kind, tool_version, metadata FROM traces WHERE kind = 'replay'").rows()
    assert trace["tool_version"] == other["tool_version"] == "2025.3.1.0"
    assert "--clock-control" in trace["metadata"]
    assert '"cache": "cold"' in trace["metadata"]
    used(database, {row["signature_id"] for row in found})


def _impatient(before: Any) -> Any:
    def shorter(options: Options) -> None:
        before(options)
        object.__setattr__(options, "item_seconds", 1.0)

    return shorter


def used(database: kerneldb.Database, ids: set[str]) -> None:
    """All that reads counters finds them for the recorded trace."""
    roofline = [row for row in database.analyze("roofline").rows() if row["signature_id"] in ids]
    assert {row["method"] for row in roofline} == {"counters of a replay"}
    assert all(row["modelled_flops"] != row["flops"] for row in roofline)
    bounds = database.bounds("roofline", traces=("decoder-h200",), kernels=True).rows()
    assert {row["signature_id"] for row in bounds} == ids
    coverage = {row["signature_id"]: row for row in database.coverage(traces=("decoder-h200",)).rows()}
    assert all(coverage[one]["method"] == "replay" and coverage[one]["has_dram"] for one in ids)
    assert database.show(next(iter(ids))).tables["counters"][0]["method"] == "replay"
    errors = database.analyze("work_errors").rows()
    assert {row["category"] for row in errors} == {"GEMM", "TOTAL"}
    assert errors[0]["flops_error_pct"] == pytest.approx(100 * errors[0]["modelled_flops"] / errors[0]["flops"] - 100)


@pytest.mark.thorough
def test_counters_of_an_h100_reach_every_kernel_of_their_trace(tmp_path: Path) -> None:
    with tarfile.open(RESULTS / "raw.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(tmp_path / "script.pt.trace.json")
    run_id = database.read_journal(tmp_path / "script.plan", tmp_path / "script.journal")
    total = database.replay_counters(run_id).rows()[-1]
    assert (total["category"], total["signatures"], total["counted"], total["counted_time_pct"]) == (
        "TOTAL",
        83,
        83,
        100,
    )
    covered = database.coverage().rows()
    assert all(row["covered"] and row["has_roofline"] and row["method"] == "replay" for row in covered)
    assert {row["gpu"] for row in database.sql("SELECT DISTINCT gpu FROM signature_counters").rows()} == {"H100 SXM"}
    assert {row["gpu"] for row in covered} == {"H100 SXM"}
    counted = [row["counted_on"] for row in database.analyze("roofline").rows() if "replay" in row["method"]]
    assert set(counted) == {"H100 SXM"}
    assert len(counted) == 82
    products = next(row for row in database.analyze("work_errors").rows() if row["category"] == "GEMM")
    assert abs(products["flops_error_pct"]) < 1


def test_all_calls_of_an_item_that_were_profiled_are_its_counters_in_one_state_of_the_caches(tmp_path: Path) -> None:
    grid, block = (2, 1, 1), (32, 1, 1)
    kernel = PlannedKernel(0, "s0", "kernel", grid=grid, block=block, shared_bytes=0)
    other = dataclasses.replace(kernel, name="other")
    calls = [(f"i{counting.NTH}0", kernel), ("j", other), (f"i{counting.NTH}1", kernel), (f"i{counting.NTH}2", kernel)]
    seen = KernelResult(0, "s0", "kernel", Grade.L0, replayed=Activity("kernel", "kernel", grid=grid, block=block))
    database = kerneldb.open(Warehouse.create_or_open(tmp_path / "k.duckdb").path)
    states = []
    for number, cache in enumerate(("cold", "mixed", "warm")):
        (tmp_path / f"{cache}.csv").write_text(fake_ncu.page(calls[number:], 7 + number))
        call = CallResult("i", "aten", cache, OK, Grade.L0, kernels=(seen,))
        facts = RunFacts(f"r{number}", "2026-11-26T12:00:00", cache, "cuda:0")
        batch = Counters((f"{cache}.csv",), ("i",), {}, "ncu 2025.3.1.0")
        found = journal.Journal(facts, {("i", cache): call})
        assert counting.keep(database.warehouse, {"i": Item("i", "aten", None, (kernel,))}, found, tmp_path, batch) == {
            "i": None
        }
        states += database.sql(
            "SELECT DISTINCT cache, launches FROM signature_counters WHERE metric LIKE 'dram%'"
        ).rows()
    assert [(row["cache"], row["launches"]) for row in states] == [("cold", 3), ("mixed", 2), ("mixed", 2)]


def test_a_plan_of_another_vendor_needs_the_profiler_of_this_machine(
    ncu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profilers, "NCU_PLACES", ())
    monkeypatch.setenv("PATH", str(ncu.parent))
    options = Options(counters=("memory",))
    with pytest.raises(ReplayError, match="rocprofv3"):
        profilers.find(options, "AMD")
    profilers.require(options, "AMD")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ReplayError, match="rocprofv3"):
        profilers.require(options, "AMD")


def test_names_that_cannot_be_counters_and_missing_profilers_are_said(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"no counters 'rooflin': give roofline, memory, compute, stalls"):
        profilers.find(Options(counters=("rooflin",)), None)
    with pytest.raises(ReplayError, match="--ncu PATH names the program ncu"):
        profilers.find(Options(counters=("memory",), ncu=str(tmp_path)), "NVIDIA")
    with pytest.raises(ReplayError, match="rocprofv3"):
        profilers.find(Options(counters=("memory",), ncu=str(tmp_path / "none")), "AMD")


def test_the_state_of_the_cache_decides_how_ncu_repeats_a_kernel() -> None:
    def options(cache: str) -> str:
        return " ".join(profilers.ncu_options(Options(counters=("memory,lts__t_sectors.sum",), cache=cache)))

    assert "--replay-mode kernel --cache-control all --clock-control none" in options("cold")
    assert "--replay-mode kernel --cache-control none" in options("warm")
    assert "--replay-mode application --cache-control none" in options("mixed")
    assert "lts__t_sectors.sum,gpu__time_duration.sum" in options("cold")
    assert "--section MemoryWorkloadAnalysis" in options("cold")
    assert passes(("memory",)) < passes(("roofline", "memory")) < passes(("roofline", "memory", "a__b.sum"))


def test_rocprofv3_runs_the_worker_once_per_counter(tmp_path: Path) -> None:
    made = profilers.Profiler("rocprofv3", "/opt/rocm/bin/rocprofv3")
    lines = made.commands(Options(counters=("memory",)), tmp_path / "k.replay.counters-1", ["python", "worker"])
    assert [line[line.index("--pmc") + 1] for line in lines] == [
        "FETCH_SIZE",
        "WRITE_SIZE",
        "L2CacheHit",
        "MemUnitBusy",
    ]
    assert all(line[-3:] == ["--", "python", "worker"] for line in lines)
    assert len({line[line.index("-o") + 1] for line in lines}) == len(lines)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (
            "==ERROR== Profiling failed because a driver resource was unavailable.",
            "Another profiler holds the counters",
        ),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute.", "a version of Nsight Compute for this driver"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "container or sandbox"),
    ],
)
def test_refusals_of_the_profiler_come_with_a_remedy(said: str, remedy: str) -> None:
    assert remedy in complaint(f"==PROF== Connected\n{said}\n==WARNING== No kernels were profiled.\n")


def test_collectives_and_copies_do_not_run_under_a_profiler() -> None:
    kernel = PlannedKernel(0, "s", "k", grid=(1, 1, 1), block=(1, 1, 1), shared_bytes=0)
    call = CallResult("i", "aten", "cold", OK, Grade.L0)
    assert why_not(Item("i", "collective", None, (kernel,)), call) == EXCHANGE
    assert why_not(Item("i", "memory", None, (PlannedKernel(0, "c", "copy", "memcpy", bytes=1),)), call) == NO_KERNELS
    assert why_not(Item("i", "aten", None, (kernel,)), call) is None
    low = CallResult("i", "aten", "cold", OK, Grade.L2, "other kernel")
    assert why_not(Item("i", "aten", None, (kernel,)), low) == "replayed as L2 only: other kernel"


def test_a_journal_names_no_files_elsewhere() -> None:
    with pytest.raises(CodecError, match="beside the journal"):
        Counters(("../k.csv",), ())


def test_counters_of_rocprofv3_are_joined_by_the_order_of_launches(shared_data: Path, tmp_path: Path) -> None:
    page = shared_data / "rocprof" / AMD_PAGE
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(page)
    launches = database.sql(
        "SELECT l.signature_id, l.name, s.total_blocks, s.threads_per_block FROM all_launches AS l "
        "JOIN signatures AS s USING (signature_id) ORDER BY launch_index"
    ).rows()
    (tmp_path / "page.csv").write_bytes(page.read_bytes().replace(b"16384.0", b"16385.0"))
    items, calls = {}, {}
    for number, row in enumerate(launches):
        name = row["name"] if number else "another kernel"
        seen = Activity("kernel", name, grid=(row["total_blocks"], 1, 1), block=(row["threads_per_block"], 1, 1))
        items[f"i{number}"] = Item(f"i{number}", "aten", None, (PlannedKernel(0, row["signature_id"], name),))
        kernel = KernelResult(0, row["signature_id"], name, Grade.L0, replayed=seen)
        calls[f"i{number}", "cold"] = CallResult(f"i{number}", "aten", "cold", OK, Grade.L0, kernels=(kernel,))
    facts = RunFacts("r1", "2026-11-24T12:00:00", "cold", "cuda:0", gpu="AMD Instinct MI300X", vendor="AMD")
    batch = Counters(("page.csv",), tuple(items), {"x": "refused"}, "rocprofv3 1.1.0")
    reasons = counting.keep(database.warehouse, items, journal.Journal(facts, calls), tmp_path, batch)
    assert (reasons.pop("x"), reasons.pop("i0"), set(reasons.values())) == ("refused", counting.OTHERS, {None})
    (trace,) = database.sql("SELECT source, launches, is_primary FROM traces WHERE kind = 'replay'").rows()
    assert trace == {"source": "rocprofv3", "launches": len(launches) - 1, "is_primary": False}
    (named,) = database.sql("SELECT gpu FROM devices JOIN traces USING (trace_id) WHERE kind = 'replay'").rows()
    assert named == {"gpu": "MI300X"}
    # The page itself is stored too: what was counted in the program goes before what was counted in a replay.
    assert not database.sql("SELECT 1 FROM signature_counters WHERE method = 'replay'").rows()
