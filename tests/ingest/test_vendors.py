"""Traces of AMD, Intel and Meta devices, which put the same facts in other places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ingest.traces import T0, Trace

if TYPE_CHECKING:
    from tests.ingest.conftest import Convert

ROCM_KERNEL = "Cijk_Ailk_Bljk_BBS_BH_MT64x64x32"


def rocm() -> Trace:
    """The launch shape stands on the runtime row; the kernel says only device and stream. The rank has GPU 2."""
    trace = Trace()
    trace.op("aten::mm", T0, 50_000, {"External id": 3, "Input Dims": [[8, 8], [8, 8]]})
    launch = {
        "cid": 211,
        "kernel": ROCM_KERNEL,
        "grid": [8, 4, 1],
        "block": [256, 1, 1],
        "shared memory": 8704,
        "External id": 3,
    }
    trace.api("hipExtModuleLaunchKernel", T0 + 5_000, 4_000, 40, launch)
    trace.gpu(ROCM_KERNEL, T0 + 70_000, 9_000, 40, {"kind": "Dispatch Kernel", "External id": 3}, device=2, stream=0)
    copied = {"cid": 54, "bytes": "4096", "src": "0x7f01", "dst": "0x7f02", "kind": "Host To Device"}
    trace.api("hipMemcpyWithStream", T0 + 100_000, 9_000, 41, copied)
    trace.gpu(
        "CopyHostToDevice",
        T0 + 105_000,
        2_000,
        41,
        {"kind": "CopyHostToDevice", "bytes": "4096"},
        cat="gpu_memcpy",
        device=2,
        stream=0,
    )
    return trace


def xpu() -> Trace:
    """Contexts are pointers, kernels have no launch shape."""
    trace = Trace()
    trace.op("aten::add", T0, 50_000, {"External id": 3})
    trace.api("urEnqueueKernelLaunch", T0 + 5_000, 4_000, 40, cat="xpu_runtime")
    place = {
        "context": "0x55d0c8a4b2f0",
        "l0 queue": "0x55d0c8",
        "sycl queue": "0x1",
        "kernel_id": 12,
        "appended": 5,
        "submitted": 6,
    }
    trace.gpu("at::native::xpu::AddKernel", T0 + 70_000, 9_000, 40, place, stream=1)
    return trace


def mtia() -> Trace:
    """No category `kernel` at all."""
    trace = Trace()
    trace.op("aten::add", T0, 500_000, {"External id": 3})
    trace.api("runFunction - job_prep_and_submit", T0 + 5_000, 435_200, 423, cat="mtia_runtime")
    work = {
        "packet_ptr": "0x1",
        "k_work_ptr": "0x2",
        "sqid": 3,
        "direction": "NA",
        "size": 0,
        "column": 1,
        "row": 2,
        "seq_num": 9,
    }
    trace.gpu("add_kernel", T0 + 600_000, 124_768, 423, work, cat="mtia_ccp_events", stream=2)
    return trace


def test_rocm_takes_the_launch_shape_of_the_runtime_row(convert: Convert) -> None:
    kernel = convert(rocm()).launch(ROCM_KERNEL)
    assert [kernel[f"grid_{axis}"] for axis in "xyz"] == [8, 4, 1]
    assert [kernel[f"block_{axis}"] for axis in "xyz"] == [256, 1, 1]
    assert kernel["shared_bytes"] == 8704


def test_rocm_device_and_stream_zero(convert: Convert) -> None:
    kernel = convert(rocm()).launch(ROCM_KERNEL)
    assert (kernel["device"], kernel["stream"], kernel["op"]) == (2, 0, "aten::mm")


def test_rocm_kernel_without_a_runtime_row_has_no_shape(convert: Convert) -> None:
    trace = rocm()
    trace.gpu("alone", T0 + 900_000, 1_000, 90, {"kind": "Dispatch Kernel"}, device=2, stream=0)
    alone = convert(trace).launch("alone")
    assert (alone["grid_x"], alone["block_x"], alone["shared_bytes"]) == (None, None, None)
    assert alone["launch_status"] == "no_launch"


def test_rocm_copy_direction_comes_from_its_kind(convert: Convert) -> None:
    copy = convert(rocm()).launch("CopyHostToDevice")
    assert (copy["kind"], copy["copy_kind"]) == ("memcpy", "HtoD")


def test_rocm_bytes_written_as_text_are_bytes(convert: Convert) -> None:
    found = convert(rocm())
    assert found.launch("CopyHostToDevice")["bytes"] == 4096
    assert [row for row in found.rows("api_calls", "name", "bytes") if row[1]] == [("hipMemcpyWithStream", 4096)]


def test_rocm_copy_does_not_take_a_grid_from_its_call(convert: Convert) -> None:
    assert convert(rocm()).launch("CopyHostToDevice")["grid_x"] is None


def test_xpu_kernel_without_shape(convert: Convert) -> None:
    found = convert(xpu())
    kernel = found.launch("at::native::xpu::AddKernel")
    assert (kernel["op"], kernel["api_call"], kernel["launch_status"]) == (
        "aten::add",
        "urEnqueueKernelLaunch",
        "linked",
    )
    assert (kernel["grid_x"], kernel["block_x"], kernel["stream"]) == (None, None, 1)
    assert found.total("lost") == 0


def test_xpu_device_properties(convert: Convert) -> None:
    trace = xpu()
    card = {
        "id": 0,
        "name": "Intel(R) Data Center GPU Max 1550",
        "maxComputeUnits": 448,
        "maxClockFrequency": 1600,
        "vendor": "Intel(R) Corporation",
    }
    trace.metadata["deviceProperties"] = [card]
    (device,) = convert(trace).table("devices").to_dicts()
    assert (device["multiprocessors"], device["clock_mhz"], device["vendor"].lower()) == (448, 1600.0, "intel")


def test_mtia_events_are_launches(convert: Convert) -> None:
    kernel = convert(mtia()).launch("add_kernel")
    assert (kernel["kind"], kernel["duration_ns"], kernel["launch_duration_ns"]) == ("kernel", 124_768, 435_200)
    assert (kernel["op"], kernel["stream"], kernel["launch_status"]) == ("aten::add", 2, "linked")


@pytest.mark.parametrize("cat", ["hpu_op", "collective_comm"])
def test_other_gpu_categories_are_launches(convert: Convert, cat: str) -> None:
    trace = Trace()
    trace.gpu("work", T0, 5_000, 1, cat=cat)
    found = convert(trace)
    assert found.launches.select("name", "kind", "duration_ns").rows() == [("work", "kernel", 5_000)]


@pytest.mark.parametrize(
    "cat", ["privateuse1_runtime", "privateuse1_driver", "xpu_driver", "cuda_driver", "glow_runtime"]
)
def test_calls_of_every_backend_launch(convert: Convert, cat: str) -> None:
    trace = Trace()
    trace.op("aten::add", T0, 50_000)
    trace.api("launch", T0 + 5_000, 4_000, 40, cat=cat)
    trace.kernel("add", T0 + 70_000, 1_000, 40)
    assert convert(trace).launch("add")["op"] == "aten::add"


@pytest.mark.parametrize("cat", ["cuda_sync", "cuda_event"])
def test_waits_do_not_launch(convert: Convert, cat: str) -> None:
    trace = Trace()
    trace.api("Stream Sync", T0, 4_000, 40, {"cuda_sync_kind": "Stream Sync", "stream": 4_294_967_295}, cat=cat)
    trace.kernel("add", T0 + 70_000, 1_000, 40)
    found = convert(trace)
    assert found.launch("add")["launch_status"] == "no_launch"
    assert found.table("sync_events").height == 1
