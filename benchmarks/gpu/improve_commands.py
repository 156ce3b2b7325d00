"""`kerneldb improve` with patch and verification, as a user calls it, for programs of improve_programs.py, one by one.

    python benchmarks/gpu/improve_commands.py FOLDER [NAME]... [--seconds 60] [--limit 200] [--steps 20] [--tiny]

For each: record, ingest, improve, query. FOLDER gets NAME.improvements.csv (all that was tried), NAME.tables.csv (what
`improve` prints: that, then what was verified), NAME.patch.py and NAME.stderr.txt, also where the limit [s] ended it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = str(Path(__file__).with_name("improve_programs.py"))
STEP = "step 7"
NAMES = ("encdec", "cnn", "unet", "ssm", "tuned")


def commands(name: str, folder: Path, recording: str, given: argparse.Namespace) -> list[tuple[str, list[str]]]:
    """The commands for a program, each with the end of the name of the file for what it prints."""
    device = ["--device", "cpu"] if given.tiny else []
    tiny = ["--tiny"] if given.tiny else []
    recorded = ["--stack", "--trace-only", "--iterations", "1", "--output", recording, "--script", PROGRAM]
    tried = ["--iteration", STEP, "--seconds", str(given.seconds), "--allow", "precision", *device]
    verified = " ".join([PROGRAM, name, "--steps", str(given.steps), *tiny])
    patch = ["--patch", str(folder / f"{name}.patch.py"), "--verify", verified, "--csv"]
    return [
        ("record.txt", ["record", *device, *recorded, "--", name, "--steps", "8", *tiny]),
        ("ingest.txt", ["ingest", "-q", recording]),
        ("tables.csv", ["improve", f"{name}-script", *tried, *patch]),
        ("improvements.csv", ["query", "FROM improvements", "--csv"]),
    ]


def ran(command: list[str], said: Path, printed: Path, limit: float) -> int | None:
    """The exit code of a command in a process group of its own, which ends with the limit: then None."""
    with said.open("ab") as errors, printed.open("wb") as results:
        begun = [sys.executable, "-P", "-m", "kerneldb", *command]
        process = subprocess.Popen(begun, stdout=results, stderr=errors, start_new_session=True)
        try:
            return process.wait(max(limit, 1.0))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


def main() -> None:
    """All programs, each in its limit; one that fails does not keep the others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tiny", action="store_true", help="small, on a CPU")
    for name, usual in (("--seconds", 60.0), ("--limit", 200.0), ("--steps", 20)):
        parser.add_argument(name, type=type(usual), default=usual)
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name in given.names or NAMES:
        with tempfile.TemporaryDirectory() as recordings:
            one(name, folder, Path(recordings) / name, given)


def one(name: str, folder: Path, recording: Path, given: argparse.Namespace) -> None:
    """A program, until its limit."""
    os.environ["KERNELDB_DB"], begun = f"{recording}.duckdb", time.monotonic()
    for file, command in commands(name, folder, str(recording), given):
        left, at = given.limit - (time.monotonic() - begun), time.monotonic()
        if command[0] == "query":  # what is stored, also where the limit ended what came before
            left = max(left, 20.0)
        code = ran(command, folder / f"{name}.stderr.txt", folder / f"{name}.{file}", left)
        said = "over the limit" if code is None else f"exit code {code}"
        print(f"{name} {command[0]}: {said}, {time.monotonic() - at:.0f} s", flush=True)
        if code != 0 and command[0] != "improve":
            return


if __name__ == "__main__":
    main()
