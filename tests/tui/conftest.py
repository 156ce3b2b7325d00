"""Fixtures of the tests of the screens."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kerneldb
from tests.conftest import made_once


@pytest.fixture(scope="session")
def trace_database(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one trace, `step`: a training step on an H200. Read only."""
    trace = root / "tests" / "fixtures" / "train-step-h200.json.gz"
    return made_once(tmp_path_factory, "tui.duckdb", lambda path: kerneldb.open(path).ingest(trace, name="step"))


@pytest.fixture
def database(trace_database: Path, tmp_path: Path) -> Path:
    """A copy of `trace_database`, to change."""
    return Path(shutil.copy(trace_database, tmp_path / "k.duckdb"))
