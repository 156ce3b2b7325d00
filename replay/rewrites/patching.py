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
MARK: Final = "CHANGES: list[dict[str, Any]] = []\n"


def text(changes: Sequence[Mapping[str, Any]], about: str) -> str:
    """The patch with these changes; `about` is its first line."""
    runtime = resources.files(__package__).joinpath("patch_runtime.py").read_text(encoding="utf-8")
    first, _, rest = runtime.partition("\n")
    del first
    listed = pprint.pformat([dict(one) for one in changes], width=110, sort_dicts=False)
    return f"# {about}\n" + rest.replace(MARK, f"CHANGES: list[dict[str, Any]] = {listed}\n")


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
