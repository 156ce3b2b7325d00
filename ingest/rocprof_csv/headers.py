"""What a CSV file holds, by its header. Names are compared without case, `_` and `-`: eras differ in nothing else.

Sources: rocprofiler-sdk, source/lib/output/generateCSV.cpp and source/lib/python/rocpd/csv.py; rocprofiler (v2),
plugin/file; ROCm docs, using-rocprofv3.
"""

from __future__ import annotations

import csv
import re
from typing import Final, Literal

Kind = Literal["kernels", "counters", "calls", "copies", "memory", "scratch", "agents", "stats", "pc_samples"]

ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "name": ("kernelname",),
    "start": ("starttimestamp", "beginns"),
    "end": ("endtimestamp", "endns"),
    "agent": ("agentid", "gpuid"),
    "queue": ("queueid",),
    "stream": ("streamid",),
    "thread": ("threadid", "tid"),
    "process": ("processid", "pid"),
    "dispatch": ("dispatchid", "index"),
    "correlation": ("correlationid",),
    "lds_block": ("ldsblocksize",),
    "lds_total": ("groupsegmentsize", "lds", "ldsperworkgroup"),
    "scratch": ("scratchsize", "privatesegmentsize", "scr", "scratchperworkitem"),
    "vgpr": ("vgprcount", "archvgpr", "archvgprcount", "vgpr"),
    "agpr": ("accumvgprcount", "accumvgpr"),
    "sgpr": ("sgprcount", "sgpr"),
    **{f"workgroup_{axis}": (f"workgroupsize{axis}",) for axis in "xyz"},
    **{f"grid_{axis}": (f"gridsize{axis}",) for axis in "xyz"},
    "workgroup": ("workgroupsize", "wgr"),
    "grid": ("gridsize", "grd"),
    "counter": ("countername",),
    "value": ("countervalue",),
    "guid": ("guid",),
    "domain": ("domain",),
    "function": ("function",),
    "kind": ("kind",),
    "direction": ("direction",),
    "operation": ("operation",),
    "source_agent": ("sourceagentid",),
    "target_agent": ("destinationagentid",),
    "size": ("allocationsize", "size"),
    "address": ("address",),
    "flags": ("allocflags",),
    "stat_name": ("name",),
    "calls": ("calls",),
    "total_ns": ("totaldurationns",),
    "min_ns": ("minns",),
    "max_ns": ("maxns",),
    "deviation_ns": ("stddev",),
    "mean_ns": ("averagens",),
    "sampled": ("sampletimestamp",),
    "node": ("nodeid",),
    "graph": ("graphexecid",),
    "graph_node": ("graphnodeid",),
}
CANONICAL: Final = {alias: name for name, aliases in ALIASES.items() for alias in aliases}
NOT_COUNTERS: Final = frozenset(
    {"kernelid", "queueindex", "sig", "signal", "obj", "dispatchns", "completens", "durationns", "duration"}
    | {"wavesize", "percentage", "xccid", "roctxrange", "averagens", "nodeid", "agentindex", "waveid", "isocl"}
    | {"wavefrontsize", "accumvgprs", "kernelnameraw", "objectid", "workgroupid"}
)
KINDS: Final[tuple[tuple[Kind, frozenset[str]], ...]] = (
    ("counters", frozenset({"name", "counter", "value"})),
    ("kernels", frozenset({"name", "start", "end"})),
    ("calls", frozenset({"domain", "function", "start", "end"})),
    ("copies", frozenset({"direction", "start", "end"})),
    ("memory", frozenset({"operation", "size", "start", "end"})),
    ("scratch", frozenset({"operation", "flags", "start", "end"})),
    ("pc_samples", frozenset({"sampled"})),
    ("stats", frozenset({"stat_name", "calls", "total_ns"})),
)
"""Which columns make which kind, the most special first."""
AGENTS: Final = frozenset({"nodeid", "logicalnodeid", "cpucorescount"})


def columns_of(header: str) -> list[str]:
    """Names of the columns: ours where it is a known one, else as printed."""
    names: dict[str, None] = {}
    for at, printed in enumerate(next(csv.reader([header]), [])):
        name = CANONICAL.get(plain(printed), printed.strip())
        names[name if name not in names else f"{printed.strip()} ({at})"] = None
    return list(names)


def plain(name: str) -> str:
    """A column's name without case and separators."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def kind_of(head: bytes) -> Kind | None:
    """What the file holds, from its first bytes; None for files of others."""
    line = head.partition(b"\n")[0].strip()
    if b"," not in line or b"\x00" in line or line.startswith((b"{", b"[")):
        return None
    try:
        columns = columns_of(line.decode("utf-8"))
    except (UnicodeDecodeError, csv.Error):
        return None
    if {plain(name) for name in columns} >= AGENTS - {"nodeid"} and "node" in columns:
        return "agents"
    present = set(columns)
    return next((kind for kind, needed in KINDS if needed <= present), None)


def counters_among(columns: list[str]) -> list[str]:
    """Columns of counters in the wide files of rocprof, rocprofv2 and rocprof-compute: what is nothing else."""
    return [name for name in columns if name not in ALIASES and plain(name) not in NOT_COUNTERS]
