"""The command line. A command parses, calls `kerneldb.api` and prints; nothing else happens here.

stdout carries data only; progress, notes and errors go to stderr. Exit codes are those of `kerneldb.errors`, 2 for a
wrong call and 130 for Ctrl-C. Nothing heavy is imported until a command needs it.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from kerneldb.cli import process
from kerneldb.cli.root import cli

__all__ = ["cli", "main"]

for _module in pkgutil.iter_modules(__path__):  # each adds its commands to the program or to a group of it
    if _module.name != "docs":
        importlib.import_module(f"{__name__}.{_module.name}")


def main() -> None:
    """Entry point of the program `kerneldb`."""
    process.run(functools.partial(cli, prog_name="kerneldb"))
