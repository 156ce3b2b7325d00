"""Records a 7B Llama shared out to two GPUs, and plain exchanges between them: `OUT` gets an archive per rank.

    PYTHONPATH=. python3 benchmarks/gpu/record_tensor_parallel.py OUT

Needs two GPUs, torch, transformers and nvidia-ml-py. Prefill and decode are measured whole and traced on each rank;
what the traces say of collectives, by plain arithmetic, is printed and goes to OUT/tp.json. NVLink multicast stays off.
`--tiny` tries it on a CPU with gloo (its traces hold no kernels).
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.collective import plain
else:  # by its path: some packages install a `tests` of their own
    spec = importlib.util.spec_from_file_location(
        "plain", Path(__file__).parents[2] / "tests" / "collective" / "plain.py"
    )
    plain = sys.modules["plain"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)

RECORD = (sys.executable, "-m", "kerneldb.replay.recording")
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
RANKS = 2
MODEL = ("llama-2-7b", "--batch", "1", "--prompt", "1024", "--new-tokens", "4", "--workloads", "prefill,decode")
EXCHANGES = ("--script", "benchmarks/gpu/collectives_program.py")
PATIENCE_S = 150
KEPT_BYTES = 15 << 20


def commands(given: argparse.Namespace) -> dict[str, list[str]]:
    """Folder → command line of its recording."""
    ranks = ("--tp", str(RANKS))
    cpu = ("--device", "cpu")
    measure = ("--seconds", str(given.seconds))
    if given.tiny:
        tiny = (*cpu, "--tiny", "--prompt", "16", "--new-tokens", "2", "--seconds", "0.3")
        return {
            "exchanges": [*RECORD, *cpu, *ranks, "--trace-only", "--iterations", "1", *EXCHANGES],
            "llama-2-7b-tp2": [*RECORD, "llama-2-7b", *tiny, *ranks],
        }
    further = ("--cuda-graphs",) if given.cuda_graphs else ()
    return {
        "exchanges": [*RECORD, *ranks, "--trace-only", "--iterations", "1", *EXCHANGES],
        "llama-2-7b-tp2": [*RECORD, *MODEL, *measure, *ranks, *further],
    }


def record(command: list[str], folder: Path) -> dict[str, Any]:
    """Make one recording; says how it ended."""
    begun = time.monotonic()
    mark = command.index("--script") if "--script" in command else len(command)
    line = [*command[:mark], "--output", str(folder), *command[mark:]]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        code, said, log = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        code, said, log = -1, "", f"no end after {error.timeout:.0f} s"
    sys.stdout.write(f"== {folder.name}: exit code {code} after {time.monotonic() - begun:.0f} s\n{said}")
    if code:
        sys.stdout.write("\n".join(log.splitlines()[-15:]) + "\n")
    sys.stdout.flush()
    return {"exit_code": code, "seconds": round(time.monotonic() - begun, 1), "log": log.splitlines()[-40:]}


def traces(folder: Path) -> dict[str, dict[int, Path]]:
    """Workload → rank → file."""
    found: dict[str, dict[int, Path]] = collections.defaultdict(dict)
    for path in sorted(folder.glob("rank*/*.pt.trace.json.gz")):
        found[path.name.removesuffix(".pt.trace.json.gz")][int(path.parent.name.removeprefix("rank"))] = path
    return found


def figures(by_rank: dict[int, Path]) -> dict[str, Any]:
    """What the traces of one workload say of computation and collectives."""
    events = {rank: plain.activities(path) for rank, path in by_rank.items()}
    found = {rank: plain.collectives(one) for rank, one in events.items()}
    table: dict[tuple[str, int, str], list[plain.Collective]] = collections.defaultdict(list)
    for one in (one for some in found.values() for one in some):
        table[one.operation, one.bytes, one.dtype].append(one)
    names = collections.Counter(
        event["name"] for some in events.values() for event in some if plain.is_communication(event)
    )
    return {
        "times_ns": {rank: plain.times(one) for rank, one in events.items()},
        "launches": {rank: len(one) for rank, one in events.items()},
        "waits_ns": _waits(found),
        "kernels": dict(names),
        "without_collective": sum(names.values()) - sum(len(one) for one in found.values()),
        "collectives": [
            {
                "operation": operation,
                "bytes": size,
                "dtype": dtype,
                "n": len(some),
                "median_us": statistics.median(one.duration for one in some) / 1000,
                "min_us": min(one.duration for one in some) / 1000,
                "bus_gbs_of_median": statistics.median(one.bus_gbs for one in some),
                "bus_gbs_of_min": max(one.bus_gbs for one in some),
            }
            for (operation, size, dtype), some in sorted(table.items())
        ],
    }


def _waits(found: dict[int, list[plain.Collective]]) -> Any:
    try:
        return plain.waits(found)
    except ValueError as error:
        return f"the ranks do not show the same collectives: {error}"


def show(name: str, said: dict[str, Any]) -> None:
    """Print the figures of one workload."""
    sys.stdout.write(f"-- {name}: launches {said['launches']}, without collective {said['without_collective']}\n")
    for rank, times in said["times_ns"].items():
        sys.stdout.write(f"   rank {rank} ms { ({key: round(value / 1e6, 3) for key, value in times.items()}) }\n")
    sys.stdout.write(f"   waits {said['waits_ns']}\n   kernels {said['kernels']}\n")
    for row in said["collectives"]:
        cells = "  ".join(
            f"{key} {value:.1f}" if isinstance(value, float) else str(value) for key, value in row.items()
        )
        sys.stdout.write(f"   {cells}\n")


def machine() -> dict[str, Any]:
    """What it ran on."""
    import torch

    topology = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True, check=False).stdout \
        if torch.cuda.is_available() else ""  # fmt: skip
    return {
        "torch": torch.__version__,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if torch.cuda.is_available() else None,
        "gpus": [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())],
        "topology": topology.splitlines(),
        "multicast_off": {name: os.environ.get(name) for name in NO_MULTICAST},
    }


def keep(folder: Path, out: Path) -> None:
    """An archive per rank; Execution Traces only where they fit."""
    for rank in sorted(folder.glob("rank*")):
        target = out / f"{folder.name}-{rank.name}.tar"
        files = sorted((one for one in rank.iterdir() if one.is_file()), key=lambda one: ".et." in one.name)
        with tarfile.open(target, "w") as archive:
            held = 0
            for one in files:
                held += one.stat().st_size
                if held < KEPT_BYTES or ".et." not in one.name:
                    archive.add(one, f"{folder.name}/{rank.name}/{one.name}")


def main() -> int:
    """Record, sum up, pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=4.5, help="measured time per workload")
    parser.add_argument("--cuda-graphs", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    os.environ.update(NO_MULTICAST)
    work = given.out / ".work" if given.tiny else Path("/tmp/kerneldb-tp")  # noqa: S108 (a machine of our own)
    found: dict[str, Any] = {"machine": machine(), "recordings": {}}
    for name, command in commands(given).items():
        folder = work / name
        said = found["recordings"][name] = record(command, folder)
        said["workloads"] = {workload: figures(by_rank) for workload, by_rank in traces(folder).items()}
        for workload, one in said["workloads"].items():
            show(f"{name} {workload}", one)
        keep(folder, given.out)
        (given.out / "tp.json").write_text(json.dumps(found, indent=1))
    return max(abs(one["exit_code"]) for one in found["recordings"].values())


if __name__ == "__main__":
    sys.exit(main())
