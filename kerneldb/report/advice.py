"""Advice: named, versioned rules over the wall time and the figures of a trace, each with the time at stake.

A rule is a statement `schemas/queries/advice_<query>.sql`, which gives no row or one with the columns `at_stake_ns` and
those that its texts name. It may take the parameter `$trace` and those of the rule, and read the rows of statements
`report_<name>.sql` as `found_<name>`.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Row = Mapping[str, Any]

WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "nvidia": {
        "graphs": "CUDA graphs",
        "language": "CUDA or Triton",
        "memcpy": "cudaMemcpyAsync",
        "malloc": "cudaMalloc",
        "event": "cudaStreamWaitEvent",
        "eager": "CUDA_MODULE_LOADING=EAGER",
        "host": "nsys with --trace=cuda",
        "counters": "Nsight Compute (kerneldb ncu command prints the command)",
        "attention": "FlashAttention, cuDNN",
    },
    "amd": {
        "graphs": "HIP graphs",
        "language": "HIP or Triton",
        "memcpy": "hipMemcpyAsync",
        "malloc": "hipMalloc",
        "event": "hipStreamWaitEvent",
        "eager": "run every kernel once beforehand",
        "host": "rocprofv3 with --runtime-trace",
        "counters": "rocprofv3 --pmc",
        "attention": "FlashAttention, AITER, Composable Kernel",
    },
}
"""What the same thing is called on the GPUs of each vendor."""

NEAR_PEAK: Final = 60
SHORT_NS: Final = 10_000
TINY_NS: Final = 3_000
"""A kernel that is shorter does next to nothing beside starting, whatever its work is."""
FRAME: Final = re.compile(r"(.*)\((\d+)\): (.*)")
CERTAIN: Final = "Certain: "
LIKELY: Final = "Likely: "
KNOWN_WORK: Final = "Work from the shapes of the operators or from counters, peaks from the data sheet."
UNKNOWN_WORK: Final = "How near to the peaks that is, is not known: shapes of operators, or counters, would tell."
READING: Final = frozenset(
    {"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero", "aten::equal"}
)
"""Operators that wait for a value."""
BOUNDS: Final[Mapping[str, str]] = {
    "high": "it is near the roof",
    "compute": "arithmetic limits it",
    "memory": "memory limits it",
    "balanced": "arithmetic and memory limit it alike",
    "latency": "latency limits it: too little is under way at a time",
}
"""Verdicts of the rule of Nsight Compute (`bounds`)."""
FIRST_NS: Final = 50_000_000
VOCABULARY: Final = 10_000
"""Sides of matrix products from here on are vocabularies rather than tokens."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """`sentence` is a format string over the columns of the rule's row; names ending in `_ns` come with their unit.

    `remedy` is for programs of PyTorch, `otherwise` for others (None: the same); both are format strings over `WORDS`.
    `evidence` says how sure it is. `command` are the words of the kerneldb command that shows more, format strings over
    the columns of the row. `params` are parameters of the statement `query` (None: named as the rule). `more` makes
    further words for the texts from the row: `{where}` is the place in the program, where it is known.
    """

    name: str
    version: int
    sentence: str
    command: tuple[str, ...]
    remedy: str
    otherwise: str | None = None
    evidence: str = ""
    query: str | None = None
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    more: Callable[[Row], Mapping[str, str]] | None = None

    @property
    def cause(self) -> str | None:
        """The cause of wall time without which the rule has nothing to say."""
        return self.params.get("cause") or ("launching" if self.query == "launching" else None)

    @property
    def statement(self) -> str:
        """The name of its statement."""
        return f"advice_{self.query or self.name.replace('-', '_')}"

    def advice(self, vendor: str, *, is_torch: bool) -> str:
        """What to do about it, in the words of the vendor of the GPU."""
        return in_words(self.remedy if is_torch or self.otherwise is None else self.otherwise, vendor)


def in_words(text: str, vendor: str) -> str:
    """A text of a rule in the words of a vendor; what else stands in braces stays."""
    for word, meant in WORDS.get(vendor, WORDS["nvidia"]).items():
        text = text.replace(f"{{{word}}}", meant)
    return text


def where(row: Row) -> str:
    """The place in the program as the end of a phrase: call, operator, module and line, as far as they are known."""
    line = row.get("line")
    found = FRAME.fullmatch(line) if line else None
    if found:
        line = f"{found[1]}:{found[2]} ({found[3]})"
    names = dict.fromkeys(name for name in (row.get("call"), row.get("op"), row.get("module")) if name)
    place = " in ".join(names)
    return f", mostly {f'{place} at {line}' if place and line else place or f'at {line}'}" if place or line else ""


def _copy(row: Row) -> Mapping[str, str]:
    held = ", {host_ns} of it while the call held up the host" if row["host_ns"] else ""
    memory = " of pageable memory" if row["is_pageable"] else ""
    return {"held": held, "memory": memory, "by": "op" if row["op"] else "signature"}


def _waited(row: Row) -> Mapping[str, str]:
    """What to do instead of waiting, by what waited."""
    call, op = row["call"] or "", row["op"] or ""
    hint = "Copy results later, to pinned memory, with non_blocking=True"
    if op in READING:
        hint = "Keep the value on the GPU: .item(), bool(), printing and indexing by tensors wait for it"
    elif call.lower().endswith("synchronize") and not op:
        hint = "Leave the explicit synchronisation out (around timings, at the end of steps), or do it less often"
    return {"hint": hint}


def _allocated(row: Row) -> Mapping[str, str]:
    """A call that takes so long is the first of its kind."""
    is_first = row["longest_ns"] >= FIRST_NS and 3 * row["longest_ns"] >= row["at_stake_ns"]
    first = "A call of {longest_ns} is a first use (context, libraries): record after a warm-up. "
    return {"first": first if is_first else ""}


def _padded(row: Row) -> Mapping[str, str]:
    return {"whole": " (vocabularies: to a multiple of 64)" if row["side"] >= VOCABULARY else ""}


def _split(row: Row) -> Mapping[str, str]:
    unknown = "; how much of it is waiting for other ranks is not known without their traces"
    return {"unsplit": unknown if row["is_unsplit"] else ""}


def _kernel(row: Row) -> Mapping[str, str]:
    """How near the kernel is to the peaks of the GPU, and what follows from that."""
    reached, limit = row["reached_pct"], "arithmetic" if row["is_compute"] else "memory bandwidth"
    judged, hint, sure = "", "Start there: {counted}", UNKNOWN_WORK
    if reached is not None:
        sure = KNOWN_WORK
    if reached is not None and reached >= NEAR_PEAK:
        judged = f"; at {min(100, reached):.0f} % of the peak {limit}, the kernel itself leaves little to gain"
        hint = "Give it less to do: fewer bytes or operations, a smaller type, fusion with its neighbours"
    elif row["mean_ns"] < (TINY_NS if reached is None else SHORT_NS):
        judged = "; at {mean_ns} each, starting and ending it limits it, not arithmetic or bandwidth"
        hint, sure = "Run it less often: fuse it, or give it more work at a time", LIKELY + "by its duration."
    elif reached is not None:
        judged = f"; at {reached:.0f} % of the peak {limit}, {{at_stake_ns}} more than its work needs"
    counted = "its counters are stored" if row["is_counted"] else "its counters by {counters}"
    size = f" ({row['size']})" if row["size"] else ""
    return {"judged": judged, "hint": hint.replace("{counted}", counted), "size": size, "sure": sure}


def _known(row: Row) -> Mapping[str, str]:
    """What the kernels of known work take beyond that."""
    if row["known_ns"]:
        beyond = "; the kernels of known work ({known_ns}) take {lost_ns} more than the peaks of the GPU allow"
        hint = "Look at the kernels that are furthest from the peaks (kerneldb analyze roofline)"
        return {"beyond": beyond, "hint": hint, "sure": KNOWN_WORK}
    hint = "Look at the kernels with most time (kerneldb top)"
    return {"beyond": "; the kernel with most is {kernel}", "hint": hint, "sure": UNKNOWN_WORK}


def _bound(row: Row) -> Mapping[str, str]:
    limit = BOUNDS.get(row["verdict"])
    return {"bound": f"; its counters say that {limit}" if limit else ""}


def _estimated(row: Row) -> Mapping[str, str]:
    bound = "; better occupancy seldom brings all of it" if "Occupancy" in row["rule"] else ""
    return {"bound": bound}


def _cause(name: str, cause: str, least_pct: float, sentence: str, remedy: str, **more: Any) -> Rule:
    """A rule on the time of one cause."""
    command = more.pop("command", ("why", "--budget"))
    params = {"cause": cause, "least_pct": least_pct}
    return Rule(name, 1, sentence, command, remedy, query="cause", params=params, **more)


FEW: Final = 10
"""Fewer pauses are not what launching one by one makes."""
ALL: Final = 2**62
GAPS: Final = ("analyze", "idle", "--gaps")
OPEN: Final = CERTAIN + "it was open on the launching thread, or had just ended, when the GPU ran out of work."

RULES: Final = (
    Rule(
        "host-bound",
        5,
        "The GPU waited {at_stake_ns} ({share_pct:.0f} %) for its next work to be launched and to start, {n:,} times "
        "and {mean_ns} on average{where}; the median kernel runs {median_kernel_ns}.",
        GAPS,
        "Launch less often: {graphs}, torch.compile, a larger batch.",
        "Launch less often: {graphs}, larger kernels, more work per launch.",
        CERTAIN + "the launch calls are recorded, and no wait or allocation explains the pauses.",
        "launching",
        {"kind": "short", "least": FEW, "most": ALL},
    ),
    Rule(
        "host-late",
        1,
        "The GPU waited {at_stake_ns} ({share_pct:.0f} %) for the host, {n:,} times, the longest {longest_ns} before "
        "{kernel}{where}.",
        GAPS,
        "Queue the next launches while the GPU still runs: prepare them earlier, or on another thread.",
        evidence=CERTAIN + "the launch calls are recorded, and no wait or allocation explains the pauses.",
        query="launching",
        params={"kind": "short", "least": 1, "most": FEW - 1},
    ),
    Rule(
        "host-pauses",
        1,
        "In {n:,} pauses of a millisecond and more the GPU had nothing to run, {at_stake_ns} ({share_pct:.0f} %) in "
        "all, the longest {longest_ns} before {kernel}: the host came late{where}, and no recorded call says why.",
        GAPS,
        "Look at what the program does there: reading, logging, other Python{stacks}.",
        "Look at what the program does there with a profiler of the CPU.",
        "Certain that the host was late; what it did is not recorded.",
        "launching",
        {"kind": "long", "least": 1, "most": ALL},
    ),
    Rule(
        "late-graphs",
        2,
        "The GPU waited {at_stake_ns} ({share_pct:.0f} %) for the host to launch the next graph, {n:,} times{where}.",
        GAPS,
        "Launch a graph before the last one ends: no .item(), .cpu() or printing between steps; or put several steps "
        "into one graph.",
        "Launch a graph before the last one ends: wait for no result between steps; or put several steps into one "
        "graph.",
        CERTAIN + "the launch calls of the graphs are recorded.",
        "launching",
        {"kind": "graph", "least": 1, "most": ALL},
    ),
    _cause(
        "synchronising",
        "synchronisation",
        1,
        "The host waited for the GPU in {calls:,} calls{where}, and the GPU then {at_stake_ns} "
        "({share_pct:.1f} %) for the host to launch again.",
        "{hint}.",
        otherwise="Make the GPU wait instead of the host ({event}), and copy results later, to pinned memory.",
        evidence=OPEN,
        command=GAPS,
        more=_waited,
    ),
    _cause(
        "allocating",
        "allocation",
        1,
        "The GPU waited {at_stake_ns} ({share_pct:.1f} %) while the host allocated or freed memory in {calls:,} "
        "calls{where}.",
        "{first}Let the caching allocator keep memory: no empty_cache() in loops, the same sizes in every step, "
        "expandable_segments:True.",
        otherwise="{first}Allocate ahead and reuse the memory, or take it from a pool ({malloc}Async).",
        evidence=OPEN,
        command=GAPS,
        more=_allocated,
    ),
    _cause(
        "data-loading",
        "data loading",
        1,
        "The GPU waited {at_stake_ns} ({share_pct:.0f} %) for the data loader, {n:,} times, up to {longest_ns}{where}.",
        "Load ahead: more num_workers, prefetch_factor, persistent_workers=True, pin_memory=True; or make samples "
        "cheaper to decode.",
        otherwise="Load ahead in other threads or processes, and make samples cheaper to decode.",
        evidence=CERTAIN + "the host was inside the data loader while the GPU had nothing to run.",
        command=GAPS,
    ),
    _cause(
        "garbage-collection",
        "garbage collection",
        1,
        "The GPU waited {at_stake_ns} ({share_pct:.1f} %) while Python collected garbage, {calls:,} times, up to "
        "{longest_ns}{where}.",
        "Call gc.freeze() after the setup and gc.disable() in the loop, and collect between steps that wait anyway.",
        evidence=CERTAIN + "the collection is recorded on the launching thread.",
    ),
    _cause(
        "loading-code",
        "loading code",
        2,
        "The GPU waited {at_stake_ns} ({share_pct:.1f} %) while the host loaded the code of kernels{where}.",
        "That happens at the first use of each kernel: record after a warm-up, or load ahead ({eager}).",
        evidence=OPEN,
    ),
    _cause(
        "other-call",
        "other call",
        2,
        "The GPU waited {at_stake_ns} ({share_pct:.1f} %) for the host, which was in {calls:,} long calls of other "
        "kinds{where}.",
        "See what these calls are for; a first launch loads code, and streams and graphs are made before the loop.",
        evidence=OPEN,
    ),
    _cause(
        "profiler",
        "profiler",
        2,
        "The GPU waited {at_stake_ns} ({share_pct:.1f} %) for the profiler itself{where}.",
        "The program without a profiler does not have this time. Record fewer steps, after a warm-up of the profiler "
        "(schedule(wait, warmup, active)).",
        otherwise="The program without a profiler does not have this time.",
        evidence=CERTAIN + "the profiler recorded its own overhead.",
    ),
    _cause(
        "stream-dependency",
        "dependency",
        2,
        "The GPU had nothing to run for {at_stake_ns} ({share_pct:.1f} %) though {n:,} launches were queued: their "
        "streams waited for events of other streams{where}.",
        "Record the event as soon as the result is there, wait for it as late as possible, and let work that does not "
        "need it go first; with several GPUs, balance them.",
        evidence=LIKELY + "their threads called {event} right before they launched them.",
    ),
    _cause(
        "between-launches",
        "between launches",
        3,
        "From one launch to the next the GPU paused {n:,} times though the next one was queued already, {at_stake_ns} "
        "({share_pct:.0f} %) in all.",
        "Fewer, longer kernels: fusion (torch.compile), a larger batch; {graphs} make the pauses shorter.",
        otherwise="Fewer, longer kernels: fusion; {graphs} make the pauses shorter.",
        evidence=CERTAIN + "the launch calls had returned before.",
    ),
    _cause(
        "unattributed",
        "unattributed",
        2,
        "The GPU had nothing to run for {at_stake_ns} ({share_pct:.0f} %), {n:,} times, up to {longest_ns}, and the "
        "trace does not tell why: it has no launch call for what came next, or one from long before.",
        "Record the host, too: the activities CPU and GPU of torch.profiler, or {host}.",
        otherwise="Record the host, too: {host}.",
        evidence="Not known.",
    ),
    Rule(
        "exposed-copies",
        2,
        "Copies{memory} {direction} that no kernel hides take {at_stake_ns} ({share_pct:.0f} %) in {n:,} copies{held}"
        "{where}.",
        ("top", "--by", "{by}", "--where", "kind = 'memcpy'"),
        "Keep the data on the GPU, or copy it ahead on another stream, from pinned memory (pin_memory=True) with "
        "non_blocking=True.",
        "Keep the data on the GPU, or copy it ahead on another stream, from pinned memory with {memcpy}.",
        CERTAIN + "no kernel ran at the same time.",
        more=_copy,
    ),
    Rule(
        "device-copies",
        1,
        "Copies within the GPU that no kernel hides take {at_stake_ns} ({share_pct:.0f} %) in {n:,} copies{where}.",
        ("top", "--by", "op", "--where", "kind = 'memcpy'"),
        "Avoid them: views instead of clone() and contiguous(), results written where they are needed (out=).",
        "Avoid them: write results where they are needed.",
        CERTAIN + "no kernel ran at the same time.",
    ),
    Rule(
        "late-rank",
        1,
        "This rank waited {at_stake_ns} ({share_pct:.0f} %) in {n:,} collectives for other ranks, {rank_pct:.0f} % of "
        "it for rank {late_rank}, which joined last.",
        ("analyze", "collectives", "--waits"),
        "Look at what rank {late_rank} does before it joins (kerneldb why on its trace): more data, a slower GPU, a "
        "busy host.",
        evidence=CERTAIN + "the same collectives are matched on all ranks that were recorded.",
    ),
    Rule(
        "exposed-communication",
        3,
        "Communication that no computation hides takes {at_stake_ns} ({share_pct:.0f} %), mostly {kernel}, in {n:,} "
        "pieces{where}{unsplit}.",
        ("analyze", "collectives"),
        "Overlap it: larger or earlier buckets (bucket_cap_mb), another stream, prefetching of shards; or send less.",
        "Overlap it: earlier launches, a stream of its own; or send less.",
        CERTAIN + "nothing computed at the same time.",
        more=_split,
    ),
    Rule(
        "one-kernel",
        7,
        "{kernel}{size} takes {total_ns} ({share_pct:.0f} % of the {whole}) in {n:,} launches{where}{judged}.",
        ("show", "{kernel}"),
        "{hint}; kerneldb replay runs it alone.",
        "{hint}.",
        "{sure}",
        params={"near_pct": NEAR_PEAK},
        more=_kernel,
    ),
    Rule(
        "computation",
        2,
        "Computation takes {total_ns} ({share_pct:.0f} %): {mix}{beyond}.",
        ("top", "--by", "category"),
        "{hint}.",
        evidence="{sure}",
        more=_known,
    ),
    Rule(
        "odd-gemm",
        2,
        "{dtype} matrix products with a side of {side}{where}, take {total_ns} ({share_pct:.0f} %) in {n:,} launches, "
        "such as {size}: {side} is no multiple of 8, so rows are not aligned and slower kernels run.",
        ("top", "--by", "signature", "--where", "category = 'GEMM'"),
        "Pad {side} to {padded}{whole}.",
        evidence=LIKELY + "they take over 1.6 times what their work needs.",
        more=_padded,
    ),
    Rule(
        "ncu-rules",
        2,
        "Nsight Compute estimates {speedup_pct:.0f} % from {rule} on {kernel} ({total_ns} in this trace): {message}",
        ("ncu", "rules"),
        "Follow it there first: no other kernel has more to gain by its rules.",
        evidence=LIKELY + "an estimate of ncu, times the time of the kernel here{bound}.",
        more=_estimated,
    ),
    Rule(
        "profiled-kernel",
        1,
        "Under the counter profiler {kernel} takes {total_ns} ({share_pct:.0f} %) in {n:,} launches{bound}.",
        ("ncu", "bounds"),
        "Look at its counters first.",
        evidence=CERTAIN + "measured under the profiler, which slows kernels and runs them one by one.",
        more=_bound,
    ),
    Rule(
        "decode-gemv",
        2,
        "Matrix-vector products take {share_pct:.0f} % of the GPU time: every matrix is read for one vector.",
        ("top", "--where", "category = 'GEMV'"),
        "Batch requests, or move fewer bytes (quantised weights).",
        "Multiply several vectors at once, or move fewer bytes (a smaller type).",
        CERTAIN + "by the names of the kernels.",
    ),
    Rule(
        "fusible",
        5,
        "Small memory-bound kernels one after the other take {total_ns} in {runs:,} runs of several; fused to one "
        "kernel a run, they would save {at_stake_ns} of kernel time at most ({share_pct:.0f} %), beside the pauses.",
        ("analyze", "fusion"),
        "Fuse them: torch.compile, or a fused operator of the library.",
        "Fuse them: one kernel in {language}, or a fused operation of the library.",
        LIKELY + "an upper bound: a fused run takes at least as long as its longest kernel.",
    ),
    Rule(
        "conversions",
        4,
        "{n:,} launches only convert types and take {share_pct:.1f} % of the GPU time.",
        ("analyze", "conversions"),
        "Keep one type through the model; look for autocast in inner loops and weights stored in another type.",
        "Keep one type through the program; look for data stored in another type than it is computed in.",
        CERTAIN + "by the types of the operators' inputs and outputs.",
    ),
    Rule(
        "improved",
        1,
        "Tried in a recorded step, {what} saves {saved_pct:.1f} % of its GPU time.",
        ("query", "FROM improvements WHERE status = 'accepted' ORDER BY busy_gain DESC"),
        "Change the program so: kerneldb improve --patch FILE --verify PROGRAM.",
        evidence=CERTAIN + "measured there, {low_pct:.1f} to {high_pct:.1f} %. Other advice is not tried.",
    ),
    Rule(
        "attention-unfused",
        3,
        "Softmax runs in separate kernels ({n:,} launches, {total_ns}, {share_pct:.0f} %{where}): if that is "
        "attention, it is not fused.",
        ("top", "--by", "op", "--where", "category = 'SOFTMAX'"),
        "Use scaled_dot_product_attention with a mask that the fused kernels take.",
        "If it belongs to attention, use a fused kernel for that ({attention}).",
        "Possible: a softmax may belong to something else.",
    ),
)
