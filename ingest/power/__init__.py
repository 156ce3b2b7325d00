"""Power logs of nvidia-smi: `--query-gpu=… --format=csv`, and `dmon` as text or CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kerneldb.ingest.readers import Head, Reader, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Finding
    from kerneldb.ingest.options import Options, Progress


def _fits(head: Head) -> bool:
    from kerneldb.ingest.power.layout import looks_like

    return looks_like(head.data)


def _convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    from kerneldb.ingest.power.convert import convert

    return convert(unit.files[0], folder, options, progress)


def _findings(manifest: Manifest) -> Iterator[Finding]:
    from kerneldb.ingest.power.findings import findings

    return findings(manifest)


READER: Final = Reader("nvidia-smi", (".csv", ".dmon"), _fits, _convert, findings=_findings)
