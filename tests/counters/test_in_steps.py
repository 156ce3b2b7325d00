"""Counters of kernels in their place in a step: the step is made again under the profiler."""

from __future__ import annotations

import io
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kerneldb.replay.host.counting import Counting, Session
from kerneldb.replay.host.phases import Log, Pool
from kerneldb.replay.host.run import run
from kerneldb.replay.options import Options
from kerneldb.replay.wire import journal, plan
from kerneldb.replay.wire.journal import Writer
from kerneldb.replay.wire.messages import MESSAGES, Begin, Counted, Message, Ready
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall, Plan, PlannedKernel
from kerneldb.replay.wire.results import Grade, RunFacts
from kerneldb.replay.wire.step_results import StepKernel, StepResult
from kerneldb.replay.wire.steps import Step, StepCall, Storage, Tensor
from kerneldb.replay.worker.counting import spread

FAKE = Path(__file__).with_name("fake_ncu.py")


@pytest.mark.thorough
def test_each_call_of_a_step_is_counted_where_it_is(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed (pip install torch==2.13.0)")
    ncu = tmp_path / "ncu"
    ncu.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-P", str(FAKE)])} "$@"\n')
    ncu.chmod(0o755)
    call = OpCall("aten::mm", "[[4, 4], [4, 4]]", None, '["float", "float"]', '["", ""]')
    names = ("same", "other")
    items = tuple(
        Item(name, "aten", CallSpec(call), (PlannedKernel(0, f"s{name}", name, grid=(1, 1, 1), block=(1, 1, 1)),))
        for name in names
    )
    tensors = tuple(Tensor(place, (4, 4), (4, 1)) for place in range(3))
    storages = (Storage(64, given=True), Storage(64, given=True), Storage(64))
    calls = (StepCall("same", ((0,), (1,)), (2,), recorded_ns=(5,)),) * 2
    calls = (*calls, StepCall("other", ((2,), (1,)), recorded_ns=(5,)))
    step = Step("s", "trace", "t1", "execution trace", storages, tensors, calls)
    path, kept = tmp_path / "p.plan", tmp_path / "p.journal"
    plan.write(Plan(items, steps=(step,)), path)
    grades = zip(names, (Grade.L0, Grade.L3), strict=True)
    kernels = tuple(StepKernel(f"s{name}", name, 0, 1, grade, 5, reason="another") for name, grade in grades)
    with Writer(kept) as writer:
        writer.run(RunFacts("r", "2026-11-26T07:00:00", "mixed", "cpu"))
        writer.step(StepResult("s", "eager", 3, kernels=kernels))
    options = Options(device="cpu", runs=1, counters=("roofline",), ncu=str(ncu))
    outcome = run(path, kept, options, resume=True)
    refused, counted = journal.read(kept).counters
    assert outcome.finished
    assert refused.refused == {"other": "replayed as L3 only: another"}
    assert (counted.items, counted.refused) == (("same",), {})
    assert "application" in counted.command
    assert "kerneldb same" in (tmp_path / counted.files[0]).read_text(encoding="utf-8")


def test_calls_whose_counters_are_read_lie_all_over_the_step() -> None:
    names = "a" * 9 + "b" + "a" * 3 + "cb"
    step = Step("s", "trace", "t1", "execution trace", (), (), tuple(map(StepCall, names)))
    found = spread(step, {"a", "b", "d"}, 4)
    assert found == {"a": [1, 4, 7, 11], "b": [9, 14]}
    assert spread(step, {"a"}, 1) == {"a": [6]}
    assert spread(step, {"a"}, 100) == {"a": [place for place, name in enumerate(names) if name == "a"]}


def test_when_the_time_is_up_the_profiler_writes_what_it_has(tmp_path: Path) -> None:
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    said: tuple[Message, ...] = (Ready({"pid": worker.pid}), Begin("a", "count"), Counted("a"), Begin("b", "count"))
    heard = io.BytesIO("".join(f"{MESSAGES.dump(one)}\n" for one in said).encode())
    with Writer(tmp_path / "j") as writer:
        log = Log(Plan(), Options(), writer, lambda _: None, "r")
        counting = Counting(log, tmp_path / "p", tmp_path / "j", Pool((), 1), until=0.0)
        session = Session()
        counting.follow(worker, heard, session)
    assert worker.returncode == -signal.SIGKILL
    assert (session.ran, session.at, session.stopped, session.reason) == (["a"], "b", True, None)
