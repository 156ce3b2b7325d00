"""Time and size of a report: python benchmarks/report.py big.duckdb TRACE --repeats 3.

Runs the whole command `kerneldb report` in a process of its own, import and drawing included. Processor seconds tell
more than the clock where other programs run. The first report of a machine also bundles the library that draws, which
is kept in ~/.cache/kerneldb; the best of several does not. A warehouse of one trace of a million launches comes from
`generate_warehouse.py big.duckdb --traces 1 --launches 1000000`.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def measured(database: Path, trace: str, target: Path) -> tuple[float, float]:
    """Seconds of one report: by the clock, and of all processors together."""
    command = [sys.executable, "-m", "kerneldb", "--db", str(database), "report", trace, "-o", str(target)]
    began, used = time.perf_counter(), processor_seconds()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began, processor_seconds() - used


def processor_seconds() -> float:
    """What all processes that were waited for have used."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", type=Path)
    parser.add_argument("trace")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("report.html", "report.md"):
            target = Path(folder) / name
            runs = [measured(arguments.database, arguments.trace, target) for _ in range(arguments.repeats)]
            walls, used = zip(*runs, strict=True)
            size = target.stat().st_size / 1e6
            print(
                f"{name}: best {min(walls):.1f} s, worst {max(walls):.1f} s, {min(used):.1f} processor s, {size:.2f} MB"
            )


if __name__ == "__main__":
    main()
