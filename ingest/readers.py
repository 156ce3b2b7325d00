"""Which reader takes a file, by its first bytes, and what makes one trace: a file, or several files of a capture.

The module or package of a reader has a constant `READER`. What it imports at once should be light: `fits` is asked for
every file. `Later` names functions of modules that are imported when a file is really read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kerneldb.errors import NotATraceError, TraceError, UnreadableTraceError
from kerneldb.ingest import source, sqlite
from kerneldb.ingest.source import Source

if TYPE_CHECKING:
    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Diagnostic

Progress = Callable[[int, int], None]
"""Called with (bytes read so far, bytes of the file)."""
HEAD_BYTES: Final = 1 << 18
TABLES_SHOWN: Final = 4
TRACE_MARK: Final = re.compile(rb'"traceEvents"\s*:')
EVENT_ARRAY: Final = re.compile(rb'\s*\[\s*(?:\]|\{[^{}]*"ph"\s*:)')
CONTROLS: Final = frozenset(range(0x20)) - {9, 10, 12, 13, 27}
READERS: Final = (
    "bundle",
    "xla",
    "proton",
    "nsys",
    "nvprof",
    "rocpd",
    "rocprof_csv",
    "rocprof_json",
    "rocprof_v1",
    "rpd",
    "ncu",
    "power",
    "perfetto",
)
"""Modules of kerneldb.ingest with a READER, in the order in which they are asked.

What none of them takes is a PyTorch trace, or is refused as what it is.
"""
OF_EVENTS: Final = ("bundle", "xla", "proton", "rocprof_json", "rocprof_v1")
"""Those some of whose files are JSON with `traceEvents`, as those of PyTorch: no other is imported for such a file."""


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What a user may say about a file: `phase` is the stage of a one-stage file; `run` groups the traces of one run.

    `time_zone` is that of local times in logs (None: of this machine), `date` the day of logs that lack it.
    """

    label: str | None = None
    phase: str | None = None
    name: str | None = None
    run: str | None = None
    keep_environment: bool = False
    time_zone: str | None = None
    date: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Impostor:
    """A kind of file that users give by mistake: how to recognise it, what to call it, and the remedy."""

    fits: Callable[[bytes], bool]
    what: str
    remedy: str


