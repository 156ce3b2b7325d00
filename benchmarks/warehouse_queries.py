"""Time the queries that must be fast: python benchmarks/warehouse_queries.py /tmp/big.duckdb.

The file is made by generate_warehouse.py. Prints milliseconds until all rows are in Arrow: of the first run on a fresh
connection, and of the best of five after it.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from kerneldb.selection import Selection
from kerneldb.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = 5
ONE_TRACE = "WHERE trace = 'run-42'"
OVERVIEWS = {
    "top_kernels": "top_kernels()",
    "categories": "time_by('category')",
    "families": "time_by('category, family, library')",
    "libraries": "time_by('library')",
    "operations": "time_by('category, operation, dtype')",
    "operators": "time_by('op, inferred_by')",
    "phases": "time_by('phase')",
    "signature_stats": "signature_stats()",
    "signature_quantiles": "signature_quantiles",
    "gpu_time": "gpu_time()",
    "stream_time": "stream_time()",
}
QUERIES = {
    "launches": ("SELECT count(*) FROM launches", None),
    "top_kernels, all traces": ("FROM top_kernels()", 150),
    "top_kernels, first ten": ("FROM top_kernels() LIMIT 10", 150),
    "by op": ("SELECT op, sum(duration_ns) FROM kernels GROUP BY 1", 1500),
    "kernels, one trace": ("SELECT category, sum(duration_ns) FROM kernels WHERE trace = 'run-42' GROUP BY 1", 50),
    "window of 10 ms": (
        "SELECT short_name, duration_ns FROM kernels WHERE trace = 'run-42' AND start_ns BETWEEN 5e8 AND 5.1e8",
        50,
    ),
    **{f"{label}, one trace": (f"FROM {asked} {ONE_TRACE}", 50) for label, asked in OVERVIEWS.items()},
    "categories, all traces": ("FROM time_by('category')", None),
    "signature_stats, all traces": ("FROM signature_stats()", None),
    "matches of one signature": (
        "FROM signature_matches WHERE signature_id = (SELECT min(signature_id) FROM signatures)",
        None,
    ),
}
SELECTED = {
    "top_kernels('selection'), GEMM of one trace": (
        "trace = 'run-42' AND category = 'GEMM'",
        "FROM top_kernels('selection')",
        50,
    ),
    "top_kernels('selection'), GEMM of all": ("category = 'GEMM'", "FROM top_kernels('selection')", None),
}


def timings(con: duckdb.DuckDBPyConnection, sql: str) -> tuple[float, float, int]:
    """Milliseconds of the first run, of the best of the next ones, and the number of rows."""
    found = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        rows = con.sql(sql).to_arrow_table().num_rows
        found.append(1e3 * (time.perf_counter() - began))
    return found[0], min(found[1:]), rows


def measure(path: Path) -> Iterator[tuple[str, float, float, int, int | None]]:
    """All queries: label, first and best milliseconds, rows, and the limit that holds for 10 M launches on 2 cores."""
    warehouse = Warehouse.open(path)
    for label, (sql, limit) in QUERIES.items():
        with warehouse.connection() as con:
            yield (label, *timings(con, sql), limit)
    for label, (where, sql, limit) in SELECTED.items():
        with warehouse.connection() as con:
            Selection(where).bind(con)
            yield (label, *timings(con, sql), limit)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    arguments = parser.parse_args()
    print(f"duckdb {duckdb.__version__}; milliseconds")
    print(f"{'query':<44} {'first':>8} {'best':>8} {'limit':>6} {'rows':>8}")
    for label, first, best, rows, limit in measure(arguments.path):
        print(f"{label:<44} {first:8.1f} {best:8.1f} {limit or '':>6} {rows:8,}")


if __name__ == "__main__":
    main()
