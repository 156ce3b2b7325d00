"""Rebuilds a recorded call of every `aten` overload from its recording alone, runs it again, counts what came out.

    PYTHONPATH=. python3 benchmarks/gpu/replay_overloads.py [--out FOLDER] [--only aten::mm …] [--inputs FILE | --drawn]

Without `--step` all of it on the CPU, where the operators below a call are compared (name, dims, dtypes). On a GPU its
kernels are; there is no database there, so the steps are taken apart, each with the same folder:

    … --step record --device cuda     on the GPU machine
    … --step plan                     here
    … --step replay --device cuda     on the GPU machine

On the GPU machine take `--inputs found.pt`, the arguments with which the calls ran on the CPU: none are drawn there.
Inputs come from `overload_inputs.py`. A process that dies while it records costs the overload that it was at; one that
dies while it replays, its item.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import overload_inputs
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.plan import Item, Plan
from kerneldb.replay.wire.results import CallResult

ROOT = Path(__file__).parents[2]
CHUNK = 400
OPTIONS = ("--runs", "1", "--warmup", "1", "--no-energy", "--no-loops", "--item-seconds", "30")


def program(*arguments: object) -> list[str]:
    return [sys.executable, str(ROOT / "benchmarks" / "gpu" / "overload_inputs.py"), *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": "99"}


def record(names: Sequence[str], inputs: Path, folder: Path, device: str) -> tuple[list[Path], dict[str, str]]:
    """Traces of one call each of these overloads, in several files; and why others have none."""
    traces, lost = [], {}
    for number, start in enumerate(range(0, len(names), CHUNK)):
        trace = folder / f"overloads-{number}.json"
        chunk = list(names[start : start + CHUNK])
        while chunk:
            listed, progress = folder / f"names-{number}.txt", folder / f"progress-{number}.txt"
            listed.write_text("\n".join(chunk), encoding="utf-8")
            progress.unlink(missing_ok=True)
            command = program("record", inputs, listed, trace, progress, "--device", device)
            done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
            told = [line.split("\t") for line in progress.read_text(encoding="utf-8").splitlines()]
            lost |= {name: "no inputs found with which it runs" for step, name in told if step == "none"}
            if told and told[-1][0] == "end":
                traces.append(trace)
                break
            culprit = next((name for step, name in reversed(told) if step in {"find", "call"}), chunk[0])
            lost[culprit] = f"killed the process that looked for inputs (exit code {done.returncode})"
            chunk = [name for name in chunk if name not in lost]
    return traces, lost


MARKED = """
SELECT o.trace_id, o.op_id, r.name AS marker
FROM ops AS o
INNER JOIN ranges AS r ON o.trace_id = r.trace_id AND o.range_id = r.range_id
WHERE o.parent_id IS NULL AND starts_with(r.name, $mark)
    AND o.name = regexp_extract(r.name, '(aten::[A-Za-z0-9_]+)', 1)
QUALIFY row_number() OVER (PARTITION BY r.name ORDER BY o.start_ns) = 1
ORDER BY r.name
"""
LAUNCHED = """
SELECT
    r.name AS marker, l.signature_id, n.name, l.kind, s.grid_x, s.grid_y, s.grid_z, s.block_x, s.block_y, s.block_z,
    l.shared_bytes, s.bytes, s.copy_kind, row_number() OVER (PARTITION BY r.name ORDER BY l.start_ns) - 1 AS ordinal
