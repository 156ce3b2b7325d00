"""Events of a GPU as rows: what the texts `kernel_details`, `memcpy_details` and `Memset_details` say.

Source: openxla/xla, xla/backends/profiler/gpu/cupti_collector.cc, ToXStat: `regs:31 static_shared:0 dynamic_shared:32
grid:1024,1,1 block:128,1,1 occ_pct:100`; `kind_src:pinned kind_dst:device size:2 dest:0 async:1`; `kind:device
num_bytes:4 async:0`. TensorFlow before 2.4 wrote `shared:` for both kinds of shared memory.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from kerneldb import times
from kerneldb.ingest.columns import Schema, frame_of, schema
from kerneldb.ingest.launches import AXES, INT32_MAX
from kerneldb.ingest.ledger import Ledger
from kerneldb.ingest.xla.recording import Event

WORD: Final = re.compile(r"(?<!\w)(\w+):(\S*)")
"""Begins at the begin of a word: else a long word without a colon is looked through once from each of its letters."""
COPY: Final = re.compile(r"(?i)mem(cpy|set)")
DETAILED: Final = re.compile(r"(?i)mem(cpy|set)_details")
GRAPH: Final = re.compile(r"(?i)cuda ?graph.*")
DIRECTION: Final = re.compile(r"Memcpy([HDP])2([HDP])")
HOST_KINDS: Final = ("pinned", "pageable")
MOST_KNOWN: Final = 1 << 12
INT64: Final = (-(2**63), 2**63 - 1)
DETAILS: Final = ("kernel_details", "memcpy_details", "memset_details", "Memset_details")
COLUMNS: Final[Schema] = {
    **schema("kind name device stream context start_ns duration_ns correlation_id graph_id graph_node_id"),
    **schema("registers shared_bytes static_shared_bytes dynamic_shared_bytes bytes copy_kind occupancy"),
    **schema(" ".join(AXES)),
    **dict.fromkeys(("hlo_op", "hlo_module", "op_name", "python_line"), pl.String),
    "program": pl.Int64,
}
"""Columns of `frame`; of `launches`, of its signature, and the names by which an instruction is found."""
READ: Final = (
    *DETAILS,
    *("correlation_id", "context_id", "cuda_graph_id", "cuda_graph_node_id", "theoretical_occupancy_pct"),
    *("hlo_op", "hlo_module", "program_id", "name", "tf_op", "source", "long_name"),
)
STATS: Final = Ledger(
    "value of GPU events",
    READ,
    {
        "occupancy_.*": "advice on launches, which follows from the registers and shared memory that are stored",
        "scope_range_id|unique_hlo_op_id|run_id|group_id|device_id|stream_id": "a number of XLA's own",
        "prefix": "the argument that a copy is of",
        "memory_residency_details|memalloc_details|memfree_details": "allocations of the driver",
        r"is_(async|eager)|equation|tensor_shapes": "a remark of TensorFlow",
        "cuda_graph_exec_id": "the instance of a CUDA graph, of which the graph is stored",
        "nvtx_range": "the NVTX range, which is a range of the host too",
        "kernel_report": "the same numbers as text",
        "deduplicated_name": "the instruction whose code is used",
    },
    "unread",
)


def integer(value: object) -> int | None:
    """A number of 64 bits from a number or a text such as `$$1`; None where it is none."""
    try:
        number = int(str(value).removeprefix("$$"))
    except ValueError:
        return None
    return number if INT64[0] <= number <= INT64[1] else None


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows of `row` as a frame."""
    return frame_of(rows, COLUMNS)


def row(event: Event, device: int, stream: int | None) -> dict[str, Any]:
    """One activity of a GPU, with columns of COLUMNS."""
    stats = event.stats
    details = " ".join(str(stats[key]) for key in DETAILS if key in stats)
    words = _words(details)
    kind = _kind(event.name, stats)
    return {
        "kind": kind,
        "name": event.name or "unknown_kernel",
        "device": device,
        "stream": stream,
        "context": integer(stats.get("context_id")),
        "start_ns": times.fitting(event.start_ns),
        "duration_ns": times.fitting(event.duration_ns),
        "correlation_id": integer(stats.get("correlation_id")) or None,
        "graph_id": integer(stats.get("cuda_graph_id")),
        "graph_node_id": integer(stats.get("cuda_graph_node_id")),
        **(_launch(details, str(stats.get("theoretical_occupancy_pct"))) if kind == "kernel" else {}),
        **({"bytes": integer(words.get("size", words.get("num_bytes")))} if kind in ("memcpy", "memset") else {}),
        "copy_kind": _direction(event.name, words) if kind == "memcpy" else None,
        "hlo_op": _text(stats.get("hlo_op")),
        "hlo_module": _text(stats.get("hlo_module")),
        "op_name": _text(stats.get("name")) or _traced(stats.get("tf_op")),
        "python_line": _text(stats.get("source")),
        "program": integer(stats.get("program_id")),
    }


def _kind(name: str, stats: Mapping[str, Any]) -> str:
    """What the activity is: by its details, which ROCm's `CopyDeviceToHost` has as well, or else by its name."""
    if "kernel_details" in stats:
        return "kernel"
    copy = COPY.match(name) or next((found for key in stats if (found := DETAILED.fullmatch(key))), None)
    if copy is not None:
        return f"mem{copy[1].lower()}"
    return "graph" if GRAPH.fullmatch(name) else "kernel"


@functools.lru_cache(MOST_KNOWN)
def _words(details: str) -> Mapping[str, str]:
    return dict(WORD.findall(details))


@functools.lru_cache(MOST_KNOWN)
def _launch(details: str, occupancy: str) -> Mapping[str, Any]:
    words = _words(details)
    static, dynamic = (integer(words.get(name)) for name in ("static_shared", "dynamic_shared"))
    both = integer(words.get("shared")) if static is None or dynamic is None else static + dynamic
    percent = real(words.get("occ_pct", occupancy))
    return {
        "registers": _small(integer(words.get("regs"))),
        "static_shared_bytes": static,
        "dynamic_shared_bytes": dynamic,
        "shared_bytes": both,
        "occupancy": percent / 100 if percent is not None and 0 <= percent <= 100 else None,  # noqa: PLR2004
        **_axes("grid", words.get("grid")),
        **_axes("block", words.get("block")),
    }


def _axes(shape: str, text: str | None) -> dict[str, int | None]:
    sizes = [_small(integer(size)) for size in (text or "").split(",")]
    whole = len(sizes) == 3 and None not in sizes  # noqa: PLR2004
    return {f"{shape}_{axis}": size for axis, size in zip("xyz", sizes, strict=False)} if whole else {}


def _small(number: int | None) -> int | None:
    return number if number is not None and 0 <= number <= INT32_MAX else None


def real(value: object) -> float | None:
    """A finite number from a number or a text; None where it is none."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _direction(name: str, words: Mapping[str, str]) -> str | None:
    """`HtoD` from the name, else from the kinds of memory at both ends."""
    found = DIRECTION.match(name)
    if found:
        return f"{found[1]}to{found[2]}"
    ends = [words.get(end) for end in ("kind_src", "kind_dst")]
    letters = ["H" if end in HOST_KINDS else "D" if end == "device" else None for end in ends]
    return None if None in letters else f"{letters[0]}to{letters[1]}"


def _text(value: object) -> str | None:
    return str(value) if value not in (None, "") else None


def _traced(value: object) -> str | None:
    """The path of the traced function in `tf_op`, which reads `path:type`, or `XlaModule:` where nothing is known."""
    path = str(value or "").rpartition(":")[0]
    return path if path and path != "XlaModule" else None
