"""Fixtures of the tests of what belongs together."""

from __future__ import annotations

from pathlib import Path

import pytest

import kerneldb
from kerneldb.api import Database
from tests.keeping import Keeper


@pytest.fixture(autouse=True)
def stays_open(files_stay_open: None, keeper: Keeper) -> None:
    """Files are asked many questions here; they are opened once a test."""
    keeper.keeping = True


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """A new database."""
    return kerneldb.open(tmp_path / "kernels.duckdb")
