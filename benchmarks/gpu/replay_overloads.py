"""Rebuilds a recorded call of every `aten` overload from its recording alone, runs it again, counts what came out.

    PYTHONPATH=. python3 benchmarks/gpu/replay_overloads.py [--out FOLDER] [--only aten::mm …] [--inputs FILE | --drawn]

Without `--step` all of it on the CPU, where the operators below a call are compared (name, dims, dtypes). On a GPU its
kernels are. Where no database is installed, traces are read without one (`--without-database`), or the steps are taken
apart, each with the same folder:

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
import concurrent.futures
import dataclasses
import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import overload_inputs
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.plan import Item, Plan, PlannedKernel
from kerneldb.replay.wire.results import CallResult
from kerneldb.replay.worker.profiling import Marked

ROOT = Path(__file__).parents[2]
CHUNK = 400
OPTIONS = ("--runs", "1", "--warmup", "1", "--no-energy", "--no-loops", "--item-seconds", "30")


def program(*arguments: object) -> list[str]:
    return [sys.executable, str(ROOT / "benchmarks" / "gpu" / "overload_inputs.py"), *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": "99"}


def record(
    names: Sequence[str], chosen: argparse.Namespace, inputs: Path, folder: Path
) -> tuple[list[Path], dict[str, str]]:
    """Traces of one call each of these overloads, in several files; and why others have none."""
    size = max(min(CHUNK, -(-len(names) // chosen.jobs)), 1)
    until = time.monotonic() + chosen.patience
    chunks = [list(names[start : start + size]) for start in range(0, len(names), size)]

    def part(number: int) -> tuple[Path | None, dict[str, str]]:
        try:
            return record_part(number, chunks[number], inputs, folder, chosen.device, until)
        except subprocess.TimeoutExpired:
            return None, dict.fromkeys(chunks[number], "its part took too long")

    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        parts = list(pool.map(part, range(len(chunks))))
    lost = dict(itertools.chain(*(one.items() for _, one in parts)))
    return [trace for trace, _ in parts if trace is not None], lost


def record_part(
    number: int, chunk: list[str], inputs: Path, folder: Path, device: str, until: float
) -> tuple[Path | None, dict[str, str]]:
    """The trace of some of them. What kills the process is left out of the next one."""
    trace, lost = folder / f"overloads-{number}.json", {}
    listed, progress = folder / f"names-{number}.txt", folder / f"progress-{number}.txt"
    while chunk:
        listed.write_text("\n".join(chunk), encoding="utf-8")
        progress.write_text("", encoding="utf-8")
        command = program("record", inputs, listed, trace, progress, "--device", device)
        left = max(until - time.monotonic(), 1)
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=left)
        told = [line.split("\t") for line in progress.read_text(encoding="utf-8").splitlines()]
        lost |= {name: "no inputs found with which it runs" for step, name in told if step == "none"}
        if told and told[-1][0] == "end":
            return trace, lost
        if not told:
            raise RuntimeError(done.stderr)
        culprit = next(name for step, name in reversed(told) if step in {"find", "call"})
        lost[culprit] = f"killed the process that looked for inputs (exit code {done.returncode})"
        chunk = [name for name in chunk if name not in lost]
    return None, lost


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


def items_of_files(traces: Sequence[Path]) -> Iterator[Item]:
    """The same from the files alone, where there is no database."""
    from kerneldb.replay.worker import profiling
    from tests.replay import recording

    for path in traces:
        marked = profiling.read(path, operators=False)
        raw = json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
        wanted = [one for one in raw if one.get("cat") in {"cpu_op", "user_annotation"} and one.get("ph") == "X"]
        events = recording.nested(wanted)
        trace, seen = recording.as_trace(events), set()
        for index, event in enumerate(events):
            marker = "" if event.parent is None else events[event.parent].call.op
            name = marker.removeprefix(overload_inputs.MARK)
            if name == marker or name in seen or event.call.op != name.partition(" ")[0].partition(".")[0]:
                continue
            seen.add(name)
            yield Item(name, "aten", dataclasses.replace(trace.spec(index), parent=None), kernels_of(marked[marker][0]))


def kernels_of(marked: Marked) -> tuple[PlannedKernel, ...]:
    """The activities of a marked call as kernels of a plan."""
    return tuple(
        PlannedKernel(
            ordinal, str(ordinal), one.name, one.kind, one.grid, one.block, one.shared_bytes, one.bytes,
            median_ns=round(one.duration_ns),
        )
        for ordinal, one in enumerate(marked.activities)
    )  # fmt: skip


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
    parser.add_argument("--without-database", action="store_true", help="read the traces without kerneldb's database")
    parser.add_argument("--jobs", type=int, default=1, help="processes that record at a time")
    parser.add_argument("--sample", type=int, help="so many of the captured overloads")
    parser.add_argument("--patience", type=float, default=3600.0, help="seconds for the recording")
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
        traces = [folder / name for name in told["traces"]]
        made = items_of_files(traces) if chosen.without_database else items(traces, folder)
        plan.write(Plan(tuple(made)), planned)
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
    if chosen.sample:
        known = sorted(name for name in overload_inputs.load(inputs, "cpu") if " " not in name)
        names = random.Random(0).sample(known, min(chosen.sample, len(known)))
    traces, lost = record(names, chosen, inputs, folder)
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
