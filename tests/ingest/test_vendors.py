"""Traces of AMD, Intel and Meta devices, which put the same facts in other places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kerneldb.ingest.doctor import of_pytorch
from tests.ingest.traces import T0, Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    trace.api("hipModuleLaunchKernel", T0 + 5_000, 4_000, 40, launch)
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


MI300X = {"name": "AMD Instinct MI300X", "warpSize": 64, "computeMajor": 9, "computeMinor": 4, "numSms": 304}
MI210 = {"name": "AMD Instinct MI210", "warpSize": 64, "computeMajor": 9, "computeMinor": 0, "numSms": 104}


def launched_by(call: str, grid: list[int], block: Sequence[int] = (256, 1, 1)) -> Trace:
    """A kernel that `call` launched on ROCm."""
    trace = Trace()
    shape = {"grid": grid, "block": list(block)}
    trace.api(call, T0 + 5_000, 4_000, 40, {"kernel": "some_kernel", **shape, "shared memory": 0})
    trace.gpu("some_kernel", T0 + 70_000, 9_000, 40, {"kind": "Dispatch Kernel", **shape}, device=2, stream=0)
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
    """A call is told the shared memory that comes on top of what the code needs."""
    kernel = convert(rocm()).launch(ROCM_KERNEL)
    assert [kernel[f"grid_{axis}"] for axis in "xyz"] == [8, 4, 1]
    assert [kernel[f"block_{axis}"] for axis in "xyz"] == [256, 1, 1]
    assert (kernel.get("shared_bytes"), kernel["dynamic_shared_bytes"]) == (None, 8704)


@pytest.mark.parametrize(
    ("call", "printed", "blocks"),
    [
        ("hipExtModuleLaunchKernel", [225_280, 1, 1], 880),
        ("hipExtModuleLaunchKernel", [225_281, 1, 1], 881),  # the last block is partly empty
        ("hipHccModuleLaunchKernel", [512, 1, 1], 2),
        ("hipModuleLaunchKernel", [512, 1, 1], 512),
        ("hipLaunchKernel", [512, 1, 1], 512),
        ("hipExtLaunchKernel", [512, 1, 1], 512),
    ],
)
def test_rocm_grids_count_what_the_call_counts(convert: Convert, call: str, printed: list[int], blocks: int) -> None:
    kernel = convert(launched_by(call, printed)).launch("some_kernel")
    assert (kernel["grid_x"], kernel["block_x"]) == (blocks, 256)
    divided = "Module" in call and call != "hipModuleLaunchKernel"
    reported = (kernel["reported_grid_x"], kernel["reported_grid_unit"], kernel["quality"])
    assert reported == ((printed[0], "work-items", "grid_unit_by_api") if divided else (None, None, None))


def test_rocm_grid_of_a_call_without_a_block_is_unknown(convert: Convert) -> None:
    kernel = convert(launched_by("hipExtModuleLaunchKernel", [512, 1, 1], block=[0, 1, 1])).launch("some_kernel")
    assert (kernel["grid_x"], kernel["reported_grid_x"], kernel["reported_grid_unit"]) == (None, 512, "work-items")


@pytest.mark.parametrize(
    ("name", "grid", "quality"),
    [
        ("Cijk_Ailk_Bljk_BBS_BH_MT64x64x32", 2, "grid_unit_by_name"),  # Tensile
        ("void at::native::fill<4>(int)", 512, None),  # compiled with PyTorch
        ("some_kernel", 2, "grid_unit_by_name"),  # launched by hipExtModuleLaunchKernel elsewhere in the trace
        ("another_kernel", None, "grid_unit_unknown"),
    ],
)
def test_rocm_grid_of_a_kernel_without_its_call(
    convert: Convert, name: str, grid: int | None, quality: str | None
) -> None:
    trace = launched_by("hipExtModuleLaunchKernel", [1024, 1, 1])
    shape = {"kind": "Dispatch Kernel", "grid": [512, 1, 1], "block": [256, 1, 1]}
    trace.gpu(name, T0 + 900_000, 1_000, 90, shape, device=2, stream=0)
    found = convert(trace).launches.filter(correlation_id=90).to_dicts()[0]
    assert (found["grid_x"], found["quality"]) == (grid, quality)
    assert found["reported_grid_x"] == (512 if quality else None)


def test_cuda_grids_stay(convert: Convert) -> None:
    trace = Trace()
    trace.api("cudaLaunchKernel", T0, 1_000, 40)
    trace.kernel("some_kernel", T0 + 5_000, 9_000, 40)
    kernel = convert(trace).launch("some_kernel")
    assert (kernel["grid_x"], kernel.get("reported_grid_x"), kernel.get("quality")) == (64, None, None)


@pytest.mark.parametrize(
    ("described", "used", "allocating", "expected"),
    [
        ([MI300X], [2], [], [(0, "AMD Instinct MI300X")]),  # one described, one used
        ([MI300X], [9], [0], [(0, "AMD Instinct MI300X")]),
        ([MI300X, MI210], [2], [1], [(1, "AMD Instinct MI210")]),  # the one that allocates
        ([MI300X, MI300X], [9], [], [(9, "AMD Instinct MI300X")]),  # one of two that are alike
        ([MI300X, MI210], [9], [], [(9, None)]),  # either
        ([MI300X], [2, 3], [], [(2, "AMD Instinct MI300X"), (3, "AMD Instinct MI300X")]),
        ([MI300X, MI210], [1], [], [(1, "AMD Instinct MI210")]),
    ],
)
def test_rocm_numbers_devices_twice(
    convert: Convert,
    described: list[dict[str, Any]],
    used: list[int],
    allocating: list[int],
    expected: list[tuple[int, str | None]],
) -> None:
    """Kernels name the node of the driver, `deviceProperties` and memory events the device of HIP."""
    trace = Trace({"deviceProperties": [{**one, "id": number} for number, one in enumerate(described)]})
    for number, device in enumerate(used):
        trace.gpu("k", T0 + 1_000 * number, 500, 40 + number, {"kind": "Dispatch Kernel"}, device=device, stream=0)
    for device in allocating:
        place = {"Device Type": 1, "Device Id": device, "Bytes": 512, "Addr": 1}
        trace.add("i", "cpu_instant_event", "[memory]", T0, args=place)
    found = convert(trace)
    names = dict(found.rows("devices", "device", "name"))
    assert [(device, names.get(device)) for (device,) in found.rows("launches", "device")] == expected


def test_gpus_without_names_have_no_vendor(convert: Convert) -> None:
    trace = Trace({"deviceProperties": [{"id": 0, "name": ""}, {"id": 1, "name": None}]})
    for device in (0, 1):
        trace.gpu("k", T0 + 1_000 * device, 500, 40 + device, device=device, stream=0)
    found = convert(trace)
    assert found.rows("launches", "device") == [(0,), (1,)]
    assert found.rows("devices", "device", "name") == [(0, None), (1, None)]


def test_rocm_names_the_kernels_that_a_capture_launched(convert: Convert) -> None:
    trace = launched_by("hipLaunchKernel", [512, 1, 1])
    trace.api("hipStreamBeginCapture", T0 + 800_000, 1_000, 50)
    trace.op("aten::add", T0 + 900_000, 9_000)
    trace.api("hipLaunchKernel", T0 + 901_000, 1_000, 51, {"kernel": "captured", "grid": [1, 1, 1]})
    found = convert(trace)
    calls = found.rows("api_calls", "name", "details", "op_id")
    assert ("hipLaunchKernel", "captured", 0) in calls
    assert ("captured", "kernel") in found.rows("kernel_names", "name", "kind")
    (said,) = (one for one in of_pytorch(found.manifest) if one.topic == "graph capture")
    assert (said.level, said.message.split(";")[0]) == (
        "warning",
        "1 launch calls were recorded into 1 graph, which ran nothing then",
    )


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
