"""Records models, replays their kernels with energy and compares the sums with the models, in one go on one board.

    python benchmarks/gpu/measure_reconciliation.py FOLDER [--seconds 10] [--energy-seconds 75] [--models gpt2]

Energy differs from board to board by several percent, so recording and replay must run on the same one. Needs what
`kerneldb` needs, with PyTorch and transformers. Ends with `reconciliation.csv` and `reconciliation.json` in FOLDER,
beside recordings and database. `--tiny` tries it on a CPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

RUNS: dict[str, str] = {
    "bloom-560m": "--batch 64 --prompt 1536 --new-tokens 8 --workloads decode",
    "llama-2-7b": "--batch 1 --prompt 4000 --new-tokens 8 --workloads prefill,decode --cuda-graphs",
    "gpt2": "--batch 16 --prompt 1024 --workloads train --dtype bfloat16",
}
TINY = ("--tiny", "--device", "cpu", "--batch", "1", "--prompt", "16", "--new-tokens", "2", "--seconds", "0.3")


def kerneldb(folder: Path, *arguments: str) -> str:
    """Run a command; returns what it printed. Its notes go to this script's stderr."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "kerneldb", "--db", str(folder / "books.duckdb"), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(f"{' '.join(arguments[:4])}: exit code {done.returncode} after {time.monotonic() - begun:.0f} s\n")
    return done.stdout


def record(folder: Path, model: str, *, tiny: bool, seconds: float) -> None:
    """Record a model into the folder and the database."""
    wanted = RUNS[model].replace(" --cuda-graphs", "") if tiny else f"{RUNS[model]} --seconds {seconds}"
    kerneldb(folder, "record", model, *wanted.split(), *(TINY if tiny else ()), "--output", str(folder / model))


def eager_traces(folder: Path) -> list[str]:
    """Traces whose kernels have operators: those that can be replayed."""
    sql = "SELECT name FROM traces WHERE has_shapes AND name NOT LIKE '%cuda-graph' ORDER BY name"
    return [row["name"] for row in json.loads(kerneldb(folder, "query", sql, "--json") or "[]")]


def main() -> int:
    """Do it all; returns 1 where no workload could be closed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", nargs="+", default=list(RUNS), choices=list(RUNS))
    parser.add_argument("--seconds", type=float, default=10.0, help="measured time per workload and mode")
    parser.add_argument("--energy-seconds", type=float, default=75.0, help="energy budget per trace")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for model in given.models:
        record(given.folder, model, tiny=given.tiny, seconds=given.seconds)
    device = ("--device", "cpu") if given.tiny else ()
    for trace in eager_traces(given.folder):
        options = ("--until-time", "99%", "--energy-seconds", str(given.energy_seconds), *device)
        kerneldb(given.folder, "replay", "--trace", trace, *options)
    for layout in ("csv", "json"):
        (given.folder / f"reconciliation.{layout}").write_text(
            kerneldb(given.folder, "analyze", "reconciliation", "--format", layout)
        )
    columns = "model, workload, mode, busy_share_pct, error_pct, energy_error_pct, dynamic_error_pct"
    rows = kerneldb(given.folder, "query", f"SELECT {columns} FROM reconciliation ORDER BY ALL")
    sys.stdout.write(rows)
    return 0 if rows.strip() else 1


if __name__ == "__main__":
    sys.exit(main())
