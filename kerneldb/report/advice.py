"""Advice: named, versioned rules over the wall time and the figures of a trace, each with the time at stake.

A rule is a statement `schemas/queries/advice_<query>.sql`, which gives no row or one with the columns `at_stake_ns` and
those that its texts name. It may take the parameter `$trace` and those of the rule, and read the rows of statements
`report_<name>.sql` as `found_<name>`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from kerneldb.report import wording
from kerneldb.report.wording import CERTAIN, LIKELY, NEAR_PEAK, OPEN, in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kerneldb.report.wording import Row


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """`sentence` is a format string over the columns of the rule's row; names ending in `_ns` come with their unit.

    `remedy` is for programs of PyTorch, `otherwise` for others (None: the same); both are format strings over `WORDS`.
    `evidence` says how sure it is. `command` are the words of the kerneldb command that shows more, format strings over
    the columns of the row. `params` are parameters of the statement `query` (None: named as the rule). `more` makes
    further words for the texts from the row: `{where}` is the place in the program, where it is known. `needs` is a
    column of report_program without which the rule has nothing to say.
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
    needs: str = "has_kernels"

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


def _cause(name: str, cause: str, least_pct: float, sentence: str, remedy: str, **more: Any) -> Rule:
    """A rule on the time of one cause."""
    command = more.pop("command", ("why", "--budget"))
    params = {"cause": cause, "least_pct": least_pct}
    return Rule(name, 2, sentence, command, remedy, query="cause", params=params, **more)


FEW: Final = 10
"""Fewer pauses are not what launching one by one makes."""
ALL: Final = 2**62
GAPS: Final = ("analyze", "idle", "--gaps")

