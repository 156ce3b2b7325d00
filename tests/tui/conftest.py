"""Fixtures of the tests of the screens."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

import kerneldb
from kerneldb.tui import early_keys
from tests.conftest import made_once
from tests.tui.odd_traces import found_operators, sums_only
from tests.tui.piloting import lasting

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def application() -> Iterator[None]:
    """One application for all flows that are `driven`."""
    with lasting():
        yield


@pytest.fixture(scope="session", autouse=True)
def patient_keys() -> Iterator[None]:
    """Keys wait for what takes them as long as a busy machine needs to open it."""
    with mock.patch.object(early_keys, "HOLD_S", 60.0):
        yield


@pytest.fixture(scope="session")
def trace_database(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one trace, `step`: a training step on an H200. Read only."""
    trace = root / "tests" / "fixtures" / "train-step-h200.json.gz"
    return made_once(tmp_path_factory, "tui.duckdb", lambda path: kerneldb.open(path).ingest(trace, name="step"))


@pytest.fixture
def database(trace_database: Path, tmp_path: Path) -> Path:
    """A copy of `trace_database`, to change."""
    return Path(shutil.copy(trace_database, tmp_path / "k.duckdb"))


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of `found_operators`. Read only."""
    return made_once(tmp_path_factory, "found.duckdb", lambda path: found_operators(path.parent).rename(path))


@pytest.fixture(scope="session")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of `sums_only`: s:gemm:1: (100 ns) and s:gemm:2: (200 ns) without single launches. Read only."""
    return made_once(tmp_path_factory, "reported.duckdb", lambda path: sums_only(path.parent).rename(path))
