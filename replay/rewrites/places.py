"""Where in the code a rewrite is: the functions whose runs cover its calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kerneldb.replay.rewrites.flow import Flow, Frame

LIBRARIES = ("torch/", "kerneldb/", "replay/", "<")
GENERATED = "/inductor/"


def ours(frame: Frame) -> bool:
    """Whether a function is of the program or a model library, not of torch or of the recorder."""
    written = bool(frame.path) and GENERATED not in frame.path and not frame.function.startswith("<")
    return written and not frame.path.startswith(LIBRARIES)


def innermost(flow: Flow, places: Sequence[int]) -> Frame | None:
    """The innermost function around all of the calls; None where the trace does not say."""
    around = [set(flow.functions(place)) for place in places]
    shared = set.intersection(*around) if around else set()
    known = [flow.frames.frames[one] for one in sorted(shared) if ours(flow.frames.frames[one])]
    return known[-1] if known else None


def functions(flow: Flow) -> Iterator[tuple[Frame, list[list[int]]]]:
    """Each function of the program with the calls of each of its runs; those with fewer than two calls are left out.

    Where there are modules, so are functions outside of them: what calls a model does more than a patch should take.
    """
    grouped: dict[Frame, list[list[int]]] = {}
    runs = [(frame, places) for frame, places in flow.runs() if ours(frame) and len(places) > 1]
    modules = any(frame.module for frame, _ in runs)
    for frame, places in runs:
        if frame.module or not modules or _within_module(flow, frame, places[0]):
            grouped.setdefault(frame, []).append(places)
    yield from grouped.items()


def _within_module(flow: Flow, frame: Frame, place: int) -> bool:
    around = [flow.frames.frames[number] for number in flow.functions(place)]
    before = around[: around.index(frame)] if frame in around else []
    return any(one.module and ours(one) for one in before)
