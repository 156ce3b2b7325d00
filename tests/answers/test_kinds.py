"""Answers look at the kind of work: copies are no computing, collectives are not counted, waiting is no bandwidth."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api.counters import Counting
from kerneldb.cli import cli
from kerneldb.errors import UsageError
from kerneldb.report import why
from tests.ingest.traces import T0, Trace, kineto

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def database(tmp_path: Path, trace: Trace) -> kerneldb.Database:
    trace.metadata["deviceProperties"] = [
        {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0}
    ]
    (tmp_path / "t.json").write_text(kineto(trace))
    db = kerneldb.open(tmp_path / "k.duckdb")
    db.ingest(tmp_path / "t.json")
    return db


def test_busy_with_copies_is_said(tmp_path: Path) -> None:
    trace = Trace()
    trace.memcpy(T0, 900_000, 1, 10**6)
    trace.kernel("gemm", T0 + 900_000, 100_000, 2)
    shown = CliRunner().invoke(cli, [str(database(tmp_path, trace).path)]).stdout
    table = shown[shown.index("GPU time") :].splitlines()
    assert table[1].split()[-3:] == ["busy_pct", "computation", "exposed_memcpy"]
    assert "100 %" in table[3]
    assert table[3].split()[-4:] == ["100", "µs", "900", "µs"]


def test_computing_alone_needs_no_more_columns(tmp_path: Path) -> None:
    trace = Trace()
    trace.kernel("gemm", T0, 100_000, 2)
    shown = CliRunner().invoke(cli, [str(database(tmp_path, trace).path)]).stdout
    assert shown.split("GPU time\n")[1].splitlines()[0].split()[-1] == "busy_pct"


@pytest.mark.thorough
def test_intervals_of_a_large_database_are_those_of_the_traces_with_most_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the overview of a hundred long traces does not take minutes; the sums below are of all."""
    longer, shorter = Trace(), Trace()
    longer.kernel("gemm", T0, 300_000, 2)
    shorter.kernel("gemm", T0, 100_000, 2)
    db = database(tmp_path, longer)
    (tmp_path / "s.json").write_text(kineto(shorter))
    db.ingest(tmp_path / "s.json")
    whole = CliRunner().invoke(cli, [str(db.path)]).stdout
    assert [line.split()[0] for line in whole.split("GPU time\n")[1].splitlines()[2:4]] == ["t", "s"]
    monkeypatch.setattr("kerneldb.cli.why.TRACES", 1)
    shown = CliRunner().invoke(cli, [str(db.path)]).stdout
    table = shown.split("GPU time of the 1 trace with most\n")[1].splitlines()
    assert [line.split()[0] for line in table[2:3]] == ["t"]
    assert table[3] == ""
    assert "400 µs" in shown.split("Kernels with most time\n")[1]


def test_traces_of_different_kinds_are_not_summed_in_silence(tmp_path: Path) -> None:
    trace = Trace()
    trace.kernel("gemm", T0, 100_000, 2)
    db = database(tmp_path, trace)
    printed = Path(__file__).parents[1] / "fixtures" / "nsys" / "r23_cuda_gpu_kern_sum.tsv"
    top = ["--db", str(db.path), "top"]
    assert "different kinds" not in CliRunner().invoke(cli, top).stderr
    db.ingest(printed, name="sums")
    said = CliRunner().invoke(cli, top).stderr
    assert "different kinds of traces, whose times do not add up" in said
    assert "summary (sums that a tool printed), timeline (times of a program)" in said
    assert "different kinds" not in CliRunner().invoke(cli, [*top, "--trace", "sums"]).stderr


def test_collectives_are_not_counted(tmp_path: Path) -> None:
    trace = Trace()
    trace.kernel(NCCL, T0, 900_000, 1)
    trace.kernel("my_gemm", T0 + 900_000, 100_000, 2)
    db = database(tmp_path, trace)
    line = db.ncu_command(Counting(top=5))
    assert [row["short_name"] for row in line.kernels] == ["my_gemm"]
    assert line.share_pct == pytest.approx(10)
    with pytest.raises(UsageError, match="collectives do not count"):
        db.ncu_command(Counting(top=5, where="category = 'COMMUNICATION'"))


def remedy(db: kerneldb.Database, rule: str) -> str:
    (verdict,) = why.verdicts(db, ["t"])
    (found,) = [piece.remedy for piece in verdict.advice if piece.rule == rule]
    return found


@pytest.mark.thorough
def test_stored_counters_are_not_asked_for_again(tmp_path: Path) -> None:
    trace = Trace()
    trace.kernel("my_gemm", T0, 100_000, 2)
    db = database(tmp_path, trace)
    assert "read its counters with Nsight Compute" in remedy(db, "one-kernel")
    db.sql(
        "INSERT INTO metrics BY NAME SELECT trace_id, launch_index, 'sm__x' AS metric, 1.0 AS value FROM launches",
        write=True,
    )
    assert "its counters are stored" in remedy(db, "one-kernel")


@pytest.mark.parametrize(("ns", "bound"), [(100_000_000, "latency"), (30_000, "memory")])
def test_little_reached_is_latency(tmp_path: Path, ns: int, bound: str) -> None:
    """An addition of 2^24 floats moves 192 MiB: 57 µs at the peak of an H100 with HBM3."""
    trace = Trace()
    shape = {
        "Input Dims": [[2**24], [2**24], []],
        "Input type": ["float", "float", "Scalar"],
        "Concrete Inputs": ["", "", "1"],
    }
    shape["Input Strides"] = [[1], [1], []]
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
    trace.op("aten::add", T0, 10_000, {"External id": 1, **shape})
    trace.api("cudaLaunchKernel", T0 + 1_000, 1_000, 7, {"External id": 1})
    trace.kernel(name, T0 + 20_000, max(ns, 60_000), 7, {"External id": 1})
    (row,) = database(tmp_path, trace).sql("FROM roofline()").rows()
    assert row["bound"] == bound
