"""Tries rewrites in a step of a program of improve_programs.py where there is no database; verifies what is accepted.

    python improve_here.py NAME PLAN SECONDS FOLDER

Writes FOLDER/NAME.jsonl (results), NAME.patch.py and NAME.verified.json: the program as it is, patched, and through
torch.compile.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
from pathlib import Path

from kerneldb.replay.recording.settings import Settings, resolved
from kerneldb.replay.rewrites import patching
from kerneldb.replay.wire import plan
from kerneldb.replay.worker import improving
from kerneldb.replay.worker.verifying import Job, timed

PROGRAM = str(Path(__file__).with_name("improve_programs.py"))
STEP = "step 7"


def main(name: str, planned: str, seconds: str, folder: str) -> None:
    """Try, patch, verify."""
    results, patch = Path(folder) / f"{name}.jsonl", Path(folder) / f"{name}.patch.py"
    improving.run(plan.read(Path(planned)), results, improving.Asked(seconds=float(seconds)))
    found = improving.read(results)
    for one in found:
        gain = one.busy and f"{100 * one.busy.gain:.1f} [{100 * one.busy.low:.1f}, {100 * one.busy.high:.1f}] %"
        print(one.rewrite, one.status, one.place or one.what, one.places, gain, one.error_ratio, one.reason, flush=True)
    patch.write_text(patching.text(improving.changes(found), f"{name}: what pays"), encoding="utf-8")
    settings = resolved(Settings("", script=(PROGRAM, name), trace_only=True))
    compiled = dataclasses.replace(settings, script=(PROGRAM, name, "--compile"))
    jobs = {"before": Job(settings, STEP), "after": Job(settings, STEP, str(patch)), "compiled": Job(compiled, STEP)}
    said = {}
    for label, job in jobs.items():
        one = timed(job)
        said[label] = {"wall_ns": statistics.median(one.wall_ns), "busy_ns": statistics.median(one.busy_ns)}
        print(label, json.dumps(said[label]), flush=True)
    (Path(folder) / f"{name}.verified.json").write_text(json.dumps(said) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:5])
