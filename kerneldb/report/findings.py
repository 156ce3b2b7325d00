"""Findings: named, versioned rules over the figures of a report, each with the time at stake and what to do.

A rule is a statement `schemas/queries/finding_<name>.sql` with the parameter `$trace`, which gives no row or one with
the columns `at_stake_ns` and those that its sentence names.
"""

from __future__ import annotations

import dataclasses
from typing import Final


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """`sentence` is a format string over the columns of the rule's row; names ending in `_ns` come with their unit."""

    name: str
    version: int
    sentence: str
    remedy: str


RULES: Final = (
    Rule(
        "host-bound",
        1,
        "The GPU waited {idle_ns} ({share_pct:.0f} % of the time) for the host to launch the next kernel; the median "
        "kernel runs {median_kernel_ns}, the median launch call {median_call_ns}.",
        "Launch less often: CUDA graphs, torch.compile, a larger batch.",
    ),
    Rule(
        "synchronising",
        1,
        "The GPU waited {idle_ns} ({share_pct:.1f} % of the time) behind synchronising calls, mostly {waiting_call}.",
        "Keep results on the GPU (.item(), .cpu() and printing wait for it), and copy with non_blocking=True.",
    ),
    Rule(
        "one-kernel",
        1,
        "{kernel} takes {share_pct:.0f} % of the GPU time in {n:,} launches.",
        "Start there: kerneldb ncu-command for its counters, kerneldb replay for variants.",
    ),
    Rule(
        "decode-gemv",
        1,
        "Matrix-vector products take {share_pct:.0f} % of the GPU time: every weight is read for one token.",
        "Batch requests, or move fewer bytes (quantised weights).",
    ),
    Rule(
        "fusible",
        1,
        "Runs of small memory-bound kernels take {total_ns} in {runs:,} runs; one a run would save {at_stake} at most, "
        "with the pauses between.",
        "Fuse them: torch.compile, or a fused operator of the library.",
    ),
    Rule(
        "conversions",
        1,
        "{n:,} launches only convert types and take {share_pct:.1f} % of the GPU time.",
        "Keep one type through the model; look for autocast in inner loops and weights stored in another type.",
    ),
    Rule(
        "exposed-communication",
        1,
        "Communication that no computation hides takes {share_pct:.1f} % of the time.",
        "Overlap it: larger buckets, earlier launches, another stream; kerneldb collectives --waits tells late ranks.",
    ),
    Rule(
        "attention-unfused",
        1,
        "Softmax runs as kernels of its own ({n:,} launches, {total_ns}): attention is not fused.",
        "Use scaled_dot_product_attention with a mask that the fused kernels take.",
    ),
)
