"""The search: what is tried next, what is accepted, and what is kept of it; with a fake GPU under the real engine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from kerneldb.replay import routes
from kerneldb.replay.infer import infer
from kerneldb.replay.infer.search import Attempt, Search
from kerneldb.replay.options import Options
from kerneldb.replay.plan.unknowns import Clues, Guess, Sequence
from kerneldb.replay.routes import grades
from kerneldb.replay.wire.messages import Message, Result
from kerneldb.replay.wire.plan import Donor, Item, PlannedKernel
from kerneldb.replay.wire.results import Activity, CallResult
from kerneldb.replay.worker.engine import Engine
from kerneldb.replay.worker.executor import Ring, Timed, Verdict
from tests.inferring import traces

pytest.importorskip("torch")

Answer = Callable[[Attempt], tuple[str, float]]


def item(sequence: Sequence, guess: Guess) -> Item:
    """A guess as an item of a plan."""
    kernels = []
    for ordinal, places in enumerate(guess.kernels):
        kind = sequence.kinds[sequence.order[places[0]]]
        median = sequence.duration_ns[places[0]]
        kernels.append(
            PlannedKernel(
                ordinal, kind.signature_id, kind.name, kind.kind, kind.grid, kind.block, kind.shared_bytes, kind.bytes,
                median_ns=median, total_ns=median,
            )
        )  # fmt: skip
    return Item(f"item{guess.kernels[0][0]}", "inferred", None, tuple(kernels), guess.candidates)


def item_at(place: int) -> Item:
    """The item of the launch at `place` of the test trace."""
    sequence = traces.prefill()
    guesses = infer(sequence, Clues((), traces.CONFIG))
    return item(sequence, next(one for one in guesses if any(place in places for places in one.kernels)))


@dataclass
class FakeGpu:
    """Answers a call with the recorded kernels under a name, times a factor of their recorded duration."""

    answer: Answer
    searches: Mapping[str, Search]
    tried: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def session(self) -> Iterator[Any]:
        yield SimpleNamespace(seen={})

    def room(self) -> bool:
        return True

    def rehearse(self, call: Any, item: Item, label: str, runs: int) -> Ring:
        del call, label, runs
        assert item.spec is not None
        self.tried.append(item.spec.call.op)
        return Ring()

    def judge(self, item: Item, call: Any, attempt: int, marked: Any) -> Verdict:
        del marked
        name, factor = self.answer(self.searches[item.id].attempts[attempt])
        seen = tuple(
            Activity(one.kind, name or one.name, 0.0, one.grid, one.block, one.shared_bytes, one.bytes)
            for one in item.kernels
        )
        durations = [[(one.median_ns or 0) * factor] * 9 for one in item.kernels]
        return Verdict(attempt, grades.compare(item.kernels, seen), call.overload, (), seen, durations)

    def measure(self, call: Any, item: Item, verdict: Verdict) -> Timed:
        del call, verdict
        assert item.spec is not None
        return Timed()

    def check(self) -> None: ...
    def release(self) -> None: ...
    def state(self) -> None: ...


@dataclass
class Results:
    """The last result of every item."""

    by_item: dict[str, CallResult] = field(default_factory=dict)

    def __call__(self, message: Message) -> None:
        if isinstance(message, Result):
            self.by_item[message.call.item] = message.call


def find(wanted: Item, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> CallResult:
    """Search for the call of an item on a fake GPU; nothing is computed (meta tensors)."""
    searches = {wanted.id: Search(wanted)}
    monkeypatch.setattr(routes, "search", lambda one: searches[one.id])
    results = Results()
    Engine(FakeGpu(answer, searches), Options(device="meta", loops=False), results).run([wanted])
    return results.by_item[wanted.id]


def depth(attempt: Attempt) -> int:
    """K of a product, else 0."""
    dims = [one for one in json.loads(attempt.spec.call.input_dims or "[]") if len(one) > 1]
    return int(dims[0][-1]) if "mm" in attempt.spec.call.op else 0


def test_the_first_candidate_is_accepted_where_it_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    result = find(item_at(3), lambda _: ("", 1.02), monkeypatch)
    assert (result.grade, len(result.trail)) == ("L0", 1)
    assert result.trail[0].accepted
    assert result.found is not None
    assert result.found.spec.call == item_at(3).candidates[0].spec.call


def test_the_donor_of_a_candidate_that_agrees_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = item_at(3)
    donor = Donor("known", "t1", 7)
    first = replace(wanted.candidates[0], source="inherited", donor=donor)
    result = find(replace(wanted, candidates=(first, *wanted.candidates[1:])), lambda _: ("", 1.02), monkeypatch)
    assert result.found is not None
    assert (result.found.source, result.found.donor) == ("inherited", donor)


def test_candidates_go_on_until_kernel_and_time_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = item_at(3)
    right = wanted.candidates[4].spec.call

    def answer(attempt: Attempt) -> tuple[str, float]:
        return ("", 1.0) if attempt.spec.call == right else ("another_kernel", 0.5)

    result = find(wanted, answer, monkeypatch)
    assert result.found is not None
    assert result.found.spec.call == right
    assert [one.accepted for one in result.trail] == [False] * 4 + [True]
    assert result.trail[0].same_name is False


def test_an_open_dim_follows_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of a K nobody proposed: persistent, so that only the duration tells."""
    hidden = 1536

    def answer(attempt: Attempt) -> tuple[str, float]:
        return ("", 0.1 if attempt.cache else depth(attempt) / hidden)

    wanted = item_at(3)
    few = Item(wanted.id, wanted.route, None, wanted.kernels, wanted.candidates[:1])
    result = find(few, answer, monkeypatch)
    assert result.found is not None
    assert "by time" in result.found.why
    assert json.loads(result.found.spec.call.input_dims or "[]")[1][-1] == hidden


