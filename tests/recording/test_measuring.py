"""Intervals, steps found beside the work, unions of GPU time, and the sources of compiled kernels."""

from __future__ import annotations

import shutil
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest

from kerneldb import codec
from kerneldb.replay.measure.energy.meter import Meter, MeterError, Sample
from kerneldb.replay.measure.energy.steps import power
from kerneldb.replay.recording import measuring, recorder, sources
from kerneldb.replay.recording.measuring import Repetition, StepWatch, interval
from kerneldb.replay.recording.settings import Settings, resolved
from tests.recording.conftest import read, tiny
from tests.recording.meters import POWER_W, FakeMeter

ONE_COMPILATION = {
    "compile_threads": 1,
    "cpp.vec_isa_ok": True,
    "cpp_cache_precompile_headers": False,
    "aot_inductor.debug_compile": True,
}
"""No processes beside, no programs to try out what the processor can do, no headers for later, nothing optimised."""


def test_three_repetitions_give_the_interval_of_students_t() -> None:
    found = interval([9.0, 10.0, 11.0])
    assert found.value == 10
    assert found.high - found.value == pytest.approx(4.303 / 3**0.5, rel=0.01)
    assert found.value - found.low == pytest.approx(found.high - found.value)


def test_repetitions_that_agree_by_chance_keep_their_own_errors() -> None:
    found = interval([10.0, 10.0, 10.0], [0.3, 0.3, 0.3])
    assert found.high - 10 == pytest.approx(1.96 * 0.3 / 3**0.5)


def test_steps_are_found_beside_the_work() -> None:
    meter = FakeMeter()
    period = measuring.learn_period(meter)
    with StepWatch(meter, period) as watch:
        time.sleep(0.5)
    assert power(watch.steps, period).power_w == pytest.approx(POWER_W, rel=0.4)
    assert {one.power_w for one in watch.samples} == {POWER_W}


class FailingMeter(FakeMeter):
    """Can be read twice."""

    def __init__(self) -> None:
        self._left = 2

    def energy_mj(self) -> float:
        self._left -= 1
        if self._left < 0:
            message = "the counter is gone"
            raise MeterError(message)
        return 1.0

    def sample(self) -> Sample:
        return Sample(0, 0, self.energy_mj())


def test_a_meter_that_fails_meanwhile_costs_the_energy_only() -> None:
    class Work:
        tokens: int | None = None

        def __call__(self) -> None:
            """Takes a millisecond, and goes on until nobody reads the meter any more."""
            time.sleep(0.001)
            while any(thread.name == "kerneldb-steps" for thread in threading.enumerate()):
                time.sleep(0.001)

    failing: Meter = FailingMeter()
    found, _ = measuring.run(Work(), tiny(seconds=0.1), failing, measuring.CounterPeriod(0.01))
    assert all(one.power is None for one in found)
    rows = {row.quantity: row for row in measuring.of_repetitions(found, on_gpu=False, no_meter=None)}
    assert "the counter is gone" in str(rows["energy_mj"].reason)
    assert (rows["wall_ns"].value or 0) > 9e5


class Growing(measuring.Pace):
    """Iterations of a second of an own clock; every other of the first ones, which allocates, takes four."""

    def __init__(self, slow: int) -> None:
        self.now, self.steps, self._slow = 0.0, 0, slow

    def step(self) -> None:
        self.steps += 1
        self.now += 4.0 if self.steps % 2 == 0 and self.steps <= self._slow else 1.0

    def mark(self) -> float:
        return self.now


class Two:
    """Ranks that agree."""

    many = True

    def gather(self, value: Any) -> list[Any]:
        return [value, value]

    def wait(self) -> None:
        """Is there at once."""


