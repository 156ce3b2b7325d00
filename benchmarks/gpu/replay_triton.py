"""Replays all that programs with Triton kernels launched, and prints the grade of every kernel.

    python3 benchmarks/gpu/replay_triton.py OUT --make-plans --recorded FOLDER  where DuckDB is: plans from recordings
    python3 benchmarks/gpu/replay_triton.py OUT --plans FOLDER [--record user]  on the GPU: PyTorch and Triton
    python3 benchmarks/gpu/replay_triton.py OUT --whole                     on a GPU where DuckDB is: all of it
    python3 benchmarks/gpu/replay_triton.py OUT --tell                      prints the journals of OUT again

Recorded are the compiled fp8 pipeline (N = 8192), a Triton matrix product with its epilogue, kernels of a program
itself (benchmarks/gpu/triton_programs.py), and compiled transformer blocks (`python -m kerneldb.replay.recording`).
`sources.plan` has their sources with it, `lost.plan` has the same launches without. A recording made with `--record` is
planned and replayed right there, from its trace alone; `--whole` records all, ingests, and replays by the command that
a user would type. The exit code is 1 where a kernel with its source is not L0.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kerneldb.replay.errors import UnresolvedCallError
from kerneldb.replay.triton import code, loading
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall, Plan, PlannedKernel

PROGRAMS = ("fp8", "template", "user")
BLOCKS = {
    "llama": ["llama-2-7b", "--layers", "1", "--workloads", "prefill", "--prompt", "512"],
    "gpt2": ["gpt2", "--layers", "2", "--workloads", "train_step", "--batch", "4", "--prompt", "256"],
}
TRITON = ("kernel_hash", "kernel_kwargs", "num_warps", "num__workloads", "grid", "kernel_backend")
FIELDS = {
    "input_dims": "Input Dims",
    "input_strides": "Input Strides",
    "input_dtypes": "Input type",
    "scalars": "Concrete Inputs",
}
HERE = Path(__file__).parent
PATIENCE_S = 200
HOPELESS = 4
REPLAY = ["--allow-code", "--no-energy", "--no-loops", "--runs", "10"]


def run(command: list[str], log: Path, **more: Any) -> None:
    """Run a command into a log, and print how long it took, with the end of the log where it failed."""
    started = time.monotonic()
    with log.open("a") as text:
        done = subprocess.run(
            [sys.executable, *command], stdout=text, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False, **more
        )
    print_line(f"{time.monotonic() - started:6.1f} s  exit {done.returncode}  {' '.join(command)[:110]}")
    if done.returncode:
        print_line(log.read_text(errors="replace")[-3000:])


def print_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def make_plans(out: Path, recorded: Path) -> None:
    """Ingest the recordings and write both plans."""
    environment = {**os.environ, "KERNELDB_DB": str(out / "kernels.duckdb")}
    log = out / "plans.log"
    for name in PROGRAMS:
        trace = recorded / name / "trace.json.gz"
        if trace.exists():
            run(["-m", "kerneldb", "ingest", str(trace), "--name", name, "--run", name], log, env=environment)
    for name in BLOCKS:
        if (recorded / name).exists():
            run(["-m", "kerneldb", "ingest", str(recorded / name)], log, env=environment)
    target = out / "sources.plan"
    run(["-m", "kerneldb", "replay", "--write-plan", str(target)], log, env=environment)
    whole = plan.read(target)
    triton = tuple(item for item in whole.items if item.route == code.ROUTE)
    plan.write(dataclasses.replace(whole, items=tuple(without_source(triton)), sources={}), out / "lost.plan")


def without_source(items: tuple[Item, ...]) -> Iterator[Item]:
    """Kernels that can be compiled again from their operators, one of a name, and a few that cannot."""
    seen: set[str] = set()
    hopeless = 0
    for item in items:
        name = item.kernels[0].name
        try:
            operators, _ = loading.operators(name)
        except UnresolvedCallError:
            hopeless += 1
            if hopeless <= HOPELESS:
                yield item
            continue
        if (key := f"{operators}{item.spec and item.spec.call.input_dtypes}") not in seen:
            seen.add(key)
            yield item


def record(out: Path, name: str, log: Path) -> Path:
    """Record one of the programs; returns its folder."""
    folder = out / "recorded" / name
    folder.mkdir(parents=True, exist_ok=True)
    if name in BLOCKS:
        further = ["--compile", "--trace-only", "--iterations", "2", "--name", name, "--output", str(folder)]
        run(["-m", "kerneldb.replay.recording", *BLOCKS[name], *further], log)
    else:
        run([str(HERE / "triton_programs.py"), str(folder), name], log)
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    return folder


def plan_of(folder: Path) -> Plan:
    """A plan of all launches of a trace, made of nothing but the trace and the sources beside it."""
    from kerneldb.ingest import triton_sources

    trace = next(folder.glob("*trace.json.gz"))
    with gzip.open(trace, "rt") as text:
        events = json.load(text)["traceEvents"]
    ops = {one["args"].get("External id"): one for one in events if one.get("cat") == "cpu_op"}
    launches: dict[str, list[Mapping[str, Any]]] = {}
    for one in sorted((one for one in events if one.get("cat") == "kernel"), key=lambda one: float(one["ts"])):
        op = ops.get(one["args"].get("External id"))
        if op is None:
            print_line(f"no operator launched {one['name']}")
            continue
        call = OpCall(
            op["name"], **{name: _text(op["args"].get(key)) for name, key in FIELDS.items()}, extra=_extra(op)
        )
        key = json.dumps([dataclasses.asdict(call), one["name"], one["args"]["grid"], one["args"]["block"]])
        launches.setdefault(key, []).append(one)
    found = triton_sources.index([folder / "triton"]).values()
    sources = {one.kernel_hash: code.Code(one.kernel_hash, one.name, one.text, one.origin, one.file) for one in found}
    items = tuple(_item(key, group) for key, group in launches.items())
    return Plan(items, {"trace": folder.name}, {name: code.to_source(one) for name, one in sources.items()})


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


def _extra(op: Mapping[str, Any]) -> str | None:
    kept = {name: str(op["args"][name]) for name in TRITON if name in op["args"]}
    return json.dumps(kept) if kept else None


def _item(key: str, group: list[Mapping[str, Any]]) -> Item:
    call = OpCall(**json.loads(key)[0])
    first = group[0]["args"]
    times = sorted(round(float(one["dur"]) * 1000) for one in group)
    kernel = PlannedKernel(
        0,
        key,
        group[0]["name"],
        grid=tuple(first["grid"]),
        block=tuple(first["block"]),
        shared_bytes=first["shared memory"],
        launches=len(group),
        median_ns=times[len(times) // 2],
        total_ns=sum(times),
    )
    return Item(key, code.ROUTE if code.is_triton(call) else "aten", CallSpec(call), (kernel,))


BY_GRADE = """
    SELECT t.name AS trace, k.replay_grade AS grade, o.route, count(*) AS launches,
        count(DISTINCT k.signature_id) AS signatures, sum(k.duration_ns) AS recorded_ns, sum(k.replay_ns) AS replayed_ns
    FROM kernels AS k
    JOIN traces AS t USING (trace_id)
    LEFT JOIN (SELECT signature_id, any_value(route) AS route FROM replays GROUP BY ALL) AS o USING (signature_id)
    WHERE k.timing = 'timeline' GROUP BY ALL ORDER BY ALL
