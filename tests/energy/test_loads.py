"""What keeps a device busy: the make-up of graphs, their queue and their marks, on a GPU that is not there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kerneldb.replay.errors import UnresolvedCallError
from kerneldb.replay.measure import loops
from kerneldb.replay.measure.energy import loads
from kerneldb.replay.measure.energy.loads import Deeper, EagerLoad, GpuLoads, GraphLoad, Loads, plan_round
from kerneldb.replay.measure.inputs import Flush, Sets
from kerneldb.replay.options import Options
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.results import Activity
from kerneldb.replay.worker.profiling import Marked, Session
from tests.replay.specs import scalar, spec, tensor
from tests.replay_worker.plans import copy, item

torch = pytest.importorskip("torch", reason="torch is not installed")

L2 = 1 << 20
MM = spec("aten::mm", tensor([8, 64]), tensor([64, 64]))
MUL_ = spec("aten::mul_", tensor([128]), tensor([128]))


@dataclasses.dataclass
class Gpu:
    """Its clock is put forward by hand; a replay takes two milliseconds."""

    now_s: float = 0.0
    end_s: float = 0.0
    replays: int = 0
    replay_s: float = 0.002
    launched: list[str] = dataclasses.field(default_factory=list)

    def replay(self) -> None:
        self.replays += 1
        self.end_s = max(self.end_s, self.now_s) + self.replay_s

    def synchronize(self) -> None:
        self.now_s = max(self.now_s, self.end_s)

    def captured(self, body: Callable[[], object], first: Callable[[], object]) -> Any:
        first()
        self.launched.clear()
        body()
        return SimpleNamespace(replay=self.replay, reset=lambda: None)

    def event(self, **_: Any) -> Event:
        return Event(self)


@dataclasses.dataclass
class Event:
    gpu: Gpu
    at_s: float = 0.0

    def record(self) -> None:
        self.at_s = max(self.gpu.end_s, self.gpu.now_s)

    def query(self) -> bool:
        return self.at_s <= self.gpu.now_s

    def synchronize(self) -> None:
        self.gpu.now_s = max(self.gpu.now_s, self.at_s)

    def elapsed_time(self, other: Event) -> float:
        return (other.at_s - self.at_s) * 1000


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    found = Gpu()
    properties = SimpleNamespace(total_memory=1 << 34, L2_cache_size=L2)
    answers = {"current_device": 0, "get_device_properties": properties, "mem_get_info": (1 << 33, 1 << 34)}
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(torch.cuda, "Event", found.event)
    monkeypatch.setattr(torch.cuda, "synchronize", found.synchronize)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: found.launched.append("wait" if cycles else "nothing"))
    monkeypatch.setattr(loads, "SLICE_S", 60.0)  # seconds of the clock on the wall, which others may use up
    monkeypatch.setattr(loops, "captured", found.captured)
    monkeypatch.setattr(Flush, "__call__", lambda _: found.launched.append("flush"))
    monkeypatch.setattr(Sets, "upkeep", lambda _: found.launched.append("restore"))
    return found


def load_of(gpu: Gpu, calls: int = 4) -> GraphLoad:
    return GraphLoad(lambda: None, lambda: None, calls)


def test_the_queue_is_filled_as_far_as_asked(gpu: Gpu) -> None:
    load = load_of(gpu)
    load.begin()
    begun = gpu.replays
    assert load.top_up(0.25)
    assert gpu.replays - begun == 125
    gpu.now_s += 0.1001
    load.top_up(0.25)
    assert gpu.replays - begun == 175
    load.top_up(0.05)
    assert gpu.replays - begun == 175


def test_marks_give_the_time_of_a_call_on_the_device(gpu: Gpu) -> None:
    load = load_of(gpu)
    load.begin()
    load.top_up(0.25)
    gpu.now_s += 0.031
    first = load.mark()
    gpu.now_s += 0.15
    load.top_up(0.25)
    assert load.per_call(first, load.mark()) == pytest.approx(0.002 / 4)
    assert load.dry == 0


def test_a_queue_that_ran_dry_is_noticed(gpu: Gpu) -> None:
    load = load_of(gpu)
    load.begin()
    load.top_up(0.01)
    gpu.now_s += 1.0
    load.top_up(0.01)
    assert load.dry == 1
    load.begin()
    load.top_up(0.01)
    assert load.dry == 0


def test_a_first_replay_that_took_long_does_not_make_the_queue_short(gpu: Gpu) -> None:
    """A host that was late when the graph was new: the queue would hold too little, and run dry at a reading."""
    gpu.replay_s = 0.1
    load = load_of(gpu)
    gpu.replay_s = 0.002
    load.begin()
    load.top_up(0.25)
    gpu.now_s += 0.005
    begun = gpu.replays
    load.top_up(0.25)
    assert gpu.replays - begun > 100
    assert load.seconds == pytest.approx(0.002 / 4)
    gpu.now_s += 0.015
    load.top_up(0.25)
    assert load.dry == 0


def test_a_deeper_queue_holds_more(gpu: Gpu) -> None:
    load = load_of(gpu)
    load.begin()
    begun = gpu.replays
    assert Deeper(load, 4.0).top_up(0.06)
    assert gpu.replays - begun == 120


def test_what_was_queued_before_does_not_count(gpu: Gpu) -> None:
    """Another load was still running when this one was used again: its marks begin where it begins."""
    first, second = load_of(gpu), load_of(gpu)
    first.begin()
    first.top_up(0.25)
    gpu.now_s += 20.0
    second.begin()
    second.top_up(0.25)
    first.begin()
    first.top_up(0.25)
    begun = first.mark()
    gpu.now_s += 0.1
    assert first.per_call(begun, first.mark()) == pytest.approx(0.002 / 4)


def test_times_that_cannot_be_are_refused(gpu: Gpu) -> None:
    load = load_of(gpu)
    load.begin()
    load.top_up(0.25)
    with pytest.raises(RuntimeError, match="0 replays"):
        load.per_call(load.mark(), load.mark())
    first = load.mark()
    gpu.now_s += 0.1
    last = load.mark()
    last[1].at_s += 5.0
    with pytest.raises(RuntimeError, match=r"against 0\.002 s alone"):
        load.per_call(first, last)


def shape(cold_bytes: int, copies: int, *, complete: bool) -> Any:
    return SimpleNamespace(cold_bytes=cold_bytes, copies=copies, complete=complete)


@pytest.mark.parametrize(
    ("call_ns", "sets", "restore", "expected"),
    [
        (4_000.0, shape(0, 1, complete=True), False, (1000, 1, False, False, False)),
        (10_000.0, shape(1 << 20, 7, complete=True), False, (406, 1, False, False, False)),
        (9e6, shape(1 << 20, 7, complete=True), False, (7, 1, False, False, False)),
        (2_000.0, shape(1 << 17, 1024, complete=False), False, (1024, 1, True, False, False)),
        (2_000.0, shape(1 << 12, 1024, complete=False), False, (1024, 1, False, False, True)),
        (2_000.0, shape(0, 1, complete=True), True, (32, 32, False, True, False)),
    ],
)
def test_graphs_take_about_four_milliseconds(
    call_ns: float, sets: Any, restore: bool, expected: tuple[int, int, bool, bool, bool]
) -> None:
    found = plan_round(call_ns, sets, 1 << 20, restore=restore)
    assert (found.calls, found.rounds, found.flush, found.restore, found.warm) == expected


@pytest.mark.parametrize(
    ("call_ns", "padding_ns", "expected"),
    [(100_000.0, 100_000.0, (20, 1, 20)), (2_000.0, 2_000.0, (1000, 10, 100)), (9e6, 9e6, (1, 1, 1))],
)
def test_padding_stands_behind_every_call_or_every_few_short_ones(
    call_ns: float, padding_ns: float, expected: tuple[int, int, int]
) -> None:
    found = plan_round(call_ns, shape(0, 1, complete=True), 1 << 20, restore=False, padding_ns=padding_ns)
    assert (found.calls, found.padding_every, found.paddings) == expected


def prepared(gpu: Gpu, one: Item, call_ns: float, cache: str = "mixed", *, capture: bool = True) -> Any:
    return GpuLoads(Options(device="cpu", cache=cache)).call(one, 0, call_ns, capture=capture)


def test_cold_weights_take_turns_in_a_whole_ring(gpu: Gpu) -> None:
    """64 KB of weights beside an L2 of 1 MB: a ring of 193 copies needs no flush."""
    made = prepared(gpu, item("i", "aten", spec("aten::mm", tensor([8, 128]), tensor([128, 128]))), 1e6)
    assert (made.flushes, made.upkeeps, made.cold_bytes, made.upkeep) == (0, 0, 0, None)
    assert gpu.launched == []


def test_a_call_that_changes_its_input_has_it_put_back(gpu: Gpu) -> None:
    made = prepared(gpu, item("i", "aten", MUL_), 100_000.0)
    assert made.upkeeps == pytest.approx(1 / 32)
    assert gpu.launched == ["restore"]
    assert made.upkeep is not None
    made.close()


def test_a_padded_graph_waits_between_calls(gpu: Gpu) -> None:
    gpu.launched.clear()
    made = GpuLoads(Options(device="cpu")).call(item("i", "aten", MM), 0, 1e6, capture=True, padding_ns=1e6)
    assert made.padding_ns == 1e6
    assert set(gpu.launched) == {"wait"}
    assert len(gpu.launched) > 1


def test_padding_is_calibrated(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiting kernel takes 600 ns, and half a nanosecond per cycle."""
    waited: list[int] = []

    def sleep(cycles: int) -> None:
        waited.append(cycles)
        gpu.replay_s = 16 * (600 + cycles / 2) / 1e9

    monkeypatch.setattr(torch.cuda, "_sleep", sleep)
    GpuLoads(Options(device="cpu")).padding()
    assert waited[-1] == pytest.approx(2 * (100_000 - 600), abs=1)


