"""JSON of rocprofv3 (`--output-format json`)."""

from __future__ import annotations

import re
from typing import Final

from kerneldb.ingest.readers import Head, Later, Reader

FIRST_KEY: Final = re.compile(rb'\s*\{(?:[^{}\[\]]*,)?\s*"rocprofiler-sdk-tool"\s*:')
"""Other programs that keep the file put a note of theirs before it."""


def _fits(head: Head) -> bool:
    return FIRST_KEY.match(head.data) is not None


READER: Final = Reader(
    "rocprofv3", (".json", ".json.gz"), _fits, Later("rocprof_json.convert"), Later("amd.diagnostics")
)
