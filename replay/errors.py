"""Errors of a replay run. None of them concerns a single item: those are graded L4, with the reason, in the journal."""

from __future__ import annotations

from kerneldb.errors import KerneldbError, UsageError


class ReplayError(KerneldbError):
    """The run cannot start or go on: no PyTorch, no such device, or a worker that keeps dying."""


class JournalError(KerneldbError):
    """The file is no replay journal, or a line of it is damaged."""


class JournalExistsError(UsageError):
    """There is a journal at that path already, and the run was not asked to resume it."""
