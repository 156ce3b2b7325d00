"""NVTX ranges as ncu prints them: two columns, one of push/pop stacks, one of start/stop ranges.

A stack reads `97844  "<default domain>:outer:none:none:none:none:none:none"  "domain:inner:…"`, outermost first; a
start/stop range begins with its id (ncu 2022 to 2026). Fields after the name: payload type and value, colour type and
value, message type and message.
"""

from __future__ import annotations

import re
from typing import Final

PUSH_POP: Final = "Push/Pop_Range"
START_STOP: Final = "Start/Stop_Range"
QUOTED: Final = re.compile(r'"([^"]*)"')
PLAIN: Final = re.compile(r"^(?P<domain>[^:]*):(?P<name>.*):none:none:none:none:none:none$", re.DOTALL)
FULL: Final = re.compile(
    r"^(?P<domain>[^:]*):(?P<name>.*?)"
    r":(?:none|\w*(?:int|float|double|json)\w*):[^:]*:\w+:[^:]*:(?:none|ascii|unicode|registered)\w*:.*$",
    re.DOTALL | re.IGNORECASE,
)
STEP: Final = "ProfilerStep"


def stack(cell: str) -> list[str]:
    """Names of the ranges in a cell of the push/pop column, outermost first."""
    return [name for text in QUOTED.findall(cell) if (name := _name(text))]


def started(cell: str) -> list[str]:
    """Names of the ranges in a cell of the start/stop column."""
    texts = QUOTED.findall(cell) or ([cell] if cell.strip() else [])
    return [name for text in texts if (name := _name(re.sub(r"^\s*\d+:", "", text)))]


def ranges(cell: str) -> list[str]:
    """Names of the ranges in the column Range of `--print-summary per-nvtx`, which stand without their domain."""
    return [text.rsplit(":", 6)[0] for text in QUOTED.findall(cell)]


def phase_of(path: list[str]) -> str | None:
    """The outermost range below the step of a profiler, as for timelines."""
    return next((name for name in path if not name.startswith(STEP)), None)


def _name(text: str) -> str | None:
    found = PLAIN.match(text) or FULL.match(text)
    return found["name"] if found else None
