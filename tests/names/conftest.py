"""Every kernel name of the sample traces, with its launches."""

from __future__ import annotations

import csv
import gzip
import re
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import orjson
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ACTIVITIES = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    "memcpy": "memcpy",
    "memset": "memset",
}
NAME_COLUMNS = ("Kernel Name", "Kernel_Name", "Name")
HEADER = re.compile(r'(^|,)"?(Name|Kernel Name|Kernel_Name)"?(,|$)')
# Statistics of host functions, not of kernels.
HOST_TABLES = ("hip_api_stats", "hip_domain_stats")


class Named(NamedTuple):
    """A name that a trace holds: file, kind of activity, name, number of events."""

    source: str
    kind: str
    name: str
    launches: int


def read_text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig", errors="replace")


def pytorch_names(folder: Path) -> Iterator[Named]:
    for path in sorted(folder.glob("*.json.gz")):
        document = orjson.loads(gzip.decompress(path.read_bytes()))
        counts: Counter[tuple[str, str]] = Counter()
        for event in document["traceEvents"] if isinstance(document, dict) else document:
            kind = ACTIVITIES.get(str(event.get("cat", "")).lower())
            if kind is not None and event.get("ph") == "X":
                counts[kind, event["name"]] += 1
        yield from (Named(path.name, kind, name, count) for (kind, name), count in counts.items())


def nsys_database_names(folder: Path) -> Iterator[Named]:
    for path in sorted(folder.glob("*.sqlite")):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as con:
            tables = {row[0] for row in con.execute("SELECT name FROM sqlite_master")}
            if "CUPTI_ACTIVITY_KIND_KERNEL" not in tables:
                continue
            columns = {row[1] for row in con.execute("PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")}
            for column in sorted(columns & {"demangledName", "mangledName", "shortName"}):
                query = (
                    "SELECT s.value, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k."
                    f"{column} GROUP BY 1"
                )
                yield from (Named(f"{path.name}:{column}", "kernel", name, n) for name, n in con.execute(query))


def table_names(paths: list[Path]) -> Iterator[Named]:
    for path in paths:
        lines = read_text(path).splitlines()
        start = next((index for index, line in enumerate(lines) if HEADER.search(line)), None)
        if start is None or any(table in path.name for table in HOST_TABLES):
            continue
        rows = csv.DictReader(lines[start:])
        counts = Counter(next((row[column] for column in NAME_COLUMNS if row.get(column)), "") for row in rows)
        kind = "memcpy" if "cuda_gpu_mem_" in path.name else "kernel"
        yield from (Named(path.name, kind, name, count) for name, count in counts.items() if name)


def rocprof_database_names(folder: Path) -> Iterator[Named]:
    for path in sorted(folder.glob("*.db")):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as con:
            columns = {row[1] for row in con.execute("PRAGMA table_info(rocpd_info_kernel_symbol)")}
            for column in sorted(columns & {"kernel_name", "display_name"}):
                query = f"SELECT {column}, count(*) FROM rocpd_info_kernel_symbol GROUP BY 1"
                yield from (Named(f"{path.name}:{column}", "kernel", name, n) for name, n in con.execute(query))
    for path in sorted(folder.glob("*.rpd")):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as con:
            for name, kind, count in con.execute("SELECT description, opType, count(*) FROM op GROUP BY 1, 2"):
                yield Named(path.name, "kernel", name or kind, count)


@pytest.fixture(scope="session")
def trace_names(shared_data: Path) -> list[Named]:
    """All names of kernels, copies and fills in the sample traces."""
    tables = sorted([*shared_data.rglob("*.csv"), *shared_data.rglob("*.csv.gz"), *shared_data.rglob("*ncu.log")])
    names = [
        *pytorch_names(shared_data / "pytorch"),
        *nsys_database_names(shared_data / "nsys"),
        *table_names(tables),
        *rocprof_database_names(shared_data / "rocprof"),
    ]
    assert len(names) > 900
    return names
