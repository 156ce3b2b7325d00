"""One warehouse of all traces that other tools reported figures for, and a way to ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kerneldb
from tests.conftest import made_once

QUERIES = Path(__file__).parent / "queries"

Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def warehouse(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All whole traces of the collection in one file."""
    traces = sorted((shared_data / "pytorch").glob("*.json.gz"))
    return made_once(tmp_path_factory, "peers.duckdb", lambda path: kerneldb.open(path).ingest(traces))


@pytest.fixture(scope="session")
def connection(warehouse: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The file opened as any client opens it: views and macros come from the file, nothing from Python."""
    with duckdb.connect(str(warehouse), read_only=True) as connection:
        for macro in ("profiler_steps", "uses_tensor_cores"):
            connection.execute((QUERIES / f"{macro}.sql").read_text(encoding="utf-8"))
        yield connection


@pytest.fixture(scope="session")
def ask(connection: duckdb.DuckDBPyConnection) -> Ask:
    """`ask(name, **values)`: the rows of queries/<name>.sql."""

    def run(name: str, **values: object) -> list[dict[str, Any]]:
        result = connection.execute((QUERIES / f"{name}.sql").read_text(encoding="utf-8"), values)
        columns = [column[0] for column in result.description]
        return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]

    return run
