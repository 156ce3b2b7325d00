"""Full ingest of an Nsight Systems export against a bare ADBC read of the same columns, in one run, with peak memory.

    python benchmarks/ingest_sqlite.py EXPORT.sqlite --kernels 2000000 [--ranges 16000000]

The export (`nsys export --type sqlite`) is grown first: its kernels, copies, fills and calls are repeated with times
and correlation ids moved on, in the schema of its own version; with `--ranges`, its NVTX ranges too.
`bare ADBC read` fetches the columns that the reader
uses, table by table and without any join, and does nothing with them. `reader` is the conversion to Parquet parts:
read, link, NVTX ranges, signatures, occupancy. `whole` is the command `kerneldb ingest` into an empty warehouse, with
its start and the DuckDB commit.
`ingest_rocpd.py` does the same for rocprofv3.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

from ingest import bare_read, best, measure, report_ratios  # noqa: TID251 - the script beside this one
from kerneldb.ingest.nsys import activities, host, marks
from kerneldb.ingest.sqlite import quoted
from kerneldb.warehouse import Warehouse

READ = {
    **{table: list(schema) for table, (_, schema) in activities.TABLES.items()},
    **{table: list(host.CALL) for table in host.CALL_TABLES},
}
MOVED = {"start": "period", "end": "period", "correlationId": "span"}
READER = """
import sys, time, tempfile
from pathlib import Path
from kerneldb.ingest import Options, convert
start = time.perf_counter()
with tempfile.TemporaryDirectory(dir=Path(sys.argv[1]).parent) as folder:
    convert(Path(sys.argv[1]), Path(folder) / "spool", Options())
    print(time.perf_counter() - start)
"""


def present(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """The tables that the reader uses, as far as this export has them, with the columns that it reads."""
    found = {}
    for table, columns in READ.items():
        known = {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}
        if known:
            found[table] = [column for column in columns if column in known]
    return found


def grow(path: Path, kernels: int, ranges: int = 0) -> dict[str, list[str]]:
    """Repeat the rows of an export in place until it has so many of both; returns what the reader reads of it."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    tables = present(connection)
    columns = {table: [row[1] for row in connection.execute(f"PRAGMA table_info({quoted(table)})")] for table in tables}
    (have,) = connection.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    (period,) = connection.execute('SELECT max("end") - min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL').fetchone()
    (span,) = connection.execute("SELECT max(correlationId) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    moved = {"period": 2 * period, "span": span + 1}
    for table, names in columns.items():
        _repeat(connection, table, names, moved, -(-kernels // have) - 1)
    if ranges:
        (have,) = connection.execute("SELECT count(*) FROM NVTX_EVENTS").fetchone()
        names = [row[1] for row in connection.execute("PRAGMA table_info(NVTX_EVENTS)")]
        _repeat(connection, "NVTX_EVENTS", names, moved, -(-ranges // have) - 1)
        tables["NVTX_EVENTS"] = [column for column in ranges_read() if column in names]
    connection.commit()
    connection.close()
    return tables


def ranges_read() -> list[str]:
    """The columns of ranges that the reader reads."""
    return list(marks.EVENT)


def _repeat(connection: sqlite3.Connection, table: str, names: list[str], moved: dict[str, int], times: int) -> None:
    chosen = ", ".join(
        f"{quoted(name)} + n * {moved[MOVED[name]]}" if name in MOVED else quoted(name) for name in names
    )
    connection.execute(" ".join(("CREATE TEMP TABLE original AS SELECT * FROM", quoted(table))))
    numbers = "WITH RECURSIVE copies(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < ?)"
    parts = ("INSERT INTO", quoted(table), numbers, "SELECT", chosen, "FROM copies CROSS JOIN original")
    connection.execute(" ".join(parts), (times,))
    connection.execute("DROP TABLE original")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", type=Path, help="an export of Nsight Systems with kernels, as SQLite")
    parser.add_argument("--kernels", type=int, default=2_000_000)
    parser.add_argument("--ranges", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kerneldb-bench-") as name:
        path = Path(name) / "grown.sqlite"
        shutil.copyfile(chosen.export, path)
        tables = grow(path, chosen.kernels, chosen.ranges)
        database = Path(name) / "bench.duckdb"

        def ingest() -> list[str]:
            database.unlink(missing_ok=True)
            Warehouse.create_or_open(database)
            return [sys.executable, "-m", "kerneldb", "--db", str(database), "ingest", str(path), "-q"]

        reader = [sys.executable, "-c", READER, str(path)]
        rounds = [
            (bare_read(path, tables), measure("reader", reader, True), measure("whole", ingest(), False))
            for _ in range(chosen.repeats)
        ]
        runs = [best(list(runs)) for runs in zip(*rounds, strict=True)]
        size = path.stat().st_size
    what = f"{chosen.kernels:,} kernels" + (f" and {chosen.ranges:,} ranges" if chosen.ranges else "")
    report_ratios(what, size, runs, chosen.json)


if __name__ == "__main__":
    main()
