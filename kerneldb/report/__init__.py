"""Reports that people send to each other: one file, every number with the query behind it.

`gather` asks and arranges, `html` and `markdown` write. Charts need the extra `report` (Altair, vl-convert).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from kerneldb.errors import KerneldbError

Format = Literal["html", "md"]
NEEDED: Final = ("altair", "vl_convert", "jinja2")
SUFFIXES: Final[dict[str, Format]] = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}


def format_of(path: Path | None) -> Format | None:
    """The format that a file name asks for."""
    return None if path is None else SUFFIXES.get(path.suffix.lower())


def require(names: Sequence[str] = NEEDED, what: str = "reports", extra: str = "report") -> None:
    """Raise KerneldbError where a library that `what` takes is missing; `extra` installs it."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise KerneldbError(f"{what} need {', '.join(missing)}: pip install 'kerneldb[{extra}]'")
