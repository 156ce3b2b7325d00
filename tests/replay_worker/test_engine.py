"""The engine's decisions, on a executor that plays back prepared kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from kerneldb.replay import routes
from kerneldb.replay.measure.loops import spread
from kerneldb.replay.options import Options
from kerneldb.replay.routes import grades
from kerneldb.replay.routes.base import Route
from kerneldb.replay.wire.messages import Begin, Message, Result
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.results import Activity, CallResult, DeviceState, Grade, LoopCost
from kerneldb.replay.worker import engine
from kerneldb.replay.worker.engine import Engine
from kerneldb.replay.worker.executor import BrokenDeviceError, Ring, Timed, Verdict
from kerneldb.replay.worker.profiling import Marked
from tests.replay_worker.plans import ADD, GEMM, OTHER_TILE, item, kernel

LOOP = spread([1000.0] * 9)


@dataclass
class Played:
    """A call that brings out a kernel of this name, or fails; `spread_ns` makes its durations wander."""

    name: str = GEMM
    error: Exception | None = None
    spread_ns: float = 0.0
    overload: str = "aten::mm.default"
    inputs: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()

    def call(self) -> None: ...
    def refill(self, seed: int = 0) -> None: ...


@dataclass
class PlayRoute(Route):
    """Gives each item its prepared calls."""

    calls: dict[str, list[Played]]
    name: str = "played"

    def prepare(self, item: Item, device: str) -> Iterator[Any]:
        del device
        return iter(self.calls[item.id])


@dataclass
class FakeExecutor:
    """Sees what calls play; `crowded` items find no memory while others are held."""

    broken: bool = False
    crowded: frozenset[str] = frozenset()
    sessions: list[list[str]] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)
    seen: dict[str, list[Marked]] = field(default_factory=dict)

    @contextlib.contextmanager
    def session(self) -> Iterator[Any]:
        self.seen = {}
        self.sessions.append([])
        yield SimpleNamespace(seen=self.seen)

    def room(self) -> bool:
        return True

    def rehearse(self, call: Any, item: Item, label: str, runs: int) -> Ring:
        if item.id in self.crowded and self.sessions[-1]:
            msg = "CUDA out of memory"
            raise RuntimeError(msg)
        if call.error is not None:
            raise call.error
        self.sessions[-1].append(item.id)
        durations = (2000.0 + call.spread_ns * (number % 7) for number in range(runs))
        self.seen[label] = [
            Marked([Activity("kernel", call.name, one, (4, 1, 1), (128, 1, 1), 1024)]) for one in durations
        ]
        return Ring(10, 2)

    def judge(self, item: Item, call: Any, attempt: int, marked: Sequence[Marked]) -> Verdict:
        activities = marked[0].activities
        durations = [[run.activities[0].duration_ns for run in marked]]
        match = grades.compare(item.kernels, activities)
        return Verdict(attempt, match, call.overload, call.notes, tuple(activities), durations)

    def measure(self, call: Any, item: Item, verdict: Verdict) -> Timed:
        del item, verdict
        self.measured.append(call.name)
        assert LOOP is not None
        return Timed(loop=LoopCost(LOOP, 100, 2))

    def check(self) -> None:
        if self.broken:
            msg = "illegal memory access"
            raise BrokenDeviceError(msg)

    def release(self) -> None: ...

    def state(self) -> DeviceState | None:
        return DeviceState(sm_mhz=1980)


@dataclass
class Notes:
    """What the engine reported."""

    results: list[CallResult] = field(default_factory=list)
    begun: list[tuple[str | None, str]] = field(default_factory=list)

    def __call__(self, message: Message) -> None:
        match message:
            case Begin(item, phase):
                self.begun.append((item, phase))
            case Result(call):
                self.results.append(call)

    @property
    def last(self) -> dict[str, CallResult]:
        return {one.item: one for one in self.results}


def replay(
    calls: dict[str, list[Played]], executor: FakeExecutor | None = None, **options: Any
) -> tuple[Notes, FakeExecutor]:
    routes.register(PlayRoute(calls))
    executor = executor or FakeExecutor()
    notes = Notes()
    items = [item(name, "played", None, kernel()) for name in calls]
    Engine(executor, Options(**options), notes).run(items)
    return notes, executor


def test_the_first_call_that_matches_is_timed() -> None:
    notes, executor = replay({"a": [Played()]})
    result = notes.last["a"]
    assert (result.grade, result.status, result.tries, result.runs, result.final) == ("L0", "ok", 1, 12, True)
    assert result.loop is not None
    assert (result.kernels[0].grade, result.kernels[0].share, result.inputs["ring"]) == ("L0", 1.0, 2)
    assert executor.measured == [GEMM]
    assert result.state == DeviceState(sm_mhz=1980)


def test_misses_are_tried_again_after_all_first_tries_in_shared_sessions() -> None:
    missing = [Played(OTHER_TILE), Played(GEMM)]
    notes, executor = replay({"a": missing, "b": [Played()], "c": missing})
    assert executor.sessions == [["a", "b", "c"], ["a", "c"], ["a", "c"]]
    assert [(one.grade, one.tries) for one in notes.last.values()] == [("L0", 2), ("L0", 1), ("L0", 2)]


def test_a_miss_is_reported_at_once_and_not_final() -> None:
    notes, _ = replay({"a": [Played(OTHER_TILE), Played(GEMM)]})
    told = [("L2", False), ("L0", False), ("L0", False), ("L0", True)]
    assert [(one.grade, one.final) for one in notes.results] == told


def test_second_tries_are_looked_at_and_the_one_that_stands_is_run_in_full() -> None:
    notes, executor = replay({"a": [Played(OTHER_TILE), Played(ADD), Played(GEMM)]}, runs=100)
    assert [one.runs for one in notes.results] == [100, 100, 6, 100, 100]
    assert executor.sessions == [["a"]] * 4


def test_a_first_try_that_stands_has_been_run_in_full() -> None:
    notes, executor = replay({"a": [Played(OTHER_TILE), Played(ADD)]}, runs=100)
    assert {one.runs for one in notes.results} == {100}
    assert executor.sessions == [["a"], ["a"], []]


@pytest.mark.parametrize(
    "calls",
    [
        [Played(ADD), Played(OTHER_TILE)],
        [Played(ADD), Played(OTHER_TILE), Played(error=ValueError("no"))],
        [Played(error=ValueError("no")), Played(OTHER_TILE)],
    ],
)
def test_a_second_try_that_stands_for_want_of_others_is_run_in_full(calls: list[Played]) -> None:
    notes, executor = replay({"a": calls}, runs=100)
    assert (notes.last["a"].grade, notes.last["a"].runs, notes.last["a"].final) == ("L2", 100, True)
    assert executor.measured == [OTHER_TILE]


def test_what_lasts_is_not_run_again_for_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CAP_NS", 6 * 2000.0)
    notes, _ = replay({"a": [Played(OTHER_TILE), Played(GEMM)]}, runs=100)
    assert (notes.last["a"].grade, notes.last["a"].runs) == ("L0", 6)


def test_a_call_that_comes_out_otherwise_when_run_again_is_noted() -> None:
    one, other = (verdict_of(name) for name in (GEMM, OTHER_TILE))
    one.extend(verdict_of(GEMM, notes=("drift",), waits=True))
    assert (len(one.durations[0]), one.notes, one.waits) == (4, ("drift",), True)
    one.extend(other)
    assert (len(one.durations[0]), one.notes) == (4, ("drift", "kernels differ between runs"))


def verdict_of(name: str, **more: Any) -> Verdict:
    seen = Activity("kernel", name, 2000.0, (4, 1, 1), (128, 1, 1), 1024)
    return Verdict(
        0, grades.compare((kernel(),), [seen]), "aten::mm", activities=(seen,), durations=[[2e3] * 2], **more
    )


def test_few_runs_are_no_fewer_in_a_second_try() -> None:
    notes, _ = replay({"a": [Played(OTHER_TILE), Played(GEMM)]}, runs=6)
    assert [one.runs for one in notes.results] == [6, 6, 6]


def test_the_best_call_is_kept_and_timed() -> None:
    notes, executor = replay({"a": [Played(ADD), Played(OTHER_TILE), Played(ADD)]})
    result = notes.last["a"]
    assert (result.grade, result.tries, result.reason) == ("L2", 4, "other kernel")
    assert executor.measured == [OTHER_TILE]


def test_tries_are_limited() -> None:
    notes, executor = replay({"a": [Played(ADD)] * 30}, tries=4)
    assert len(executor.sessions) == 4
    assert notes.last["a"].tries == 4


def test_calls_that_fail_make_way_for_the_next_in_the_same_session() -> None:
    refused = Played(error=ValueError("no such shape"))
    notes, executor = replay({"a": [refused, Played()], "b": [refused]})
    assert notes.last["a"].grade == "L0"
    assert (notes.last["b"].status, notes.last["b"].grade) == ("failed", "L4")
    assert notes.last["b"].reason == "ValueError: no such shape"
    assert executor.sessions[0] == ["a"]


def test_memory_errors_cost_one_item() -> None:
    notes, _ = replay({"a": [Played(error=MemoryError())], "b": [Played()]})
    assert [(one.grade, one.reason) for one in notes.last.values()] == [("L4", "MemoryError"), ("L0", None)]


def test_an_item_without_memory_beside_others_runs_alone() -> None:
    notes, executor = replay({"a": [Played()], "b": [Played()]}, FakeExecutor(crowded=frozenset({"b"})))
    assert executor.sessions == [["a"], ["b"]]
    assert notes.last["b"].grade == "L0"


def test_a_broken_context_ends_the_worker_at_the_item() -> None:
    with pytest.raises(BrokenDeviceError):
        replay({"a": [Played(error=RuntimeError("CUDA error"))]}, FakeExecutor(broken=True))


def test_wandering_durations_get_more_runs() -> None:
    notes, executor = replay({"a": [Played(spread_ns=90.0)], "b": [Played()]})
    assert executor.sessions == [["a", "b"], ["a"], ["a"]]
    assert notes.last["a"].runs == 12 + 36 + 36


def test_batches_have_their_limit() -> None:
    _, executor = replay({name: [Played()] for name in "abcde"}, batch=2)
    assert executor.sessions == [["a", "b"], ["c", "d"], ["e"]]


def test_unknown_routes_say_what_there_is() -> None:
    notes = Notes()
    Engine(FakeExecutor(), Options(), notes).run([item("a", "nowhere", None, kernel())])
    assert "no route 'nowhere'" in str(notes.last["a"].reason)


def test_a_route_that_cannot_compare_costs_its_items_only() -> None:
    class Odd(FakeExecutor):
        def judge(self, item: Item, call: Any, attempt: int, marked: Sequence[Marked]) -> Verdict:
            if item.id == "a":
                msg = "odd"
                raise ValueError(msg)
            return super().judge(item, call, attempt, marked)

    notes, _ = replay({"a": [Played()], "b": [Played()]}, Odd())
    assert (notes.last["a"].grade, notes.last["a"].reason) == (Grade.L4, "ValueError: odd")
    assert notes.last["b"].grade is Grade.L0
