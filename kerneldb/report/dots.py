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


FAR: Final = "far"
"""The side of a name for which there is no room beside its dot: a line leads there."""
ROUND: Final = tuple(itertools.product((40, 70, 100, 130, 170, 220), (-45, 45, -135, 135, -70, 70, -110, 110, -20, 20)))
"""How far such a name may be from its dot, in pixels, and in which directions, in degrees clockwise from the right."""


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
        for side, align, box in _places(text, across, up):
            is_within = box[0] > 0 and box[1] < SIZE[0] and LINE < box[2] < SIZE[1] - LINE
            if is_within and not any(_covers(box, other) for other in (*taken, *others)) and not _cut(box, segments):
                taken.append(box)
                named.append((across, up))
                dot = {name: row[name] for name in ROOFED}
                found.append({**dot, "text": text, "side": side, **_led(dot, side, align, box, extent)})
                break
    return found


def _places(text: str, across: float, up: float) -> Iterator[tuple[str, str, Box]]:
    """Where the name of a dot may be: side, alignment and box, the nearest first."""
    wide = len(text) * LETTER
    for side, (align, right, lower) in SIDES.items():
        begins = across + right - wide * {"left": 0, "center": 0.5, "right": 1}[align]
        yield side, align, (begins, begins + wide, up - lower)
    for far, degrees in ROUND:
        right, lower = far * math.cos(math.radians(degrees)), far * math.sin(math.radians(degrees))
        begins = across + right - (wide if right < 0 else 0)
        yield FAR, "right" if right < 0 else "left", (begins, begins + wide, up - lower)


def _led(dot: dict[str, Any], side: str, align: str, box: Box, extent: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Of a name that is far from its dot, how it is aligned, and where the line to it begins and ends."""
    if side != FAR:
        return {}
    ends = (box[0] if align == "left" else box[1], box[2])
    at = (
        math.exp(low + place / size * (high - low)) for place, (low, high), size in zip(ends, extent, SIZE, strict=True)
    )
    return {"align": align, **dict(zip(ROOFED, at, strict=True)), **{f"from_{name}": dot[name] for name in ROOFED}}


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
    for align, right in (("left", 2), ("right", -2)):
        if rows := [row for row in named if row.get("align") == align]:
            data = alt.Chart(alt.Data(values=rows))
            begins, ends = (alt.X2("from_intensity:Q"), alt.Y2("from_flops_per_second:Q"))
            line = data.mark_rule(color="#808080", strokeWidth=0.7, strokeDash=[2, 2])
            yield line.encode(x, y, begins, ends).properties(name=f"labels_lines_{align}")
            mark = data.mark_text(align=align, dx=right, baseline="middle", fontSize=10, color="#808080")
            yield mark.encode(x, y, text="text:N").properties(name=f"labels_{FAR}_{align}")
