"""Profiles of Proton, the profiler of Triton: trees of sums (`*.hatchet`), and timelines (`*.chrome_trace`)."""

from __future__ import annotations

import re
from typing import Final

from kerneldb.ingest.readers import Head, Later, Reader

TREE: Final = re.compile(rb'\s*\[\s*\{\s*"(?:children|frame|metrics)"\s*:')
FRAME: Final = re.compile(rb'"frame"\s*:\s*\{[^{}]*"(?:name|type)"\s*:')
STACK: Final = b'"call_stack"'
PACKED: Final = re.compile(rb"[\x91-\x93][\x81-\x83]\xa5frame\x82\xa4name")
"""A tree as MessagePack. Source: triton, third_party/proton/csrc/lib/Data/TreeData.cpp, buildHatchetMsgPack."""
KINDS: Final = (".hatchet", ".hatchet_msgpack", ".chrome_trace")
ENDINGS: Final = (*KINDS, *(f"{kind}.gz" for kind in KINDS))


def _fits(head: Head) -> bool:
    """A tree of frames, or events with the call stack that Proton gives to each."""
    if PACKED.match(head.data):
        return True
    if TREE.match(head.data):
        return FRAME.search(head.data) is not None
    is_object = head.data.lstrip()[:1] == b"{"
    return (is_object and STACK in head.data) or (head.path.name.endswith(ENDINGS) and bool(head.data.strip()))


READER: Final = Reader("proton", ENDINGS, _fits, Later("proton.convert"), Later("proton.diagnostics"))
