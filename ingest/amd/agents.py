"""Agents of the HSA runtime as rows of `devices`.

The same facts are in rocpd (`rocpd_info_agent.extdata`), in JSON (`agents`) and in `agent_info.csv`, where the names
are capitalised. GPUs are numbered among themselves, as HIP does (`logical_node_type_id`); `agent_info.csv` does not say
that number, but it is the place among the GPUs in the order of the nodes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

from kerneldb.ingest.columns import frame_of, schema
from kerneldb.ingest.output import Report
from kerneldb.ingest.privacy import public

KIB: Final = 1024
LARGEST: Final = (1 << 31) - 1
GPU_TYPES: Final = ("GPU", "2", "ROCPROFILER_AGENT_TYPE_GPU")
DEVICE_SCHEMA: Final = schema(
    "process device vendor name arch multiprocessors memory_bytes warp_size max_threads_per_multiprocessor "
    "shared_bytes_per_multiprocessor shared_bytes_per_block_optin clock_mhz memory_clock_mhz properties"
)
NUMBERS: Final = ("type_index", "logical_node_type_id", "gpu_index")
NODES: Final = ("logical_index", "logical_node_id", "absolute_index", "node_id")


@dataclasses.dataclass(frozen=True, slots=True)
class Agent:
    """One agent: whether it is a GPU, its number among agents of its kind, and what the file says of it."""

    is_gpu: bool
    device: int | None
    arch: str | None
    facts: Mapping[str, Any]


def agent_of(facts: Mapping[str, Any]) -> Agent:
    """An agent from its facts, with keys in any case."""
    lower = {str(key).lower(): value for key, value in facts.items()}
    kind = str(lower.get("agent_type", lower.get("type", "")))
    name = lower.get("name")
    is_gpu = kind.upper() in GPU_TYPES or (not kind and str(name).startswith("gfx"))
    number = next((lower[key] for key in NUMBERS if lower.get(key) not in (None, "")), None)
    device = _integer(number)
    if device is not None and abs(device) > LARGEST:
        device = None  # no number of a GPU: that of its place is taken
    return Agent(is_gpu, device, str(name) if is_gpu and name else None, lower)


def numbered(agents: Iterable[Agent]) -> list[Agent]:
    """The same agents; where a GPU has no number of its own among GPUs, all get one by the order of their nodes."""
    listed = list(agents)
    nodes: dict[int, int] = {}
    for at, agent in enumerate(listed):
        if agent.is_gpu:
            known = (_integer(agent.facts.get(name)) for name in NODES)
            nodes[at] = next((number for number in known if number is not None), at)
    order = sorted(set(nodes.values()))
    said = {listed[at].device for at in nodes}
    if None not in said and len(said) >= len(order):
        return listed
    return [
        dataclasses.replace(agent, device=order.index(nodes[at])) if at in nodes else agent
        for at, agent in enumerate(listed)
    ]


def first_numbers(parts: Iterable[tuple[str | None, Iterable[Agent]]]) -> list[int]:
    """The number of GPU 0 of each part of a file, given as (machine, agents).

    GPUs of a further machine are numbered behind those before: a merged file has GPU 0 of every machine.
    """
    firsts: dict[str | None, int] = {}
    found, behind = [], 0
    for machine, agents in parts:
        found.append(firsts.setdefault(machine, behind))
        behind = max([behind, *(found[-1] + one.device + 1 for one in agents if one.is_gpu and one.device is not None)])
    return found


def moved(agents: Mapping[int, Agent], first: int) -> dict[int, Agent]:
    """The same agents by id, with GPUs numbered from `first` on."""
    return {
        key: dataclasses.replace(one, device=one.device + first) if one.is_gpu and one.device is not None else one
        for key, one in agents.items()
    }


def device_rows(agents: Iterable[Agent], process: str | None, report: Report) -> pl.DataFrame:
    """Rows of `devices` without trace_id, for the GPUs among the agents; numbers that none has count in `report`."""
    rows = [_row(agent, process) for agent in agents if agent.is_gpu and agent.device is not None]
    return frame_of(rows, DEVICE_SCHEMA, report)


def archs(agents: Iterable[Agent]) -> dict[int, str | None]:
    """Device number → architecture, of GPUs."""
    return {agent.device: agent.arch for agent in agents if agent.is_gpu and agent.device is not None}


def _row(agent: Agent, process: str | None) -> dict[str, Any]:
    facts = agent.facts
    waves, wave, lds = (_integer(facts.get(name)) for name in ("max_waves_per_cu", "wave_front_size", "lds_size_in_kb"))
    listed = facts.get("mem_banks")
    banks = [bank for bank in listed if isinstance(bank, dict)] if isinstance(listed, list) else []
    banked = sum(_integer(bank.get("size_in_bytes")) or 0 for bank in banks)
    plain = {key: value for key, value in sorted(facts.items()) if isinstance(value, int | float | str) and value != ""}
    if not waves:
        waves = (_integer(facts.get("max_waves_per_simd")) or 0) * (_integer(facts.get("simd_per_cu")) or 0)
    return {
        "process": process,
        "device": agent.device,
        "vendor": "AMD",
        "name": str(facts.get("product_name") or facts.get("name") or "") or None,
        "arch": agent.arch,
        "multiprocessors": _integer(facts.get("cu_count")),
        "memory_bytes": banked or _integer(facts.get("local_mem_size")) or None,  # 0 where the driver does not say
        "warp_size": wave or None,
        "max_threads_per_multiprocessor": waves * wave if waves and wave else None,
        "shared_bytes_per_multiprocessor": lds * KIB if lds else None,
        "shared_bytes_per_block_optin": lds * KIB if lds else None,
        "clock_mhz": _integer(facts.get("max_engine_clk_fcompute")) or None,
        "memory_clock_mhz": max((_integer(bank.get("mem_clk_max")) or 0 for bank in banks), default=0) or None,
        "properties": json.dumps(public(plain)),
    }


def _integer(value: object) -> int | None:
    try:
        return int(float(str(value))) if value not in (None, "") else None
    except (ValueError, OverflowError):
        return None