def test_a_call_that_is_accepted_and_off_is_run_from_another_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    result = find(item_at(3), lambda one: ("", 1.03 if one.cache == "cold" else 0.87), monkeypatch)
    assert result.found is not None
    assert result.found.why.endswith("cache:cold")
    assert result.trail[-1].accepted
    assert not any("by time" in one.why for one in result.trail)


def test_no_size_goes_by_the_time_of_a_call_that_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = item_at(3)
    result = find(wanted, lambda one: ("", 1.0 if one.scaled else 0.86), monkeypatch)
    assert result.found is not None
    assert result.found.spec.call == wanted.candidates[0].spec.call
    assert [one.why[-10:] for one in result.trail[-2:]] == ["cache:cold", "cache:warm"]


def test_a_call_within_10_percent_is_run_in_one_way(monkeypatch: pytest.MonkeyPatch) -> None:
    result = find(item_at(3), lambda _: ("", 0.92), monkeypatch)
    assert not any("cache:" in one.why for one in result.trail)


def test_masked_values_explain_a_slow_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(attempt: Attempt) -> tuple[str, float]:
        return "", 1.0 if attempt.values == "masked" else 0.79

    result = find(item_at(5), answer, monkeypatch)
    assert result.found is not None
    assert "values:masked" in result.found.why
    assert result.grade == "L0"


def test_nothing_is_accepted_where_the_time_never_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    result = find(item_at(12), lambda _: ("", 3.0), monkeypatch)
    assert result.found is None
    assert result.grade == "L0"
    assert not any(one.accepted for one in result.trail)
    assert any("cache:cold" in one.why for one in result.trail)


def test_an_item_without_candidates_fails_with_a_reason() -> None:
    empty = Item("none", "inferred", None, item_at(3).kernels)
    assert routes.search(empty) is None
    results = Results()
    Engine(FakeGpu(lambda _: ("", 1.0), {}), Options(device="meta"), results).run([empty])
    assert results.by_item["none"].grade == "L4"
    assert "no call was proposed" in (results.by_item["none"].reason or "")


def came_out(wanted: Item, attempt: int, factor: float = 1.0, **launch: Any) -> Verdict:
    """A verdict on an attempt whose kernels have the recorded names, in `factor` times the recorded time."""
    alike = (
        Activity(one.kind, one.name, 0.0, one.grid, one.block, one.shared_bytes, one.bytes) for one in wanted.kernels
    )
    seen = tuple(replace(one, **launch) if one.kind == "kernel" else one for one in alike)
    durations = [[factor * (one.median_ns or 0)] * 9 for one in wanted.kernels]
    return Verdict(attempt, grades.compare(wanted.kernels, seen), "aten::mm", (), seen, durations)


@pytest.mark.parametrize(("factor", "accepted"), [(0.84, False), (0.855, True), (1.145, True), (1.16, False)])
def test_a_call_is_accepted_within_15_percent_of_the_recorded_time(factor: float, accepted: bool) -> None:
    wanted = item_at(0)
    search = Search(wanted)
    search.judged(came_out(wanted, 0, factor))
    assert (search.found() is not None) is accepted


def test_a_call_is_accepted_by_all_its_runs() -> None:
    wanted = item_at(0)
    search, verdict = Search(wanted), came_out(wanted, 0, 0.87)
    search.judged(verdict)
    assert search.found() is not None
    for _ in range(3):
        verdict.extend(came_out(wanted, 0, 0.7))
    search.judged(verdict)
    assert search.found() is None
    (tried,) = search.trail()
    assert tried.time_ns == pytest.approx(0.7 * (tried.recorded_ns or 0))
    assert not tried.accepted


def test_a_call_that_found_no_memory_at_first_is_told_of_all_its_runs() -> None:
    wanted = item_at(0)
    search, verdict = Search(wanted), came_out(wanted, 0)
    search.failed(0, "CUDA out of memory")
    search.judged(verdict)
    search.failed(0, "CUDA out of memory")
    verdict.extend(came_out(wanted, 0))
    search.judged(verdict)
    assert [one.reason for one in search.trail()] == ["CUDA out of memory", None, "CUDA out of memory"]
    assert [one.accepted for one in search.trail()] == [False, True, False]


def test_equal_times_on_another_grid_are_not_accepted() -> None:
    search = Search(item_at(3))
    search.judged(came_out(item_at(3), 0, grid=(8, 16, 1)))
    assert search.found() is None
    (tried,) = search.trail()
    assert (tried.same_name, tried.same_grid, tried.accepted) == (True, False, False)
    assert tried.grade == "L1"
    assert search.goes_on(0)


def test_the_recorded_grid_counts_before_a_better_time() -> None:
    wanted = item_at(3)
    search = Search(wanted)
    other, slower = came_out(wanted, 0, grid=(8, 16, 1)), came_out(wanted, 1, 1.12, shared_bytes=1)
    for one in (other, slower):
        search.judged(one)
    assert search.better(slower, other)
    found = search.found()
    assert found is not None
    assert found.spec.call == wanted.candidates[1].spec.call


def test_a_trace_without_grids_is_judged_by_names_and_time() -> None:
    wanted = item_at(3)
    bare = replace(wanted, kernels=tuple(replace(one, grid=None, block=None) for one in wanted.kernels))
    search = Search(bare)
    search.judged(came_out(bare, 0, grid=(8, 16, 1), block=(128, 1, 1)))
    assert search.found() is not None
    (tried,) = search.trail()
    assert (tried.same_grid, tried.accepted) == (None, True)