FROM launches AS l
INNER JOIN ranges AS r ON l.trace_id = r.trace_id AND l.range_id = r.range_id
INNER JOIN signatures AS s ON l.signature_id = s.signature_id
INNER JOIN kernel_names AS n ON s.name_id = n.name_id
WHERE starts_with(r.name, $mark)
ORDER BY r.name, ordinal
"""


def items(traces: Sequence[Path], folder: Path) -> Iterator[Item]:
    """The marked calls of the traces, as a database has them, with their kernels where there are any."""
    import kerneldb
    from kerneldb.api.recorded import Recorded, planned_kernel

    path, mark = folder / "overloads.duckdb", {"mark": overload_inputs.MARK}
    path.unlink(missing_ok=True)
    with kerneldb.open(path) as database:
        database.ingest([*traces])
        warehouse, kernels = database.warehouse, collections.defaultdict(list)
        for row in warehouse.query(LAUNCHED, mark).to_pylist():
            kernels[row["marker"]].append(planned_kernel(row))
        marked = warehouse.query(MARKED, mark).to_pylist()
        with warehouse.connection() as con:
            recorded = Recorded(con)
            for row in marked:
                spec, marker = recorded.spec(row["trace_id"], row["op_id"]), row["marker"]
                yield Item(marker.removeprefix(overload_inputs.MARK), "aten", spec, tuple(kernels[marker]))


def replay(planned: Path, folder: Path, device: str) -> list[CallResult]:
    """Replay a plan with the program that `kerneldb replay` starts."""
    written = folder / "overloads.journal"
    written.unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "kerneldb.replay", planned, "--journal", written, "--device", device]
    subprocess.run([*map(str, command), *OPTIONS], env=environment(), check=True, stderr=subprocess.DEVNULL)
    return list(journal.read(written).calls)


def summary(names: Sequence[str], lost: dict[str, str], planned: Sequence[Item], calls: Sequence[CallResult]) -> Any:
    """Counts by outcome, of overloads and of the further kinds of dtypes apart; and what is not L0, with its reason."""
    found = {call.item: call for call in calls}
    recorded = [item.id for item in planned]
    groups = {
        "overloads": [one for one in recorded if " " not in one],
        "other dtypes": [one for one in recorded if " " in one],
    }
    grades = {
        title: dict(sorted(collections.Counter(str(found[one].grade) for one in group if one in found).items()))
        for title, group in groups.items()
    }
    unrecorded = [name for name in names if name not in lost and name not in {*recorded}]
    missed = {
        one: f"{found[one].grade} {found[one].reason}" for one in recorded if one in found and found[one].grade != "L0"
    }
    killed = {one: reason for one, reason in missed.items() if "worker killed" in reason or "hung" in reason}
    reasons = collections.Counter(reason for name, reason in lost.items())
    return {
        "asked": len(names),
        "recorded": {title: len(group) for title, group in groups.items()},
        "replayed": grades,
        "not rebuilt or other": missed,
        "killed a worker": sorted(killed),
        "no result": [one for one in recorded if one not in found],
        "called, but not recorded as an operator": unrecorded,
        "without inputs": {reason: sorted(n for n, r in lost.items() if r == reason) for reason in reasons},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/overloads"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--inputs", type=Path, help="inputs captured before")
    parser.add_argument("--drawn", action="store_true", help="draw all inputs")
    parser.add_argument("--only", nargs="*", default=[], help="overloads, as aten::add.Tensor")
    parser.add_argument("--step", choices=("record", "plan", "replay", "all"), default="all")
    chosen = parser.parse_args()
    folder: Path = chosen.out
    folder.mkdir(parents=True, exist_ok=True)
    state, planned = folder / "recorded.json", folder / "overloads.plan"
    if chosen.step in {"record", "all"}:
        state.write_text(json.dumps(recorded(chosen, folder)), encoding="utf-8")
    told = json.loads(state.read_text(encoding="utf-8"))
    if chosen.step in {"plan", "all"}:
        plan.write(Plan(tuple(items([folder / name for name in told["traces"]], folder))), planned)
    if chosen.step in {"replay", "all"}:
        calls = replay(planned, folder, chosen.device)
        found = summary(told["names"], told["lost"], plan.read(planned).items, calls)
        (folder / "summary.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
        sys.stdout.write(json.dumps({name: found[name] for name in ("asked", "recorded", "replayed")}, indent=1) + "\n")


def recorded(chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Record: which overloads were asked for, the files, and why some are in none."""
    inputs = chosen.inputs or folder / "inputs.pt"
    if chosen.drawn:
        overload_inputs.save({}, inputs)
    elif not inputs.exists():
        subprocess.run(program("capture", inputs, "--device", chosen.device), env=environment(), check=True)
    names = chosen.only or [*overload_inputs.overloads(), *others(inputs)]
    traces, lost = record(names, inputs, folder, chosen.device)
    merged(traces, folder / "found.pt")
    return {"names": names, "traces": [one.name for one in traces], "lost": lost}


def others(inputs: Path) -> list[str]:
    """The captured calls of further kinds of dtypes."""
    known = frozenset(overload_inputs.overloads())
    captured = (name for name in overload_inputs.load(inputs, "cpu") if " " in name)
    return sorted(name for name in captured if name.partition(" ")[0] in known)


def merged(traces: Sequence[Path], path: Path) -> None:
    """One file with the arguments of the calls of several traces."""
    found: overload_inputs.Inputs = {}
    for trace in traces:
        found |= overload_inputs.load(trace.with_suffix(".pt"), "cpu")
    overload_inputs.save(found, path)


if __name__ == "__main__":
    main()
