"""Time and size of a report: python benchmarks/report.py big.duckdb TRACE --repeats 3.

Runs the whole command `kerneldb report` in a process of its own, import and drawing included. A warehouse of one trace
of a million launches comes from `generate_warehouse.py big.duckdb --traces 1 --launches 1000000`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def measured(database: Path, trace: str, target: Path) -> float:
    """Seconds of one report."""
    command = [sys.executable, "-m", "kerneldb", "--db", str(database), "report", trace, "-o", str(target)]
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


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
            seconds = [measured(arguments.database, arguments.trace, target) for _ in range(arguments.repeats)]
            size = target.stat().st_size / 1e6
            print(f"{name}: best {min(seconds):.1f} s, worst {max(seconds):.1f} s, {size:.2f} MB")


if __name__ == "__main__":
    main()
