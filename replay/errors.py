"""Errors of a replay run. None of them concerns a single item: those are graded L4, with the reason, in the journal."""

from __future__ import annotations

from typing import Final

from kerneldb.codec import printable
from kerneldb.errors import KerneldbError, UsageError

FAILURES: Final = (KerneldbError, RuntimeError, ValueError, TypeError, LookupError, MemoryError, AttributeError)
"""What operators raise where a call cannot be built or run."""
LINE: Final = 200


class ReplayError(KerneldbError):
    """The run cannot start or go on: no PyTorch, no such device, or a worker that keeps dying."""


class PlanError(KerneldbError):
    """The file is no replay plan, one of a newer kerneldb, or a line of it is damaged."""

    remedy = "write the plan again"


class JournalError(KerneldbError):
    """The file is no replay journal, or a line of it is damaged."""

    remedy = "replay again, or copy the journal again"


class JournalExistsError(UsageError):
    """There is a journal at that path already, and the run was not asked to resume it."""


def first_line(error: BaseException) -> str:
    """One line for the journal: our own reasons as they are, other errors with their class."""
    lines = str(error).splitlines()
    first = printable(lines[0], LINE) if lines else ""
    return first if isinstance(error, KerneldbError) else f"{type(error).__name__}: {first}".removesuffix(": ")
