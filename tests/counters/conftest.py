"""A database to fill by hand, and one with the Nsight samples."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.warehouse import Warehouse
from tests.conftest import made_once
from tests.counters.captures import Captures

Row = dict[str, Any]
SAMPLES = frozenset({"samples", "samples_of_nsys"})


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the samples, which take seconds to make, tests ask what others ask of captures made by hand."""
    for item in items:
        if SAMPLES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.thorough)


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "kernels.duckdb"
    Warehouse.create_or_open(path)
    return path


@pytest.fixture
def warehouse(empty_file: Path, tmp_path: Path) -> Iterator[Warehouse]:
    """A new warehouse. Traces that are added one after the other share an engine, as in one call of ingest."""
    new = Warehouse(shutil.copy(empty_file, tmp_path), lock_timeout=0.5)
    with new.batch():
        yield new


@pytest.fixture
def capture(tmp_path: Path) -> Captures:
    """Makes captures by hand."""
    return Captures(tmp_path / "spools")


@pytest.fixture(scope="session")
def samples(shared_data: Path, deepseek_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The DeepSeek-OCR set (20 pages of details, kernel sums), a decoder block on an H200 (raw page and PyTorch)."""

    def make(path: Path) -> None:
        database, ncu = kerneldb.open(shutil.copy(deepseek_file, path)), shared_data / "ncu"
        warehouse = Warehouse.open(path)
        warehouse.set_run(warehouse.traces()["trace"].to_pylist(), "deepseek-ncu")
        database.ingest([shared_data / "nsys" / "dsocr_all-stage_cuda_gpu_kern_sum.csv"], run="deepseek-nsys")
        database.ingest([ncu / "h200-decoder-raw.csv.gz", ncu / "h200-decoder-details.csv.gz"], run="h200")
        database.ingest([shared_data / "pytorch" / "bloom-560m.json.gz"])

    database = kerneldb.open(made_once(tmp_path_factory, "nsight.duckdb", make))
    with Warehouse(database.path).connection():  # a file that is open need not be opened for every question
        yield database


@pytest.fixture(scope="session")
def samples_of_nsys(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """All text exports of one report of Nsight Systems, in one run."""
    exports = sorted((shared_data / "nsys").glob("nsightful_*.csv.gz"))
    made = made_once(tmp_path_factory, "exports.duckdb", lambda path: kerneldb.open(path).ingest(exports))
    return Warehouse.open(made)
