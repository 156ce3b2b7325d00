"""Fixtures of the reader tests."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.ingest.conversion import Content, Converted, as_bytes, convert_file

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.ingest import Options


class Convert(Protocol):
    """Writes `content` to a file called `name` and converts it."""

    def __call__(self, content: Content, name: str = "trace.json", options: Options | None = None) -> Converted: ...


@pytest.fixture
def convert(tmp_path: Path) -> Convert:
    """Converts traces, each in a folder of its own."""
    numbers = itertools.count()

    def run(content: Content, name: str = "trace.json", options: Options | None = None) -> Converted:
        folder = tmp_path / f"{next(numbers)}"
        folder.mkdir()
        path = folder / name
        path.write_bytes(as_bytes(content))
        return convert_file(path, folder / "spool", options)

    return run
