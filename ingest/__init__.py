"""Readers: one per format, from a file to a spool of Parquet parts. They know no database.

`expand` turns what a user typed into files, `convert` turns a file into finished manifests, `diagnose` explains what
a trace lacks. Heavy libraries are imported when a file is really read.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest.options import Options, Progress

if TYPE_CHECKING:
    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Diagnosis

__all__ = ["Options", "Progress", "convert", "diagnose", "expand", "trace_keys"]

ENDINGS: Final = (".json", ".json.gz", ".json.tmp", ".zip")


def expand(paths: Iterable[Path]) -> list[Path]:
    """The files behind `paths`: files as given, folders searched for traces in order of name, each file once.

    Raises UnreadableTraceError for a path that is not there, NotATraceError for a folder without any candidate.
    """
    found: dict[Path, None] = {}
    for path in paths:
        found.update(dict.fromkeys(_folder(path) if path.is_dir() else [_file(path)]))
    return list(found)


def _file(path: Path) -> Path:
    if not path.exists():
        message = f"{path}: no such file or folder. Give a trace file or a folder of traces."
        raise UnreadableTraceError(message)
    return path


def _folder(folder: Path) -> list[Path]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and _is_candidate(path)]
    if not files:
        message = f"{folder}: no trace in this folder (looked for {', '.join(ENDINGS)})."
        raise NotATraceError(message)
    return files


def _is_candidate(path: Path) -> bool:
    return path.name.endswith(ENDINGS) and not path.name.startswith(".")


def convert(path: Path, folder: Path, options: Options, progress: Progress | None = None) -> list[Manifest]:
    """Convert the trace in `path` (each trace of a zip archive) into spools below `folder`.

    `progress` is called with (bytes read, bytes of the file). Raises NotATraceError, saying what the file is instead,
    or UnreadableTraceError; nothing but `folder` is written.
    """
    from kerneldb.ingest import detect, source
    from kerneldb.ingest.pytorch import convert as pytorch

    manifests = []
    for number, one in enumerate(source.sources(path)):
        detect.check(source.Source(one.path, one.member))
        with _translated(one.label):
            manifests.append(pytorch.convert(one, folder / f"{number:03d}", options, progress))
    return manifests


@contextlib.contextmanager
def _translated(label: str) -> Iterator[None]:
    """A value that no reader expected costs its own file only; lack of memory and interrupts pass."""
    from polars.exceptions import PolarsError

    odd = (PolarsError, ValueError, OverflowError, AttributeError, TypeError, KeyError, RecursionError)
    try:
        yield
    except odd as error:
        message = (
            f"{label}: cannot be read ({type(error).__name__}: {error}). "
            "Please report it with what `kerneldb doctor` prints for the file."
        )
        raise UnreadableTraceError(message) from error


def trace_keys(path: Path) -> list[str]:
    """The trace ids that `path` would get, from its decompressed bytes alone."""
    from kerneldb.ids import content_id
    from kerneldb.ingest import source

    keys = []
    for one in source.sources(path):
        with contextlib.closing(one.blocks()) as blocks:
            for _ in blocks:
                pass
        keys.append(content_id("t1", one.sha256))
    return keys


def diagnose(path: Path) -> list[Diagnosis]:
    """What each trace in `path` lacks and how to record a better one. Raises what `convert` raises."""
    from kerneldb.ingest.doctor import diagnose_manifest

    with tempfile.TemporaryDirectory(prefix="kerneldb-doctor-") as folder:
        return [diagnose_manifest(manifest) for manifest in convert(path, Path(folder), Options())]
