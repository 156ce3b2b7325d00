"""What an export says about itself: versions, clock, GPUs and settings of the capture."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from kerneldb.ingest.nsys.store import Schema, Store, frame

VENDOR: Final = "NVIDIA"
PAIRS: Final[Schema] = {"name": pl.String, "value": pl.String}
EXPORT_TABLES: Final = ("META_DATA_EXPORT", "EXPORT_META_DATA")
CAPTURE_TABLE: Final = "META_DATA_CAPTURE"
ENVIRONMENT_TABLE: Final = "TARGET_INFO_SYSTEM_ENV"
# Versions and switches of the profiler. Commands, arguments, paths, user names and environments may be private.
PUBLIC: Final = re.compile(
    r"^(?:EXPORT_PRODUCT_\w+|EXPORT_SCHEMA_VERSION|EXPORT_PLATFORM|EXPORT_ARCH|EXPORT_TIME_UTC|EXPORT_PARAM_LAZY|"
    r"EXPORT_PARAM_T\w+|EXPORT_CONFIG_\w+|CAPTURE_EVENT_TYPE|RUN_DURATION_MS|"
    r"(?:PROCESS_\d+:)?(?:CUDA_\w+|COLLECT_\w+)(?::(?:MODE|TRACE_DEVICE_GRAPH_LAUNCH))?)$"
)
GRAPH_MODE: Final = re.compile(r"CUDA_GRAPH_TRACE_OPTIONS:MODE$")
DETAILS_TABLE: Final = "ANALYSIS_DETAILS"
HOST: Final = "DEVICE_DISPLAY_NAME"
GPU_TABLES: Final = ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU")
GPU_NUMBERS: Final = (
    *("id", "deviceId", "l2CacheSize", "totalMemory", "memoryBandwidth", "clockRate", "smCount", "maxShmemPerSm"),
    *("maxShmemPerBlockOptin", "maxRegistersPerSm", "threadsPerWarp", "maxWarpsPerSm", "maxBlocksPerSm"),
    *("computeMajor", "computeMinor", "smMajor", "smMinor"),
)
GPU: Final[Schema] = {"name": pl.String, "chipName": pl.String, **dict.fromkeys(GPU_NUMBERS, pl.Int64)}
MAPPING: Final[Schema] = dict.fromkeys(("gpuId", "cudaId", "pid"), pl.Int64)
HERTZ: Final = 1e6

Pairs = dict[str, str | list[str]]


def pairs(store: Store, *tables: str) -> Pairs:
    """Name → value of tables of settings; names that repeat get all their values."""
    found: Pairs = {}
    for table in tables:
        for name, value in frame(store, table, PAIRS).drop_nulls().iter_rows():
            before = found.get(name)
            known = before if isinstance(before, list) else [] if before is None else [before]
            found[name] = [*known, value] if known else value
    return found


def trace_facts(store: Store, form: str, keep_environment: bool) -> dict[str, Any]:
    """Columns of `traces` that the export fills. Environments and command lines only with `keep_environment`."""
    exported, captured = pairs(store, *EXPORT_TABLES), pairs(store, CAPTURE_TABLE)
    everything = {**exported, **captured}
    if keep_environment:
        everything |= pairs(store, ENVIRONMENT_TABLE)
    kept = {name: value for name, value in everything.items() if keep_environment or PUBLIC.match(name)}
    version = exported.get("EXPORT_SCHEMA_VERSION")
    return {
        "source": "nsys",
        "kind": "timeline",
        "tool": "Nsight Systems",
        "tool_version": _one(exported.get("EXPORT_PRODUCT_VERSION")),
        "era": f"{form} {version}" if version else form,
        "host": _one(captured.get(HOST)),
        "metadata": json.dumps(kept, sort_keys=True),
        **_clock(store),
    }


def hides_graphs(settings: Mapping[str, Any]) -> bool:
    """Whether the capture recorded CUDA graphs as a whole (`--cuda-graph-trace=graph`, the default)."""
    return any(GRAPH_MODE.search(name) and "Graph" in value for name, value in settings.items())


def _one(value: str | list[str] | None) -> str | None:
    return value[0] if isinstance(value, list) else value


def _clock(store: Store) -> dict[str, Any]:
    """All times of an export count from the start of the session."""
    started = frame(store, "TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": pl.Int64})["utcEpochNs"].drop_nulls()
    base = None if started.is_empty() else started[0]
    return {"clock": "capture" if base is None else "epoch", "base_ns": base}


def recorded_ns(store: Store) -> int | None:
    """How long the session was recorded, as the export states it. All times count from the start of the session."""
    stated = frame(store, DETAILS_TABLE, {"duration": pl.Int64})["duration"].drop_nulls()
    longest = stated.max()
    return longest if isinstance(longest, int) and longest > 0 else None


def devices(store: Store) -> pl.DataFrame:
    """Rows of `devices`: per process where the export maps CUDA ordinals to GPUs, else by number for all processes.

    The mapping matters under CUDA_VISIBLE_DEVICES, where ordinal 0 may be any GPU of the host.
    """
    gpus = _gpus(store)
    mapping = frame(store, "TARGET_INFO_CUDA_DEVICE", MAPPING).unique(maintain_order=True)
    if mapping.is_empty():
        rows = [_device(gpu, None, number) for number, gpu in gpus.items()]
    else:
        rows = [_device(gpus.get(gpu, {}), str(pid), number) for gpu, number, pid in mapping.iter_rows()]
    return pl.DataFrame([row for row in rows if row["name"] is not None], infer_schema_length=None)


def arch_of_device(devices: pl.DataFrame) -> dict[int, str | None]:
    """Ordinal → architecture, None where processes disagree about it."""
    if devices.is_empty():
        return {}
    found = devices.group_by("device").agg(pl.col("arch").unique())
    return {number: archs[0] if len(archs) == 1 else None for number, archs in found.iter_rows()}


def _gpus(store: Store) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for table in GPU_TABLES:
        for row in frame(store, table, GPU).iter_rows(named=True):
            number = row["id"] if row["id"] is not None else row["deviceId"]
            if number is not None:
                found.setdefault(number, row)
    return found


def _device(gpu: Mapping[str, Any], process: str | None, number: int) -> dict[str, Any]:
    from kerneldb import gpus

    name, major, minor = gpu.get("name"), gpu.get("computeMajor"), gpu.get("computeMinor")
    capability = (major, minor) if major else (None, None)  # MIG slices print 0.0
    warps, warp = gpu.get("maxWarpsPerSm"), gpu.get("threadsPerWarp")
    clock = gpu.get("clockRate")
    properties = {key: value for key, value in gpu.items() if value is not None and key not in ("id", "deviceId")}
    return {
        "process": process,
        "device": number,
        "vendor": VENDOR,
        "name": name,
        "arch": gpus.arch_of(VENDOR, name or "", *capability),
        "multiprocessors": gpu.get("smCount") or None,
        "memory_bytes": gpu.get("totalMemory"),
        "warp_size": warp,
        "max_threads_per_multiprocessor": warps * warp if warps and warp else None,
        "registers_per_multiprocessor": gpu.get("maxRegistersPerSm"),
        "shared_bytes_per_multiprocessor": gpu.get("maxShmemPerSm"),
        "shared_bytes_per_block_optin": gpu.get("maxShmemPerBlockOptin"),
        "clock_mhz": clock / HERTZ if clock else None,
        "properties": json.dumps(properties),
    }
