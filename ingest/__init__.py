"""Readers: one per family of formats, from files to a spool of Parquet parts. They know no database.

`expand` turns what a user typed into files, `plan` files into units of one trace each, `convert` a unit into finished
manifests, `diagnose` explains what a trace lacks. Heavy libraries are imported when a file is really read.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import lzma
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb import limits
from kerneldb.errors import KerneldbError, NotATraceError, TraceError, UnreadableTraceError
from kerneldb.files import printed
from kerneldb.ingest import readers
from kerneldb.ingest.readers import Options, Progress, Unit

if TYPE_CHECKING:
    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Diagnosis

__all__ = ["Options", "Progress", "Unit", "convert", "diagnose", "expand", "guarded", "left_out", "plan", "trace_keys"]

PANIC: Final = "PanicException"
"""What a fault of polars raises: no Exception, so that nobody catches it by chance."""
DAMAGED: Final = (UnicodeError, csv.Error, struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile, EOFError)
"""What only bytes raise that no writer wrote."""
EXPORTED: Final = (".sqlite", ".sqlite.gz", "_pqtdir")
"""How exports are called beside the report that they are of."""
ENDINGS: Final = (".json", ".json.gz", ".json.tmp", ".zip")


def expand(paths: Iterable[Path]) -> list[Path]:
    """The files behind `paths`: files as given, folders searched for traces in order of name, each file once.

    A folder that is one trace stays as it is. Raises UnreadableTraceError for a path that is not there,
    NotATraceError for a folder without any candidate.
    """
    found = dict[Path, None]()
    for path in paths:
        with guarded(str(path)):
            found |= dict.fromkeys(_behind(path))
    return list(found)


def plan(files: Iterable[Path]) -> list[Unit]:
    """What makes one trace each, in the order of its first file. What cannot be opened is a unit of its own."""
    units: dict[tuple[str, str], Unit] = {}
    for file in files:
        key, unit = _unit(file)
        before = units.get(key)
        units[key] = unit if before is None else Unit((*before.files, *unit.files), unit.reader)
    return [one for unit in units.values() for one in _members(unit)]


def _members(unit: Unit) -> list[Unit]:
    """The traces of an archive, each for itself, so that one that is damaged costs itself; else the unit."""
    from kerneldb.ingest import source

    if unit.reader is not None or unit.problem is not None:
        return [unit]
    try:
        with guarded(unit.label):
            names = dict.fromkeys(one.member for one in source.sources(unit.files[0]))
    except (TraceError, OSError):  # its conversion says the same
        return [unit]
    return [dataclasses.replace(unit, member=name) for name in names]


def _unit(path: Path) -> tuple[tuple[str, str], Unit]:
    alone = ("", str(path))
    try:
        with guarded(str(path)):
            return _known(path, alone)
    except TraceError as error:
        return alone, Unit((path,), problem=error)


def _known(path: Path, alone: tuple[str, str]) -> tuple[tuple[str, str], Unit]:
    if path.is_dir():
        inside = tuple(file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.startswith("."))
        return alone, Unit(inside, readers.of_folder(path))
    head = readers.head_of(path)
    reader = readers.find(head)
    capture = None if reader is None or reader.capture is None else reader.capture(head)
    return alone if reader is None or capture is None else (reader.name, capture), Unit((path,), reader)


def _behind(path: Path) -> list[Path]:
    if not path.exists():
        from kerneldb.ingest import source

        raise source.absent(path, "file or folder")
    if not path.is_dir():
        return [path]
    looked_for = tuple(dict.fromkeys((*ENDINGS, *readers.endings())))
    files = list(_walk(path, looked_for, set()))
    if not files:
        message = f"{path}: no trace in this folder (looked for {', '.join(looked_for)})."
        raise NotATraceError(message)
    return files


def _walk(folder: Path, looked_for: tuple[str, ...], seen: set[Path], depth: int = 0) -> Iterator[Path]:
    """Traces below `folder`, each folder once: links may lead back to one that was `seen`."""
    limits.DEPTH.check(depth, "folders in {} folders")
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
            yield from _walk(path, looked_for, seen, depth + 1)
        elif path.is_file() and path.name.endswith(looked_for) and not path.name.startswith("."):
            yield path


def left_out(paths: Iterable[Path]) -> list[TraceError]:
    """Why files below the folders among `paths` cannot be read though their profiler is known, and what to do.

    `expand` passes them over. Those whose export lies beside them lack nothing.
    """
    endings = readers.unreadable()
    below = (file for path in paths if path.is_dir() for file in _files(path) if file.name.endswith(endings))
    found = (file for file in dict.fromkeys(below) if file.is_file() and not _is_exported(file, endings))
    return [error for file in found if (error := readers.refused(file)) is not None]


def _is_exported(file: Path, endings: tuple[str, ...]) -> bool:
    """Whether an export, or the file unpacked, lies beside it."""
    stem = next(file.name.removesuffix(ending) for ending in endings if file.name.endswith(ending))
    return any(file.with_name(name).exists() for name in (*(stem + one for one in EXPORTED), file.stem))


def _files(folder: Path) -> Iterator[Path]:
    """What is no folder below a folder, in order of name; each folder once, and no deeper than traces are searched."""
    seen = {folder.resolve()}
    for here, folders, names in os.walk(folder, followlinks=True):
        inner = {one: real for one in sorted(folders) if (real := Path(here, one).resolve()) not in seen}
        seen.update(inner.values())
        folders[:] = inner if len(Path(here).relative_to(folder).parts) < limits.DEPTH.usual else ()
        yield from (Path(here, name) for name in sorted(names) if not name.startswith("."))


def convert(what: Path | Unit, folder: Path, options: Options, progress: Progress | None = None) -> list[Manifest]:
    """Convert the trace of a unit (each trace of a zip archive) into spools below `folder`.

    `progress` is called with (bytes read, bytes of the files). Raises NotATraceError, saying what the file is instead,
    or UnreadableTraceError; nothing but `folder` is written.
    """
    unit = what if isinstance(what, Unit) else _unit(what)[1]
    if unit.problem is not None:
        raise unit.problem
    if unit.reader is not None:
        with guarded(unit.label):
            return [unit.reader.convert(unit, folder / "000", options, progress)]
    from kerneldb.ingest import readers, source
    from kerneldb.ingest.pytorch import convert as pytorch

    manifests = []
    with guarded(unit.label):
        found = source.sources(unit.files[0], unit.member)
    for number, one in enumerate(found):
        with guarded(one.label):
            readers.check(source.Source(one.path, one.member))
            manifests.append(pytorch.convert(one, folder / f"{number:03d}", options, progress))
    return manifests


@contextlib.contextmanager
def guarded(label: str) -> Iterator[None]:
    """Whatever reading a file raises costs that file only; errors on purpose, of the system, and interrupts pass."""
    try:
        yield
    except (KerneldbError, OSError):
        raise
    except limits.ExceededError as error:
        message = f"{label}: {error}"
        raise UnreadableTraceError(message) from error
    except MemoryError as error:
        message = f"{label}: reading it takes more memory than there is. {limits.MEMORY.variable} limits it earlier."
        raise UnreadableTraceError(message) from error
    except RecursionError as error:
        message = f"{label}: nested more deeply than any profiler writes it, so it is damaged or no trace."
        raise UnreadableTraceError(message) from error
    except UnicodeEncodeError as error:
        raise _unwritable(label, error) from error
    except DAMAGED as error:
        message = f"{label}: damaged ({next(iter(str(error).splitlines()), '')}). Copy or record it again."
        raise UnreadableTraceError(message) from error
    except Exception as error:
        raise _unforeseen(label, error) from error
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise _unforeseen(label, error) from error


def _unwritable(label: str, error: UnicodeEncodeError) -> UnreadableTraceError:
    """Where a text cannot be written, the name of the file may be why: the file itself is whole."""
    what = "damaged" if printed(label) == label else "its path is not UTF-8"
    remedy = "Copy or record it again." if printed(label) == label else "Rename the file, or the folder that it is in."
    return UnreadableTraceError(f"{label}: {what} ({error}). {remedy}")


def _unforeseen(label: str, error: BaseException) -> UnreadableTraceError:
    first = next(iter(str(error).splitlines()), "")
    return UnreadableTraceError(
        f"{label}: cannot be read ({type(error).__name__}: {first}). "
        "Please report it with what `kerneldb db doctor` prints for the file."
    )


def trace_keys(what: Path | Unit) -> list[str]:
    """The trace ids that a unit would get, from its decompressed bytes alone."""
    from kerneldb.ids import content_id
    from kerneldb.ingest import source

    unit = what if isinstance(what, Unit) else _unit(what)[1]
    if unit.reader is None:
        return [content_id("t1", source.digest(one)) for one in source.sources(unit.files[0], unit.member)]
    return [content_id("t1", *sorted(source.digest(source.Source(file)) for file in unit.files))]


def diagnose(path: Path) -> list[Diagnosis]:
    """What each trace in `path` lacks and how to record a better one. Raises what `convert` raises."""
    from kerneldb.ingest.doctor import diagnose_manifest, of_launches, of_pytorch

    unit = _unit(path)[1]
    of_reader = of_pytorch if unit.reader is None else unit.reader.diagnostics or of_launches
    with tempfile.TemporaryDirectory(prefix="kerneldb-doctor-") as folder:
        return [diagnose_manifest(manifest, of_reader) for manifest in convert(unit, Path(folder), Options())]
