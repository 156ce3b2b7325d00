"""Advice: named, versioned rules over the figures of a report, each with the time at stake and what to do.

A rule is a statement `schemas/queries/advice_<name>.sql`, which gives no row or one with the columns `at_stake_ns` and
those that its sentence names. It may take the parameter `$trace`, and read the rows of other statements of the report.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "nvidia": {
        "graphs": "CUDA graphs",
        "language": "CUDA or Triton",
        "memcpy": "cudaMemcpyAsync",
        "event": "cudaStreamWaitEvent",
        "counters": "Nsight Compute (kerneldb ncu command prints the command)",
        "attention": "FlashAttention, cuDNN",
    },
    "amd": {
        "graphs": "HIP graphs",
        "language": "HIP or Triton",
        "memcpy": "hipMemcpyAsync",
        "event": "hipStreamWaitEvent",
        "counters": "rocprofv3 --pmc",
        "attention": "FlashAttention, AITER, Composable Kernel",
    },
}
"""What the same thing is called on the GPUs of each vendor."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """`sentence` is a format string over the columns of the rule's row; names ending in `_ns` come with their unit.

    `remedy` is for programs of PyTorch, `otherwise` for others (None: the same); both are format strings over `WORDS`.
    `command` are the words of the kerneldb command that shows more, format strings over the columns of the row. `needs`
    are the statements `report_<name>.sql` whose rows the rule reads as `found_<name>`.
    """

    name: str
    version: int
    sentence: str
    command: tuple[str, ...]
    remedy: str
    otherwise: str | None = None
    needs: tuple[str, ...] = ()

    def advice(self, vendor: str, *, is_torch: bool) -> str:
        """What to do about it, in the words of the vendor of the GPU."""
        text = self.remedy if is_torch or self.otherwise is None else self.otherwise
        return text.format(**WORDS.get(vendor, WORDS["nvidia"]))


RULES: Final = (
    Rule(
        "host-bound",
        4,
        "The GPU waited {idle_ns} ({share_pct:.0f} % of the time) for the host to launch the next kernel; the median "
        "kernel runs {median_kernel_ns}, the median launch call {median_call_ns}.",
        ("analyze", "idle", "--gaps"),
        "Launch less often: {graphs}, torch.compile, a larger batch.",
        "Launch less often: {graphs}, larger kernels, more work per launch.",
        ("idle",),
    ),
    Rule(
        "late-graphs",
        1,
        "The GPU waited {idle_ns} ({share_pct:.0f} % of the time) for the host to launch the next graph: {n:,} "
        "launches are in {graphs:,} graph launches.",
        ("analyze", "idle", "--gaps"),
        "Launch a graph before the last one ends: no .item(), .cpu() or printing between steps; or put several steps "
        "into one graph.",
        "Launch a graph before the last one ends: wait for no result between steps; or put several steps into one "
        "graph.",
        ("idle", "gpu_time"),
    ),
    Rule(
        "synchronising",
        3,
        "The GPU waited {idle_ns} ({share_pct:.1f} % of the time) for synchronising calls and allocations, mostly "
        "{waiting_call}.",
        ("analyze", "idle", "--gaps"),
        "Keep results on the GPU (.item(), .cpu() and printing wait for it), copy with non_blocking=True, and let the "
        "caching allocator keep memory.",
        "Make the GPU wait instead of the host ({event}), copy from pinned memory with {memcpy}, and allocate ahead.",
        ("idle",),
    ),
    Rule(
        "one-kernel",
        4,
        "{kernel} takes {share_pct:.0f} % of the GPU time in {n:,} launches.",
        ("show", "{kernel}"),
        "Start there: its counters by {counters}; kerneldb replay runs it alone.",
        "Start there: its counters by {counters}.",
    ),
    Rule(
        "counted-kernel",
        1,
        "{kernel} takes {share_pct:.0f} % of the GPU time in {n:,} launches; its counters are stored.",
        ("show", "{kernel}"),
        "Start there: they say what limits it; kerneldb replay runs it alone.",
        "Start there: they say what limits it.",
    ),
    Rule(
        "decode-gemv",
        2,
        "Matrix-vector products take {share_pct:.0f} % of the GPU time: every matrix is read for one vector.",
        ("top", "--where", "category = 'GEMV'"),
        "Batch requests, or move fewer bytes (quantised weights).",
        "Multiply several vectors at once, or move fewer bytes (a smaller type).",
    ),
    Rule(
        "fusible",
        3,
        "Small memory-bound kernels take {total_ns} in {runs:,} runs of several; fused to one kernel a run, they would "
        "save {at_stake_ns} at most: {kernels_ns} of kernels, and {pauses_ns} of pauses between them (10 µs each at "
        "most).",
        ("analyze", "fusion"),
        "Fuse them: torch.compile, or a fused operator of the library.",
        "Fuse them: one kernel in {language}, or a fused operation of the library.",
        ("fusion",),
    ),
    Rule(
        "conversions",
        2,
        "{n:,} launches only convert types and take {share_pct:.1f} % of the GPU time.",
        ("analyze", "conversions"),
        "Keep one type through the model; look for autocast in inner loops and weights stored in another type.",
        "Keep one type through the program; look for data stored in another type than it is computed in.",
        ("conversions",),
    ),
    Rule(
        "exposed-communication",
        2,
        "Communication that no computation hides takes {share_pct:.1f} % of the time.",
        ("analyze", "collectives", "--waits"),
        "Overlap it: larger buckets, earlier launches, another stream; kerneldb analyze collectives --waits shows "
        "which ranks are late.",
        "Overlap it: earlier launches, a stream of its own; kerneldb analyze collectives --waits shows which ranks "
        "are late.",
        ("gpu_time",),
    ),
    Rule(
        "exposed-copies",
        1,
        "Copies that no computation hides take {share_pct:.1f} % of the time, mostly {copy}.",
        ("top", "--where", "kind = 'memcpy'"),
        "Keep the data on the GPU, or copy it ahead on another stream, from pinned memory with non_blocking=True.",
        "Keep the data on the GPU, or copy it ahead on another stream, from pinned memory with {memcpy}.",
        ("gpu_time",),
    ),
    Rule(
        "attention-unfused",
        2,
        "Softmax runs in separate kernels ({n:,} launches, {total_ns}): if that is attention, it is not fused.",
        ("top", "--by", "op", "--where", "category = 'SOFTMAX'"),
        "Use scaled_dot_product_attention with a mask that the fused kernels take.",
        "If it belongs to attention, use a fused kernel for that ({attention}).",
    ),
)
