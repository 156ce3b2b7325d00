"""JSON of rocprofv3 (`--output-format json`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.ingest.options import Options, Progress
from kerneldb.ingest.readers import Head, Reader, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Finding

FIRST_KEY: Final = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:')


def _fits(head: Head) -> bool:
    return FIRST_KEY.match(head.data) is not None


def _convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    from kerneldb.ingest.rocprof_json.convert import convert

    return convert(unit, folder, options, progress)


def _findings(manifest: Manifest) -> Iterator[Finding]:
    from kerneldb.ingest.amd.findings import findings

    return findings(manifest)


READER = Reader("rocprofv3", (".json", ".json.gz"), _fits, _convert, findings=_findings, events=True)
