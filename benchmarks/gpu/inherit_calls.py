"""Replays traces without calls by those that they inherit, on a GPU, and compares with the hidden truth.

    python benchmarks/gpu/inherit_calls.py prepare WORK BUNDLE…  (here: DuckDB, no GPU)
    PYTHONPATH=. python3 benchmarks/gpu/inherit_calls.py run WORK OUT [--seconds 240] [--runs 10]  (on the GPU machine)
    python benchmarks/gpu/inherit_calls.py judge WORK OUT  (here again)

`prepare` ingests the recorded traces of the bundles, copies of them without shapes and op links (strip_calls.py), and
those recorded under CUDA graphs; it prints what share of the launches gets the true call, and what share of the graph
launches an operator, and writes a plan per trace. `run` replays the plans. `judge` reads the journals back, and prints
`kerneldb replay`'s results and how replayed and recorded time compare. Everything ends in WORK/*.json and OUT.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

STRIPPED = "-stripped"
GRAPH = "cuda-graph"
TRUTH = """
    SELECT count(*) AS launches, count(*) FILTER (f.call_id = t.call_id AND f.call_ordinal = l.call_ordinal) AS right,
        count(f.launch_index) AS found
    FROM launches AS l
    JOIN signatures AS t USING (signature_id)
    JOIN traces AS a ON l.trace_id = a.trace_id
    JOIN traces AS b ON b.name = a.name || '-stripped'
    LEFT JOIN inferred_calls AS f ON f.trace_id = b.trace_id AND f.launch_index = l.launch_index
    WHERE a.name = ?
"""
ATTRIBUTED = """
    SELECT count(*) AS launches, count(op) AS with_op,
        count(*) FILTER (inferred_by IS NOT NULL AND input_dims IS NOT NULL) AS with_call,
        sum(duration_ns) AS total_ns, sum(duration_ns) FILTER (op IS NOT NULL) AS with_op_ns
    FROM kernels WHERE trace = ?
"""
RESULTS = (
    "category",
    "route",
    "launches",
    "share_pct",
    "l0_launches_pct",
    "l0_time_pct",
    "l0_l1_time_pct",
    "error_pct",
)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def stripper() -> ModuleType:
    spec = importlib.util.spec_from_file_location("strip_calls", Path(__file__).with_name("strip_calls.py"))
    if spec is None or spec.loader is None:
        message = "strip_calls.py is missing"
        raise FileNotFoundError(message)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prepare(work: Path, bundles: list[Path]) -> None:
    """Make the database and the plans, and print what is inherited."""
    import kerneldb
    from kerneldb.api.planning import Request
    from kerneldb.replay.wire import plan

    work.mkdir(parents=True, exist_ok=True)
    database = kerneldb.open(work / "inherit.duckdb")
    for bundle in bundles:
        database.ingest(bundle)
    for name, path in eager(database):
        copy = work / f"{name}{STRIPPED}.pt.trace.json.gz"
        stripper().strip(path, copy)
        database.ingest(copy, name=f"{name}{STRIPPED}")
    facts = {"inherited": list(database.inherit().rows()), **dict(shares(database))}
    for name in targets(database):
        planned = database.plan_replay(Request(traces=(name,)))
        plan.write(planned.plan, work / f"{name}.plan")
        say(f"{name}.plan: {len(planned.plan.items)} calls")
    (work / "inherited.json").write_text(json.dumps(facts, indent=1, default=str), encoding="utf-8")


def eager(database: Any) -> Iterator[tuple[str, Path]]:
    """The traces recorded with calls, with their files."""
    found = database.sql(
        "SELECT DISTINCT trace FROM kernels WHERE level = 'call' AND trace NOT LIKE '%graph%' ORDER BY 1"
    )
    for row in found.rows():
        path = next(one for one in database.files(row["trace"]) if one.endswith(".json.gz"))
        yield row["trace"], Path(path)


def targets(database: Any) -> list[str]:
    names = [row["name"] for row in database.sql("SELECT name FROM traces ORDER BY name").rows()]
    return [name for name in names if name.endswith(STRIPPED) or GRAPH in name]


def shares(database: Any) -> Iterator[tuple[str, Any]]:
    for name in targets(database):
        if name.endswith(STRIPPED):
            (row,) = database.sql(TRUTH, [name.removesuffix(STRIPPED)]).rows()
            right = 100 * row["right"] / row["launches"]
            say(f"{name}: {right:.2f} % of {row['launches']:,} launches get the true call")
        else:
            (row,) = database.sql(ATTRIBUTED, [name]).rows()
            whole, told = (100 * row[part] / row["launches"] for part in ("with_call", "with_op"))
            say(f"{name}: {told:.2f} % of {row['launches']:,} launches have an operator, {whole:.2f} % with its dims")
        yield name, row


def run(work: Path, out: Path, given: argparse.Namespace) -> None:
    """Replay the plans, the given time in all."""
    from kerneldb.replay.host import run as host
    from kerneldb.replay.options import Options

    out.mkdir(parents=True, exist_ok=True)
    plans = sorted(work.glob("*.plan"))
    ends = time.monotonic() + given.seconds
    for number, path in enumerate(plans):
        left = (ends - time.monotonic()) / (len(plans) - number)
        options = Options(device=given.device, runs=given.runs, energy=False, loops=False, limit_seconds=max(left, 5.0))
        done = host.run(path, out / f"{path.stem}.journal", options)
        say(f"{path.stem}: {dict(done.by_grade)} in {done.wall_s:.0f} s, {'done' if done.finished else 'stopped'}")


def judge(work: Path, out: Path) -> None:
    """Commit the journals and print the results."""
    import kerneldb

    database = kerneldb.open(work / "inherit.duckdb")
    rows: dict[str, Any] = {}
    for journal in sorted(out.glob("*.journal")):
        run_id = database.read_journal(work / f"{journal.stem}.plan", journal)
        rows[journal.stem] = list(database.replay_results(run_id).rows())
        say(f"\n{journal.stem}")
        for row in rows[journal.stem]:
            say("  " + "  ".join(f"{shown(row[name]):>15}" for name in RESULTS))
    (out / "results.json").write_text(json.dumps(rows, indent=1, default=str), encoding="utf-8")


def shown(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str("-" if value is None else value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=("prepare", "run", "judge"))
    parser.add_argument("work", type=Path)
    parser.add_argument("more", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--device", default="cuda:0")
    given = parser.parse_args()
    if given.step == "prepare":
        prepare(given.work, given.more)
    elif given.step == "run":
        run(given.work, given.more[0], given)
    else:
        judge(given.work, given.more[0])


if __name__ == "__main__":
    main()