"""


def whole(out: Path, log: Path) -> int:
    """Record, ingest and replay all programs, then without their sources; returns the launches that are not L0."""
    for name in (*PROGRAMS, *BLOCKS):
        folder = record(out, name, log)
        with tarfile.open(out / f"{name}.tgz", "w:gz") as archive:
            archive.add(folder, arcname=name)
    make_plans(out, out / "recorded")
    environment = {**os.environ, "KERNELDB_DB": str(out / "kernels.duckdb")}
    run(["-m", "kerneldb", "replay", "--allow-code", "--no-energy", "--runs", "10"], log, env=environment)
    command = [sys.executable, "-m", "kerneldb", "query", BY_GRADE, "--json"]
    rows = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment).stdout)
    (out / "grades.json").write_text(json.dumps(rows, indent=1))
    for row in rows:
        print_line("  ".join(map(str, row.values())))
    replay(out / "lost.plan", out, log)
    shutil.rmtree(out / "recorded")
    return sum(row["launches"] for row in rows if row["grade"] != "L0")


def replay(target: Path, out: Path, log: Path) -> None:
    """Replay a plan into OUT/NAME.journal."""
    run(["-m", "kerneldb.replay", str(target), "--journal", str(out / f"{target.stem}.journal"), *REPLAY], log)


def rows(planned: Plan, found: journal.Journal) -> Iterator[dict[str, Any]]:
    """A row per planned kernel."""
    results = {call.item: call for call in found.calls}
    for item in planned.items:
        result = results.get(item.id)
        graded = {one.ordinal: one for one in result.kernels} if result is not None else {}
        for kernel in item.kernels:
            one = graded.get(kernel.ordinal)
            yield {
                "route": item.route,
                "grade": one.grade if one is not None else "L4",
                "launches": kernel.launches,
                "recorded_us": (kernel.median_ns or 0) / 1000,
                "replayed_us": one.time.median_ns / 1000 if one is not None and one.time is not None else None,
                "name": kernel.name[:60],
                "reason": (one.reason if one is not None else None) or (result.reason if result else "no result"),
            }


def tell(out: Path, plans: Path) -> dict[str, Any]:
    """Print every kernel of each journal in OUT; returns launches by grade, of Triton kernels and of all."""
    summary: dict[str, Any] = {}
    for path in sorted(out.glob("*.journal")):
        target = next(
            folder / f"{path.stem}.plan" for folder in (out, plans) if (folder / f"{path.stem}.plan").exists()
        )
        counts: dict[str, Counter[str]] = {"all": Counter(), code.ROUTE: Counter()}
        print_line(f"== {path.stem}")
        for row in rows(plan.read(target), journal.read(path)):
            counts["all"][row["grade"]] += row["launches"]
            if row["route"] == code.ROUTE:
                counts[code.ROUTE][row["grade"]] += row["launches"]
            if row["route"] == code.ROUTE or row["grade"] != "L0":
                print_line(
                    "  ".join(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values())
                )
        summary[path.stem] = {group: dict(sorted(held.items())) for group, held in counts.items()}
    return summary


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--make-plans", action="store_true")
    parser.add_argument("--recorded", type=Path, default=Path())
    parser.add_argument("--plans", type=Path, default=Path())
    parser.add_argument("--record", nargs="+", default=[], choices=(*PROGRAMS, *BLOCKS))
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--tell", action="store_true")
    given = parser.parse_args()
    out: Path = given.out
    out.mkdir(parents=True, exist_ok=True)
    log = out / "triton.log"
    if given.make_plans:
        make_plans(out, given.recorded)
        return 0
    started = time.monotonic()
    others = whole(out, log) if given.whole else 0
    if not (given.tell or given.whole):
        work(out, given.plans, given.record, log)
    summary = tell(out, given.plans)
    summary["seconds"] = round(time.monotonic() - started, 1)
    (out / "summary.json").write_text(json.dumps(summary, indent=1))
    print_line(json.dumps(summary, indent=1))
    wanted = [held["all"] for name, held in summary.items() if isinstance(held, dict) and name != "lost"]
    return int(bool(others) or any(set(held) != {"L0"} for held in wanted))


def work(out: Path, plans: Path, names: list[str], log: Path) -> None:
    """Replay the plans, record what is asked for, and replay that too."""
    for name in ("sources", "lost"):
        if (plans / f"{name}.plan").exists():
            replay(plans / f"{name}.plan", out, log)
    for name in names:
        folder = record(out, name, log)
        with tarfile.open(out / f"{name}.tgz", "w:gz") as archive:
            archive.add(folder, arcname=name)
        if list(folder.glob("*trace.json.gz")):
            plan.write(plan_of(folder), out / f"{name}.plan")
            replay(out / f"{name}.plan", out, log)
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
