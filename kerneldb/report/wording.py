"""The words that rules of advice put together from their rows: places, numbers of times, what follows from a figure.

A function takes the row of a rule and returns words for its texts, which may name columns of the row again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

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
AT_PEAK: Final = 95
SHORT_NS: Final = 10_000
TINY_NS: Final = 3_000
"""A kernel that is shorter does next to nothing beside starting, whatever its work is."""
FRAME: Final = re.compile(r"(.*)\((\d+)\): (.*)")
CERTAIN: Final = "Certain: "
LIKELY: Final = "Likely: "
OPEN: Final = CERTAIN + "it was open on the launching thread, or had just ended, when the GPU ran out of work."
KNOWN_WORK: Final = "Work from the shapes of the operators or from counters, peaks from the data sheet."
UNKNOWN_WORK: Final = "How near that is to the peaks is not known: shapes of operators, or counters, would say."
COUNTED_WORK: Final = "How near that is to the peaks is not known from shapes; its counters are stored."
READING: Final = frozenset(
    {"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero", "aten::equal"}
)
"""Operators that wait for a value."""
BOUNDS: Final[Mapping[str | None, tuple[str, str]]] = {
    "high": ("it is near the roof", "Give it less to do: fewer bytes or operations, a smaller type"),
    "compute": (
        "arithmetic limits it",
        "Give it fewer operations or a smaller type",
    ),
    "memory": ("memory limits it", "Move fewer bytes: whole cache lines, reuse on the chip, a smaller type"),
    "balanced": ("arithmetic and memory limit it alike", "Give it less to do: fewer bytes and operations"),
    "latency": (
        "latency limits it: too little is under way at a time",
        "Keep more under way: more blocks and warps, independent work in each thread",
    ),
    None: ("", "None of its counters says what limits it: those of throughput and occupancy would"),
}
"""Verdicts of the rule of Nsight Compute (`bounds`), and what follows from them."""
DETAILS: Final[Mapping[str, str]] = {
    "small grid": "Split the work into more blocks, or run other kernels beside it",
    "L1": "Reuse values in registers, read shared memory without conflicts, and whole vectors at a time",
    "L2": "Reuse values within a block (shared memory, larger tiles)",
    "DRAM": "Move fewer bytes: whole cache lines, reuse on the chip, a smaller type, fusion with its neighbours",
    "compute": "Give it fewer operations or a smaller type",
}
"""What limits a kernel more closely, and what follows from that."""
FIRST_NS: Final = 50_000_000
MOST: Final = 0.9
"""Where one pause has so much of the time, the others are not worth a word."""
LONG_LAUNCH_NS: Final = 300_000
"""Far more than a launch takes the host, also from Python and with a profiler (docs/why.md)."""
PINNED: Final = re.compile(r"(?i)host_?(alloc|malloc|free|register|unregister)|free_?host")
MEMORY: Final[Mapping[str, str]] = {
    "is_released": "Leave empty_cache() out of loops; if none is called, memory is short, and the allocator frees what "
    "it keeps, waits for the GPU, and asks again",
    "is_full": "Keep less (checkpoints of activations, a smaller batch, shards): larger inputs may run out of memory",
    "is_fragmented": "Set expandable_segments:True for the allocator, or keep to the same sizes in every step",
    "is_asked": "Run the largest sizes once beforehand, so that their memory is there",
}
"""What the rule about memory found → what to do about it."""
OVERLAPS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (
        re.compile(r"(?i)dispatch|combine|all_?to_?all|\ba2a"),
        "Overlap the exchange between experts with other work (a second micro-batch, the shared experts), balance the "
        "experts, or send smaller types",
    ),
    (
        re.compile(r"(?i)send_?recv"),
        "Overlap it: more or interleaved micro-batches between stages of a pipeline, a second micro-batch between "
        "experts; or send less",
    ),
    (
        re.compile(r"(?i)all_?gather|reduce_?scatter"),
        "Overlap it: prefetch shards earlier (forward_prefetch, backward_prefetch), other sizes of what is sharded; or "
        "send a smaller type",
    ),
    (
        re.compile(r"(?i)all_?reduce|cross_device_reduce"),
        "Overlap it: of gradients, other sizes of buckets (bucket_cap_mb); of activations, a second micro-batch; or "
        "send less",
    ),
)
"""How to hide a collective, by its name."""
OVERLAP: Final = "Overlap it: earlier launches, a stream of its own; or send less"


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
    mostly = "" if (row.get("calls") or row.get("n")) == 1 else "mostly "
    return f", {mostly}{f'{place} at {line}' if place and line else place or f'at {line}'}" if place or line else ""


def often(row: Row) -> str:
    """How often something that took `at_stake_ns` in all happened, and the longest of it."""
    count, longest = row.get("calls") or row.get("n"), row.get("longest_ns")
    if count is None or longest is None:
        return ""
    if count == 1:
        return "once"
    if longest >= MOST * (row["at_stake_ns"] or longest):
        return f"{count:,} times, nearly all of it once"
    return f"{count:,} times, up to {{longest_ns}}"


def launched(row: Row) -> Mapping[str, str]:
    """What to do about launches one by one: fewer of them, unless the pauses are longer than any launch takes."""
    if row["mean_ns"] < LONG_LAUNCH_NS:
        less = "Launch less often: {graphs}, "
        return {
            "hint": less + "torch.compile, a larger batch",
            "instead": less + "larger kernels, more work per launch",
        }
    look = "Look at what the program does between these launches: to launch a kernel takes less, also from Python"
    return {"hint": look + "{stacks}", "instead": look}


def unexplained(row: Row) -> Mapping[str, str]:
    """Why no cause is known of some time: where calls of the host are there, it had made those of the next launches."""
    if row["has_calls"]:
        look = (
            "See whether another process used the GPU, and what its queue held: an earlier launch, a graph, the driver"
        )
        why = "what came next had been launched long before it ran, or its call is not recorded"
        return {"why": why, "hint": look, "instead": look}
    return {
        "why": "it has no launch calls",
        "hint": "Record the host, too: the activities CPU and GPU of torch.profiler, or {host}",
        "instead": "Record the host, too: {host}",
    }


def paused(row: Row) -> Mapping[str, str]:
    """Pauses of a millisecond and more, up to the longest one's end, and what the host did in that one."""
    return {**_pauses(row), **_late(row)}


