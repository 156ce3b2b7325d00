"""Full ingest of a rocpd database against a bare ADBC read of the same columns, in one run, with peak memory.

    python benchmarks/ingest_rocpd.py --dispatches 2000000

The database is grown first: every dispatch has its event, its HIP call and the event of that, as rocprofv3 writes them
with `--kernel-trace --hip-trace`. `bare ADBC read` fetches, table by table and without any join, the columns that the
reader uses, and does nothing with them. `kerneldb` is the whole command into an empty warehouse that is there before:
start, read, link, names, DuckDB commit.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ingest import bare_read, best, measure, report_ratios  # noqa: TID251 - the script beside this one
from kerneldb.warehouse import Warehouse

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.rocprof.databases import GUID, TENSILE_GEMM, Kernel, Process, views

KERNELS = 300
STREAMS = 4
READ = {
    "rocpd_kernel_dispatch": "nid pid tid agent_id kernel_id queue_id stream_id start end private_segment_size "
    "group_segment_size workgroup_size_x workgroup_size_y workgroup_size_z grid_size_x grid_size_y grid_size_z "
    "region_name_id event_id",
    "rocpd_region": "nid pid tid name_id start end event_id",
    "rocpd_event": "id stack_id correlation_id category_id",
}


def grow(path: Path, dispatches: int) -> int:
    """Write a database with so many dispatches; returns its size in bytes."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    process = Process(connection)
    for number in range(KERNELS):
        name = TENSILE_GEMM.replace("MT128x128x32", f"MT{16 * (1 + number % 16)}x{16 * (1 + number // 16)}x32")
        process.symbol(Kernel(name, (1, 1, 1), (1, 1, 1), [], vgpr=8 * (1 + number % 32)))
    for stream in range(1, STREAMS):
        process.insert("rocpd_info_stream", id=stream, nid=1, pid=process.pid, name=f"Stream {stream}")
    _fill(process, dispatches)
    views(connection, [process.suffix])
    connection.commit()
    connection.close()
    return path.stat().st_size


def _fill(process: Process, dispatches: int) -> None:
    launch, call = process.text("KERNEL_DISPATCH"), process.text("HIP_RUNTIME_API_EXT")
    name, none = process.text("hipExtModuleLaunchKernel"), process.text("")
    place = (1, process.pid, process.pid)
    events = ((2 * n + side, (launch, call)[side], n + 1, n + 1, 0, "{}") for n in range(dispatches) for side in (0, 1))
    _insert(process, "rocpd_event", "id category_id stack_id parent_stack_id correlation_id extdata", events)
    regions = ((*place, 20_000 * n, 20_000 * n + 4_000, name, 2 * n + 1, "{}") for n in range(dispatches))
    _insert(process, "rocpd_region", "nid pid tid start end name_id event_id extdata", regions)
    columns = READ["rocpd_kernel_dispatch"] + " dispatch_id extdata"
    _insert(process, "rocpd_kernel_dispatch", columns, _dispatches(place, dispatches, none))


def _dispatches(place: tuple[int, int, int], dispatches: int, none: int) -> Iterator[tuple[object, ...]]:
    rnd = random.Random(7)
    for n in range(dispatches):
        kernel = rnd.randrange(KERNELS)
        start = 20_000 * n + 9_000
        sizes = (128, 1, 1, 128 * (1 + kernel), 1 + kernel % 7, 1)
        facts = (1, kernel + 1, 1, kernel % STREAMS, start, start + rnd.randrange(2_000, 90_000), 0, 512 * (kernel % 9))
        yield (*place, *facts, *sizes, none, 2 * n, n + 1, "{}")


def _insert(process: Process, table: str, columns: str, rows: Iterator[tuple[object, ...]]) -> None:
    names = columns.split()
    listed, marks = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
    sql = f'INSERT INTO "{table}{process.suffix}" ({listed}) VALUES ({marks})'  # noqa: S608 - names of this file
    process.connection.executemany(sql, rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dispatches", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kerneldb-bench-") as name:
        path = Path(name) / "grown_results.db"
        size = grow(path, chosen.dispatches)
        suffix = "_" + GUID.replace("-", "_")
        tables = {table + suffix: columns.split() for table, columns in READ.items()}
        database = Path(name) / "bench.duckdb"

        def ingest() -> list[str]:
            database.unlink(missing_ok=True)
            Warehouse.create_or_open(database)
            return [sys.executable, "-m", "kerneldb", "--db", str(database), "ingest", str(path), "-q"]

        runs = [
            best([bare_read(path, tables) for _ in range(chosen.repeats)]),
            best([measure("kerneldb ingest", ingest(), False) for _ in range(chosen.repeats)]),
        ]
    report_ratios(f"{chosen.dispatches:,} dispatches", size, runs, chosen.json)


if __name__ == "__main__":
    main()
