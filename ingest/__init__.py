"""Readers: one per family of formats, from files to a spool of Parquet parts. They know no database.

`expand` turns what a user typed into files, `plan` files into units of one trace each, `convert` a unit into finished
manifests, `diagnose` explains what a trace lacks. Heavy libraries are imported when a file is really read.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.ingest import readers
from kerneldb.ingest.readers import Options, Progress, Unit

if TYPE_CHECKING:
    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Diagnosis

__all__ = ["Options", "Progress", "Unit", "convert", "diagnose", "expand", "plan", "trace_keys"]

ENDINGS: Final = (".json", ".json.gz", ".json.tmp", ".zip")


def expand(paths: Iterable[Path]) -> list[Path]:
    """The files behind `paths`: files as given, folders searched for traces in order of name, each file once.

    A folder that is one trace stays as it is. Raises UnreadableTraceError for a path that is not there,
    NotATraceError for a folder without any candidate.
    """
    return list(dict.fromkeys(file for path in paths for file in _behind(path)))


def plan(files: Iterable[Path]) -> list[Unit]:
    """What makes one trace each, in the order of its first file. What cannot be opened is a unit of its own."""
    units: dict[tuple[str, str], Unit] = {}
    for file in files:
        key, unit = _unit(file)
        before = units.get(key)
        units[key] = unit if before is None else Unit((*before.files, *unit.files), unit.reader)
    return list(units.values())


def _unit(path: Path) -> tuple[tuple[str, str], Unit]:
    alone = ("", str(path))
    if path.is_dir():
        inside = tuple(file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.startswith("."))
        return alone, Unit(inside, readers.of_folder(path))
    try:
        head = readers.head_of(path)
    except UnreadableTraceError:
        return alone, Unit((path,))
    reader = readers.find(head)
    capture = None if reader is None or reader.capture is None else reader.capture(head)
    return alone if reader is None or capture is None else (reader.name, capture), Unit((path,), reader)


def _behind(path: Path) -> list[Path]:
    if not path.exists():
        message = f"{path}: no such file or folder. Give a trace file or a folder of traces."
        raise UnreadableTraceError(message)
    if not path.is_dir():
        return [path]
    looked_for = tuple(dict.fromkeys((*ENDINGS, *readers.endings())))
    files = list(_walk(path, looked_for, set()))
    if not files:
        message = f"{path}: no trace in this folder (looked for {', '.join(looked_for)})."
        raise NotATraceError(message)
    return files


def _walk(folder: Path, looked_for: tuple[str, ...], seen: set[Path]) -> Iterator[Path]:
    """Traces below `folder`, each folder once: links may lead back to one that was `seen`."""
    if folder.resolve() in seen:
        return
    seen.add(folder.resolve())
    if readers.of_folder(folder) is not None:
        yield folder
        return
    known = readers.inside(folder)
    if known is not None:
        yield from known
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _walk(path, looked_for, seen)
        elif path.is_file() and path.name.endswith(looked_for) and not path.name.startswith("."):
            yield path


def convert(what: Path | Unit, folder: Path, options: Options, progress: Progress | None = None) -> list[Manifest]:
    """Convert the trace of a unit (each trace of a zip archive) into spools below `folder`.

    `progress` is called with (bytes read, bytes of the files). Raises NotATraceError, saying what the file is instead,
    or UnreadableTraceError; nothing but `folder` is written.
    """
    unit = what if isinstance(what, Unit) else _unit(what)[1]
    if unit.reader is not None:
        with _translated(unit.label):
            return [unit.reader.convert(unit, folder / "000", options, progress)]
    from kerneldb.ingest import readers, source
    from kerneldb.ingest.pytorch import convert as pytorch

    manifests = []
    for number, one in enumerate(source.sources(unit.files[0])):
        readers.check(source.Source(one.path, one.member))
        with _translated(one.label):
            manifests.append(pytorch.convert(one, folder / f"{number:03d}", options, progress))
    return manifests


@contextlib.contextmanager
def _translated(label: str) -> Iterator[None]:
    """A value that no reader expected costs its own file only; lack of memory and interrupts pass."""
    import csv

    from polars.exceptions import PolarsError

    odd = (PolarsError, csv.Error, ValueError, ArithmeticError, AttributeError, TypeError, KeyError, RecursionError)
    try:
        yield
    except odd as error:
        first = next(iter(str(error).splitlines()), "")
        message = (
            f"{label}: cannot be read ({type(error).__name__}: {first}). "
            "Please report it with what `kerneldb doctor` prints for the file."
        )
        raise UnreadableTraceError(message) from error


def trace_keys(what: Path | Unit) -> list[str]:
    """The trace ids that a unit would get, from its decompressed bytes alone."""
    from kerneldb.ids import content_id
    from kerneldb.ingest import source

    unit = what if isinstance(what, Unit) else _unit(what)[1]
    if unit.reader is None:
        return [content_id("t1", source.digest(one)) for one in source.sources(unit.files[0])]
    return [content_id("t1", *sorted(source.digest(source.Source(file)) for file in unit.files))]


def diagnose(path: Path) -> list[Diagnosis]:
    """What each trace in `path` lacks and how to record a better one. Raises what `convert` raises."""
    from kerneldb.ingest.doctor import diagnose_manifest, of_launches, of_pytorch

    unit = _unit(path)[1]
    of_reader = of_pytorch if unit.reader is None else unit.reader.diagnostics or of_launches
    with tempfile.TemporaryDirectory(prefix="kerneldb-doctor-") as folder:
        return [diagnose_manifest(manifest, of_reader) for manifest in convert(unit, Path(folder), Options())]