@pytest.mark.parametrize(("slow", "wall_s"), [(0, 1.0), (2, 1.0), (4, 1.0), (10**6, 2.5)])
def test_ranks_are_measured_when_they_are_steady(slow: int, wall_s: float) -> None:
    settings: Any = types.SimpleNamespace(seconds=4.0 * measuring.REPETITIONS)
    pace, ranks = Growing(slow), Two()
    found = measuring._Loop(pace, settings, ranks).run()  # type: ignore[arg-type]  # what a loop asks of them
    assert found.wall_ns == pytest.approx(wall_s * 1e9)
    assert pace.steps < 20


def test_unknown_energy_has_no_value() -> None:
    once = Repetition(1e6, 10, 0.1, 0.0)
    rows = codec.encode(measuring.of_repetitions([once, once, once], on_gpu=True, no_meter="no meter"))
    assert [row for row in rows if row["quantity"] == "energy_mj" and "value" in row] == []
    assert {row["reason"] for row in rows if row["quantity"] == "energy_mj"} == {"no meter"}


def gpu(start: float, duration: float, *, cat: str = "kernel", pid: int = 0) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "ts": start, "dur": duration, "pid": pid, "name": "k"}


def test_busy_time_is_the_union_of_each_device() -> None:
    events = [
        gpu(0, 10),
        gpu(5, 10),
        gpu(6, 2, cat="gpu_memcpy"),
        gpu(30, 5, cat="gpu_memset"),
        gpu(0, 7, pid=1),
        {"ph": "X", "cat": "cpu_op", "ts": 0, "dur": 99, "name": "aten::mm"},
    ]
    found = recorder.activities(events)
    assert (found.count, found.busy_ns()) == (5, (15 + 5 + 7) * 1000)


def test_a_workload_runs_under_load_before_it_is_traced_where_that_is_asked_for() -> None:
    runs = []

    class Counted:
        tokens = None

        def __call__(self) -> None:
            runs.append(1)

    measuring.load(Counted(), Settings("", device="cpu"))
    assert not runs
    measuring.load(Counted(), Settings("", device="cpu", load=0.01))
    assert len(runs) > 1


def test_waits_of_streams_are_asked_for_where_the_torch_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert recorder.sync_events() is not None
    monkeypatch.setattr("torch._C._profiler._ExperimentalConfig", lambda: None)
    assert recorder.sync_events() is None


def test_the_path_that_the_profiler_wrote_to_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"traceEvents": [],\n"traceName": "/home/somebody/very/long/name.json"\n}')
    recorder._forget_path(path, "x.json")
    assert path.read_text() == '{"traceEvents": [],\n"traceName": "x.json"\n}'


def test_sources_of_kernels_are_kept_and_binaries_are_not(tmp_path: Path) -> None:
    for name in ("inductor/ab/cab.py", "triton/HASH/add.ttir", "triton/HASH/add.cubin"):
        (tmp_path / ".cache" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / ".cache" / name).write_text(name)
    assert sources.keep(tmp_path) == ["triton/inductor/ab/cab.py", "triton/triton/HASH/add.ttir"]
    sources.clean(tmp_path)
    assert not (tmp_path / ".cache").exists()
    assert (tmp_path / "triton/inductor/ab/cab.py").read_text() == "inductor/ab/cab.py"


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler for TorchInductor")
def test_compiled_code_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_meter: None) -> None:
    import torch._inductor.config  # takes seconds, which workers without this test are to be spared

    for variable in sources.CACHES:
        monkeypatch.setenv(variable, "")
    script = tmp_path / "job.py"
    script.write_text("import torch\ntorch.compile(torch.sin)(torch.ones(8))\n")
    wanted = resolved(Settings("", device="cpu", seconds=0.1, iterations=1, trace_only=True, script=(str(script),)))
    events: list[Any] = []
    with torch._inductor.config.patch(ONE_COMPILATION):
        recorder.record(wanted, tmp_path / "a", resume=False, listen=events.append)
    kept = read(tmp_path / "a")["sources"]
    assert any("sin" in (tmp_path / "a" / name).read_text() for name in kept if name.endswith(".py"))
    assert not (tmp_path / "a" / ".cache").exists()
    assert events == [{"what": "trace", "workload": "script", "mode": "eager"}]
