"""The GPU executor without a GPU: torch.cuda stands still, calls run on the CPU, and what is asked of it is noted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kerneldb.gpus.clocks import reasons
from kerneldb.replay import facts
from kerneldb.replay.facts import Monitor
from kerneldb.replay.measure import loops
from kerneldb.replay.measure.inputs import Flush, Sets
from kerneldb.replay.options import Options
from kerneldb.replay.resolve import candidates
from kerneldb.replay.wire.results import Activity
from kerneldb.replay.worker.executor import BrokenDeviceError, GpuExecutor
from kerneldb.replay.worker.profiling import Marked
from tests.replay.specs import spec, tensor
from tests.replay_worker.plans import GEMM, item, kernel

torch = pytest.importorskip("torch", reason="torch is not installed")

PROPERTIES = SimpleNamespace(total_memory=1 << 34, L2_cache_size=1 << 16)
MM = spec("aten::mm", tensor([8, 64]), tensor([64, 64]))


class Recorder(list[str]):
    """Notes what happens, in order."""

    def noting(self, word: str, result: Any = None) -> Any:
        def note(*_: Any, **__: Any) -> Any:
            self.append(word)
            return result

        return note


class StillLoop:
    """In place of a CUDA graph."""

    def __init__(self, call: Any, sets: Any, calls: int) -> None:
        for _ in range(calls):
            sets.advance()
            call.call()

    def sample(self, prepare: Any) -> float:
        prepare()
        return 1500.0

    def replay(self) -> None: ...
    def close(self) -> None: ...


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    noted = Recorder()
    answers = {"current_device": 0, "get_device_properties": PROPERTIES, "memory_allocated": 0}
    for name, answer in {**answers, "mem_get_info": (1 << 33, 1 << 34), "empty_cache": None}.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(torch.cuda, "synchronize", noted.noting("wait"))
    monkeypatch.setattr(Flush, "__call__", noted.noting("flush"))
    monkeypatch.setattr(Sets, "touch", noted.noting("touch"))
    monkeypatch.setattr(loops, "GraphLoop", StillLoop)
    monkeypatch.setattr(loops, "CAP_NS", 1e15)  # calls are slow where others use the processor, too
    return noted


def opened(**options: Any) -> GpuExecutor:
    chosen = Options(device="cpu", warmup=1, **options)
    return GpuExecutor(chosen, Monitor(None, 0))


def first(call: Any = MM) -> Any:
    return next(iter(candidates(call, "cpu")))


def noting_calls(call: Any, noted: Recorder) -> Any:
    plain = call.function

    def function(*args: Any, **kwargs: Any) -> Any:
        noted.append("call")
        return plain(*args, **kwargs)

    call.function = function
    return call


def test_each_timed_call_finds_the_device_idle_and_its_inputs_fresh(happened: Recorder) -> None:
    opened(runs=6).rehearse(noting_calls(first(), happened), item("i", "aten", MM), "0", 6)
    assert happened == ["call", "wait", "flush", *["touch", "wait", "call"] * 6, "wait"]


def test_queued_calls_do_not_wait(happened: Recorder) -> None:
    opened(runs=6, spacing="queued").rehearse(noting_calls(first(), happened), item("i", "aten", MM), "0", 6)
    assert happened == ["call", "wait", "flush", *["touch", "call"] * 6, "wait"]


def test_the_ring_of_cold_inputs_is_told_and_taken_down(happened: Recorder) -> None:
    call = first()
    before = [one.tensor.data_ptr() for one in call.inputs]
    ring = opened(runs=12).rehearse(call, item("i", "aten", MM), "0", 12)
    assert (ring.cold_bytes, ring.copies) == (64 * 64 * 4, 12)
    assert [one.tensor.data_ptr() for one in call.inputs] == before


def run(*names: str, durations: float = 2000.0) -> Marked:
    return Marked([Activity("kernel", name, durations, (4, 1, 1), (128, 1, 1), 1024) for name in names])


def test_the_usual_kernels_are_judged_and_timed(happened: Recorder) -> None:
    call = first()
    marked = [run(GEMM), run("other"), run(GEMM, durations=2200.0)]
    verdict = opened().judge(item("i", "aten", MM, kernel()), call, 0, marked)
    assert (verdict.grade, verdict.durations) == ("L0", [[2000.0, 2200.0]])
    assert verdict.notes == ("kernels differ between runs",)


def test_equal_names_on_the_gpu_of_another_vendor_are_other_kernels(happened: Recorder) -> None:
    """ATen's kernels have one name for CUDA and HIP."""
    said = facts.foreign("AMD", "NVIDIA")
    assert said == "recorded on a GPU of AMD, replayed on one of NVIDIA: the same operation at best"
    assert [facts.foreign(*pair) for pair in (("NVIDIA", "nvidia"), (None, "AMD"), ("AMD", None))] == [None] * 3
    executor = GpuExecutor(Options(device="cpu", warmup=1), Monitor(None, 0), said)
    verdict = executor.judge(item("i", "aten", MM, kernel()), first(), 0, [run(GEMM)] * 6)
    assert (verdict.grade, [(one.grade, one.reason) for one in verdict.match.kernels]) == ("L3", [("L3", said)])