def _late(row: Row) -> Mapping[str, str]:
    if not row["frame"]:
        return {
            "why": "and no recorded call says why",
            "hint": "Look at what the program does there: reading, logging, other Python{stacks}",
            "instead": "Look at what the program does there with a profiler of the CPU",
            "sure": "Certain that the host was late; what it did is not recorded.",
        }
    longest = "" if row["n"] == 1 else " in the longest one"
    shorter = "Make {doing_name} shorter, or move it off the thread that launches"
    return {
        "why": f"which{longest} was in {{doing}} for {{frame_ns}}",
        "hint": shorter + " (workers of a data loader, prefetching)",
        "instead": shorter,
        "sure": "Certain that the host was late, and where it was in the longest pause.",
    }


def _pauses(row: Row) -> Mapping[str, str]:
    if row["n"] == 1:
        return {"pauses": "one pause"}
    longest = "nearly all of it" if row["longest_ns"] >= MOST * row["at_stake_ns"] else "the longest of {longest_ns}"
    return {"pauses": f"{row['n']:,} pauses of a millisecond and more, {longest}"}


def copied(row: Row) -> Mapping[str, str]:
    """What the copies held up, and of which memory they were."""
    held = ", {host_ns} of it while the call held up the host" if row["host_ns"] else ""
    memory = " of pageable memory" if row["is_pageable"] else ""
    return {"held": held, "memory": memory, "by": "op" if row["op"] else "signature"}


