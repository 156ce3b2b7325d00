"""Tries rewrites in steps of programs of improve_programs.py where there is no database; verifies what is accepted.

    python improve_here.py search|verify NAME PLAN SECONDS FOLDER [PROGRAM] [--energy] [--allow precision]

`search` writes FOLDER/NAME.jsonl (results); several may run at once: with IMPROVE_LOCK=FILE one at a time has the GPU
to itself while it measures. `verify` writes NAME.patch.py and NAME.verified.jsonl: what was promised and measured for
each change and all of them, and what torch.compile of the model gains. PROGRAM is the file as it was recorded.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path

from kerneldb.replay.recording.settings import Settings, resolved
from kerneldb.replay.rewrites import patching
from kerneldb.replay.worker import improving, proving
from kerneldb.replay.worker.verifying import Job

PROGRAM = str(Path(__file__).with_name("improve_programs.py"))
STEP = "step 7"
SEARCH = """
import json, pathlib, sys, torch
from kerneldb.replay.wire import plan
from kerneldb.replay.worker import improving
sys.path.insert(0, "benchmarks/gpu")
import improve_programs
torch.cuda.is_available() and torch.cuda.init()
improve_programs.alone()
planned = plan.read(pathlib.Path(sys.argv[1]))
asked = json.loads(sys.argv[3])
asked["allow"] = tuple(asked["allow"])
improving.run(planned, pathlib.Path(sys.argv[2]), improving.Asked(**asked))
"""


def main() -> None:
    """Search or verify."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("what", "name", "plan", "seconds", "folder"):
        parser.add_argument(name)
    parser.add_argument("program", nargs="?", default=PROGRAM)
    parser.add_argument("--energy", action="store_true")
    parser.add_argument("--allow", action="append", default=[])
    parser.add_argument("--device", default="cuda:0")
    given = parser.parse_args()
    begun = time.monotonic()
    {"search": search, "verify": verify}[given.what](given)
    print(given.name, given.what, f"{time.monotonic() - begun:.0f} s", flush=True)


def search(given: argparse.Namespace) -> None:
    """Try the rewrites, in a process of its own."""
    results = Path(given.folder) / f"{given.name}.jsonl"
    asked = {name: getattr(given, name) for name in ("device", "energy", "allow")} | {"seconds": float(given.seconds)}
    subprocess.run([sys.executable, "-P", "-c", SEARCH, given.plan, str(results), json.dumps(asked)], check=True)
    for one in improving.read(results):
        gains = [one.alone, one.busy, one.wall, one.energy]
        said = [some and f"{100 * some.gain:.1f} [{100 * some.low:.1f}, {100 * some.high:.1f}] %" for some in gains]
        where = one.place or one.what
        print(given.name, one.rewrite, one.status, where, one.places, said, one.error_ratio, one.reason, flush=True)


def verify(given: argparse.Namespace) -> None:
    """Run the program with what was accepted, and compiled whole."""
    found = improving.read(Path(given.folder) / f"{given.name}.jsonl")
    settings = resolved(Settings("", device=given.device, script=(given.program, given.name), trace_only=True))
    kept, rows = proving.in_program(found, settings, STEP)
    text = patching.text(improving.changes(kept), f"{given.name}: what pays")
    (Path(given.folder) / f"{given.name}.patch.py").write_text(text, encoding="utf-8")
    compiled = dataclasses.replace(settings, script=(*settings.script, "--compile"))
    sides = proving.pairs(Job(settings, STEP), Job(compiled, STEP), proving.REPEATS)
    rows += [one.row("torch.compile of the model", None) for one in proving.compared(sides)]
    for row in rows:
        print(given.name, json.dumps(row), flush=True)
    text = "".join(json.dumps({"program": given.name, **row}) + "\n" for row in rows)
    (Path(given.folder) / f"{given.name}.verified.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
