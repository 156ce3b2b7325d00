"""Finds the calls of traces whose shapes and op links are taken away, on a GPU, and compares with the hidden truth.

    python benchmarks/gpu/infer_calls.py prepare PLANS BUNDLE… (here; standard library and kerneldb only, no GPU)
    PYTHONPATH=. python3 benchmarks/gpu/infer_calls.py run PLANS OUT [--seconds 220] [--runs 10]  (on the GPU machine)
    python benchmarks/gpu/infer_calls.py judge PLANS OUT (again from the journal)

`prepare` reads the eager Kineto traces of recorded bundles, keeps of every GPU activity only what a profiler without
shapes prints (name, grid, block, shared memory, bytes, time), asks `kerneldb.replay.infer` for candidates, and
writes one plan, with the truth in a file beside it. `run` searches on the GPU and judges: share of GPU time that is L0
or L1 within 15 % of the recorded duration, dims that equal the truth by family, tries, and a row per call (CSV, JSON).
"""

from __future__ import annotations

import argparse
import collections
import csv
import gzip
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kerneldb.names import decode
from kerneldb.replay.infer import infer
from kerneldb.replay.plan.unknowns import Clues, Device, Guess, Kind, Sequence
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.plan import Item, Plan, PlannedKernel

CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "bloom-560m": {"hidden_size": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 250880},
    "llama-2-7b": {
        "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32, "num_key_value_heads": 32,
        "num_hidden_layers": 32, "vocab_size": 32000,
    },
    "gpt2": {"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257},
}  # fmt: skip
H200 = Device(
    "NVIDIA H200", "NVIDIA", "sm_90", 132, 4800.0, {"fp16": 989.0, "bf16": 989.0, "fp32": 67.0, "tf32": 494.0}
)
ON_GPU = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
COPY_KINDS = ("HtoD", "DtoH", "DtoD", "PtoP")
WITHIN = 0.15


