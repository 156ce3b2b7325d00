"""A warehouse of the gfx1151 document: torch.compile's three kernels, and the HIP kernel before and after matching."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.warehouse import Warehouse
from tests.conftest import made_once
from tests.rocprof import databases

N = 8192
GEMM = "name LIKE 'Cijk%' OR name LIKE '%scaled_mm%'"


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three traces, without notes. Read only."""

    def make(path: Path) -> None:
        folder, database = tmp_path_factory.mktemp("gfx1151"), kerneldb.open(path)
        database.ingest(databases.torch_gemm(folder / "torch8192.db"), name="torch")
        database.ingest(databases.hip_gemm(folder / "hip8192.db"), name="hip")
        database.ingest(databases.hip_gemm(folder / "hip8192_matched.db", matched=True), name="hip_matched")

    return made_once(tmp_path_factory, "gfx1151.duckdb", make)


@pytest.fixture(scope="session")
def read(recorded: Path) -> Iterator[Database]:
    """The same, kept open, to read only."""
    with Warehouse(recorded).connection():
        yield kerneldb.open(recorded)
    Warehouse(recorded).release()


@pytest.fixture
def database(recorded: Path, tmp_path: Path) -> Database:
    """A copy of it, to change."""
    return kerneldb.open(shutil.copy(recorded, tmp_path / "k.duckdb"))


@pytest.fixture(scope="session")
def noted(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """The traces with the work of each kernel noted: 2 N^3 operations, fp8 in and fp16 out, fp16 in and out."""
    path = Path(shutil.copy(recorded, tmp_path_factory.mktemp("noted") / "k.duckdb"))
    found = kerneldb.open(path)
    found.annotate(GEMM, {"flops": f"2*{N}^3", "role": "gemm"}, author="document")
    found.annotate(f"name = '{databases.CAST}'", {"bytes": f"3*{N}^2"}, author="document")
    found.annotate(f"name = '{databases.EPILOGUE}'", {"bytes": f"4*{N}^2"}, author="document")
    return found
