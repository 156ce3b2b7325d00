"""Makes recordings of a job of two ranks with kernels in them, as `kerneldb record --tp 2` writes them on GPUs."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from pathlib import Path
from typing import Any

RANKS = 2
HALF_BYTES = 2
SUM = "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
WORKLOADS = {"prefill": 1 << 20, "decode": 1 << 12}
"""Workload → elements of its sums."""
WALL_NS = 2_000_000.0
ENERGY_MJ = 700.0


def make(folder: Path, name: str = "tiny-tp2") -> Path:
    """A folder per rank, each with a trace of each workload."""
    for rank in range(RANKS):
        _recording(folder / f"rank{rank}", name, rank)
    return folder


def _recording(folder: Path, name: str, rank: int) -> None:
    folder.mkdir(parents=True)
    parts = []
    for workload, elements in WORKLOADS.items():
        path = folder / f"{workload}.pt.trace.json.gz"
        data = gzip.compress(json.dumps(_trace(rank, workload, elements)).encode())
        path.write_bytes(data)
        said = {"file": path.name, "sha256": hashlib.sha256(gzip.decompress(data)).hexdigest()}
        measured = [
            {"quantity": "wall_ns", "value": WALL_NS + rank, "unit": "ns", "measured_at": "2026-11-21 17:00:00"}
        ]
        measured.append({**measured[0], "quantity": "energy_mj", "value": ENERGY_MJ, "unit": "mJ"})
        parts.append({"workload": workload, "mode": "eager", "trace": said, "measurements": measured})
    content = {
        "format": "kerneldb recording",
        "version": 1,
        "name": name,
        "model": "llama",
        "rank": rank,
        "world_size": RANKS,
        "parts": parts,
    }
    (folder / "bundle.json").write_text(json.dumps(content))


def _trace(rank: int, workload: str, elements: int) -> dict[str, Any]:
    """Products, each followed by a sum over the ranks; the second comes late to some, and one product hides one."""
    delays = random.Random(f"{workload} {rank}")
    events: list[dict[str, Any]] = []
    at = 1000.0
    for number in range(12):
        product = delays.uniform(20, 40)
        events.append(_kernel(len(events), "ampere_gemm_128x128", at, product, 7))
        at += product + 2
        exchanged = elements if number % 4 else elements // 2
        name, call = (SUM, "allreduce") if number % 4 else (GATHER, "_allgather_base")
        wait = delays.choice([0.0, 0.0, 9.5]) if rank == 0 else 0.0
        lasts = 15 + exchanged / 1e5 + wait + 0.25 * rank
        given = exchanged if name == SUM else exchanged // RANKS
        said = _said(call, given, exchanged, number)
        events.append(_kernel(len(events), name, at, lasts, 20, said))
        if number == 5:  # this product runs beside the sum
            events.append(_kernel(len(events), "ampere_gemm_64x64", at + 3, 6.0, 7))
        at += lasts + 1
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": RANKS},
        "deviceProperties": [{"id": rank, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}],
        "traceName": f"{workload}-{rank}",
        "traceEvents": events,
    }


def _said(call: str, given: int, taken: int, number: int) -> dict[str, Any]:
    return {
        "Collective name": call,
        "In msg nelems": given,
        "Out msg nelems": taken,
        "Group size": RANKS,
        "dtype": "Half",
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
        "Seq": number,
    }


def _kernel(
    number: int, name: str, start: float, lasts: float, stream: int, said: dict[str, Any] | None = None
) -> dict[str, Any]:
    blocks = said["Out msg nelems"].bit_length() if said else 16  # NCCL takes more of them for more bytes
    launch = {"device": 0, "stream": stream, "correlation": number + 1, "grid": [blocks, 1, 1], "block": [512, 1, 1]}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": round(start, 3),
        "dur": round(lasts, 3),
        "args": {**launch, "shared memory": 0, "registers per thread": 96, **(said or {})},
    }
