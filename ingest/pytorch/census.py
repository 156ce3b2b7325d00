"""Which parts of a trace are read, which are skipped and why: categories, phases, marks, arguments and metadata.

Names of categories and arguments: kineto `include/ActivityType.h`, `src/CuptiActivity.cpp`, `src/RoctracerActivity.cpp`
and torch `csrc/profiler/util.h`; phases: the Trace Event Format of Chrome.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import polars as pl

from kerneldb.ingest.ledger import UNKNOWN, Ledger
from kerneldb.ingest.pytorch import fields, repair

if TYPE_CHECKING:
    from kerneldb.ingest.output import Report

MEMORY: Final = "[memory]"
SAMPLES: Final = 64
"""So many events of different names, category and chunk are looked at for arguments that are not read."""
NAMES: Final = 50
NAME_CHARS: Final = 60
HTA: Final = "drawn by Holistic Trace Analysis: its result, not a record of the profiler"
VIEWER: Final = "names and order of processes and threads in a viewer"
COPIED: Final = "copied from the operator record_param_comms, which keeps it in ops.details"

CATEGORIES: Final = Ledger(
    "category",
    (*fields.GROUP_OF, "Trace", "mtia_insight", "mtia_counters", "xpu_scope_profiler", "hardware_counters"),
    {},
)
FLOWS: Final = Ledger(
    "flow arrows",
    (),
    {
        "ac2g|async|async_.*": "the same links come from correlation and sequence numbers",
        "fwdbwd|forward_backward|fwd_bwd": "the same links come from sequence numbers",
        "critical_path": HTA,
    },
)
MARKS: Final = Ledger(
    "mark",
    (),
    {
        "(process|thread)_(name|labels|sort_index)": VIEWER,
        "Iteration Start: .*": "the spans ProfilerStep say the same",
        "Record Window End": "read as the end of the recorded window, and no row",
        r"\[OutOfMemory\]": "an allocation that failed moved no memory",
    },
)
PHASES: Final = Ledger(
    "phase",
    (),
    {r"[BEbenSTpFPNODRcVv(),]|\w": "of the Trace Event Format, but none that torch.profiler writes"},
)
METADATA: Final = Ledger(
    "metadata",
    (),
    {
        "INFO|WARNING|ERROR|STAGE|AUTOTUNE|LOG.*": "log of the profiler, which may name paths and hosts",
        "traceName": "path of the file where it was written",
        r"metadata|computeProperties|stackFrames|samples|otherData|systemTraceEvents": "added by another tool",
        r"(tw|mast|ai_rm|logical|PT_PROFILER|env)_?.*|user(name)?|group_trace_id|.*_attribution|command.*|environ":
            "about the job or the account: ingest --keep-environment keeps it",
        ".*": f"{UNKNOWN}, or added by the program: ingest --keep-environment keeps it",
    },
    "unread",
)  # fmt: skip
ARGUMENTS: Final = Ledger(
    "argument",
    (),
    {
        r".*: (Ev Idx|Profiler Event Index)": "number of the event in the profiler's own list",
        r".*: Trace (name|iteration)": "about the recording as a whole",
        r".*: critical": HTA,
        r".*: (finished|Python thread|Device)": "times, process and thread of the event say it",
        r".*: external ts": "the operator itself is an event",
        r".*: Python (parent |module )?id": "frames are nested by their times",
        r".*_(runtime|driver): (cbid|cid)": "number of the call, whose name is kept",
        r".*_(runtime|driver): (src|dst|ptr)": "address of memory",
        r".*_(runtime|driver): (kernel|Kernel|grid dim|block dim|shared size)": "the kernel itself is an event",
        r".*: memory bandwidth \(GB/s\)": "bytes over duration",
        r".*: theoretical occupancy %": "computed from the resources of the launch (theoretical_occupancy)",
        r"gpu_mem(cpy|set): (fromDevice|fromContext|inContext|toContext)": "it has the device that did it",
        r"(kernel|gpu_mem.*): (priority|channel|channel_type|hsa_queue|Record function id)": "no column has it yet",
        r"kernel: (.*split size|Process Group ID|.*[Rr]ank.*|Comms Id|.*Tensors start|Is asynchronized op)": COPIED,
        r"(kernel|xpu_.*): (.*queue|sycl.*|kernel_id|appended|submitted|source_line_number)": "SYCL's own handles",
        r"mtia_ccp_events: .*": "rows and addresses in the queue of the device",
        r"cpu_op: (stream|kernel_name)": "the launches of the operator have it",
        r"(user|gpu_user)_annotation: .*": "an annotation has a name and times; its inputs choose no kernel",
        r"(cuda|xpu)_(sync|event): External id": "the correlation says the same",
    },
    "unread",
)  # fmt: skip


def _read(category: str) -> frozenset[str] | None:
    """Arguments that are read of a category; None where all of them are kept."""
    group = "memory" if category == MEMORY else fields.GROUP_OF.get(category)
    if group is None or category == "cuda_profiler_range":
        return None
    required, optional = fields.ARGS[group]
    return frozenset((*required, *(name for columns in optional.values() for name in columns)))


READ: Final = {category: _read(category) for category in (*fields.GROUP_OF, MEMORY)}


def unread_arguments(frame: pl.DataFrame, column: str = "args") -> Counter[str]:
    """How many events of `frame` have an argument that is not read, by `category: argument`.

    `column` holds the arguments as JSON. Arguments that are looked for are those of events of different names, and of
    the longest one, in each category: all events would take as long as reading them.
    """
    found: Counter[str] = Counter()
    spans = frame.filter(pl.col("ph").is_in(["X", "i"]) & pl.col(column).is_not_null())
    category = pl.when(pl.col("ph") == "X").then("cat").otherwise("name").alias("category")
    parts = spans.select(category, "name", args=column).partition_by("category", as_dict=True, include_key=False)
    for (name,), part in parts.items():
        if (read := READ.get(str(name))) is not None:
            for key, n in _keys(part, read).items():
                found[f"{name}: {key[:NAME_CHARS]}"] += n
    return found


def _keys(part: pl.DataFrame, read: frozenset[str]) -> Counter[str]:
    texts = part["args"]
    distinct = part.unique("name", keep="first", maintain_order=True)["args"]
    chosen = distinct.gather_every(1 + distinct.len() // SAMPLES).to_list()
    chosen.append(texts[texts.str.len_bytes().arg_max() or 0])
    seen = Counter(key for text in chosen for key in repair.arguments_of(text) if key not in read)
    written = {key: json.dumps(key, ensure_ascii=False) for key in seen}
    counted = texts.to_frame().select(
        pl.col("args").str.contains(text, literal=True).sum().alias(key) for key, text in written.items()
    )
    return Counter({key: max(n, 1) for key, n in (counted.row(0, named=True) if seen else {}).items()})


def most(found: Mapping[str, int]) -> dict[str, int]:
    """`found` with its most frequent names, short; the rest as one: a file may have any number of them."""
    ordered = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    kept: Counter[str] = Counter()
    for name, n in ordered[:NAMES]:
        kept[name[:NAME_CHARS]] += n
    kept["of further names"] = sum(n for _, n in ordered[NAMES:])
    return dict(kept)


def account(ledger: Ledger, found: Mapping[str, int], report: Report) -> None:
    """Count what is not read, of the most frequent names one by one."""
    ledger.account(most(found), report)