def waited(row: Row) -> Mapping[str, str]:
    """What the host did after it had waited, and what to do instead: in PyTorch (`hint`) and elsewhere (`instead`)."""
    call, op = row["call"] or "", row["op"] or ""
    hint = "Copy results later, to pinned memory, with non_blocking=True"
    instead = "Make the GPU wait instead of the host ({event}), and look at results later"
    if op in READING:
        hint = "Keep the value on the GPU: .item(), bool(), printing and indexing by tensors wait for it"
    elif call.lower().endswith("synchronize") and not op:
        hint = "Leave the explicit synchronisation out (around timings, at the end of steps), or do it less often"
    if "memcpy" in call.lower():
        instead = "Copy results later, and to pinned memory: then the call does not wait for the GPU"
    return _then(row, hint, instead)


def _then(row: Row, hint: str, instead: str) -> Mapping[str, str]:
    """The texts about waits after which the host did something else for most of the time, as far as that is known."""
    if not row["frame"] and not row["quiet_ns"]:
        meanwhile = "then had nothing to run until the next launch came"
        return {"then": "", "meanwhile": meanwhile, "hint": hint, "instead": instead, "sure": OPEN}
    meanwhile = "had nothing to run meanwhile"
    if not row["frame"]:
        then = ", and then was in no recorded call for {quiet_ns} before it launched again"
        or_else = ". Or make shorter what the program does there{stacks}"
        sure = CERTAIN + "the calls had ended. What the host did then is not recorded."
        return {
            "then": then,
            "meanwhile": meanwhile,
            "hint": hint + or_else,
            "instead": instead + or_else,
            "sure": sure,
        }
    longest = "" if row["frame_n"] == 1 else f" ({row['frame_n']:,} times, up to {{frame_longest_ns}})"
    then = f", and then spent {{frame_ns}}{longest} in {{doing}} before it launched again"
    first = (
        "Make {doing_name} shorter or move it off the thread that launches (workers of a data loader, prefetching), "
    )
    first += "or do not wait before it, so that it overlaps. "
    sure = "Certain that the host was there after the calls; how much would overlap without them is not recorded."
    return {"then": then, "meanwhile": meanwhile, "hint": first + hint, "instead": first + instead, "sure": sure}


def allocated(row: Row) -> Mapping[str, str]:
    """A call that takes so long is the first of its kind, and what else there is to do if that is not all."""
    is_first = (row["call_ns"] or 0) >= FIRST_NS and 3 * row["longest_ns"] >= row["at_stake_ns"]
    first = "A call of {call_ns} is a first use (context, libraries): record after a warm-up." if is_first else ""
    if is_first and row["longest_ns"] >= MOST * row["at_stake_ns"]:
        return {"hint": first, "instead": first}
    hint = (
        "Let the caching allocator keep memory: no empty_cache() in loops, the same sizes in every step, "
        "expandable_segments:True."
    )
    instead = "Allocate ahead and reuse the memory, or take it from a pool ({malloc}Async)."
    if PINNED.search(row["call"] or ""):
        hint = instead = "Allocate pinned memory once and reuse it: each time anew, the host waits for the GPU."
    return {"hint": f"{first} {hint}".lstrip(), "instead": f"{first} {instead}".lstrip()}


def reserved(row: Row) -> Mapping[str, str]:
    """What the allocator has beyond what is used, who holds that, and what it did while the program ran."""
    hints = [hint for flag, hint in MEMORY.items() if row[flag]]
    calls = "; {mallocs:,} calls to allocate and {frees:,} to free memory took {call_ns}"
    return {
        "capacity": " of the {memory_bytes} of the GPU" if row["memory_bytes"] else "",
        "unused": "; {unused_bytes} are cached or lost to fragmentation" if row["is_fragmented"] else "",
        "held": "; {holder} holds {held_bytes} then" if row["holder"] else "",
        "released": "; memory was given back {releases:,} times, up to {released_bytes}" if row["is_released"] else "",
        "calls": calls if row["is_released"] or row["is_asked"] else "",
        "hint": "; ".join([hints[0], *(hint[0].lower() + hint[1:] for hint in hints[1:])]),
    }