def test_the_duration_of_an_empty_kernel_is_that_of_the_profiler(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "__init__", lambda self, **_: setattr(self, "_profile", nullcontext()))
    seen = [Marked([Activity("kernel", "spin", ns)]) for ns in (896.0, 928.0, 2400.0)]
    monkeypatch.setattr(Session, "_read", lambda _: {"empty": seen})
    made = GpuLoads(Options(device="cpu"))
    assert made.empty_ns() == 928.0
    monkeypatch.setattr(Session, "_read", lambda _: {})
    assert made.empty_ns() is None
    monkeypatch.setattr(Session, "__init__", lambda self, **_: setattr(self, "_profile", None))
    assert made.empty_ns() is None


def test_small_cold_inputs_are_left_in_the_cache_and_reported(gpu: Gpu) -> None:
    made = prepared(gpu, item("i", "aten", spec("aten::add", tensor([64, 32]), tensor([32]), scalar(1))), 2_000.0)
    assert (made.flushes, made.cold_bytes) == (0, 128)


def test_cold_inputs_that_matter_are_flushed(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "LITTLE_COLD_BYTES", 0)
    made = prepared(gpu, item("i", "aten", spec("aten::relu", tensor([64]))), 1e6, "cold")
    assert made.flushes == pytest.approx(1 / 4)
    assert gpu.launched == ["flush"]


