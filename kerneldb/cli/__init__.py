"""The command line. A command parses, calls `kerneldb.api` and prints; nothing else happens here.

stdout carries data only; progress, notes and errors go to stderr. Exit codes are those of `kerneldb.errors`, 2 for a
wrong call and 130 for Ctrl-C. Nothing heavy is imported until a command needs it, and of the
commands only the one that is called.
"""

from __future__ import annotations

import functools

from kerneldb.cli import process
from kerneldb.cli.root import cli

__all__ = ["cli", "main"]


def main() -> None:
    """Entry point of the program `kerneldb`."""
    process.run(functools.partial(cli, prog_name="kerneldb"))