UNSPLIT: Final = (
    "waiting for other ranks and transfer together: of sends and receives, and of collectives that not all ranks of "
    "the job have in the database"
)
"""What the cause `unsplit` says."""


def sent(row: Row) -> Mapping[str, str]:
    """What is known of the time, and how to hide a collective of this name."""
    unknown = "; how much of it is waiting for other ranks is not known without their traces"
    hint = next((hint for pattern, hint in OVERLAPS if pattern.search(row["kernel"] or "")), OVERLAP)
    which = f", {'all of it' if row['kernels'] == 1 else 'mostly'} {{kernel}}" if row["kernel"] else ""
    return {"unsplit": unknown if row["is_unsplit"] else "", "hint": hint, "which": which}


def judged(row: Row) -> Mapping[str, str]:
    """How near the kernel is to the peaks of the GPU, and what follows from that."""
    reached, limit = row["reached_pct"], "arithmetic" if row["is_compute"] else "memory bandwidth"
    verdict, hint, sure = "", "Start there: {counted}", COUNTED_WORK if row["is_counted"] else UNKNOWN_WORK
    partly = ""
    if reached is not None:
        sure = KNOWN_WORK
        partly = " (of the {known:,} launches of known work)" if row["known"] < row["n"] else ""
    if reached is not None and reached >= NEAR_PEAK:
        verdict = f"; at {min(100, reached):.0f} % of the peak {limit}{partly}, the kernel itself leaves little to gain"
        if reached < AT_PEAK:
            verdict += ": few get much of the {beyond_ns} that the peak itself would save"
        hint = "Give it less to do: fewer bytes or operations, a smaller type, fusion with its neighbours"
    elif row["mean_ns"] < (TINY_NS if reached is None else SHORT_NS):
        verdict = "; at {mean_ns} each, starting and ending it limits it, not arithmetic or bandwidth"
        hint, sure = "Run it less often: fuse it, or give it more work at a time", LIKELY + "by its duration."
    elif reached is not None:
        verdict = f"; at {reached:.0f} % of the peak {limit}{partly}, {{at_stake_ns}} more than its work needs"
    counted = "its counters are stored" if row["is_counted"] else "read its counters with {counters}"
    size = f" ({row['size']})" if row["size"] else ""
    alone = "; kerneldb replay runs it alone" if row["is_called"] else ""
    return {"judged": verdict, "hint": hint.replace("{counted}", counted), "size": size, "sure": sure, "alone": alone}


def known(row: Row) -> Mapping[str, str]:
    """What the kernels of known work take beyond that."""
    if row["known_ns"]:
        beyond = "; the kernels of known work ({known_ns}) take {lost_ns} more than the peaks of the GPU allow"
        hint = "Look at the kernels that are furthest from the peaks (kerneldb analyze roofline)"
        return {"beyond": beyond, "hint": hint, "sure": KNOWN_WORK}
    hint = "Look at the kernels with most time (kerneldb top)"
    sure = COUNTED_WORK if row["is_counted"] else UNKNOWN_WORK
    return {"beyond": "" if row["is_named"] else "; the kernel with most is {kernel}", "hint": hint, "sure": sure}


def bound(row: Row) -> Mapping[str, str]:
    """What limits a profiled kernel by its counters, and what to do about it."""
    limit, hint = BOUNDS.get(row["verdict"], BOUNDS[None])
    detail = row["detail"]
    if not limit:
        return {"bound": "", "hint": hint, "look": "show", "at": "{kernel}"}
    said = f"; its counters say that {limit}{f' ({detail})' if detail else ''}"
    return {"bound": said, "hint": DETAILS.get(detail, hint), "look": "ncu", "at": "bounds"}


def estimated(row: Row) -> Mapping[str, str]:
    """What an estimate of ncu is worth."""
    caution = "; better occupancy seldom brings all of it" if "Occupancy" in row["rule"] else ""
    hint = ": no estimate for another kernel saves more" if row["has_others"] else ""
    return {"bound": caution, "hint": hint}
