"""What was just run on this GPU comes out again: same kernels, with times and CUDA-graph loops."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kerneldb.replay.wire import journal
from kerneldb.replay.wire.plan import CallSpec, Item, PlannedKernel
from kerneldb.replay.worker.executor import CacheDisturber
from kerneldb.replay.worker.profiling import Session, marker
from tests.replay.specs import scalar, spec, tensor
from tests.replay_worker.plans import copy, item, write

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning")]

ROOT = Path(__file__).parents[2]
HALF = "c10::Half"
CALLS = {
    "mm": spec("aten::mm", tensor([64, 1024], HALF), tensor([1024, 4096], HALF, strides=[1, 1024])),
    "add": spec("aten::add", tensor([64, 1024], HALF), tensor([64, 1024], HALF), scalar(1)),
    "softmax": spec("aten::_softmax", tensor([64, 1024], HALF), scalar(-1), scalar("False")),
    "mul_": spec("aten::mul_", tensor([4096], HALF), tensor([4096], HALF)),
    "sum": spec("aten::sum", tensor([64, 1024]), ([], [], "", "")),
}


def recorded(calls: dict[str, CallSpec]) -> list[Item]:
    """Items with the kernels that these calls launch here and now."""
    from kerneldb.replay.resolve import candidates

    built = {name: next(iter(candidates(call, "cuda"))) for name, call in calls.items()}
    for call in built.values():
        call.call()
    with Session(gpu=True) as session:
        for name, call in built.items():
            with marker(name):
                call.call()
        torch.cuda.synchronize()
    return [item(name, "aten", calls[name], *planned(session.seen[name][0].activities)) for name in calls]


def planned(activities: list[Any]) -> list[PlannedKernel]:
    return [
        PlannedKernel(place, f"s{place}", one.name, one.kind, one.grid, one.block, one.shared_bytes, one.bytes)
        for place, one in enumerate(activities)
    ]


@pytest.mark.parametrize("cache", ["mixed", "cold", "warm"])
def test_what_was_just_run_comes_out_again(tmp_path: Path, cache: str) -> None:
    filled = PlannedKernel(0, "fill", "Memset (Device)", kind="memset", bytes=4096)
    memory = [item("copy", "memory", None, copy(1 << 20)), item("fill", "memory", None, filled)]
    path = write(tmp_path / "plan", *recorded(CALLS), *memory)
    out = tmp_path / "journal"
    given = ["--journal", str(out), "--cache", cache, "--no-energy"]
    command = [sys.executable, "-m", "kerneldb.replay", str(path), *given]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found = {one.item: one for one in journal.read(out).calls}
    assert {name: one.grade for name, one in found.items()} == dict.fromkeys([*CALLS, "copy", "fill"], "L0")
    for name, one in found.items():
        assert one.time is not None, name
        if name == "copy":  # from pageable memory: the call waits for the device
            assert one.loop_note == "waits for the device, which a CUDA graph cannot"
            continue
        assert one.loop is not None, (name, one.loop_note)
        assert 0.2 < one.loop.time.median_ns / one.time.median_ns < 20, name


def test_the_disturber_is_one_launch_of_many_kernels() -> None:
    disturber = CacheDisturber("cuda:0")
    with Session(gpu=True) as session:
        with marker("disturber"):
            disturber()
        torch.cuda.synchronize()
    launched = session.seen["disturber"][0].activities
    assert len({one.name for one in launched}) >= 10