def test_what_cannot_be_captured_runs_call_by_call(gpu: Gpu) -> None:
    made = prepared(gpu, item("i", "aten", MM), 1e6, capture=False)
    assert isinstance(made.load, EagerLoad)
    made.load.begin()
    gpu.end_s = gpu.now_s + 1.0
    assert made.load.top_up(0.01), "all of it is queued: the device has done none"
    assert made.load.mark()[0] == 0
    gpu.now_s += 2.0
    assert made.load.mark()[0] >= 10


def test_references_of_a_gpu(gpu: Gpu) -> None:
    made = GpuLoads(Options(device="cpu"))
    made.empty()
    assert set(gpu.launched) == {"nothing"}
    assert len(gpu.launched) == 4096
    made.flush()
    assert gpu.launched == ["flush"] * 16
    assert made.flush_bytes == 3 * L2
    assert made.anchor().kind == "graph"


def test_calls_that_are_not_there_say_so(gpu: Gpu) -> None:
    with pytest.raises(UnresolvedCallError, match="cannot be built again"):
        GpuLoads(Options(device="cpu")).call(item("i", "aten", MM), 99, 1e6, capture=True)


def test_a_cpu_is_busy_while_it_calls() -> None:
    made = Loads(Options(device="cpu")).call(item("i", "memory", None, copy(4096)), 0, 1000.0, capture=True)
    made.load.begin()
    assert not made.load.top_up(0.25)
    first = made.load.mark()
    made.load.top_up(0.25)
    assert 0 < made.load.per_call(first, made.load.mark()) < 0.01
    with pytest.raises(RuntimeError, match="no call ended"):
        made.load.per_call(first, first)
    made.close()
