"""Replays the matrix products of traces that hold only names and grids, most of them of other GPUs, sample by sample.

    PYTHONPATH=. python3 benchmarks/gpu/replay_other_profilers.py SAMPLES OUT [--workers 4] [--limit-seconds 60]

Needs what `kerneldb` needs, PyTorch, a GPU, and a folder of nsys, ncu and rocprof files. Each file gets a database of
its own: `kerneldb ingest FILE`, `kerneldb replay --where "category = 'GEMM'"` with `--dry-run` and without. Files
without launches of matrix products are left. OUT/samples.json has a row per sample: exit codes, launches, seconds, and
launches and time by grade; what the commands print is in OUT/SAMPLE.txt. The exit code is 1 where a command failed or
a launch has neither grade nor reason. `--device cpu` tries it without a GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

WHERE = "category = 'GEMM'"
SUMS = """
    SELECT r.grade, coalesce(r.dims_source, 'recorded') AS found, count(DISTINCT r.signature_id) AS signatures,
        sum(r.launches) AS launches, sum(r.recorded_total_ns) AS recorded_ns,
        sum(r.mean_ns * r.launches) AS replayed_ns, count(*) FILTER (r.grade = 'L4' AND r.reason IS NULL) AS untold
    FROM replays AS r GROUP BY ALL ORDER BY ALL
"""
LAUNCHES = f"""
    SELECT any_value(device_name) AS gpu, count(*) AS launches, count(DISTINCT signature_id) AS signatures
    FROM kernels WHERE {WHERE} AND timing <> 'sum'
"""
PATIENCE_S = 200


class Sample:
    """One file, its database and what was said of it."""

    def __init__(self, path: Path, samples: Path, out: Path) -> None:
        self.path = path
        self.name = "_".join(path.relative_to(samples).parts)
        self.database = out / f"{self.name}.duckdb"
        self.text = out / f"{self.name}.txt"

    def kerneldb(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command; what it prints goes to the text of the sample."""
        line = [sys.executable, "-m", "kerneldb", command, "--db", str(self.database), *arguments]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        with self.text.open("a") as text:
            shown = " ".join(arguments).replace(str(self.path), self.path.name)
            text.write(f"$ kerneldb {command} {shown}\n{done.stdout}{done.stderr}exit code {done.returncode}\n\n")
        return done

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query; none where it failed."""
        found: list[dict[str, Any]] = json.loads(self.kerneldb("query", sql, "--json").stdout or "[]")
        return found

    def products(self) -> dict[str, Any] | None:
        """GPU, launches and signatures of matrix products; None where there is none."""
        if self.kerneldb("ingest", str(self.path), "--quiet").returncode:
            return None
        found = self.rows(LAUNCHES)
        return found[0] if found and found[0]["launches"] else None

    def replay(self, options: list[str]) -> dict[str, Any]:
        """Plan and replay them."""
        begun = time.monotonic()
        planned = self.kerneldb("replay", "--where", WHERE, "--dry-run")
        replayed = self.kerneldb("replay", "--where", WHERE, *options)
        last = replayed.stdout.strip().splitlines()[-1:] or [""]
        return {
            "sample": self.name,
            "plan_exit": planned.returncode,
            "replay_exit": replayed.returncode,
            "ends_with_total": last[0].startswith("TOTAL"),
            "seconds": round(time.monotonic() - begun, 1),
            "grades": self.rows(SUMS),
        }


def whole(sample: Sample, options: list[str]) -> dict[str, Any] | None:
    """All of one sample; None where it has no matrix products."""
    known = sample.products()
    if known is None:
        return None
    row = {**sample.replay(options), **known}
    grades = ", ".join(f"{one['launches']} x {one['grade']} {one['found']}" for one in row["grades"])
    sys.stdout.write(f"{row['seconds']:6.1f} s  exit {row['replay_exit']}  {row['gpu']}  {sample.name}: {grades}\n")
    sys.stdout.flush()
    return row


def main() -> int:
    """Every sample; those of this GPU first and alone, so that their times hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--alone", default="h200", help="part of the names of the samples of this GPU")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--limit-seconds", type=float, default=60.0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    options = ["--no-energy", "--runs", "10", "--limit-seconds", str(given.limit_seconds), "--device", given.device]
    files = [one for one in sorted(given.samples.rglob("*")) if one.is_file()]
    samples = [Sample(path, given.samples, given.out) for path in files]
    alone = [one for one in samples if given.alone in one.name]
    rows = [whole(one, options) for one in alone]
    with ThreadPoolExecutor(given.workers) as pool:
        rows += pool.map(lambda one: whole(one, options), [one for one in samples if one not in alone])
    found = [row for row in rows if row is not None]
    (given.out / "samples.json").write_text(json.dumps(found, indent=1))
    sys.stdout.write(f"{len(found)} samples with matrix products of {len(samples)} files\n")
    return int(not all(complete(row) for row in found))


def complete(row: dict[str, Any]) -> bool:
    """Whether all commands did what they should, and every launch has a grade, and a reason where it did not run."""
    graded = sum(one["launches"] for one in row["grades"])
    told = not any(one["untold"] for one in row["grades"])
    return (
        not (row["plan_exit"] or row["replay_exit"]) and row["ends_with_total"] and told and graded >= row["launches"]
    )


if __name__ == "__main__":
    sys.exit(main())
