"""Small exports of Nsight Systems in the schemas of several versions, made by hand after `nsight.md` and real files.

One capture: two processes that use the same correlation ids, each with its own GPU as ordinal 0, nested NVTX ranges, a
library's range, copies, a fill, and a graph. NVIDIA's own `nsys stats` printed the texts in `tests/fixtures/nsys` from
the databases of this module (see `README.md` there).
"""

from __future__ import annotations

import dataclasses
import sqlite3
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

FIRST, SECOND = 111, 222
VM = 1 << 48
MAIN_THREAD = 0
START_UTC = 1_700_000_000_123_456_789

STRINGS = (
    "void gemm<float, (int)4>(const float *, int)",
    "gemm",
    "_Z4gemmIfLi4EEvPKfi",
    "void add<float>(float *, float)",
    "add",
    "_Z3addIfEvPff",
    "plain_kernel",
    "cudaLaunchKernel_v7000",
    "cuLaunchKernel",
    "cudaMemcpyAsync_v3020",
    "cudaMemsetAsync_v3020",
    "cudaGraphLaunch_v10000",
    "prefill",
    "decode",
    "layer 0",
    "cudaStreamSynchronize_v3020",
)
IDS = {text: number for number, text in enumerate(STRINGS, start=10)}
GEMM = (STRINGS[0], STRINGS[1], STRINGS[2])
ADD = (STRINGS[3], STRINGS[4], STRINGS[5])
PLAIN = (STRINGS[6], STRINGS[6], STRINGS[6])
COPIES = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 10: "Peer-to-Peer"}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel launch."""

    start: int
    duration: int
    name: tuple[str, str, str]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    correlation: int
    process: int = FIRST
    shared: tuple[int, int] = (0, 0)
    registers: int = 32
    stream: int = 7
    node: int | None = None


@dataclasses.dataclass(frozen=True)
class Copy:
    """A copy, or a fill where `kind` is None."""

    start: int
    duration: int
    bytes: int
    kind: int | None
    correlation: int
    process: int = FIRST
    stream: int = 7


@dataclasses.dataclass(frozen=True)
class Call:
    """A runtime or driver call."""

    start: int
    duration: int
    name: str
    correlation: int
    process: int = FIRST
    thread: int = MAIN_THREAD


@dataclasses.dataclass(frozen=True)
class Range:
    """An NVTX range; `kind` is its eventType."""

    start: int
    end: int | None
    text: str
    process: int = FIRST
    thread: int = MAIN_THREAD
    domain: int = 0
    kind: int = 59
    registered: bool = False


KERNELS: tuple[Kernel, ...] = (
    Kernel(1_000_500, 2_048, GEMM, (8, 32, 1), (128, 1, 1), 1, shared=(5_120, 0), registers=75),
    Kernel(1_010_000, 1_536, ADD, (64, 1, 1), (256, 1, 1), 2),
    Kernel(1_020_000, 2_433, GEMM, (8, 32, 1), (128, 1, 1), 3, shared=(5_120, 0), registers=75),
    Kernel(1_030_000, 999, PLAIN, (1, 1, 1), (32, 16, 1), 4, shared=(16, 98_304)),
    Kernel(1_040_000, 512, ADD, (1_000_000, 1, 1), (256, 1, 1), 5),
    Kernel(1_001_000, 4_096, GEMM, (16, 32, 1), (128, 1, 1), 1, process=SECOND, shared=(5_120, 0), registers=75),
    Kernel(1_060_000, 700, ADD, (64, 1, 1), (256, 1, 1), 9, node=77),
    Kernel(1_061_000, 800, PLAIN, (1, 1, 1), (32, 16, 1), 9, node=78, shared=(16, 98_304)),
    Kernel(1_070_000, 640, PLAIN, (1, 1, 1), (32, 16, 1), 400, shared=(16, 98_304)),
)
MEMORY: tuple[Copy, ...] = (
    Copy(1_005_000, 1_216, 8, 2, 6),
    Copy(1_050_000, 5_920, 65_536, 1, 7),
    Copy(1_080_000, 2_500_000, 33_554_432, 8, 8),
    Copy(1_015_000, 800, 4_096, None, 10),
)
CALLS: tuple[Call, ...] = (
    Call(1_000_100, 300, "cudaLaunchKernel_v7000", 1),
    Call(1_000_600, 300, "cudaLaunchKernel_v7000", 2),
    Call(1_001_100, 250, "cuLaunchKernel", 3),
    Call(1_002_000, 200, "cudaLaunchKernel_v7000", 4),
    Call(1_002_500, 200, "cudaLaunchKernel_v7000", 5),
    Call(1_000_100, 777, "cudaLaunchKernel_v7000", 1, process=SECOND),
    Call(1_003_000, 100, "cudaMemcpyAsync_v3020", 6),
    Call(1_003_200, 100, "cudaMemcpyAsync_v3020", 7),
    Call(1_003_400, 100, "cudaMemcpyAsync_v3020", 8),
    Call(1_003_600, 100, "cudaGraphLaunch_v10000", 9),
    Call(1_003_800, 100, "cudaMemsetAsync_v3020", 10),
    Call(1_090_000, 50_000, "cudaStreamSynchronize_v3020", 11),
)
RANGES: tuple[Range, ...] = (
    Range(1_000_000, 1_001_000, "prefill", registered=True),
    Range(1_000_050, 1_000_950, "layer 0"),
    Range(1_000_590, 1_000_920, "ncclAllReduce", domain=3),
    Range(1_001_050, 1_004_000, "decode"),
    Range(1_000_000, 1_200_000, "epoch", process=SECOND, kind=60),
    Range(1_003_590, None, "unfinished"),
)

COMMON = ["start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"]
KERNEL_2021 = [
    *COMMON,
    *[
        "demangledName",
        "shortName",
        "mangledName",
        "launchType",
        "cacheConfig",
        "registersPerThread",
        "gridX",
        "gridY",
        "gridZ",
    ],
    *[
        "blockX",
        "blockY",
        "blockZ",
        "staticSharedMemory",
        "dynamicSharedMemory",
        "localMemoryPerThread",
        "localMemoryTotal",
    ],
    *["gridId", "sharedMemoryExecuted", "graphNodeId", "sharedMemoryLimitConfig"],
]
KERNEL_2023 = [*KERNEL_2021[:4], "greenContextId", *KERNEL_2021[4:]]
KERNEL_2026 = [
    *KERNEL_2023,
    *["qmdBulkReleaseDone", "qmdPreexitDone", "qmdLastCtaDone", "graphId", "clusterX", "clusterY", "clusterZ"],
    *["clusterSchedulingPolicy", "maxPotentialClusterSize", "maxActiveClusters", "sharedMemoryRequestedPercentage"],
    "tensorSizeMinusOneElements",
]
MEMCPY_2021 = [*COMMON, *["bytes", "copyKind", "srcKind", "dstKind", "srcDeviceId", "srcContextId", "graphNodeId"]]
MEMCPY_2023 = [*MEMCPY_2021[:4], "greenContextId", *MEMCPY_2021[4:]]
MEMSET_2020 = [*COMMON, "value", "bytes", "memKind"]
MEMSET_2021 = [*COMMON, *["value", "bytes", "graphNodeId", "memKind"]]
MEMSET_2023 = [*MEMSET_2021[:4], "greenContextId", *MEMSET_2021[4:]]
RUNTIME = ["start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue", "callchainId"]
NVTX = [
    "start",
    "end",
    "eventType",
    "rangeId",
    "category",
    "color",
    "text",
    "globalTid",
    "endGlobalTid",
    "textId",
    "domainId",
]
GPU = (
    *["id", "name", "busLocation", "l2CacheSize", "totalMemory", "memoryBandwidth", "clockRate", "smCount", "chipName"],
    *[
        "maxShmemPerSm",
        "maxRegistersPerSm",
        "threadsPerWarp",
        "maxWarpsPerSm",
        "maxBlocksPerSm",
        "computeMajor",
        "computeMinor",
    ],
)


@dataclasses.dataclass(frozen=True)
class Era:
    """One version of the schema."""

    schema: str | None
    kernel: Sequence[str]
    memcpy: Sequence[str]
    memset: Sequence[str]
    metadata: str | None
    enums: bool
    mapping: bool
    nvtx: str = "NVTX_EVENTS"
    gpu: str = "TARGET_INFO_GPU"


ERAS: Mapping[str, Era] = {
    "2020.4": Era(
        None, KERNEL_2021[:23], MEMCPY_2021[:11], MEMSET_2020, None, False, False, gpu="TARGET_INFO_CUDA_GPU"
    ),
    "2021.5": Era("2.7.0", KERNEL_2021, MEMCPY_2021, MEMSET_2021, "EXPORT_META_DATA", False, False),
    "2022.4": Era("3.0.0", KERNEL_2021, MEMCPY_2021, MEMSET_2021, "EXPORT_META_DATA", True, False),
    "2023.4": Era("3.7.2", KERNEL_2023, MEMCPY_2023, MEMSET_2023, "META_DATA_EXPORT", True, False),
    "2025.3": Era("3.20.2", KERNEL_2023, MEMCPY_2023, MEMSET_2023, "META_DATA_EXPORT", True, True),
    "2026.2": Era(
        "3.25.0", KERNEL_2026, MEMCPY_2023, MEMSET_2023, "META_DATA_EXPORT", True, True, nvtx="NVTX_EVENTS_V3"
    ),
}


def global_pid(process: int) -> int:
    return VM + (process << 24)


def global_tid(process: int, thread: int = MAIN_THREAD) -> int:
    return global_pid(process) + (thread or process)


def build(
    path: Path,
    era: str = "2025.3",
    *,
    kernels: Iterable[Kernel] = KERNELS,
    memory: Iterable[Copy] = MEMORY,
    calls: Iterable[Call] = CALLS,
    ranges: Iterable[Range] = RANGES,
    extra: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> Path:
    """Write an export; tables without rows are left out, as nsys does."""
    version = ERAS[era]
    with sqlite3.connect(path) as connection:
        _table(connection, "StringIds", ("id", "value"), [{"id": IDS[one], "value": one} for one in STRINGS])
        kernel_rows = [_kernel(one) for one in kernels]
        _table(connection, "CUPTI_ACTIVITY_KIND_KERNEL", version.kernel, kernel_rows)
        copies = [one for one in memory if one.kind is not None]
        fills = [one for one in memory if one.kind is None]
        _table(connection, "CUPTI_ACTIVITY_KIND_MEMCPY", version.memcpy, [_copy(one) for one in copies])
        _table(connection, "CUPTI_ACTIVITY_KIND_MEMSET", version.memset, [_copy(one) for one in fills])
        _table(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", RUNTIME, [_call(one) for one in calls])
        ranges = list(ranges)
        _table(connection, version.nvtx, NVTX, [*([_domain()] if ranges else []), *map(_range, ranges)])
        _facts(connection, version)
        for name, rows in (extra or {}).items():
            _table(connection, name, list(rows[0]), rows)
    connection.close()
    return path


def _table(
    connection: sqlite3.Connection, name: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> None:
    if rows:
        texts = {"value", "text", "name", "label", "chipName", "busLocation"}
        kinds = ", ".join(f'"{one}" {"TEXT" if one in texts else "INTEGER"}' for one in columns)
        connection.execute(f'CREATE TABLE "{name}" ({kinds})')
        marks = ", ".join("?" for _ in columns)
        values = [tuple(row.get(column) for column in columns) for row in rows]
        connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', values)


def _common(one: Kernel | Copy) -> dict[str, Any]:
    return {
        "start": one.start,
        "end": one.start + one.duration,
        "deviceId": 0,
        "contextId": 1,
        "streamId": one.stream,
        "correlationId": one.correlation,
        "globalPid": global_pid(one.process),
    }


def _kernel(one: Kernel) -> dict[str, Any]:
    full, short, mangled = one.name
    axes = dict(zip(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), one.grid + one.block, strict=True))
    return {
        **_common(one),
        **axes,
        "demangledName": IDS[full],
        "shortName": IDS[short],
        "mangledName": IDS[mangled],
        "registersPerThread": one.registers,
        "staticSharedMemory": one.shared[0],
        "dynamicSharedMemory": one.shared[1],
        "sharedMemoryExecuted": 102_400,
        "localMemoryPerThread": 0,
        "graphNodeId": one.node,
    }


def _copy(one: Copy) -> dict[str, Any]:
    return {
        **_common(one),
        "bytes": one.bytes,
        "copyKind": one.kind,
        "srcKind": 0,
        "dstKind": 2,
        "memKind": 2,
        "value": 0,
    }


def _call(one: Call) -> dict[str, Any]:
    return {
        "start": one.start,
        "end": one.start + one.duration,
        "eventClass": 1 if one.name.startswith("cuL") else 0,
        "globalTid": global_tid(one.process, one.thread),
        "correlationId": one.correlation,
        "nameId": IDS[one.name],
        "returnValue": 0,
    }


def _range(one: Range) -> dict[str, Any]:
    return {
        "start": one.start,
        "end": one.end,
        "eventType": one.kind,
        "text": None if one.registered else one.text,
        "textId": IDS[one.text] if one.registered else None,
        "globalTid": global_tid(one.process, one.thread),
        "domainId": one.domain,
    }


def _domain() -> dict[str, Any]:
    return {"start": -5, "eventType": 75, "text": "NCCL", "globalTid": global_tid(FIRST), "domainId": 3}


def _gpu(number: int, name: str, major: int, multiprocessors: int) -> dict[str, Any]:
    return {
        "id": number,
        "deviceId": number,
        "name": name,
        "l2CacheSize": 52_428_800,
        "totalMemory": 85_899_345_920,
        "memoryBandwidth": 3_352_320_000_000,
        "clockRate": 1_980_000_000,
        "smCount": multiprocessors,
        "chipName": "GH100",
        "maxShmemPerSm": 233_472,
        "maxRegistersPerSm": 65_536,
        "threadsPerWarp": 32,
        "maxWarpsPerSm": 64,
        "maxBlocksPerSm": 32,
        "computeMajor": major,
        "computeMinor": 0,
    }


def _facts(connection: sqlite3.Connection, version: Era) -> None:
    gpus = [_gpu(0, "NVIDIA H100 80GB HBM3", 9, 132), _gpu(1, "NVIDIA A100-SXM4-80GB", 8, 108)]
    columns = ["deviceId", *GPU[1:]] if version.gpu == "TARGET_INFO_CUDA_GPU" else GPU
    _table(connection, version.gpu, columns, gpus)
    started = [{"utcEpochNs": START_UTC, "utcTime": "", "localTime": ""}]
    _table(connection, "TARGET_INFO_SESSION_START_TIME", ("utcEpochNs", "utcTime", "localTime"), started)
    if version.mapping:
        pairs = [{"gpuId": 1, "cudaId": 0, "pid": FIRST}, {"gpuId": 0, "cudaId": 0, "pid": SECOND}]
        _table(connection, "TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"), pairs)
    if version.enums:
        labels = [{"id": number, "name": f"KIND_{number}", "label": label} for number, label in COPIES.items()]
        _table(connection, "ENUM_CUDA_MEMCPY_OPER", ("id", "name", "label"), labels)
        kinds = [{"id": 0, "name": "P", "label": "Pageable"}, {"id": 2, "name": "D", "label": "Device"}]
        _table(connection, "ENUM_CUDA_MEM_KIND", ("id", "name", "label"), kinds)
    if version.metadata is not None:
        exported = {"EXPORT_PRODUCT_VERSION": "2099.1.1", "EXPORT_SCHEMA_VERSION": version.schema, "EXPORT_USER": "ada"}
        _table(connection, version.metadata, ("name", "value"), _pairs(exported))
        captured = {
            "PROCESS_0:COMMAND": "python",
            "PROCESS_0:ARGUMENT_0": "--token=SECRET",
            "DEVICE_DISPLAY_NAME": "node7",
        }
        _table(connection, "META_DATA_CAPTURE", ("name", "value"), _pairs(captured))
        environment = [{"name": "DeviceEnvironment", "value": "HF_TOKEN=SECRET"}]
        _table(connection, "TARGET_INFO_SYSTEM_ENV", ("name", "value"), environment)


def _pairs(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in found.items()]
