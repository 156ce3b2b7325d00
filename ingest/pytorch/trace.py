"""What the metadata around the events says: devices, ranks, tools, versions, and the row of `traces`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from kerneldb import gpus

READER_VERSION: Final = 1
# What the profiler itself writes. All else (environments, accounts, job names, notes of a program) may be private.
PUBLIC: Final = re.compile(
    r"^(?:schemaVersion|displayTimeUnit|baseTimeNanoseconds|trace_id|record_shapes|profile_memory|with_\w+|"
    r"[\w-]+_version|DISABLE_CUPTI_LAZY_REINIT)$"
)
VALUE_LIMIT: Final = 200
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
EPOCH_NS: Final = 10**18  # 2001: later than any relative time, earlier than any trace
TOOLS: Final = (
    ("cupti_version", "CUPTI"),
    ("rocprofiler-sdk_version", "rocprofiler-sdk"),
    ("roctracer_version", "roctracer"),
    ("pti_version", "PTI"),
)


def devices(metadata: Mapping[str, Any]) -> pl.DataFrame:
    """Rows of `devices` from `deviceProperties`: all GPUs of the host, used or not."""
    listed = metadata.get("deviceProperties")
    rows = [_device(entry) for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    return pl.DataFrame([row for row in rows if row["device"] is not None], infer_schema_length=None)


def _device(entry: Mapping[str, Any]) -> dict[str, Any]:
    name = str(entry.get("name") or "") or None
    vendor = gpus.vendor_of(entry)
    major, minor = _integer(entry.get("computeMajor")), _integer(entry.get("computeMinor"))
    shared = entry.get("sharedMemPerMultiprocessor", entry.get("maxSharedMemoryPerMultiProcessor"))
    return {
        "device": _integer(entry.get("id")),
        "vendor": vendor,
        "name": name,
        "arch": gpus.arch_of(vendor, name or "", major, minor),
        "multiprocessors": _integer(entry.get("numSms", entry.get("maxComputeUnits"))),
        "memory_bytes": _integer(entry.get("totalGlobalMem", entry.get("maxMemAllocSize"))),
        "warp_size": _integer(entry.get("warpSize")),
        "max_threads_per_multiprocessor": _integer(entry.get("maxThreadsPerMultiprocessor")),
        "registers_per_multiprocessor": _integer(entry.get("regsPerMultiprocessor")),
        "shared_bytes_per_multiprocessor": _integer(shared),
        "shared_bytes_per_block_optin": _integer(entry.get("sharedMemPerBlockOptin")),
        "clock_mhz": _number(entry.get("maxClockFrequency")),
        "properties": json.dumps(entry),
    }


def process_groups(metadata: Mapping[str, Any]) -> pl.DataFrame:
    """Rows of `process_groups` from `distributedInfo`."""
    groups = _distributed(metadata).get("pg_config")
    groups = [groups] if isinstance(groups, dict) else groups
    rows = [
        {
            "group_name": _string(group.get("pg_name")),
            "description": _string(group.get("pg_desc")),
            "backend": _string(group.get("backend_config", group.get("backend"))),
            "group_size": _integer(group.get("pg_size")),
            "ranks": _string(group.get("ranks")),
        }
        for group in groups or []
        if isinstance(group, dict)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def facts(metadata: Mapping[str, Any], keep_environment: bool) -> dict[str, Any]:
    """Columns of `traces` that the metadata fills. Environments and command lines only with `keep_environment`."""
    distributed = _distributed(metadata)
    tool = next((name for key, name in TOOLS if key in metadata), None)
    kept = {key: value for key, value in metadata.items() if keep_environment or _public(key, value)}
    return {
        "kind": "timeline",
        "source": "pytorch",
        "tool": "torch.profiler",
        "tool_version": f"{tool} {metadata[next(k for k, n in TOOLS if n == tool)]}" if tool else None,
        "framework_version": _framework(metadata),
        "rank": _integer(distributed.get("rank")),
        "world_size": _integer(distributed.get("world_size")),
        "host": _string(metadata.get("host_name")),
        "metadata": json.dumps(kept, sort_keys=True),
        "reader_version": READER_VERSION,
    }


def clock(metadata: Mapping[str, Any], start_ns: int | None) -> dict[str, Any]:
    """`clock` and `base_ns`.

    Times without a base are absolute where they look like dates; else their origin is unknown.
    """
    base = _integer(metadata.get("baseTimeNanoseconds"))
    if base is None and (start_ns is None or start_ns > EPOCH_NS):
        base = 0
    return {"clock": "capture" if base is None else "epoch", "base_ns": base}


def _public(key: str, value: object) -> bool:
    plain = isinstance(value, str | int | float | bool) and len(str(value)) <= VALUE_LIMIT
    return plain and PUBLIC.match(key) is not None


def _framework(metadata: Mapping[str, Any]) -> str | None:
    version = metadata.get("pytorch_version")
    return f"torch {version}" if version else None


def era(metadata: Mapping[str, Any], seen: Mapping[str, bool]) -> str | None:
    """The torch versions that write such a file, inferred from what it holds; torch itself does not write its version.

    None where neither metadata nor a mark says anything.

    `seen` says which marks the events carry: old_categories, record_function_id, copied_external_ids, strides.
    """
    if seen["old_categories"]:
        return "torch 1.8-1.10"
    if not metadata and not any(seen.values()):
        return None
    if "baseTimeNanoseconds" in metadata:
        return "torch >=2.4"
    if seen["copied_external_ids"]:
        return "torch 2.0-2.3"
    return "torch 2.3-2.4" if seen["record_function_id"] else "torch 1.11-2.3"


def _distributed(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    found = metadata.get("distributedInfo")
    return found if isinstance(found, dict) else {}


def _integer(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return None
    return number if INT64_MIN <= number <= INT64_MAX else None


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def _string(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