def events(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        found: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return found


def stripped(path: Path) -> tuple[Sequence, list[tuple[str, str] | None]]:
    """The sequence of a trace without anything of its operators, and the truth per launch."""
    read = events(path)
    on_gpu = sorted((one for one in read if one.get("cat") in ON_GPU), key=lambda one: float(one["ts"]))
    calls = {one["args"].get("External id"): one for one in read if one.get("cat") == "cpu_op"}
    kinds: dict[tuple[Any, ...], int] = {}
    listed: list[Kind] = []
    order: list[int] = []
    for event in on_gpu:
        made = kind_of(event, str(len(listed)))
        key = (made.name, made.kind, made.grid, made.block, made.shared_bytes, made.bytes)
        if key not in kinds:
            kinds[key] = len(listed)
            listed.append(made)
        order.append(kinds[key])
    durations = tuple(round(float(one["dur"]) * 1000) for one in on_gpu)
    starts = tuple(round(float(one["ts"]) * 1000) for one in on_gpu)
    name = path.name.split(".")[0]
    sequence = Sequence(name, H200, tuple(listed), tuple(order), durations, starts, (None,) * len(order))
    return sequence, [truth_of(calls.get(one["args"].get("External id"))) for one in on_gpu]


def kind_of(event: Mapping[str, Any], number: str) -> Kind:
    args = event["args"]
    kind = ON_GPU[event["cat"]]
    triples = [tuple(args[name]) if name in args else None for name in ("grid", "block")]
    copy = next((word for word in COPY_KINDS if word in event["name"]), None) if kind == "memcpy" else None
    return Kind(
        number, event["name"], kind, triples[0], triples[1], shared_bytes=args.get("shared memory"),
        bytes=args.get("bytes"), copy_kind=copy, wanted=kind == "kernel",
    )  # fmt: skip


def truth_of(call: Mapping[str, Any] | None) -> tuple[str, str] | None:
    return None if call is None else (call["name"], json.dumps(call["args"].get("Input Dims")))


def prepare(folder: Path, bundles: list[Path], *, config: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    items: list[Item] = []
    truths: dict[str, Any] = {}
    totals: dict[str, int] = {}
    for bundle in bundles:
        for path in sorted(bundle.glob("*.pt.trace.json.gz")):
            if "cuda_graph" in path.name:
                continue
            label = f"{bundle.name}-{path.name.split('.')[0]}"
            sequence, truth = stripped(path)
            guesses = infer(sequence, Clues((), CONFIGS.get(bundle.name) if config else None))
            totals[label] = sum(one or 0 for one in sequence.duration_ns)
            for number, guess in enumerate(guesses):
                item = item_of(f"{label}#{number}", sequence, guess)
                items.append(item)
                truths[item.id] = truth_rows(sequence, guess, truth)
            items.extend(copies(label, sequence, guesses))
    items.sort(key=lambda one: -sum(kernel.total_ns or 0 for kernel in one.kernels))
    plan.write(Plan(tuple(items), {"totals": totals, "config": config}), folder / "infer.plan")
    (folder / "truth.json").write_text(json.dumps(truths), encoding="utf-8")
    sys.stdout.write(f"{len(items)} items, {sum(len(one.candidates) for one in items)} candidates\n")


def item_of(name: str, sequence: Sequence, guess: Guess) -> Item:
    kernels = tuple(planned(number, sequence, places) for number, places in enumerate(guess.kernels))
    return Item(name, "inferred", None, kernels, guess.candidates)


def planned(ordinal: int, sequence: Sequence, places: tuple[int, ...]) -> PlannedKernel:
    kind = sequence.kinds[sequence.order[places[0]]]
    spent = [sequence.duration_ns[place] or 0 for place in places]
    return PlannedKernel(
        ordinal, kind.signature_id, kind.name, kind.kind, kind.grid, kind.block, kind.shared_bytes, kind.bytes,
        kind.copy_kind, len(places), round(statistics.median(spent)), sum(spent),
    )  # fmt: skip


def copies(label: str, sequence: Sequence, guesses: list[Guess]) -> Iterator[Item]:
    covered = {place for guess in guesses for places in guess.kernels for place in places}
    alone: dict[int, list[int]] = collections.defaultdict(list)
    for place, kind in enumerate(sequence.order):
        if place not in covered:
            alone[kind].append(place)
    for kind, places in alone.items():
        yield Item(f"{label}@{kind}", "memory", None, (planned(0, sequence, tuple(places)),))


def main_kernel(item: Item) -> PlannedKernel:
    """The kernel that the call is for: not the fill of a counter, nor the copy of an addend."""
    working = [one for one in item.kernels if decode(one.name).category in {"GEMM", "GEMV", "ATTENTION"}]
    named = [one for one in working if decode(one.name).family != "splitK_reduce"]
    return max(named or item.kernels, key=lambda one: (one.kind == "kernel", one.total_ns or 0))


def truth_rows(sequence: Sequence, guess: Guess, truth: list[tuple[str, str] | None]) -> list[list[Any]]:
    number = main_kernel(item_of("", sequence, guess)).ordinal
    spent: collections.Counter[tuple[str, str] | None] = collections.Counter()
    launches: collections.Counter[tuple[str, str] | None] = collections.Counter()
    for index, place in enumerate(guess.kernels[number]):
        key = truth[place]
        launches[key] += 1
        spent[key] += sum(sequence.duration_ns[places[index]] or 0 for places in guess.kernels)
    return [[*(key or (None, None)), launches[key], spent[key]] for key in launches]


def base(op: str | None) -> str:
    return (op or "").split("::")[-1].rstrip("_")


def same(call: Any, op: str | None, dims: str | None) -> bool:
    return base(call.op) == base(op) and json.loads(call.input_dims or "[]") == json.loads(dims or "[]")


def squeezed(dims: str | None) -> list[Any]:
    """The sizes larger than 1 of every tensor: the same problem, whatever dims of 1 it was given."""
    parsed = json.loads(dims or "[]") or []
    return [[size for size in one if size != 1] for one in parsed if one and not isinstance(one[0], list)]


def run(folder: Path, out: Path, given: argparse.Namespace) -> None:
    from kerneldb.replay.host import run as host
    from kerneldb.replay.options import Options

    out.mkdir(parents=True, exist_ok=True)
    options = Options(
        device=given.device, runs=given.runs, warmup=2, loops=False, energy=False, limit_seconds=given.seconds, batch=96
    )
    started = time.monotonic()
    host.run(folder / "infer.plan", out / "infer.jsonl", options, resume=False, listen=lambda _: None)
    sys.stdout.write(f"searched for {time.monotonic() - started:.0f} s\n")
    judge(folder, out)


def judge(folder: Path, out: Path) -> None:
    planned_ = plan.read(folder / "infer.plan")
    truths = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    results = {one.item: one for one in journal.read(out / "infer.jsonl").calls}
    rows = [row_of(item, results.get(item.id), truths.get(item.id, ())) for item in planned_.items]
    totals = planned_.notes["totals"]
    (out / "infer.json").write_text(json.dumps({"totals": totals, "rows": rows}, indent=1), encoding="utf-8")
    with (out / "infer.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    for label, total in totals.items():
        table(label, total, [row for row in rows if row["trace"] == label])
    for model in dict.fromkeys(label.rsplit("-", 1)[0] for label in totals):
        mine = [label for label in totals if label.rsplit("-", 1)[0] == model]
        table(model, sum(totals[label] for label in mine), [row for row in rows if row["trace"] in mine])
    misses(rows, sum(totals.values()))


def row_of(item: Item, result: Any, truth: Any) -> dict[str, Any]:
    main = main_kernel(item)
    recorded = sum(one.total_ns or 0 for one in item.kernels)
    good = exact = 0
    ratio = None
    for kernel in result.kernels if result is not None else ():
        wanted = item.kernels[kernel.ordinal]
        if kernel.time is None or kernel.grade not in {"L0", "L1"}:
            continue
        here = kernel.time.median_ns / max(wanted.median_ns or 1, 1)
        good += (wanted.total_ns or 0) * (abs(here - 1) <= WITHIN)
        exact += wanted.total_ns or 0
        ratio = here if kernel.ordinal == main.ordinal else ratio
    found = None if result is None else result.found
    tried = () if result is None else result.trail
    best = found.spec.call if found is not None else None
    return {
        "item": item.id,
        "trace": item.id.replace("@", "#").split("#")[0],
        "category": decode(main.name, main.kind).category,
        "name": main.name,
        "grid": main.grid,
        "launches": main.launches,
        "recorded_ns": recorded,
        "grade": None if result is None else result.grade,
        "l0_l1_ns": exact,
        "within_ns": good,
        "ratio": None if ratio is None else round(ratio, 4),
        "tries": len(tried),
        "candidates": len(item.candidates),
        "found": None if found is None else found.why,
        "op": None if best is None else best.op,
        "dims": None if best is None else best.input_dims,
        "truth": "; ".join(f"{op} {dims} ×{count}" for op, dims, count, _ in truth[:3]),
        "right_ns": sum(ns for op, dims, _, ns in truth if best is not None and same(best, op, dims)),
        "problem_ns": sum(
            ns for op, dims, _, ns in truth if best is not None and squeezed(dims) == squeezed(best.input_dims)
        ),
        "variant": "" if found is None else found.why.partition("; ")[2],
        "reason": None if result is None else result.reason,
    }


def table(label: str, total: int, rows: list[dict[str, Any]]) -> None:
    families: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for row in rows:
        for group in (row["category"], "ALL"):
            one = families[group]
            one["ns"] += row["recorded_ns"]
            one["calls"] += 1
            one["tries"] += row["tries"]
            one["plain"] += row["within_ns"] if "cache:" not in row["variant"] else 0
            for name in ("l0_l1_ns", "within_ns", "right_ns", "problem_ns"):
                one[name] += row[name]
    columns = "share of GPU time; of it L0/L1, within 15 %, the same without cache variants, dims right, sizes right"
    sys.stdout.write(f"\n{label}: {columns}\n")
    for name, one in sorted(families.items(), key=lambda pair: -pair[1]["ns"]):
        part = max(one["ns"], 1)
        cells = [one["l0_l1_ns"], one["within_ns"], one["plain"], one["right_ns"], one["problem_ns"]]
        shares = " ".join(f"{100 * cell / part:7.2f}" for cell in cells)
        sys.stdout.write(
            f"  {name:14} {100 * part / total:6.2f} % {shares}  calls {one['calls']} tries {one['tries']}\n"
        )


def misses(rows: list[dict[str, Any]], total: int) -> None:
    sys.stdout.write("\nlargest misses\n")
    lost = sorted(rows, key=lambda row: row["within_ns"] - row["recorded_ns"])[:40]
    for row in lost:
        gone = row["recorded_ns"] - row["within_ns"]
        head = (
            f"{100 * gone / total:.3f} % {row['grade']} ratio {row['ratio']} tries {row['tries']}/{row['candidates']}"
        )
        sys.stdout.write(
            f"  {head} {row['name'][:60]} {row['grid']} | {row['truth'][:110]} | {row['found']} | {row['reason']}\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "run", "judge"))
    parser.add_argument("plans", type=Path)
    parser.add_argument("more", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=220.0)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--no-config", action="store_true", help="without the model's config")
    given = parser.parse_args()
    if given.what == "prepare":
        prepare(given.plans, given.more, config=not given.no_config)
    elif given.what == "run":
        run(given.plans, given.more[0], given)
    else:
        judge(given.plans, given.more[0])


if __name__ == "__main__":
    main()
