"""Recordings of `kerneldb record`: a folder with PyTorch traces, and bundle.json with what was measured.

Each trace of a recording is a trace of its own, read by the reader of PyTorch traces; the measurements and readings of
its stage are added to it. Files of a recording are known by the bundle.json beside them that names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kerneldb.ingest.readers import Head, Reader, Unit

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.batch import Manifest
    from kerneldb.ingest.options import Options, Progress

NAME: Final = "bundle.json"


def _fits(head: Head) -> bool:
    if not (head.path.parent / NAME).is_file():
        return False
    from kerneldb.ingest.bundle import content

    return content.belongs(head.path)


def _inside(folder: Path) -> list[Path] | None:
    if not (folder / NAME).is_file():
        return None
    from kerneldb.ingest.bundle import content

    return content.traces_in(folder)


def _convert(unit: Unit, folder: Path, options: Options, progress: Progress | None) -> Manifest:
    from kerneldb.ingest.bundle.convert import convert

    return convert(unit.files[0], folder, options, progress)


READER: Final = Reader("record", (), _fits, _convert, inside=_inside, events=True)
