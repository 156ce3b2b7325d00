"""Fixtures of the command-line tests."""

from __future__ import annotations

import contextlib
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.warehouse import Warehouse
from tests.conftest import made_once


@pytest.fixture
def runner() -> CliRunner:
    """Runs commands in this process, with stdout and stderr apart."""
    return CliRunner()


@pytest.fixture
def full_disk() -> Callable[[int], contextlib.AbstractContextManager[None]]:
    """Files that are written meanwhile may have so many bytes only, as on a disk that is nearly full."""

    @contextlib.contextmanager
    def limited(most_bytes: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture(scope="session")
def small_trace(root: Path) -> Path:
    """A training step recorded on an H200."""
    return root / "tests" / "fixtures" / "train-step-h200.json.gz"


@pytest.fixture(scope="session")
def shared_database(small_trace: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A database with one trace named `step`. Read only."""
    tags = {"precision": "bf16"}
    path = made_once(
        tmp_path_factory, "step.duckdb", lambda draft: kerneldb.open(draft).ingest(small_trace, name="step", tags=tags)
    )
    with Warehouse(path).connection():  # a file that is open need not be opened for every command
        yield path


@pytest.fixture
def database(shared_database: Path, tmp_path: Path) -> Path:
    """A copy of the database, to change."""
    return Path(shutil.copy(shared_database, tmp_path / "k.duckdb"))
