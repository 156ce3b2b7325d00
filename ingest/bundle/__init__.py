"""Recordings of `kerneldb record`: a folder with PyTorch traces, and bundle.json with what was measured.

Each trace of a recording is a trace of its own, read by the reader of PyTorch traces; the measurements and readings of
its workload are added to it. Files of a recording are known by the bundle.json beside them that names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest.readers import Head, Later, Reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Diagnostic
    from kerneldb.recordings import Recording

NAME: Final = "bundle.json"
"""That of `kerneldb.recordings`, which few files need: to import it takes longer than to know a file."""


def _fits(head: Head) -> bool:
    """Whether the file is a trace of the recording beside it, or the bundle.json of one, be it damaged."""
    folder, name = head.path.parent, head.path.name
    try:
        found = _recording(folder)
    except NotATraceError:
        return False
    except UnreadableTraceError:
        return name == NAME
    return found is not None and (name == NAME or any(trace.file == name for _, trace in found.traced))


def _inside(folder: Path) -> list[Path] | None:
    """The traces of the recording in `folder`; None where there is none in it.

    Where it has none, or bundle.json is damaged, that file stands for the recording: reading it says what is wrong.
    """
    from kerneldb import recordings

    try:
        found = _recording(folder)
    except NotATraceError:  # bundle.json of another program
        return None
    except UnreadableTraceError:
        return [folder / NAME]
    return None if found is None else recordings.present(folder, found) or [folder / NAME]


def _recording(folder: Path) -> Recording | None:
    """What bundle.json in `folder` says, if it is there. Raises NotATraceError and UnreadableTraceError."""
    if not (folder / NAME).is_file():
        return None
    from kerneldb import recordings

    return recordings.load(folder)


def _diagnostics(manifest: Manifest) -> Iterator[Diagnostic]:
    from kerneldb.ingest.doctor import of_pytorch

    return of_pytorch(manifest)


READER: Final = Reader("record", (), _fits, Later("bundle.convert"), _diagnostics, inside=_inside)
