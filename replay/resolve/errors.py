"""Why a recorded call cannot be rebuilt or run.

UnresolvedCallError             the call cannot be rebuilt from what was recorded
└── CallFailedError             it was rebuilt, and the operator refused it
"""

from __future__ import annotations

import enum

from kerneldb.errors import KerneldbError


class Reason(enum.StrEnum):
    """Kinds of failure, as they stand in reports."""

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