def test_a_loop_is_timed_from_the_same_state(happened: Recorder) -> None:
    executor, call = opened(), first()
    verdict = executor.judge(item("i", "aten", MM, kernel()), call, 0, [run(GEMM)] * 6)
    timed = executor.measure(call, item("i", "aten", MM), verdict)
    assert timed.loop is not None
    assert (timed.loop.time.median_ns, timed.loop.calls, timed.loop.time.n) == (1500.0, 256, 9)
    assert happened == ["flush", "touch"] * 11


def test_what_waits_is_not_captured(happened: Recorder) -> None:
    executor, call = opened(), first()
    verdict = executor.judge(item("i", "aten", MM, kernel()), call, 0, [Marked(run(GEMM).activities, waits=True)])
    assert "waits" in str(executor.measure(call, item("i", "aten", MM), verdict).note)


RESIZING = spec("aten::special_exp2", tensor([2, 2, 3, 3]), tensor([3, 3]))


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_results_are_as_small_in_each_run_as_they_were_recorded(happened: Recorder) -> None:
    """An H200 recorded a copy of the 36 bytes that `out` held before it grew: a second call makes none."""
    call, seen = first(RESIZING), []
    out = call.inputs[1].tensor
    plain = call.function

    def function(*args: Any, **kwargs: Any) -> Any:
        seen.append((tuple(out.shape), out.untyped_storage().nbytes()))
        return plain(*args, **kwargs)

    call.function = function
    opened(runs=6).rehearse(call, item("i", "aten", RESIZING), "0", 6)
    assert seen == [((3, 3), 36)] * 7


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_results_that_grow_have_no_time_in_a_loop(happened: Recorder) -> None:
    executor, call = opened(), first(RESIZING)
    verdict = executor.judge(item("i", "aten", RESIZING, kernel()), call, 0, [run(GEMM)] * 6)
    timed = executor.measure(call, item("i", "aten", RESIZING), verdict)
    assert (timed.loop, timed.note) == (None, "its results grow in the first call, and no more in a loop")


def test_an_error_that_survives_is_a_broken_device(happened: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = opened()

    def fail() -> None:
        msg = "CUDA error: an illegal memory access was encountered\nmore"
        raise RuntimeError(msg)

    monkeypatch.setattr(torch.cuda, "synchronize", fail)
    with pytest.raises(BrokenDeviceError, match=r"^CUDA error: an illegal memory access was encountered$"):
        executor.check()


def test_reasons_of_low_clocks_have_names() -> None:
    assert reasons(0x24) == ("software power cap", "software thermal slowdown")
    assert reasons(0x1) == ()
