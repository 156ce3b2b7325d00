"""How far match names join the profilers' spellings, and what they join wrongly.

`python tests/counters/join_names.py FOLDER` prints JSON; FOLDER holds traces in `pytorch`, `nsys` and `ncu`.
"""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
import sys
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from kerneldb.names import match_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Names = dict[str, set[str]]
"""Printed kernel names by the file they stand in."""

KERNEL_TABLE = "SELECT name FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'"
IN_DATABASE = """
    SELECT DISTINCT s.value
    FROM CUPTI_ACTIVITY_KIND_KERNEL AS k INNER JOIN StringIds AS s ON s.id = k.demangledName
"""


def text_of(path: Path) -> str:
    """The text of a file, decompressed."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig", errors="replace")


def kineto(folder: Path) -> Names:
    """Names in PyTorch traces."""
    found: Names = {}
    for path in sorted((folder / "pytorch").glob("*.json.gz")):
        document = orjson.loads(gzip.decompress(path.read_bytes()))
        events = document["traceEvents"] if isinstance(document, dict) else document
        found[path.name] = {event["name"] for event in events if str(event.get("cat")).lower() == "kernel"}
    return found


def printed(paths: Iterable[Path], column: str) -> Names:
    """Names in the column `column` of printed tables, behind whatever stands before their header."""
    return {path.name: set(_printed(path, column)) for path in paths}


def _printed(path: Path, column: str) -> Iterator[str]:
    lines = text_of(path).splitlines()
    start = next((index for index, line in enumerate(lines) if column in line.replace('"', "").split(",")), len(lines))
    yield from (row[column] for row in csv.DictReader(lines[start:]) if row.get(column))


def nsys(folder: Path) -> Names:
    """Names in sums and databases of Nsight Systems."""
    found = printed(sorted((folder / "nsys").glob("*kern_*sum.csv*")), "Name")
    for path in sorted((folder / "nsys").glob("*.sqlite")):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as con:
            if con.execute(KERNEL_TABLE).fetchone() is not None:
                found[path.name] = {name for (name,) in con.execute(IN_DATABASE)}
    return found


def ncu(folder: Path) -> Names:
    """Names in pages of Nsight Compute."""
    files = [path for path in (folder / "ncu").rglob("*") if path.name.endswith((".csv", ".csv.gz", ".log"))]
    return printed(sorted(files), "Kernel Name")


def joined(names: Names, others: Names) -> int:
    """How many of the names have a match name that one of the others has too."""
    known = {match_name(name) for name in union(others)}
    return sum(match_name(name) in known for name in union(names))


def union(names: Names) -> set[str]:
    """All names of all files."""
    return set().union(*names.values())


def merged(names: set[str]) -> int:
    """How many match names stand for several of the names."""
    groups = defaultdict(set)
    for name in names:
        groups[match_name(name)].add(name)
    return sum(len(group) > 1 for group in groups.values())


def measure(folder: Path) -> dict[str, int]:
    """Figures of the sample traces. In one file two names are two kernels, so each merge there is a false one."""
    by_tool = {"kineto": kineto(folder), "nsys": nsys(folder), "ncu": ncu(folder)}
    report = {name: names for name, names in by_tool["ncu"].items() if name.startswith("kernel_00")}
    sums = {name: names for name, names in by_tool["nsys"].items() if name.startswith("dsocr_all-stage")}
    return {
        **{f"{tool}_names": len(union(names)) for tool, names in by_tool.items()},
        "report_names": len(union(report)),
        "report_names_in_sums": joined(report, sums),
        "sum_names": len(union(sums)),
        "sum_names_merged": merged(union(sums)),
        "ncu_names_in_kineto": joined(by_tool["ncu"], by_tool["kineto"]),
        "nsys_names_in_kineto": joined(by_tool["nsys"], by_tool["kineto"]),
        "ncu_names_in_nsys": joined(by_tool["ncu"], by_tool["nsys"]),
        "merged_in_one_file": sum(merged(names) for tool in by_tool.values() for names in tool.values()),
        "merged_across_kineto_files": merged(union(by_tool["kineto"])),
    }


def main() -> None:
    """Print the figures of the folder named on the command line."""
    sys.stdout.write(json.dumps(measure(Path(sys.argv[1])), indent=1) + "\n")


if __name__ == "__main__":
    main()
