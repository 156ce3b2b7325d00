"""JSON that nests more deeply than its parser follows: refused, with how deep it is.

A parser says of such a text only that it gave up; repairing it as if it were damaged would lose an event, or what is
known of the devices.
"""

from __future__ import annotations

import itertools
import re
import sys
from typing import Final

from kerneldb import limits

STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""Also one that the text ends in: each byte is looked at once, whatever the quotes."""
NO_BRACKET: Final = bytes(set(range(256)) - set(b"[]{}"))
STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\x00\x00")
REMEDY: Final = "No profiler nests so deep: take that value out, or record the trace again."


def levels(text: bytes) -> int:
    """How many brackets are open at once in `text`, at most; those in strings do not count."""
    steps = STRING.sub(b"", text).translate(STEPS, NO_BRACKET)
    return max(itertools.accumulate(2 * step - 1 for step in steps), default=0)


def error(text: bytes | str, remedy: str = REMEDY) -> limits.ExceededError:
    """What a parser's RecursionError means; who reads the file adds its name. `text` is empty where it is no JSON."""
    depth, most = levels(text if isinstance(text, bytes) else text.encode(errors="replace")), sys.getrecursionlimit()
    found = f"{depth:,} levels" if depth >= most else f"{most:,} levels or more"
    return limits.ExceededError(f"its values nest {found} deep, and fewer than {most:,} are read. {remedy}")
