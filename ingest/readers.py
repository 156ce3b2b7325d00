"""The readers, in the order in which they are asked, and what makes one trace: a file, or several files of a capture.

The module or package of a reader has a constant `READER`. What it imports at once should be light: `fits` is asked for
every file. `Later` names functions of modules that are imported when a file is really read.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kerneldb.ingest import detect, source
from kerneldb.ingest.options import Options, Progress

if TYPE_CHECKING:
    from kerneldb.batch import Manifest
    from kerneldb.ingest.doctor import Diagnostic

NAMES: Final = (
    "bundle",
    "nsys",
    "nvprof",
    "rocpd",
    "rocprof_csv",
    "rocprof_json",
    "rocprof_v1",
    "rpd",
    "ncu",
    "power",
)
"""Modules of kerneldb.ingest with a READER. What none of them takes is a PyTorch trace, or is refused as what it is."""


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """A file and its first bytes: up to 256 KiB, decompressed, as UTF-8 without a byte order mark."""

    path: Path
    data: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """The files of one trace, and the reader that takes them (None: PyTorch, or nothing that is known)."""

    files: tuple[Path, ...]
    reader: Reader | None = None

    @property
    def path(self) -> Path:
        """The file or folder that messages name."""
        parents = {file.parent for file in self.files}
        return parents.pop() if len(self.files) > 1 and len(parents) == 1 else self.files[0]

    @property
    def label(self) -> str:
        """The file, the folder, or what the files of a capture in it have in common, as `runs/24228_*`."""
        names = [file.name for file in self.files]
        shared = os.path.commonprefix(names) if len(names) > 1 else ""  # noqa: RUF071 (characters are what is meant)
        return str(self.path / f"{shared}*") if shared and self.path.is_dir() else str(self.path)

    @property
    def stored_bytes(self) -> int:
        """Bytes on disk, all files together."""
        return sum(file.stat().st_size for file in self.files)


@dataclasses.dataclass(frozen=True, slots=True)
class Reader:
    """How one family of formats is recognised and read.

    `name`: as in `traces.source`. `endings`: files looked for in folders. `fits`: whether the reader takes a file.
    `convert`: writes the spool (a new folder below the given one); raises NotATraceError or UnreadableTraceError.
    `capture`: files with an equal key make one trace (None: alone). `whole_folder`: whether a folder is one trace.
    `diagnostics`: what `kerneldb doctor` says beyond what it says of every trace. `inside`: the files of a folder that
    it takes as they are, each a trace, where the folder is its own (None: it is not). `events`: whether some of its
    files are JSON with `traceEvents`, as those of PyTorch.
    """

    name: str
    endings: tuple[str, ...]
    fits: Callable[[Head], bool]
    convert: Callable[[Unit, Path, Options, Progress | None], Manifest]
    diagnostics: Callable[[Manifest], Iterator[Diagnostic]] | None = None
    capture: Callable[[Head], str | None] | None = None
    whole_folder: Callable[[Path], bool] | None = None
    inside: Callable[[Path], list[Path] | None] | None = None
    events: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Later:
    """A function of `kerneldb.ingest.<module>`, which is imported when it is called."""

    module: str
    function: str

    def __call__(self, *arguments: Any) -> Any:
        """Import the module and call the function."""
        return getattr(importlib.import_module(f"kerneldb.ingest.{self.module}"), self.function)(*arguments)


@functools.cache
def readers() -> tuple[Reader, ...]:
    """All readers beside that of PyTorch traces."""
    return tuple(importlib.import_module(f"kerneldb.ingest.{name}").READER for name in NAMES)


def head_of(path: Path) -> Head:
    """The head of the file. Raises UnreadableTraceError where it cannot be opened."""
    return Head(path, detect.head_of(source.Source(path)))


def find(head: Head) -> Reader | None:
    """The first reader that takes the file."""
    events_only = head.data.lstrip()[:1] == b"{" and detect.TRACE_MARK.search(head.data) is not None
    return next((reader for reader in readers() if (reader.events or not events_only) and reader.fits(head)), None)


def of_folder(folder: Path) -> Reader | None:
    """The reader for which the folder as a whole is one trace."""
    return next((one for one in readers() if one.whole_folder is not None and one.whole_folder(folder)), None)


def inside(folder: Path) -> list[Path] | None:
    """The traces of a folder that some reader knows; None where it is to be searched."""
    found = (one.inside(folder) for one in readers() if one.inside is not None)
    return next((files for files in found if files is not None), None)


def endings() -> tuple[str, ...]:
    """Endings of files that some reader looks for in folders."""
    return tuple(dict.fromkeys(ending for reader in readers() for ending in reader.endings))
