"""Recordings of `kerneldb record`: a folder with PyTorch traces, and bundle.json with what was measured.

Each trace of a recording is a trace of its own, read by the reader of PyTorch traces; the measurements and readings of
its workload are added to it. Files of a recording are known by the bundle.json beside them that names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kerneldb import recordings
from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest.readers import Head, Later, Reader
from kerneldb.recordings import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Diagnostic


def _fits(head: Head) -> bool:
    """Whether the file is a trace of the recording beside it, or the bundle.json of one, be it damaged."""
    folder, name = head.path.parent, head.path.name
    try:
        found = recordings.load(folder) if (folder / NAME).is_file() else None
    except NotATraceError:
        return False
    except UnreadableTraceError:
        return name == NAME
    return found is not None and (name == NAME or any(trace.file == name for _, trace in found.traced))


def _inside(folder: Path) -> list[Path] | None:
    """The traces of the recording in `folder`; None where there is none in it.

    Where it has none, or bundle.json is damaged, that file stands for the recording: reading it says what is wrong.
    """
    try:
        found = recordings.load(folder) if (folder / NAME).is_file() else None
    except NotATraceError:  # bundle.json of another program
        return None
    except UnreadableTraceError:
        return [folder / NAME]
    return None if found is None else recordings.present(folder, found) or [folder / NAME]


def _diagnostics(manifest: Manifest) -> Iterator[Diagnostic]:
    from kerneldb.ingest.doctor import of_pytorch

    return of_pytorch(manifest)


READER: Final = Reader("record", (), _fits, Later("bundle.convert"), _diagnostics, inside=_inside, events=True)
