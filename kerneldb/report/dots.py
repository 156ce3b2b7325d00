"""Names of dots in a roofline, placed so that each can be read: over no other name, line or dot."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kerneldb.output.text import escape, shorten

Rows = Sequence[dict[str, Any]]
Box = tuple[float, float, float]
"""Of a text or a dot: where it begins, where it ends, how high it is; in pixels."""

SIZE: Final = (780, 380)
"""Of a roofline, in pixels."""
ROOFED: Final = ("intensity", "flops_per_second")
NAMED: Final = 8
"""Kernels of a roofline that may be named."""
NAME: Final = 32
LETTER: Final = 5.5
LINE: Final = 11.0
BESIDE: Final = 14.0
"""Characters of such a name; pixels of one of them, of a line, and between a dot and its name."""
SIDES: Final[dict[str, tuple[str, float, float]]] = {
    "right": ("left", BESIDE, 0), "left": ("right", -BESIDE, 0), "below": ("center", 0, 1.5 * BESIDE),
    "above": ("center", 0, -1.5 * BESIDE),
}  # fmt: skip
"""Places of a name, the best first: how it is aligned, and how far it is right of and below its dot."""


def told_apart(points: Rows, roofs: Rows, extent: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
    """The kernels with most time, each with the side of its dot that has room; none over names, roofs or other dots."""

    def placed(row: dict[str, Any]) -> tuple[float, float]:
        across, up = (
            (math.log(row[name]) - low) / (high - low) * size
            for name, (low, high), size in zip(ROOFED, extent, SIZE, strict=True)
        )
        return across, up

    dots = list(map(placed, points))
    lines = [[placed(row) for row in roofs if row["name"] == name] for name in {row["name"]: None for row in roofs}]
    segments = [pair for line in lines for pair in itertools.pairwise(line)]
    taken: list[Box] = []
    named: list[tuple[float, float]] = []
    found = []
    for row in sorted(points, key=lambda row: -(row["total_ns"] or 0))[:NAMED]:
        text = shorten(escape(str(row["kernel"])), NAME)
        across, up = placed(row)
        if any(abs(x - across) <= BESIDE and abs(y - up) <= BESIDE for x, y in named):
            continue  # one name for dots over each other
        others = [(x, x, y) for x, y in dots if abs(x - across) > BESIDE or abs(y - up) > BESIDE]
        for side, (align, right, lower) in SIDES.items():
            begins = across + right - len(text) * LETTER * {"left": 0, "center": 0.5, "right": 1}[align]
            box = (begins, begins + len(text) * LETTER, up - lower)
            is_within = begins > 0 and box[1] < SIZE[0] and LINE < box[2] < SIZE[1] - LINE
            if is_within and not any(_covers(box, other) for other in (*taken, *others)) and not _cut(box, segments):
                taken.append(box)
                named.append((across, up))
                found.append({**{name: row[name] for name in ROOFED}, "text": text, "side": side})
                break
    return found


def _covers(one: Box, other: Box) -> bool:
    """Whether texts or dots (begin, end, height) are over each other, with some room between them."""
    return abs(one[2] - other[2]) <= LINE and one[0] <= other[1] + LETTER and other[0] - LETTER <= one[1]


def _cut(box: Box, segments: Sequence[tuple[tuple[float, float], tuple[float, float]]]) -> bool:
    """Whether one of the lines, which do not go back, passes through a text."""
    for (x, y), (to_x, to_y) in segments:
        first, last = max(x, box[0]), min(to_x, box[1])
        if first > last:
            continue
        heights = [y + (to_y - y) * (at - x) / ((to_x - x) or 1) for at in (first, last)]
        if min(heights) - LINE / 2 <= box[2] <= max(heights) + LINE / 2:
            return True
    return False


def texts(named: list[dict[str, Any]], x: Any, y: Any) -> Iterator[Any]:
    """The names of dots, where there is room."""
    import altair as alt

    for side, (align, right, lower) in SIDES.items():
        if rows := [row for row in named if row["side"] == side]:
            given = {"align": align, "dx": right, "dy": lower, "baseline": "middle"}
            mark = alt.Chart(alt.Data(values=rows)).mark_text(**given, fontSize=10, color="#808080")
            yield mark.encode(x, y, text="text:N").properties(name=f"labels_{side}")
