"""What `kerneldb db doctor` says of Perfetto traces: as of AMD's other formats, with remedies that fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from kerneldb.batch import Manifest
from kerneldb.ingest.amd import diagnostics as amd
from kerneldb.ingest.doctor import Diagnostic

REMEDY: Final = {
    "devices": "Perfetto traces describe no GPU: give another format of the same run, such as rocpd, too.",
    "phases": "Mark stages with roctx or NVTX ranges, or ingest with `--phase NAME`.",
}
"""Topic → what to do, where it is not what AMD's formats need."""


def diagnostics(manifest: Manifest) -> Iterator[Diagnostic]:
    """Judge a converted trace."""
    for one in amd.diagnostics(manifest):
        yield dataclasses.replace(one, remedy=REMEDY.get(one.topic, one.remedy))
