"""What `kerneldb db doctor` says about captures of Nsight Systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kerneldb.ingest import diagnose
from tests.ingest.conversion import convert_file
from tests.nsys import exports

if TYPE_CHECKING:
    from pathlib import Path

GRAPH = {
    "start": 1,
    "end": 9,
    "deviceId": 0,
    "contextId": 1,
    "streamId": 7,
    "correlationId": 9,
    "globalPid": 1,
    "graphId": 4,
}


def topics(path: Path) -> dict[str, tuple[str, str, str]]:
    (diagnosis,) = diagnose(path)
    return {one.topic: (one.level, one.message, one.remedy) for one in diagnosis.diagnostics}


def export(tmp_path: Path, **changes: Any) -> dict[str, tuple[str, str, str]]:
    return topics(exports.build(tmp_path / "a.sqlite", **changes))


def test_a_good_export(tmp_path: Path) -> None:
    found = export(tmp_path, kernels=exports.KERNELS[:-1])
    assert found["GPU events"][0] == "ok"
    assert found["launch calls"] == ("ok", "Every launch has its call.", "")
    assert "phases" not in found
    assert "devices" not in found
    assert "torch.profiler" in found["operators"][2]


def test_hidden_graphs(tmp_path: Path) -> None:
    found = export(tmp_path, kernels=(), extra={"CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [GRAPH]})
    level, message, remedy = found["graphs"]
    assert level == "problem"
    assert "1 launches of CUDA graphs" in message
    assert "--cuda-graph-trace=node" in remedy
    assert "no GPU events" not in found


def test_graphs_without_any_trace_of_them(tmp_path: Path) -> None:
    mode = [{"name": "CUDA_GRAPH_TRACE_OPTIONS:MODE", "value": "Graph"}]
    path = exports.build(tmp_path / "a.sqlite", "2020.4", kernels=(), memory=(), extra={"META_DATA_CAPTURE": mode})
    assert topics(path)["graphs"][0] == "problem"


def test_no_kernels(tmp_path: Path) -> None:
    found = export(tmp_path, kernels=(), memory=(), calls=())
    assert found["no GPU events"][0] == "problem"
    assert "--trace=cuda" in found["no GPU events"][2]


def test_a_missing_call_and_missing_ranges(tmp_path: Path) -> None:
    found = export(tmp_path, ranges=())
    assert found["launch calls"][1].startswith("1 of 13 launches (7.7%)")
    assert "nvtx" in found["phases"][2]


def test_printed_reports_say_what_they_lost(tmp_path: Path, root: Path) -> None:
    found = topics(root / "tests" / "fixtures" / "nsys" / "r23_cuda_gpu_trace.csv")
    assert "nsys export --type sqlite" in found["precision"][2]
    assert found["launch calls"][0] == "note"
    sums = topics(root / "tests" / "fixtures" / "nsys" / "r23_cuda_gpu_kern_sum.tsv")
    assert sums["sums only"][1].startswith("3 sums")


def test_warnings_of_the_profiler_are_said(tmp_path: Path) -> None:
    messages = [
        {"severity": 2, "text": "Driver not supported, see /home/ada/log.txt"},
        {"severity": 1, "text": "Started"},
    ]
    found = export(tmp_path, extra={"DIAGNOSTIC_EVENT": messages})
    assert found["recording"] == ("note", "nsys warned: Driver not supported, see …", "")


NSYS = (
    *("data/nsys/lighttransport_gemm.sqlite", "data/nsys/nsightful_power_iteration.sqlite"),
    *("data/nsys/nsysai_h100_2gpu_1s.sqlite", "field/nsight/nsys-2025.5.2-two-graph-launches.sqlite"),
    *("data/nsys/dsocr_decode_cuda_gpu_kern_sum.csv", "data/nsys/nsightful_cuda_gpu_kern_gb_sum.csv.gz"),
    *("data/nsys/nsightful_cuda_gpu_mem_size_sum.csv.gz", "data/nsys/nsightful_cuda_gpu_trace.csv.gz"),
    *("data/nsys/nsightful_cuda_kern_exec_trace.csv.gz", "data/nsys/nsightful_nvtx_kern_sum.csv.gz"),
    *("field/nsight/report_cuda_api_gpu_sum.csv", "field/nsight/report_cuda_kern_exec_sum.csv"),
    "field/nsight/report_nvtx_pushpop_trace.csv",
)


@pytest.mark.parametrize("place", NSYS)
def test_advice_does_not_contradict_the_file(field: Path, tmp_path: Path, place: str) -> None:
    path = field.parent / place
    rows = convert_file(path, tmp_path / "spool").manifest.rows
    (diagnosis,) = diagnose(path)
    for one in diagnosis.diagnostics:
        said = f"{one.message} {one.remedy}"
        assert "--trace=cuda" not in said or "api_calls" not in rows
        assert "Wrap stages" not in said or "ranges" not in rows
        assert "No NVTX range was recorded" not in said or (path.suffix == ".sqlite" and "ranges" not in rows)
        assert "No operators are recorded" not in said or "ops" not in rows
        assert not one.message.startswith("0 ")
        if path.suffix != ".sqlite":
            assert "Record with" not in said
