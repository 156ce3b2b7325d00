"""What `kerneldb why` says of recordings of record_faults.py beside what mending saves, as CSV (no GPU needed).

    python benchmarks/gpu/judge_faults.py FOLDER > judged.csv

A row for each fault and recording (with stacks, without): the first sentence's rule, time and line, what mending saves
without a profiler with its quartiles, and by how much they differ. The second rule says that the mended program is
another one.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NANO = 1e-6


def kerneldb(*arguments: str) -> str:
    """What a command prints."""
    command = [sys.executable, "-P", "-m", "kerneldb", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def first(trace: str) -> dict[str, Any]:
    """The first sentence about a trace; empty where nothing stands out."""
    said = json.loads(kerneldb("why", trace, "--json"))
    return said[0] if said else dict.fromkeys(("rule", "sentence"), "") | {"at_stake_ns": 0}


def main() -> None:
    """Ingest all, ask, print."""
    folder = Path(sys.argv[1])
    measured = json.loads((folder / "measured.json").read_text())["ms"]
    table = csv.writer(sys.stdout)
    table.writerow(
        ("fault", "recorded", "rule", "says_ms", "saves_ms", "saves_low_ms", "saves_high_ms", "off_pct", "mended_rule",
         "sentence")
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        os.environ["KERNELDB_DB"] = f"{place}/faults.duckdb"
        kerneldb("ingest", "-q", *map(str, sorted(folder.glob("*.json.gz"))))
        for name, saved in measured.items():
            for how, end in (("with stacks", ""), ("without", "-plain")):
                broken, mended = first(f"{name}{end}"), first(f"{name}-mended{end}")
                says = NANO * broken["at_stake_ns"]
                off = 100 * (says / saved["saved"] - 1)
                figures = (f"{one:.3f}" for one in (says, saved["saved"], saved["saved_low"], saved["saved_high"]))
                table.writerow((name, how, broken["rule"], *figures, f"{off:.1f}", mended["rule"], broken["sentence"]))


if __name__ == "__main__":
    main()
