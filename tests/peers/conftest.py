"""Warehouses of all traces that other tools reported figures for, and a way to ask them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kerneldb
from tests.conftest import made_once

LARGE = {
    "bloom-560m",
    "hta-nccl",
    "hta-ns-resolution-rank0",
    "kineto-tb-resnet50-workers0",
    "tracelens-h100-qwen1.5-0.5b",
}
"""Traces of most of the time; what asks for them is marked `thorough`."""
QUERIES = Path(__file__).parent / "queries"

Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def ask(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """`ask(name, trace=…, **values)`: the rows of queries/<name>.sql, asked of the warehouse that has the trace."""
    traces = sorted((shared_data / "pytorch").glob("*.json.gz"))
    with contextlib.ExitStack() as open_files:

        @functools.cache
        def connection(large: bool) -> duckdb.DuckDBPyConnection:
            """The file opened as any client opens it: views and macros come from the file, nothing from Python."""
            mine = [path for path in traces if (path.name.removesuffix(".json.gz") in LARGE) is large]
            name = "large-peers.duckdb" if large else "peers.duckdb"
            made = made_once(tmp_path_factory, name, lambda path: kerneldb.open(path).ingest(mine))
            opened = open_files.enter_context(duckdb.connect(str(made), read_only=True))
            for macro in ("profiler_steps", "uses_tensor_cores"):
                opened.execute((QUERIES / f"{macro}.sql").read_text(encoding="utf-8"))
            return opened

        def run(name: str, **values: object) -> list[dict[str, Any]]:
            query = (QUERIES / f"{name}.sql").read_text(encoding="utf-8")
            result = connection(values["trace"] in LARGE).execute(query, values)
            columns = [column[0] for column in result.description]
            return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]

        yield run


def by_size(traces: Iterable[str]) -> list[Any]:
    """Traces as cases of tests."""
    return [pytest.param(one, marks=pytest.mark.thorough) if one in LARGE else one for one in traces]