RULES: Final = (
    Rule(
        "host-bound",
        6,
        "The GPU waited {at_stake_ns} ({share_pct:.0f} %) for its next work to be launched and to start, {n:,} times "
        "and {mean_ns} on average{where}; the median kernel runs {median_kernel_ns}.",
        GAPS,
        "{hint}.",
        "{instead}.",
        CERTAIN + "the launch calls are recorded, and no wait or allocation explains the pauses.",
        "launching",
        {"kind": "short", "least": FEW, "most": ALL},
        wording.launched,
        needs="has_many_pauses",
    ),
    Rule(
        "host-late",
        2,
        "The GPU waited {at_stake_ns} ({share_pct:.0f} %) for the host, {often} before {kernel}{where}.",
        GAPS,
        "Queue the next launches while the GPU still runs: prepare them earlier, or on another thread.",
        evidence=CERTAIN + "the launch calls are recorded, and no wait or allocation explains the pauses.",
        query="launching",
        params={"kind": "short", "least": 1, "most": FEW - 1},
        needs="has_few_pauses",
    ),
    Rule(
        "host-pauses",
        3,
        "The GPU had nothing to run for {at_stake_ns} ({share_pct:.0f} %) in {pauses} before {kernel}: the host came "
        "late{where}, {why}.",
        GAPS,
        "{hint}.",
        "{instead}.",
        "{sure}",
        "launching",
        {"kind": "long", "least": 1, "most": ALL},
        wording.paused,
        needs="has_long_pauses",
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
        needs="has_late_graphs",
    ),
    Rule(
        "synchronising",
        3,
        "The host waited for the GPU in {calls:,} calls{where}{then}; the GPU {meanwhile}, {at_stake_ns} "
        "({share_pct:.1f} %) in all.",
        GAPS,
        "{hint}.",
        "{instead}.",
        "{sure}",
        params={"cause": "synchronisation", "least_pct": 1},
        more=wording.waited,
    ),
    _cause(
        "allocating",
        "allocation",
        1,
        "The GPU waited {at_stake_ns} ({share_pct:.1f} %) while the host allocated or freed memory in {calls:,} "
        "calls{where}.",
        "{hint}",
        otherwise="{instead}",
        evidence=OPEN,
        command=GAPS,
        more=wording.allocated,
    ),
    _cause(
        "data-loading",
        "data loading",
        1,
        "The GPU waited {at_stake_ns} ({share_pct:.0f} %) for the data loader, {often}{where}.",
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
        "The GPU waited {at_stake_ns} ({share_pct:.1f} %) while Python collected garbage, {often}{where}.",
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
        3,
        "The GPU had nothing to run for {at_stake_ns} ({share_pct:.0f} %), {often}, and the trace does not tell why: "
        "{why}.",
        "{hint}.",
        otherwise="{instead}.",
        more=wording.unexplained,
    ),
    Rule(
        "exposed-copies",
        3,
        "Copies{memory} {direction}{hidden} take {at_stake_ns} ({share_pct:.0f} %) in {n:,} copies{held}{where}.",
        ("top", "--by", "{by}", "--where", "kind = 'memcpy'"),
        "Keep the data on the GPU, or copy it ahead on another stream, from pinned memory (pin_memory=True) with "
        "non_blocking=True.",
        "Keep the data on the GPU, or copy it ahead on another stream, from pinned memory with {memcpy}.",
        CERTAIN + "{beside}.",
        more=wording.copied,
        needs="has_copies",
    ),
    Rule(
        "device-copies",
        2,
        "Copies within the GPU{hidden} take {at_stake_ns} ({share_pct:.0f} %) in {n:,} copies{where}.",
        ("top", "--by", "op", "--where", "kind = 'memcpy'"),
        "Avoid them: views instead of clone() and contiguous(), results written where they are needed (out=).",
        "Avoid them: write results where they are needed.",
        CERTAIN + "{beside}.",
        needs="has_device_copies",
    ),
    Rule(
        "memory",
        1,
        "Of {reserved_bytes} that the allocator has reserved{capacity}, {peak_bytes} are in use at the peak{unused}"
        "{held}{released}{calls}.",
        ("analyze", "memory"),
        "{hint}.",
        evidence=CERTAIN + "the allocator's own totals are recorded.",
        more=wording.reserved,
        needs="has_memory",
    ),
    Rule(
        "late-rank",
        3,
        "This rank waited {at_stake_ns} ({share_pct:.0f} %) that no computation hides for other ranks, in {n:,} "
        "collectives, {rank_pct:.0f} % of it for rank {late_rank}, which joined last.",
        ("analyze", "stragglers"),
        "Look at what rank {late_rank} does before it joins (kerneldb why on its trace): more data, a slower GPU, a "
        "busy host.",
        evidence=CERTAIN + "the same collectives are matched on all ranks that were recorded.",
        params={"cause": "waiting for a rank"},
    ),
    Rule(
        "exposed-communication",
        4,
        "Communication that no computation hides takes {at_stake_ns} ({share_pct:.0f} %), {often}{which}{where}"
        "{unsplit}.",
        ("analyze", "collectives"),
        "{hint}.",
        "Overlap it: earlier launches, a stream of its own; or send less.",
        CERTAIN + "nothing computed at the same time.",
        more=wording.sent,
        needs="has_communication",
    ),
    Rule(
        "one-kernel",
        10,
        "{kernel}{size} takes {total_ns} ({share_pct:.0f} % of the {whole}) in {n:,} launches{where}{judged}.",
        ("show", "{kernel}"),
        "{hint}{alone}.",
        "{hint}.",
        "{sure}",
        params={"near_pct": NEAR_PEAK},
        more=wording.judged,
    ),
    Rule(
        "computation",
        3,
        "Computation takes {total_ns} ({share_pct:.0f} %): {mix}{beyond}.",
        ("top", "--by", "category"),
        "{hint}.",
        evidence="{sure}",
        more=wording.known,
        needs="has_computation",
    ),
    Rule(
        "odd-gemm",
        3,
        "{dtype} matrix products with a side of {side}{where}, take {total_ns} ({share_pct:.0f} %) in {n:,} launches, "
        "such as {size}: {side} is no multiple of 8, so rows are not aligned and slower kernels run.",
        ("top", "--by", "signature", "--where", "category = 'GEMM'"),
        "Pad {side} to {padded}.",
        evidence=LIKELY + "they take over 1.6 times what their work needs.",
        needs="has_odd_sides",
    ),
    Rule(
        "ncu-rules",
        3,
        "Nsight Compute estimates {speedup_pct:.0f} % from {rule} on {kernel} ({n:,} launches, {total_ns} in this "
        "trace): {message}",
        ("ncu", "rules"),
        "Follow it there first{hint}.",
        evidence=LIKELY + "an estimate of ncu, times the time of such launches here{bound}.",
        more=wording.estimated,
        needs="has_ncu_rules",
    ),
    Rule(
        "profiled-kernel",
        2,
        "Under the counter profiler {kernel} takes {total_ns} ({share_pct:.0f} %) in {n:,} launches{bound}.",
        ("{look}", "{at}"),
        "{hint}.",
        evidence=CERTAIN + "measured under the profiler, which slows kernels and runs them one by one.",
        more=wording.bound,
        needs="is_profiled",
    ),
    Rule(
        "decode-gemv",
        3,
        "Matrix-vector products take {at_stake_ns} ({share_pct:.0f} % of the GPU time): every matrix is read for one "
        "vector.",
        ("top", "--where", "category = 'GEMV'"),
        "Batch requests, or move fewer bytes (quantised weights).",
        "Multiply several vectors at once, or move fewer bytes (a smaller type).",
        CERTAIN + "by the names of the kernels.",
        needs="has_gemv",
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
        needs="has_timeline",
    ),
    Rule(
        "conversions",
        5,
        "{n:,} launches only convert types and take {at_stake_ns} ({share_pct:.1f} % of the GPU time).",
        ("analyze", "conversions"),
        "Keep one type through the model; look for autocast in inner loops and weights stored in another type.",
        "Keep one type through the program; look for data stored in another type than it is computed in.",
        CERTAIN + "by the types of the operators' inputs and outputs.",
        needs="has_conversions",
    ),
    Rule(
        "improved",
        1,
        "Tried in a recorded step, {what} saves {saved_pct:.1f} % of its GPU time.",
        ("query", "FROM improvements WHERE status = 'accepted' ORDER BY busy_gain DESC"),
        "Change the program so: kerneldb improve --patch FILE --verify PROGRAM.",
        evidence=CERTAIN + "measured there, {low_pct:.1f} to {high_pct:.1f} %. Other advice is not tried.",
        needs="has_improvements",
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
        needs="has_softmax",
    ),
)
