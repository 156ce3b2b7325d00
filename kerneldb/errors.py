"""The exceptions of kerneldb. Each class carries the exit code that the command line returns for it.

KerneldbError                     1   something failed; the message says what, where and what to do
├── UsageError                    2   the request itself is wrong
│   └── SelectionError            2   a WHERE text does not parse or names an unknown column
├── TraceError                    1   an input file
│   ├── NotATraceError            1   the file is something else; the message says what
│   ├── UnreadableTraceError      1   the file is damaged beyond repair or cannot be opened
│   └── TraceExistsError          1   a different trace has that name already
├── WarehouseError                3   the database file
│   ├── WarehouseMissingError     3   no such file
│   ├── WarehouseLockedError      3   another process holds it; `pid` says which
│   └── WarehouseVersionError     3   written by a newer kerneldb, or not a kerneldb database
├── QueryError                    1   the database refused a statement
│   └── QueryTimeoutError         4   a statement ran longer than its limit
└── GateError                     5   a check asked for with --fail-on did not pass
"""

from __future__ import annotations

import contextlib
import difflib
from pathlib import Path
from typing import TYPE_CHECKING

from kerneldb.shell import file, kerneldb

if TYPE_CHECKING:
    from collections.abc import Collection

SHOWN = 450
"""Characters of either end of a message about an input."""
NEAR = 5
"""So many near names are shown."""


class KerneldbError(Exception):
    """Base of all errors that kerneldb raises on purpose."""

    exit_code = 1


class UsageError(KerneldbError):
    """The request itself is wrong."""

    exit_code = 2


def on_one_line(text: str) -> str:
    """A foreign text with escapes for what is not printable: a name with a new line in it draws no line of its own."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def no_such(what: str, name: str, known: Collection[str]) -> UsageError:
    """The error of a name that none of `known` is, with those that are nearest; a file is to be read first."""
    with contextlib.suppress(OSError):  # too long for a file
        if what == "trace" and Path(name).is_file():
            remedy = kerneldb("ingest", file(name))
            return UsageError(f"{name} is a file, not a trace of the database: {remedy} puts it there")
    near = difflib.get_close_matches(name, known, NEAR, 0.4)
    other = "; kerneldb traces lists them" if what == "trace" and known else ""
    return UsageError(
        f"there is no {what} {name!r}" + (f"; near: {', '.join(map(on_one_line, near))}" if near else other)
    )


class SelectionError(UsageError):
    """A WHERE text does not parse, or names a column that the view `kernels` does not have."""


class TraceError(KerneldbError):
    """An input file cannot be used.

    The text quotes the file, so it is one line, with escapes for what moves a cursor, and its middle is cut if need be:
    the name of the file comes first, and the remedy last.
    """

    def __init__(self, message: str) -> None:
        line = on_one_line(message.strip())
        super().__init__(line if len(line) <= 2 * SHOWN else f"{line[:SHOWN]} … {line[-SHOWN:]}")


class NotATraceError(TraceError):
    """The file is not a trace; the message says what it is instead."""


class UnreadableTraceError(TraceError):
    """The file cannot be opened, or is damaged beyond repair."""


class TraceExistsError(TraceError):
    """Another trace of the warehouse has that name already."""


class WarehouseError(KerneldbError):
    """The database file cannot be used."""

    exit_code = 3


class WarehouseMissingError(WarehouseError):
    """No database file exists at that path."""


class WarehouseLockedError(WarehouseError):
    """Another process holds the file. `pid` is the holder's process id where the engine names it."""

    def __init__(self, message: str, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class WarehouseVersionError(WarehouseError):
    """The file was written by a newer kerneldb, or is not a kerneldb database."""


class QueryError(KerneldbError):
    """The database refused a statement."""


class QueryTimeoutError(QueryError):
    """A statement ran longer than its limit and was cancelled."""

    exit_code = 4


class GateError(KerneldbError):
    """A check that the user asked for did not pass."""

    exit_code = 5
