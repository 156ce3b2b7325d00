"""Fixtures of the tests of what belongs together."""

from __future__ import annotations

from pathlib import Path

import pytest

import kerneldb
from kerneldb.api import Database


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """A new database."""
    return kerneldb.open(tmp_path / "kernels.duckdb")
