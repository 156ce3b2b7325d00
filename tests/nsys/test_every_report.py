"""Every report of `nsys stats --help-reports`, with the columns that its documentation names: read, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kerneldb.errors import NotATraceError
from kerneldb.ingest.nsys import sniff
from tests.nsys import test_sums as host
from tests.nsys.test_sums import read

if TYPE_CHECKING:
    from pathlib import Path

TIMES = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"
SUM = "100.0,300,3,100.0,90.0,60,150,45.8"
STAGES = ",".join(f"{stage}{one} (ns)" for stage in "TAQK" for one in ("Avg", "Med", "Min", "Max", "StdDev"))
TRACED = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
    "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
    "10,300,1,8,1,1,128,1,1,32,0.000,0.000,,,,,NVIDIA H100 (0),1,,7,k\n"
)
SIZED = "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n"
EXECUTED = (
    "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),Total Dur (ns),PID,"
    "TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name\n1,4,5,5,10,300,309,11,12,0,cudaLaunchKernel,8 1 1,128 1 1,k\n"
)
PUSHED = (
    "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,ParentId,"
    "RangeStack,NameTree\n10,310,300,0,300,a,11,12,0,0,1,,:1,a\n"
)
PROJECTED = (
    "Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns),Style,PID,TID,NumGPUOps,Lvl,"
    "NumChild,RangeId,ParentId,RangeStack\na,10,300,1,500,PushPop,11,12,1,0,0,1,,:1\n"
)
WORK = {
    "cuda_gpu_trace": ("launches", "duration_ns", TRACED),
    "cuda_kern_exec_trace": ("launches", "duration_ns", EXECUTED),
    "cuda_kern_exec_sum": (
        "rollups",
        "total_ns",
        f"PID,TID,DevId,Count,QCount,{STAGES},API Name,Kernel Name\n"
        f"11,12,0,3,0,{','.join(['100.0', '90.0', '60', '150', '45.8'] * 4)},cudaLaunchKernel,k\n",
    ),
    "cuda_gpu_kern_sum": ("rollups", "total_ns", f"{TIMES},Name\n{SUM},k\n"),
    "cuda_gpu_kern_gb_sum": (
        "rollups",
        "total_ns",
        f"{TIMES},GridXYZ,BlockXYZ,Name\n{SUM},   8    1    1, 128    1    1,k\n",
    ),
    "cuda_gpu_sum": ("rollups", "total_ns", f"{TIMES},Category,Operation\n{SUM},CUDA_KERNEL,k\n"),
    "cuda_api_gpu_sum": ("rollups", "total_ns", f"{TIMES},Category,Operation\n{SUM},CUDA_KERNEL,k\n"),
    "cuda_gpu_mem_time_sum": (
        "rollups",
        "total_ns",
        f"{TIMES.replace('Instances', 'Count')},Operation\n{SUM},[CUDA memset]\n",
    ),
    "nvtx_kern_sum": (
        "rollups",
        "total_ns",
        "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),"
        "Kernel Name\na,PushPop,11,12,1,3,300,100.0,90.0,60,150,45.8,k\n",
    ),
    "cuda_gpu_mem_size_sum": ("metrics", "value", SIZED + "0.0003,3,0.0001,0.0001,0.0001,0.0001,0.000,[CUDA memset]\n"),
    "nvtx_pushpop_trace": ("ranges", "duration_ns", PUSHED),
    "nvtx_gpu_proj_trace": ("ranges", "duration_ns", PROJECTED),
    "cuda_api_trace": (
        "api_calls",
        "duration_ns",
        "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n10,300,cudaMalloc,0,1,11,12,20,main\n",
    ),
    "vulkan_api_trace": ("api_calls", "duration_ns", host.VULKAN.replace("10,5,", "10,300,")),
    "mpi_event_trace": ("api_calls", "duration_ns", host.MPI.replace("10,15,5,", "10,310,300,")),
    "mpi_msg_size_sum": ("metrics", "value", host.SIZES),
    "nvtx_gpu_proj_sum": ("metrics", "value", host.PROJECTED),
    "um_sum": ("metrics", "value", host.UNIFIED.replace(",12,34,", ",300,34,")),
    "um_total_sum": ("metrics", "value", host.TOTALS.replace(",50,60,", ",300,60,")),
    "um_cpu_page_faults_sum": ("metrics", "value", "CPU Page Faults,CPU Instruction Address\n300,0x4000\n"),
    **{name: ("metrics", "value", host.text_of(name)) for name in host.COLUMNS},
}
"""Report → table and column that hold its 300 (ns, bytes or faults), and the report."""
REFUSED = {
    "wddm_queue_sum": (
        "Utilization (%),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name,Q Type,Q Name,PID,GPU ID,"
        "Context,Engine,Node Ord\n1.0,3,100.0,90.0,60,150,45.8,a,1,b,11,0,1,2,0\n"
    ),
    "network_congestion": "Start (ns),End (ns),Duration (ns),Send wait rate,GUID,Name\n10,310,300,20000,0x1,mlx5_0\n",
}
DOCUMENTED = (
    *("cuda_api_gpu_sum", "cuda_api_sum", "cuda_api_trace", "cuda_gpu_kern_gb_sum", "cuda_gpu_kern_sum"),
    *("cuda_gpu_mem_size_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_sum", "cuda_gpu_trace", "cuda_kern_exec_sum"),
    *("cuda_kern_exec_trace", "dx11_pix_sum", "dx12_gpu_marker_sum", "dx12_pix_sum", "mpi_event_sum"),
    *("mpi_event_trace", "mpi_msg_size_sum", "network_congestion", "nvtx_gpu_proj_sum", "nvtx_gpu_proj_trace"),
    *("nvtx_kern_sum", "nvtx_pushpop_sum", "nvtx_pushpop_trace", "nvtx_startend_sum", "nvtx_sum"),
    *("nvvideo_api_sum", "openacc_sum", "opengl_khr_gpu_range_sum", "opengl_khr_range_sum", "openmp_sum"),
    *("osrt_sum", "syscall_sum", "um_cpu_page_faults_sum", "um_sum", "um_total_sum", "vulkan_api_sum"),
    *("vulkan_api_trace", "vulkan_gpu_marker_sum", "vulkan_marker_sum", "wddm_queue_sum"),
)


def test_that_no_report_is_missing() -> None:
    assert {*WORK, *REFUSED} == {*DOCUMENTED} == {*sniff.NAMES}


@pytest.mark.parametrize("form", ["file", "console", "old name"])
@pytest.mark.parametrize("report", DOCUMENTED)
def test_a_report_is_read_or_refused_by_its_name(tmp_path: Path, report: str, form: str) -> None:
    table, column, text = WORK.get(report, ("", "", REFUSED.get(report, "")))
    name = f"run_{host.OLD.get(report, report) if form == 'old name' else report}.csv"
    if form == "console":
        name, text = "out.csv", f"Processing [r.sqlite] with [/opt/nsight/reports/{report}.py]... \n{text}\n"
    if report in REFUSED:
        with pytest.raises(NotATraceError, match=f"the report {report} of nsys, which lists no GPU work"):
            read(tmp_path, name, text)
        return
    found = read(tmp_path, name, text)
    assert 300 in found.table(table)[column].to_list()
    stored = {reason for reason in found.report("stored") if reason.startswith("row of ")}
    assert stored == {f"row of {report}"}
    if table == "metrics":
        assert not {"launches", "rollups"} & found.manifest.parts.keys()
