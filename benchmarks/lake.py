"""Time queries in a file and in a lake: python benchmarks/lake.py big.duckdb 'ducklake:postgres:…' --data FOLDER.

The file is made by generate_warehouse.py; its traces are pushed into the lake, which is made where it is missing, and
compacted. Both are asked in turn, so that other work on the machine slows both. Milliseconds until all rows are in
Arrow, best of five on a connection that is open; the limit is twice the file's time and 50 ms. Beside them the
processor's milliseconds of this process (without the server's): a busy machine adds less to those.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from warehouse_queries import QUERIES, SELECTED

import kerneldb
from kerneldb.errors import WarehouseMissingError
from kerneldb.selection import Selection
from kerneldb.warehouse import Warehouse, upkeep
from kerneldb.warehouse.place import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = 5
WAIT_S = 30.0
KEEP_HOURS = 24


def limit(file_ms: float) -> float:
    """The milliseconds that a lake may take where a file takes `file_ms`."""
    return 2 * file_ms + 50


def fill(file: Path, lake: str, data: str) -> None:
    """Make the lake where it is missing, push the traces of the file, and merge its files."""
    try:
        kerneldb.open(lake)
    except WarehouseMissingError:
        upkeep.init(Place.of(lake), data, WAIT_S)
    began = time.perf_counter()
    added = kerneldb.open(lake).copy_from(kerneldb.open(file))
    print(f"pushed {len(added.traces)} traces in {time.perf_counter() - began:.1f} s")
    began = time.perf_counter()
    print(f"{upkeep.compact(Place.of(lake), KEEP_HOURS, KEEP_HOURS, WAIT_S)} in {time.perf_counter() - began:.1f} s")


def asked() -> Iterator[tuple[str, str | None, str]]:
    """The queries: label, condition, statement."""
    for label, (sql, _) in QUERIES.items():
        yield label, None, sql
    for label, (where, sql, _) in SELECTED.items():
        yield label, where, sql


def timed(con: duckdb.DuckDBPyConnection, sql: str) -> tuple[float, float]:
    """Milliseconds of one run, and of the processor."""
    began, busy = time.perf_counter(), time.process_time()
    con.sql(sql).to_arrow_table()
    return 1e3 * (time.perf_counter() - began), 1e3 * (time.process_time() - busy)


def measure(file: Path, lake: str) -> Iterator[dict[str, Any]]:
    """All queries: best milliseconds in the file and in the lake, and what the lake may take."""
    for label, where, sql in asked():
        with contextlib.ExitStack() as stack:
            cons = [stack.enter_context(Warehouse(place).connection()) for place in (file, lake)]
            if where is not None:
                for con in cons:
                    Selection(where).bind(con)
            runs = [[timed(con, sql) for con in cons] for _ in range(RUNS + 1)][1:]
        (file_ms, file_cpu), (lake_ms, lake_cpu) = (
            map(min, zip(*times, strict=True)) for times in zip(*runs, strict=True)
        )
        found = {"file_ms": file_ms, "lake_ms": lake_ms, "limit_ms": limit(file_ms)}
        yield {"query": label, **found, "file_cpu_ms": file_cpu, "lake_cpu_ms": lake_cpu}


def main() -> None:
    """Print the table; with --json, write it too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("lake")
    parser.add_argument("--data", default="lake-data")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    fill(arguments.file, arguments.lake, arguments.data)
    print(f"duckdb {duckdb.__version__}; milliseconds")
    print(f"{'query':<44} {'file':>8} {'lake':>8} {'limit':>8} {'file cpu':>8} {'lake cpu':>8}")
    found = []
    for row in measure(arguments.file, arguments.lake):
        late = "" if row["lake_ms"] <= row["limit_ms"] else "  over"
        figures = " ".join(f"{value:8.1f}" for value in list(row.values())[1:])
        print(f"{row['query']:<44} {figures}{late}", flush=True)
        found.append(row)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"duckdb": duckdb.__version__, "rows": found}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
