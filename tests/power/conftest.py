"""Logs of nvidia-smi, made by hand."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Protocol

import polars as pl
import pytest

from kerneldb import ingest
from kerneldb.batch import Manifest
from kerneldb.ingest import Options

Rows = list[dict[str, Any]]


class Log:
    """A converted log."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.trace = manifest.trace

    def rows(self, table: str = "power_samples") -> Rows:
        """The rows of a table."""
        paths = self.manifest.parts.get(table)
        return pl.read_parquet(paths).to_dicts() if paths else []

    def column(self, name: str) -> list[Any]:
        """A column of the samples, in the order of the file."""
        return [row[name] for row in self.rows()]

    def report(self) -> dict[str, int]:
        """Reason → count."""
        return {row["reason"]: row["n"] for row in self.rows("ingest_reports")}


class Read(Protocol):
    """Writes a log and converts it; `more` are ingest options."""

    def __call__(self, content: str | bytes, name: str = "power.csv", **more: Any) -> Log: ...


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Converts logs; their times are in UTC unless said otherwise."""
    numbers = itertools.count()

    def run(content: str | bytes, name: str = "power.csv", **more: Any) -> Log:
        folder = tmp_path / f"{next(numbers)}"
        folder.mkdir()
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        (manifest,) = ingest.convert(path, folder / "spool", Options(**{"time_zone": "UTC", **more}))
        return Log(manifest)

    return run
