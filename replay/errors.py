"""Errors of a replay run. None of them concerns a single item: those are graded L4, with the reason, in the journal.

Why a recorded call cannot be rebuilt or run.

UnresolvedCallError             the call cannot be rebuilt from what was recorded
└── CallFailedError             it was rebuilt, and the operator refused it
"""

from __future__ import annotations

import enum
from typing import Final

from kerneldb.codec import printable
from kerneldb.errors import KerneldbError, UsageError
from kerneldb.shell import command_line, file

FAILURES: Final = (KerneldbError, RuntimeError, ValueError, TypeError, LookupError, MemoryError, AttributeError)
"""What operators raise where a call cannot be built or run."""
LINE: Final = 200


class ReplayError(KerneldbError):
    """The run cannot start or go on: no PyTorch, no such device, or a worker that keeps dying."""


class PlanError(KerneldbError):
    """The file is not a replay plan, or one of a newer kerneldb, or a line of it is damaged."""

    @classmethod
    def remedy(cls, _place: str, _number: int) -> str:
        """What to do about any line of any such file."""
        return "write the plan again"


class JournalError(KerneldbError):
    """The file is not a replay journal, or a line of it is damaged."""

    @classmethod
    def remedy(cls, place: str, number: int) -> str:
        """What to do about the line of that number of the file at `place`.

        A line beyond the header says what became of one item, which a replay that goes on runs again without it.
        """
        if number == 1:
            return "give the file that --journal named, or replay from the start, without --resume"
        without = command_line(("sed", "-i", f"{number}d", file(place)))
        return f"copy the journal again, or do without what this line says: {without}"


class JournalExistsError(UsageError):
    """There is a journal at that path already, and the run was not asked to resume it."""


def first_line(error: BaseException) -> str:
    """One line for the journal: our own reasons as they are, other errors with their class."""
    lines = str(error).splitlines()
    first = printable(lines[0], LINE) if lines else ""
    return first if isinstance(error, KerneldbError) else f"{type(error).__name__}: {first}".removesuffix(": ")


class Reason(enum.StrEnum):
    """Kinds of failure, as reports show them."""

    NO_OPERATOR = "no such operator here"
    NO_INPUTS = "inputs not recorded"
    NO_OVERLOAD = "no overload with this arity and these types"
    UNREADABLE = "recorded arguments unreadable"
    LIST_DROPPED = "list of more than 30 entries, dropped by the profiler"
    INDICES = "index tensors leave no trace in the child calls"
    TEXT = "text argument not recorded"
    OPAQUE = "argument of a type the profiler does not record"
    DTYPE = "dtype unknown here"
    REFUSED = "the operator refused the rebuilt call"
    MEMORY = "out of memory"
    MODULE = "module not importable"
    SOURCE = "source of the kernel"


class UnresolvedCallError(KerneldbError):
    """The call cannot be rebuilt. `reason` is one of `Reason`, `detail` names the argument or quotes the cause."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
        self.reason = reason
        self.detail = detail


class CallFailedError(UnresolvedCallError):
    """The operator raised an error, quoted in `detail` (first line)."""
