"""Profiles of JAX and TensorFlow (XLA): `*.xplane.pb`, and the `*.trace.json.gz` that is written beside it."""

from __future__ import annotations

import re
from typing import Final

from kerneldb.ingest.readers import Head, Later, Reader
from kerneldb.ingest.wire import WireError, fields, varint

PLANE: Final = rb'"(?:[^"\s]+ )?/(?:device|host):[^"]*"'
PLANE_NAME: Final = re.compile(
    rb'"process_name"\s*,\s*"args"\s*:\s*\{\s*"name"\s*:\s*%s|"name"\s*:\s*%s[^{}]{,999}\}\s*,\s*"name"\s*:\s*"process_name"'
    % (PLANE, PLANE)
)
"""The name of a process is that of a plane, before its arguments or, where a program sorted the keys, behind them."""
NAMES: Final = (b"/host:", b"/device:", b"Task Environment")
ENDINGS: Final = (".xplane.pb", ".xplane.pb.gz")
PLANES_TAG: Final = 0x0A


def _fits(head: Head) -> bool:
    if head.data.lstrip()[:1] == b"{":
        return PLANE_NAME.search(head.data) is not None
    return _is_space(head.data) or (head.path.name.endswith(ENDINGS) and bool(head.data))


def _is_space(data: bytes) -> bool:
    """Whether the bytes begin with a plane: field 1 of XSpace, in which field 2 is a name that planes have."""
    if data[:1] != bytes([PLANES_TAG]):
        return False
    try:
        _, at = varint(data, 1)
        number, name = next((number, value) for number, value in fields(data[at : at + 64]) if number != 1)
    except (WireError, StopIteration):
        return False
    return number == 2 and isinstance(name, bytes) and name.startswith(NAMES)  # noqa: PLR2004


READER: Final = Reader("xla", ENDINGS, _fits, Later("xla.convert"), Later("xla.diagnostics"))
