"""The grammar of GPU kernel names: demangle, shorten, match across profilers, and decode to what a kernel does.

`decode` reads one name, `decode_many` a list; `match_name` returns the spelling that Kineto, nsys, ncu and ROCm share
for one kernel. A higher `DERIVER_VERSION` means that stored results should be derived again.
"""

from __future__ import annotations

from kerneldb.names.decoding import DERIVER_VERSION, decode, decode_many
from kerneldb.names.demangling import demangle
from kerneldb.names.model import CATEGORIES, Decoded
from kerneldb.names.operators import Settled, settle
from kerneldb.names.shortening import short_name
from kerneldb.names.structure import match_name

__all__ = [
    "CATEGORIES",
    "DERIVER_VERSION",
    "Decoded",
    "Settled",
    "decode",
    "decode_many",
    "demangle",
    "match_name",
    "settle",
    "short_name",
]
