"""Fixtures of the tests of the screens."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kerneldb


@pytest.fixture(scope="session")
def trace_database(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one trace, `step`: a training step on an H200. Read only."""
    path = tmp_path_factory.mktemp("tui") / "k.duckdb"
    kerneldb.open(path).ingest(root / "tests" / "fixtures" / "train-step-h200.json.gz", name="step")
    return path


@pytest.fixture(scope="session")
def two_traces(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the traces `before` and `after`. Read only."""
    path = tmp_path_factory.mktemp("tui") / "two.duckdb"
    database = kerneldb.open(path)
    database.ingest(root / "tests" / "fixtures" / "train-step-h200.json.gz", name="before")
    database.ingest(sorted((root / "tests" / "fixtures").glob("*h100*.json.gz"))[:1], name="after")
    return path


@pytest.fixture
def database(trace_database: Path, tmp_path: Path) -> Path:
    """A copy of `trace_database`, to change."""
    return Path(shutil.copy(trace_database, tmp_path / "k.duckdb"))
