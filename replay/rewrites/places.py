"""Where in the code a rewrite is: the functions whose runs cover its calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kerneldb.replay.rewrites.flow import Flow, Frame

LIBRARIES = ("torch/", "kerneldb/", "replay/", "<")


def ours(frame: Frame) -> bool:
    """Whether a function is of the program or a model library, not of torch or of the recorder."""
    return bool(frame.path) and not frame.path.startswith(LIBRARIES) and not frame.function.startswith("<")


def innermost(flow: Flow, places: Sequence[int]) -> Frame | None:
    """The innermost function around all of the calls; None where the trace does not say."""
    around = [set(flow.functions(place)) for place in places]
    shared = set.intersection(*around) if around else set()
    known = [flow.frames.frames[one] for one in sorted(shared) if ours(flow.frames.frames[one])]
    return known[-1] if known else None


def functions(flow: Flow) -> Iterator[tuple[Frame, list[list[int]]]]:
    """Each function of the program with the calls of each of its runs; those with fewer than two calls are left out."""
    grouped: dict[Frame, list[list[int]]] = {}
    for frame, places in flow.runs():
        if ours(frame) and len(places) > 1:
            grouped.setdefault(frame, []).append(places)
    yield from grouped.items()
