"""Errors of a recording; each message says what to do."""

from __future__ import annotations

from kerneldb.errors import KerneldbError, UsageError


class RecordError(KerneldbError):
    """The recording cannot start or go on: no PyTorch, no such device, out of memory, a script that failed."""


class UnknownModelError(UsageError):
    """No such model; the message names near ones."""


class StageError(KerneldbError):
    """One stage cannot be recorded in one mode; the others go on."""
