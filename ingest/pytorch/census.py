"""Which parts of a trace are read, which are skipped and why: categories, phases, marks, arguments and metadata.

Names of categories and arguments: kineto `include/ActivityType.h`, `src/CuptiActivity.cpp`, `src/RoctracerActivity.cpp`
and torch `csrc/profiler/util.h`; phases: the Trace Event Format of Chrome.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from kerneldb.ingest.ledger import UNKNOWN, Ledger
from kerneldb.ingest.pytorch import fields, repair
from kerneldb.ingest.pytorch.events import NOTHING
from kerneldb.ingest.pytorch.values import text_of_json

if TYPE_CHECKING:
    from kerneldb.ingest.output import Report
    from kerneldb.ingest.pytorch.events import Event

NUL: Final = b"\0"
VARYING: Final = b"0123456789.- \t\r\n"
NAMES: Final = 50
NAME_CHARS: Final = 60
HTA: Final = "drawn by Holistic Trace Analysis: its result, not a record of the profiler"
VIEWER: Final = "names and order of processes and threads in a viewer"
COPIED: Final = "copied from the operator record_param_comms, which keeps it in ops.details"

NO_NUMBER: Final = " (no number, or beyond 64 bits)"
NEW_SPELLING: Final = {old: new for new, old in fields.SPELLINGS.items()}

CATEGORIES: Final = Ledger(
    "category",
    (*fields.GROUP_OF, "Trace", "mtia_insight", "mtia_counters", "xpu_scope_profiler", "hardware_counters"),
    {},
)
FLOWS: Final = Ledger(
    "flow arrows",
    (),
    {
        "ac2g|async|async_.*|launch": "the same links come from correlation and sequence numbers",
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
        rf".*{re.escape(NO_NUMBER)}": "unknown",
        r".*: (Ev Idx|Profiler Event Index)": "number of the event in the profiler's own list",
        r".*: Trace (name|iteration)": "about the recording as a whole",
        r".*: critical": HTA,
        r".*: (finished|Python thread|Device)": "times, process and thread of the event say it",
        r".*: external ts": "the operator itself is an event",
        r".*: Python (parent |module )?id|python_function: Call stack": "frames are nested by their times",
        r"\[memory\]: Call stack": "the operator or frame around it says it",
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
    group = "memory" if category == fields.MEMORY else fields.GROUP_OF.get(category)
    if group is None or category == fields.COUNTERS:
        return None
    interned = {name for names in fields.INTERNED[group].values() for name in names}
    read = interned.difference(("cat", "name")).union(fields.NUMBERS[group])
    return frozenset(read.union(old for new, old in fields.SPELLINGS.items() if new in read and group != "sync"))


_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
READ: Final = {category: _read(category) for category in (*fields.GROUP_OF, fields.MEMORY)}


def unread(groups: Mapping[str, Iterable[Event]]) -> Counter[str]:
    """How many events of these groups have an argument that is not read, by `category: argument`."""
    found: Counter[str] = Counter()
    for group, events in groups.items():
        for category, given in _by_category(group, events).items():
            if (read := READ.get(category)) is not None:
                for key, n in _keys(given, read).items():
                    found[f"{category}: {key[:NAME_CHARS]}"] += n
    return found


def no_number(group: str, event: Event, argument: str) -> str:
    """How an argument is counted that is no number where one belongs, or one beyond 64 bits."""
    category = fields.MEMORY if group == "memory" else fields.OLD_NAMES.get(str(event.cat), str(event.cat))
    return f"{category}: {NEW_SPELLING.get(argument, argument)}{NO_NUMBER}"


def _by_category(group: str, events: Iterable[Event]) -> dict[str, list[Event]]:
    if group == "other":
        return {}
    if group == "memory":
        return {fields.MEMORY: [event for event in events if event.args is not NOTHING]}
    found: dict[str, list[Event]] = {}
    for event in events:
        if event.args is not NOTHING:
            found.setdefault(str(event.cat), []).append(event)
    old = fields.OLD_NAMES
    merged: dict[str, list[Event]] = {}
    for category, given in found.items():
        merged.setdefault(old.get(category, category), []).extend(given)
    return merged


def _keys(events: Sequence[Event], read: frozenset[str]) -> Counter[str]:
    """Arguments that differ in digits and blanks alone have the same keys: one of them is read for all."""
    text = NUL.join([event.args for event in events])
    shapes, texts = text.translate(None, VARYING).split(NUL), text.split(NUL)
    first = dict(zip(reversed(shapes), reversed(texts), strict=True))
    found: Counter[str] = Counter()
    for shape, n in Counter(shapes).items():
        found.update({key: n for key in _keys_of(first[shape]) if key not in read})
    return found


def _keys_of(args: bytes) -> Iterable[str]:
    try:
        return _members(args)
    except (msgspec.MsgspecError, ValueError):  # text that is JSON itself, a list, or nothing of the kind
        return repair.arguments_of(text_of_json(args))


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
