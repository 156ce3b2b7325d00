"""Tries rewrites in a step of a program of improve_programs.py where there is no database; verifies what is accepted.

    python improve_here.py NAME PLAN SECONDS FOLDER [PROGRAM]

Writes FOLDER/NAME.jsonl (results), NAME.patch.py and NAME.verified.jsonl: what was promised and measured for each
change and all of them, and what torch.compile of the model gains. PROGRAM is the file as it was recorded. Several may
run at once: with IMPROVE_LOCK=FILE one at a time has the GPU to itself while it measures. What FOLDER has already is
not tried again.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kerneldb.replay.recording.settings import Settings, resolved
from kerneldb.replay.rewrites import patching
from kerneldb.replay.wire.improvements import Improvement
from kerneldb.replay.worker import improving, verifying
from kerneldb.replay.worker.verifying import Job, Timed, Verified

PROGRAM = str(Path(__file__).with_name("improve_programs.py"))
STEP = "step 7"
SEARCH = """
import pathlib, sys, torch
from kerneldb.replay.wire import plan
from kerneldb.replay.worker import improving
sys.path.insert(0, "benchmarks/gpu")
import improve_programs
torch.cuda.init()
improve_programs.alone()
planned = plan.read(pathlib.Path(sys.argv[1]))
improving.run(planned, pathlib.Path(sys.argv[2]), improving.Asked(seconds=float(sys.argv[3]), energy=False))
"""


def main(name: str, planned: str, seconds: str, folder: str, program: str = PROGRAM) -> None:
    """Try, patch, verify."""
    begun = time.monotonic()
    results, patch = Path(folder) / f"{name}.jsonl", Path(folder) / f"{name}.patch.py"
    search = [sys.executable, "-P", "-c", SEARCH, planned, str(results), seconds]
    if not results.exists():
        subprocess.run(search, check=True)  # a process of its own: it gives the memory back
    found = improving.read(results)
    for one in found:
        gains = [one.alone, one.busy, one.wall]
        said = [some and f"{100 * some.gain:.1f} [{100 * some.low:.1f}, {100 * some.high:.1f}] %" for some in gains]
        print(one.rewrite, one.status, one.place or one.what, one.places, said, one.error_ratio, one.reason, flush=True)
    print(name, f"tried in {time.monotonic() - begun:.0f} s", flush=True)
    settings = resolved(Settings("", script=(program, name), trace_only=True))
    compiled = dataclasses.replace(settings, script=(program, name, "--compile"))
    with ThreadPoolExecutor() as pool:
        before, whole = pool.map(timed, [Job(one, STEP) for one in (settings, compiled)])

    def measure(some: Sequence[Improvement]) -> list[Verified]:
        patch.write_text(patching.text(improving.changes(some), f"{name}: what pays"), encoding="utf-8")
        return verifying.compared([before], [timed(Job(settings, STEP, str(patch)))])

    kept, rows = verifying.prove(found, measure)
    patch.write_text(patching.text(improving.changes(kept), f"{name}: what pays"), encoding="utf-8")
    rows += [one.row("torch.compile of the model", None) for one in verifying.compared([before], [whole])]
    for row in rows:
        print(name, json.dumps(row), flush=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (Path(folder) / f"{name}.verified.jsonl").write_text(text, encoding="utf-8")
    print(name, f"done in {time.monotonic() - begun:.0f} s", flush=True)


def timed(job: Job) -> Timed:
    """Run a job; what it says of its patch is shown."""
    begun = time.monotonic()
    found = verifying.timed(job)
    said = {name: statistics.median(getattr(found, f"{name}_ns")) for name in ("busy", "wall")}
    print(job.settings.script, json.dumps(said), flush=True)
    print("ran", job.settings.script, job.patch, f"{time.monotonic() - begun:.0f} s", flush=True)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:6])