def _starts(*magic: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.lstrip().startswith(magic)


def _matches(pattern: bytes) -> Callable[[bytes], bool]:
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda head: compiled.match(head) is not None


EXPORT: Final = "Export one with `prof.export_chrome_trace(path)` or `tensorboard_trace_handler`."
PICKLES: Final = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
MARKUP: Final = (b"<!doctype", b"<!DOCTYPE", b"<html", b"<HTML", b"<?xml")
EXECUTION_TRACE: Final = rb'\s*\{[^\[]{0,400}"schema"\s*:\s*"\d[\w.\- ]*"'
MEMORY_TIMELINE: Final = rb"\s*\[\s*\[\s*[-\d\[]"
PARQUET: Final = (
    "Give the whole folder of `nsys export --type parquetdir`; query other Parquet files with DuckDB directly."
)
OTHER_EXPORT: Final = "If it is an export of Nsight Systems: `nsys export --type sqlite FILE.nsys-rep`."
RECORD_AGAIN: Final = "The profiler did not finish writing it; record again."
KNOWN: Final = (
    "Known are traces of the PyTorch profiler, JAX (xplane.pb), Proton and Perfetto, exports and printed reports (with "
    "their header lines) of nsys, ncu, nvprof and rocprof, and logs of nvidia-smi."
)
PROFILER_EXPORT: Final = (
    "Give one that `nsys export --type sqlite`, `rocprofv3 --output-format rocpd`, `rpd` or `nvprof -o` wrote."
)
CONSOLE: Final = re.compile(
    rb'(?:Saved report file to|Report file moved to|Exported successfully to) "|^Generating \S*nsys-report-'
    rb"|^Generated:\s+\S+\.(?:nsys-rep|qdrep)|^\[\d+/\d+\] \[=*\s*100%\] \S+\.nsys-rep",
    re.MULTILINE,
)
"""What `nsys profile` says when it has written its report file, 2020 to 2025."""
CONSOLE_REMEDY: Final = (
    "It names the report file; export that: `nsys export --type sqlite --output FILE.sqlite FILE.nsys-rep`."
)
SAVED_PAGE: Final = "Perhaps a login page was saved instead of the download."
SPREADSHEET: Final = (
    "Give the file that the profiler wrote: a spreadsheet also rounds long numbers and turns some into dates."
)
ARCHIVES: Final = tuple(f".{kind}.{way}" for kind in ("json", "sqlite") for way in ("zst", "bz2", "xz"))
HEADER_LINES: Final = 50
HEADER_BYTES: Final = 1 << 17
FEW_FIELDS: Final = 3


def _of_spreadsheet(head: bytes) -> bool:
    """Whether a header that a reader takes is there with `;` between the fields."""
    lines = head.split(b"\n", HEADER_LINES)[:HEADER_LINES]
    found = (line for line in lines if line.count(b";") >= max(FEW_FIELDS - 1, line.count(b",") + 1))
    headers = (Head(Path("file.csv"), line.replace(b";", b",") + b"\n") for line in found if len(line) < HEADER_BYTES)
    return any(reader.fits(header) for header in headers for reader in readers())


IMPOSTORS: Final = (
    Impostor(_of_spreadsheet, "CSV with `;` between the fields, as a spreadsheet saves it", SPREADSHEET),
    Impostor(lambda head: not head.strip(), "an empty file", RECORD_AGAIN),
    Impostor(sqlite.is_database, "an SQLite database that no profiler exported", PROFILER_EXPORT),
    Impostor(_starts(*MARKUP), "an HTML or XML page", SAVED_PAGE),
    Impostor(_starts(b"\x28\xb5\x2f\xfd"), "a zstd archive", "Unpack it first: `unzstd FILE`."),
    Impostor(_starts(b"BZh", b"\xfd7zXZ"), "a bz2 or xz archive", "Unpack it first."),
    Impostor(_starts(b"PAR1"), "a Parquet file", PARQUET),
    Impostor(_starts(b"\x89HDF"), "an HDF5 file", OTHER_EXPORT),
    Impostor(_starts(b"ARROW1"), "an Arrow file", OTHER_EXPORT),
    Impostor(_starts(*PICKLES), "a Python pickle (perhaps a memory snapshot)", EXPORT),
    Impostor(_starts(b"\x7fELF"), "an ELF binary", EXPORT),
    Impostor(_matches(EXECUTION_TRACE), "a PyTorch execution trace (ET)", f"It holds no times. {EXPORT}"),
    Impostor(_matches(MEMORY_TIMELINE), "a memory timeline", f"It holds no kernels. {EXPORT}"),
    Impostor(lambda head: CONSOLE.search(head) is not None, "what `nsys profile` printed on a console", CONSOLE_REMEDY),
)

OTHERS: Final = (
    Impostor(
        lambda head: re.search(rb'"cat"\s*:\s*"gpu_op"', head) is not None,
        "a trace of Intel's unitrace",
        "On Intel GPUs record with torch.profiler (ProfilerActivity.XPU).",
    ),
    Impostor(
        lambda head: re.search(rb'"name"\s*:\s*"Ascend Hardware"', head) is not None,
        "a trace of an Ascend NPU",
        "The same program on a GPU can be recorded with torch.profiler.",
    ),
)
"""Other traces with `traceEvents`: their device work has no category that torch.profiler writes, and would be lost."""


def first_bytes(source: Source) -> bytes:
    """The first bytes of a source, decompressed."""
    parts: list[bytes] = []
    with contextlib.closing(source.blocks()) as blocks:
        for block in blocks:
            parts.append(block)
            if sum(map(len, parts)) >= HEAD_BYTES:
                break
    return b"".join(parts)[:HEAD_BYTES]


def check(source: Source) -> None:
    """Raise NotATraceError where the first bytes show that `source` is something else."""
    head = first_bytes(source)
    if not head and source.damage:
        message = f"{source.label}: nothing can be read, {source.damage}. Copy or record the trace again."
        raise UnreadableTraceError(message)
    if TRACE_MARK.search(head) or EVENT_ARRAY.match(head):
        for other in OTHERS:
            if other.fits(head):
                message = f"{source.label}: this is {other.what}, which kerneldb does not read. {other.remedy}"
                raise NotATraceError(message)
        return
    sqlite.refuse_damaged(source.path, head)
    for impostor in IMPOSTORS:
        if impostor.fits(head):
            names = sorted(sqlite.names_in(source.path, head))
            shown = ", ".join(names[:TABLES_SHOWN]) + (", …" if len(names) > TABLES_SHOWN else "")
            what = impostor.what + (f" (tables {shown})" if names else "")
            message = f"{source.label}: this is {what}, not a trace. {impostor.remedy}"
            raise NotATraceError(message)
    first = head.lstrip()[:1]
    if first == b"{" and len(head) >= HEAD_BYTES:
        return
    what = "binary data of an unknown kind" if CONTROLS.intersection(head[:4096]) else "text"
    remedy = KNOWN
    if first in (b"{", b"["):
        what, remedy = "JSON without a `traceEvents` array", EXPORT
    message = f"{source.label}: this is {what}, not a trace. {remedy}"
    raise NotATraceError(message)


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """A file and its first bytes: up to 256 KiB, decompressed, as UTF-8 without a byte order mark."""

    path: Path
    data: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """The files of one trace, and the reader that takes them (None: PyTorch, or nothing that is known).

    `member` is the trace of an archive that it is; an archive without it is all of its traces.
    """

    files: tuple[Path, ...]
    reader: Reader | None = None
    problem: TraceError | None = None
    """Why nothing can be made of it."""
    member: str | None = None

    @property
    def path(self) -> Path:
        """The file or folder that messages name."""
        parents = {file.parent for file in self.files}
        return parents.pop() if len(self.files) > 1 and len(parents) == 1 else self.files[0]

    @property
    def label(self) -> str:
        """The file, the folder, or what the files of a capture in it have in common, as `runs/24228_*`."""
        if self.member is not None:
            return f"{self.path}::{self.member}"
        names = [file.name for file in self.files]
        shared = os.path.commonprefix(names) if len(names) > 1 else ""  # noqa: RUF071 (characters are what is meant)
        return str(self.path / f"{shared}*") if shared and self.path.is_dir() else str(self.path)

    @property
    def stored_bytes(self) -> int:
        """Bytes on disk, all files together; of a member of an archive, those that it takes there."""
        if self.member is not None:
            return source.sizes(self.files[0], self.member)[0]
        return sum(file.stat().st_size for file in self.files)


@dataclasses.dataclass(frozen=True, slots=True)
class Reader:
    """How one family of formats is recognised and read.

    `name`: as in `traces.source`. `endings`: files looked for in folders. `fits`: whether the reader takes a file.
    `convert`: writes the spool (a new folder below the given one); raises NotATraceError or UnreadableTraceError.
    `capture`: files with an equal key make one trace (None: alone). `whole_folder`: whether a folder is one trace.
    `diagnostics`: what `kerneldb db doctor` says beyond what it says of every trace. `inside`: the files of a folder
    that it takes as they are, each a trace, where the folder is its own (None: it is not). `unreadable`: endings of
    files that it knows and cannot read, of which `refusal` says what to give instead.
    """

    name: str
    endings: tuple[str, ...]
    fits: Callable[[Head], bool]
    convert: Callable[[Unit, Path, Options, Progress | None], Manifest]
    diagnostics: Callable[[Manifest], Iterator[Diagnostic]] | None = None
    capture: Callable[[Head], str | None] | None = None
    whole_folder: Callable[[Path], bool] | None = None
    inside: Callable[[Path], list[Path] | None] | None = None
    unreadable: tuple[str, ...] = ()
    refusal: Callable[[Head], TraceError] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Later:
    """A function of kerneldb.ingest that is imported when it is called: `rpd.convert` is `convert` in its module."""

    module: str

    def __call__(self, *arguments: Any) -> Any:
        """Import the module and call its function of the same name."""
        module = importlib.import_module(f"kerneldb.ingest.{self.module}")
        return getattr(module, self.module.rpartition(".")[2])(*arguments)


@functools.cache
def readers() -> tuple[Reader, ...]:
    """All readers beside that of PyTorch traces."""
    return tuple(map(_reader, READERS))


def _reader(module: str) -> Reader:
    found: Reader = importlib.import_module(f"kerneldb.ingest.{module}").READER
    return found


def head_of(path: Path) -> Head:
    """The head of the file. Raises UnreadableTraceError where it cannot be opened."""
    return Head(path, first_bytes(source.Source(path)))


def find(head: Head) -> Reader | None:
    """The first reader that takes the file."""
    events_only = head.data.lstrip()[:1] == b"{" and TRACE_MARK.search(head.data) is not None
    if _of_spreadsheet(head.data):
        return None
    return next((reader for reader in map(_reader, OF_EVENTS if events_only else READERS) if reader.fits(head)), None)


def of_folder(folder: Path) -> Reader | None:
    """The reader for which the folder as a whole is one trace."""
    return next((one for one in readers() if one.whole_folder is not None and one.whole_folder(folder)), None)


def inside(folder: Path) -> list[Path] | None:
    """The traces of a folder that some reader knows; None where it is to be searched."""
    found = (one.inside(folder) for one in readers() if one.inside is not None)
    return next((files for files in found if files is not None), None)


def unreadable() -> tuple[str, ...]:
    """Endings of files that some reader knows and cannot read, and of traces in archives that are not opened."""
    return (*(ending for reader in readers() for ending in reader.unreadable), *ARCHIVES)


def refused(path: Path) -> TraceError | None:
    """Why a file with such an ending cannot be read, and what to do; None where nothing speaks against it."""
    try:
        head = head_of(path)
        if (reader := next((one for one in readers() if path.name.endswith(one.unreadable)), None)) and reader.refusal:
            return reader.refusal(head)
        check(source.Source(path))
    except TraceError as error:
        return error
    return None


def endings() -> tuple[str, ...]:
    """Endings of files that some reader looks for in folders."""
    return tuple(dict.fromkeys(ending for reader in readers() for ending in reader.endings))
