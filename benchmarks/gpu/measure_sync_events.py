"""What it costs to record waits of streams and of the host (`cuda_sync` events): the same recording with and without.

    PYTHONPATH=. python3 benchmarks/gpu/measure_sync_events.py OUT [TURNS]

A decoder of 8 layers, made call by call: the host is the limit, so that what the profiler does in each call shows. In
TURNS (3) turns; of each trace the shortest and the median step, bytes, and how many such events it has, and how many of
these say which stream is waited for. 25 s a turn.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

MODEL = (
    "llama-2-7b", "--layers", "8", "--new-tokens", "4", "--workloads", "decode", "--iterations", "8", "--trace-only",
)  # fmt: skip
RECORD = """
import sys
from kerneldb.replay.recording import __main__, recorder
if sys.argv.pop(1) == "without":
    recorder.sync_events = lambda: None
sys.exit(__main__.main(sys.argv[1:]))
"""


def record(folder: Path, mode: str, *more: str) -> dict[str, Any]:
    """Record, and say what the trace came to."""
    words = (sys.executable, "-c", RECORD, mode, *MODEL, *more, "--output", str(folder))
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    (path,) = folder.glob("*.pt.trace.json.gz")
    text = gzip.decompress(path.read_bytes())
    events = json.loads(text)["traceEvents"]
    steps = [one["dur"] for one in events if str(one.get("name")).startswith("ProfilerStep#") and one.get("ph") == "X"]
    waits = [one["args"] for one in events if one.get("cat") == "cuda_sync"]
    return {
        "mode": mode,
        "step_us": [min(steps), statistics.median(steps)],
        "bytes": [len(text), path.stat().st_size],
        "sync_events": len(waits),
        "stream_known": sum(one.get("wait_on_stream", -1) >= 0 for one in waits),
    }


def main() -> None:
    """Record in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("turns", type=int, nargs="?", default=3)
    parser.add_argument("--tiny", action="store_true", help="on a CPU, where there are no such events")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    more = ("--tiny", "--device", "cpu", "--prompt", "16") if given.tiny else ()
    rows = []
    for turn in range(given.turns):
        for mode in ("with", "without"):
            rows.append(record(given.out / f"{mode}{turn}", mode, *more))
            sys.stdout.write(f"{json.dumps(rows[-1])}\n")
            sys.stdout.flush()
    (given.out / "sync_events.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
