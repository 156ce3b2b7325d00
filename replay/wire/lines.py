"""Files of JSON lines: each line decoded on its own, and what does not fit named by file and line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from kerneldb import codec
from kerneldb.replay.errors import JournalError, PlanError


class Header(Protocol):
    """The first line of a file: what it is."""

    @property
    def format(self) -> str:
        """The name of the format."""
        ...

    @property
    def version(self) -> int:
        """Its version."""
        ...


H = TypeVar("H", bound=Header)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a file must be: its format, the newest version that is read, words for both, and the error for all else."""

    format: str
    version: int
    named: str
    error: type[PlanError | JournalError]


@contextlib.contextmanager
def naming(error: type[PlanError | JournalError], place: str, number: int) -> Iterator[None]:
    """Turn what a line is refused for into `error`, with the file and the line before it."""
    try:
        yield
    except (codec.CodecError, UnicodeDecodeError) as refused:
        said = "not UTF-8" if isinstance(refused, UnicodeDecodeError) else refused
        raise error(f"{place}: line {number}: {said}; {error.remedy(place, number)}") from refused


def numbered(path: Path, error: type[PlanError | JournalError]) -> Iterator[tuple[int, str]]:
    """The lines of a file that end, with their numbers from 1, blank ones too. A last one without an end comes too."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            with naming(error, str(path), number):
                yield number, raw.decode()


def header(kind: type[H], given: Sequence[tuple[int, str]], wanted: Wanted, place: str) -> H:
    """The first of the lines `given`. Raises the error of `wanted` where it is not of that format and version."""
    number, text = given[0] if given else (1, "")
    with naming(wanted.error, place, number):
        found = codec.parse(text)
    if not isinstance(found, dict) or found.get("format") != wanted.format:
        remedy = wanted.error.remedy(place, 1)
        raise wanted.error(f"{place}: line {number}: not {wanted.named} (no format {wanted.format!r}); {remedy}")
    with naming(wanted.error, place, number):
        read = codec.decode(kind, found)
    if read.version > wanted.version:
        raise wanted.error(
            f"{place}: line {number}: version {read.version} of {wanted.named}; this kerneldb reads up to "
            f"{wanted.version}: update it"
        )
    return read
