"""What `kerneldb why` says of recordings of record_faults.py beside what mending saves, as CSV (no GPU needed).

    python benchmarks/gpu/judge_faults.py FOLDER > judged.csv

A row for each fault and recording (with stacks, without): the sentence that names it, which one that is, and its time;
what mending saves without a profiler with its quartiles, and by how much they differ; and the first rule about the
mended program, which has to be another one.
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
HEADER = (
    "fault", "recorded", "rule", "place", "says_ms", "saves_ms", "saves_low_ms", "saves_high_ms", "off_pct",
    "mended_rule", "sentence",
)  # fmt: skip
RULES = {
    "reads": {"synchronising"},
    "caches": {"allocating"},
    "loads": {"data-loading"},
    "copies": {"exposed-copies"},
    "collects": {"garbage-collection", "host-pauses"},
}
"""What each fault is called; without stacks nothing says that a pause is a collection."""


def kerneldb(*arguments: str) -> str:
    """What a command prints."""
    command = [sys.executable, "-P", "-m", "kerneldb", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def said(trace: str) -> list[dict[str, Any]]:
    """The sentences about a trace."""
    sentences: list[dict[str, Any]] = json.loads(kerneldb("why", trace, "--json"))
    return sentences


def named(sentences: list[dict[str, Any]], rules: set[str]) -> tuple[int, dict[str, Any]]:
    """The first sentence with one of the rules, and its place from 1 on; place 0 where none has."""
    for place, one in enumerate(sentences, 1):
        if one["rule"] in rules:
            return place, one
    return 0, {"rule": "", "sentence": "", "at_stake_ns": 0}


def main() -> None:
    """Ingest all, ask, print."""
    folder = Path(sys.argv[1])
    measured = json.loads((folder / "measured.json").read_text())["ms"]
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(HEADER)
    with tempfile.TemporaryDirectory() as room:
        os.environ["KERNELDB_DB"] = f"{room}/faults.duckdb"
        kerneldb("ingest", "-q", *map(str, sorted(folder.glob("*.json.gz"))))
        for name, saved in measured.items():
            for how, end in (("with stacks", ""), ("without", "-plain")):
                place, broken = named(said(f"{name}{end}"), RULES[name])
                mended = said(f"{name}-mended{end}")
                says = NANO * (broken["at_stake_ns"] or 0)
                off = 100 * (says / saved["saved"] - 1)
                figures = (f"{one:.3f}" for one in (says, saved["saved"], saved["saved_low"], saved["saved_high"]))
                other = mended[0]["rule"] if mended else ""
                row = (name, how, broken["rule"], place, *figures, f"{off:.1f}", other, broken["sentence"])
                table.writerow(row)


if __name__ == "__main__":
    main()
