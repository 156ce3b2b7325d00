"""The Python functions around the calls of a step, from the frames that a profiler noted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import rows
from kerneldb.replay.rewrites.flow import FRAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerneldb.api.queries import Connection, Row

FRAME: Final = re.compile(r"(?P<path>.*)\((?P<line>\d+)\): (?P<name>.*)")
MODULE: Final = re.compile(r"nn\.Module: (?P<name>.*)_\d+")


def frames_key(step_id: str) -> str:
    """The key of the frames of a step among the sources of a plan."""
    return FRAMES + step_id


def frames_of(con: Connection, window: Row, moments: Sequence[int]) -> dict[str, Any]:
    """The Python functions around calls that began at `moments` (in order), outermost first, as a plan carries them."""
    listed: list[tuple[str, int, str, str | None]] = []
    around: list[list[int]] = []
    open_: list[tuple[int, int | None, str | None]] = []
    events = rows(con, "step_frames", window)
    at = 0
    for moment in moments:
        while at < len(events) and events[at]["start_ns"] <= moment:
            _enter(events[at], open_, listed)
            at += 1
        while open_ and open_[-1][0] <= moment:
            open_.pop()
        around.append([number for end, number, _ in open_ if number is not None and end > moment])
    return {"frames": listed, "calls": around}


def _enter(
    event: Row, open_: list[tuple[int, int | None, str | None]], listed: list[tuple[str, int, str, str | None]]
) -> None:
    """A function begins, or a module: its name is that of the function `forward` in it."""
    while open_ and open_[-1][0] <= event["start_ns"]:
        open_.pop()
    module = MODULE.fullmatch(event["name"])
    if module is not None:
        open_.append((event["end_ns"], None, module["name"]))
        return
    frame = FRAME.fullmatch(event["name"])
    if frame is None:
        return
    owner = open_[-1][2] if open_ else None  # passed on by what wraps `forward`
    takes = frame["name"] == "forward"
    if not (frame["path"].startswith("torch/") and owner is not None):
        listed.append((frame["path"], int(frame["line"]), frame["name"], owner if takes else None))
        open_.append((event["end_ns"], len(listed) - 1, None if takes else owner))
    else:
        open_.append((event["end_ns"], None, owner))
