"""Reports of `nsys stats` about the host, made here with the columns that NVIDIA documents for each of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kerneldb.errors import NotATraceError
from kerneldb.ingest.nsys import sniff
from tests.ingest.conversion import Converted, convert_file

if TYPE_CHECKING:
    from pathlib import Path

TIMES = "Time (%),Total Time (ns),{n},Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"
VALUES = ("75.0,300,3,100.0,90.0,60,150,45.8", "25.0,100,1,100.0,100.0,100,100,0.0")
CALLS = {"n": "Num Calls", "names": "Name"}
RANGES = {"n": "Instances", "names": "Range"}
EVENTS = {"n": "Count", "names": "Name"}
COLUMNS = {
    **dict.fromkeys(("cuda_api_sum", "osrt_sum", "syscall_sum", "vulkan_api_sum"), CALLS),
    "nvvideo_api_sum": {"n": "Num Calls", "names": "Event Type,Name"},
    **dict.fromkeys(("openacc_sum", "openmp_sum"), EVENTS),
    "mpi_event_sum": {"n": "Instances", "names": "Source,Name"},
    "nvtx_sum": {"n": "Instances", "names": "Style,Range"},
    **dict.fromkeys(("nvtx_pushpop_sum", "nvtx_startend_sum", "vulkan_marker_sum", "vulkan_gpu_marker_sum"), RANGES),
    **dict.fromkeys(("opengl_khr_range_sum", "opengl_khr_gpu_range_sum"), RANGES),
    **dict.fromkeys(("dx11_pix_sum", "dx12_pix_sum", "dx12_gpu_marker_sum"), RANGES),
}
SIZES = """\
Total Message Volume,Instances,Avg,Med,Min,Max,StdDev,Source,Name
300,3,100.0,90.0,60,150,45.8,p2p,a
"""
PROJECTED = (
    "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),Proj Med (ns),Proj Min (ns),"
    "Proj Max (ns),Proj StdDev (ns),Total GPU Ops\na,PushPop,300,500,3,100.0,90.0,60,150,45.8,7\n"
)
UNIFIED = (
    "Virtual Address,HtoD Migration Size (MB),DtoH Migration Size (MB),CPU Page Faults,GPU Page Faults,"
    "Migration Throughput (MB/s)\n0x7F00,2.000,0.500,12,34,100.5\n"
)
TOTALS = (
    "Total HtoD Migration Size (MB),Total DtoH Migration Size (MB),Total CPU Page Faults,Total GPU PageFaults,"
    "Minimum Virtual Address,Maximum Virtual Address\n4.000,1.000,50,60,0x7F00,0x7FFF\n"
)
VULKAN = """\
Start (ns),Duration (ns),Name,Event Class,Context,CorrID,Pid,Tid,T-Pri,Thread Name
10,5,vkQueueSubmit,53,1,7,11,12,,main
"""
MPI = (
    "Start (ns),End (ns),Duration (ns),Event,Pid,Tid,Tag,Rank,PeerRank,RootRank,Size (MB),CollSendSize (MB),"
    "CollRecvSize (MB)\n10,15,5,MPI_Send,11,12,0,0,1,,0.001,,\n"
)
OLD = {new: old for old, new in sniff.OLD_NAMES.items()}


def text_of(report: str) -> str:
    columns = COLUMNS[report]
    details = len(columns["names"].split(",")) - 1
    rows = [f"{values},{'x,' * details}{name}" for values, name in zip(VALUES, ('"a,b"', "c"), strict=True)]
    return "\n".join((f"{TIMES.format(n=columns['n'])},{columns['names']}", *rows)) + "\n"


def read(tmp_path: Path, name: str, text: str) -> Converted:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return convert_file(path, tmp_path / f"spool-{name}")


def figures(found: Converted) -> dict[tuple[str, str], tuple[float, str]]:
    rows = found.rows("metrics", "metric", "instance", "value", "unit")
    return {(metric, instance): (value, unit) for metric, instance, value, unit in rows}


def check(found: Converted, report: str, detail: str = "") -> None:
    subject, values = report.removesuffix("_sum"), figures(found)
    assert values[f"{subject}__time.sum", f"a,b{detail}"] == (300, "ns")
    assert values[f"{subject}__time.count", f"a,b{detail}"] == (3, "count")
    assert values[f"{subject}__time.median", f"a,b{detail}"] == (90, "ns")
    assert values[f"{subject}__time.stddev", f"c{detail}"] == (0, "ns")
    assert len(values) == 14
    assert not {"launches", "rollups", "api_calls", "ranges"} & found.manifest.parts.keys()
    assert found.trace["kind"] == "summary"


@pytest.mark.parametrize("report", COLUMNS)
def test_a_sum_is_read_as_what_its_name_says(tmp_path: Path, report: str) -> None:
    detail = " (x)" if "," in COLUMNS[report]["names"] else ""
    text = text_of(report)
    check(read(tmp_path, f"run_{report}.csv", text), report, detail)
    announced = f"Processing [r.sqlite] with [/opt/nsight/reports/{report}.py]... \n{text}\n"
    check(read(tmp_path, "out.csv", announced), report, detail)
    if report in OLD:
        check(read(tmp_path, f"run_{OLD[report]}.csv", text), report, detail)


@pytest.mark.parametrize("report", COLUMNS)
def test_a_sum_without_rows_says_so(tmp_path: Path, report: str) -> None:
    with pytest.raises(NotATraceError, match=f"{report} holds no rows"):
        read(tmp_path, f"run_{report}.csv", text_of(report).splitlines()[0] + "\n")


@pytest.mark.parametrize("report", sorted(set(COLUMNS) - {"mpi_event_sum", "nvtx_sum", "nvvideo_api_sum"}))
def test_a_sum_of_kernels_by_its_columns_is_none_by_its_name(tmp_path: Path, report: str) -> None:
    """Some versions call the number `Instances` and the subject `Name`, as the sum of kernels does."""
    text = f'{TIMES.format(n="Instances")},Name\n{VALUES[0]},"a,b"\n{VALUES[1]},c\n'
    check(read(tmp_path, f"run_{report}.csv", text), report)


def test_other_sums(tmp_path: Path) -> None:
    sizes = figures(read(tmp_path, "run_mpi_msg_size_sum.csv", SIZES))
    assert sizes["mpi_msg_size__bytes.sum", "a (p2p)"] == (300, "byte")
    projected = figures(read(tmp_path, "run_nvtx_gpu_proj_sum.csv", PROJECTED))
    assert projected["nvtx_gpu_proj__time.sum", "a (PushPop)"] == (300, "ns")
    assert projected["nvtx_gpu_proj__range_time.sum", "a (PushPop)"] == (500, "ns")
    assert projected["nvtx_gpu_proj__gpu_operations.count", "a (PushPop)"] == (7, "count")
    assert projected["nvtx_gpu_proj__time.count", "a (PushPop)"] == (3, "count")


def test_unified_memory(tmp_path: Path) -> None:
    found = figures(read(tmp_path, "run_um_sum.csv", UNIFIED))
    assert found["unified_memory__htod_migration_size", "0x7F00"] == (2_000_000, "byte")
    assert found["unified_memory__gpu_page_faults", "0x7F00"] == (34, "count")
    assert found["unified_memory__migration_throughput", "0x7F00"] == (100_500_000, "byte/s")
    total = read(tmp_path, "run_um_total_sum.csv", TOTALS)
    assert dict(total.rows("metrics", "metric", "value"))["unified_memory__total_cpu_page_faults"] == 50
    faults = figures(
        read(tmp_path, "run_um_cpu_page_faults_sum.csv", "CPU Page Faults,CPU Instruction Address\n5,0x4000\n")
    )
    assert faults == {("unified_memory__cpu_page_faults", "0x4000"): (5, "count")}


def test_other_traces(tmp_path: Path) -> None:
    found = read(tmp_path, "run_vulkan_api_trace.csv", VULKAN)
    assert found.rows("api_calls", "kind", "name", "start_ns", "duration_ns", "correlation_id", "thread") == [
        ("vulkan", "vkQueueSubmit", 10, 5, 7, "12")
    ]
    found = read(tmp_path, "run_mpi_event_trace.csv", MPI)
    assert found.rows("api_calls", "kind", "name", "start_ns", "duration_ns", "bytes", "process") == [
        ("mpi", "MPI_Send", 10, 5, 1_000, "11")
    ]


def test_sums_as_json_and_tsv(tmp_path: Path) -> None:
    lines = [line.split(",") for line in text_of("osrt_sum").replace('"a,b"', "ab").splitlines()]
    objects = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    found = read(tmp_path, "run_osrt_sum.json", json.dumps(objects, indent=1) + "\n")
    assert figures(found)["osrt__time.sum", "ab"] == (300, "ns")
    found = read(tmp_path, "run_osrt_sum.tsv", "".join("\t".join(line) + "\n" for line in lines))
    assert figures(found)["osrt__time.sum", "ab"] == (300, "ns")


def test_every_known_name_is_read_or_said(tmp_path: Path) -> None:
    from kerneldb.ingest.nsys.printed import UNREAD, USEFUL

    assert set(sniff.NAMES) - USEFUL == set(UNREAD)
    assert set(sniff.OLD_NAMES.values()) <= set(sniff.NAMES)


def test_calls_among_sums_of_the_gpu_are_no_kernels(tmp_path: Path) -> None:
    header = f"{TIMES.format(n='Instances')},Category,Operation"
    rows = [
        "70,700,7,100.0,100.0,100,100,0.0,CUDA_API,cudaLaunchKernel",
        "20,200,2,100.0,100.0,100,100,0.0,CUDA_KERNEL,gemm",
        "8,80,1,80.0,80.0,80,80,0.0,MEMORY_OPER,[CUDA memcpy Host-to-Device]",
        "2,20,1,20.0,20.0,20,20,0.0,QUANTUM,q",
    ]
    text = "\n".join((header, *rows)) + "\n"
    for name in ("run_cuda_api_gpu_sum.csv", "run_apigpusum.csv", "out.csv", "run_cuda_gpu_sum.csv"):
        found = read(tmp_path, name, text)
        assert sorted(found.table("rollups")["total_ns"]) == [80, 200]
        assert figures(found)["cuda_api__time.sum", "cudaLaunchKernel"] == (700, "ns")
        assert sum(n for what, n in found.report("skipped").items() if "unknown category" in what) == 1
    kernels = f"{TIMES.format(n='Instances')},Name\n100,200,2,100.0,100.0,100,100,0.0,gemm\n"
    calls = f"{TIMES.format(n='Num Calls')},Name\n100,700,7,100.0,100.0,100,100,0.0,cudaLaunchKernel\n"
    reports = {"cuda_api_sum": calls, "cuda_gpu_kern_sum": kernels, "cuda_api_gpu_sum": text}
    parts = [f"Processing [r] with [/r/{report}.py]... \n{part}\n" for report, part in reports.items()]
    found = read(tmp_path, "all.csv", "".join(parts))
    assert sorted(found.table("rollups")["total_ns"]) == [80, 200]
    assert found.table("metrics").filter(metric="cuda_api__time.sum").height == 1
