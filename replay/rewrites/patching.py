"""Writes a patch: a Python file that needs nothing but torch, and can be read before it is run."""

from __future__ import annotations

import pprint
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kerneldb.errors import UsageError

NAME: Final = "changed_program"
FIRST: Final = "# What was found to pay: read ABOUT and CHANGES before you run it.\n"
MARK: Final = "CHANGES: list[dict[str, Any]] = []\n"


def text(changes: Sequence[Mapping[str, Any]], about: str) -> str:
    """The patch with these changes, which says `about` what. Names in it are in literals of ASCII, for a patch is run.

    In a comment a line break would begin a statement, and in the first two lines a name could choose the encoding.
    """
    runtime = resources.files(__package__).joinpath("patch_runtime.py").read_text(encoding="utf-8")
    listed = pprint.pformat([dict(one) for one in changes], width=110, sort_dicts=False)
    found = f"ABOUT = {about!a}\nCHANGES: list[dict[str, Any]] = {_ascii(listed)}\n"
    return FIRST + runtime.partition("\n")[2].replace(MARK, found)


def _ascii(literals: str) -> str:
    """Literals of Python with escapes for what is not ASCII."""
    return literals.encode("ascii", "backslashreplace").decode()


def load(path: Path) -> ModuleType:
    """The patch at `path` as a module. Raises UsageError where it is none."""
    made = sys.modules[NAME] = ModuleType(NAME)  # where a compiler looks for its functions
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(made))  # noqa: S102 (the user's file)
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"{path}: not a patch of kerneldb improve ({error})") from error
    if not hasattr(made, "apply") or not hasattr(made, "run"):
        raise UsageError(f"{path}: not a patch of kerneldb improve; write one with: kerneldb improve --patch FILE")
    return made
