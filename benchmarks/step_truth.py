"""How much of a rebuilt step is as it was: `python -m benchmarks.step_truth`.

Tiny models of transformers families are recorded on the CPU, and each second iteration is rebuilt from the recording:
the order of the calls, which tensors share memory, and between which two operators each allocation is made and freed. A
TorchDispatchMode that watched the storages of the same program says what is right (`tests/replay/truths.py`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import orjson

from tests.replay import programs, truths


def main() -> int:
    """Print a line per program: calls and those in order, storages and those rebuilt alike, and the share of bytes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("programs", nargs="*", help="such as llama-train, t5-forward or gpt2-decode")
    parser.add_argument("--further", action="store_true", help="programs that it was not written for")
    parser.add_argument("--wrong", action="store_true", help="list what is not alike")
    asked = parser.parse_args()
    names = asked.programs or (programs.FURTHER if asked.further else programs.PROGRAMS)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "steps"
        known = truths.record(names, folder)
        found = truths.rebuilt(folder)
    scores = {name: truths.compare(known[name], found[name]) for name in names}
    for name, score in scores.items():
        sys.stdout.write(f"{orjson.dumps({'program': name, **score.row()}).decode()}\n")
        for reason, times in score.wrong.most_common() if asked.wrong else ():
            sys.stdout.write(f"    {times:>4} {reason}\n")
    whole = sum(score.whole for score in scores.values())
    sys.stdout.write(f"{whole} of {len(scores)} programs are rebuilt as they were\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
