"""Candidates from names, grids, durations and neighbours, against the calls that really ran."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from kerneldb.replay.inferring import calls, grids, infer
from kerneldb.replay.inferring.calls import Nothing, Number, Numbers, Tensor, Tensors
from kerneldb.replay.inferring.refine import scaled
from kerneldb.replay.unknowns import Clues, Guess, Kind
from tests.inferring import traces


def dims(guess: Guess, rank: int = 0) -> tuple[str, list[list[int]]]:
    """Operator and dims of tensors of a candidate."""
    call = guess.candidates[rank].spec.call
    return call.op, [one for one in json.loads(call.input_dims or "[]") if one]


def at(guesses: list[Guess], place: int) -> Guess:
    """The guess that a launch is in."""
    return next(one for one in guesses if any(place in places for places in one.kernels))


@pytest.mark.parametrize("config", [traces.CONFIG, None], ids=["config", "trace only"])
def test_a_layer_is_found_from_its_launches(config: dict[str, int] | None) -> None:
    guesses = infer(traces.prefill(), Clues((), config))
    expected = {
        1: ("aten::native_layer_norm", [[8, 1024, 1024], [1024], [1024]]),
        3: ("aten::addmm", [[3072], [8192, 1024], [1024, 3072]]),
        4: ("aten::add", [[8, 16, 1024, 1024], [8, 1, 1024, 1024]]),
        5: ("aten::_softmax", [[8, 16, 1024, 1024]]),
        6: ("aten::bmm", [[128, 1024, 1024], [128, 1024, 64]]),
        7: ("aten::addmm", [[1024], [8192, 1024], [1024, 1024]]),
        8: ("aten::add", [[8, 1024, 1024], [8, 1024, 1024]]),
        11: ("aten::addmm", [[4096], [8192, 1024], [1024, 4096]]),
        12: ("aten::tanh", [[8, 1024, 4096]]),
        13: ("aten::addmm", [[1024], [8192, 4096], [4096, 1024]]),
    }
    assert {place: dims(at(guesses, place)) for place in expected} == expected


def test_every_wanted_launch_is_in_one_guess_and_repeated_layers_share_them() -> None:
    sequence = traces.prefill(layers=4)
    guesses = infer(sequence, Clues((), traces.CONFIG))
    counts = Counter(place for guess in guesses for places in guess.kernels for place in places)
    wanted = {place for place, kind in enumerate(sequence.order) if sequence.kinds[kind].wanted}
    assert set(counts.values()) == {1}
    assert wanted <= set(counts)
    assert len(at(guesses, 5).kernels[0]) == 4


def test_the_fill_before_a_product_belongs_to_it() -> None:
    guesses = infer(traces.prefill(), Clues((), traces.CONFIG))
    assert len(at(guesses, 3).kernels) == 2
    assert [places[0] for places in at(guesses, 3).kernels] == [2, 3]


def test_a_kernel_without_rules_is_a_guess_with_a_reason() -> None:
    unknown = traces.kernel("my_kernel(float*)", (7, 1, 1))
    (guess,) = infer(traces.sequence([(unknown, 5000)]), Clues())
    assert guess.candidates == ()
    assert "no rules" in (guess.reason or "")


def test_candidates_say_why_and_come_best_first() -> None:
    guess = at(infer(traces.prefill(), Clues((), traces.CONFIG)), 3)
    scores = [one.score for one in guess.candidates]
    assert scores == sorted(scores, key=lambda one: -(one or 0))
    assert "query, key and value" in guess.candidates[0].why
    assert guess.candidates[0].expected_ns == pytest.approx(72528, rel=0.15)


def test_nothing_comes_of_an_empty_sequence() -> None:
    assert infer(traces.sequence([]), Clues()) == []


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        (traces.kernel(traces.ADD, (8192, 1, 1)), 8 * 1024 * 1024),
        (traces.kernel(traces.TANH, (32768, 1, 1)), 8 * 1024 * 4096),
        (traces.kernel(traces.MASK_ADD, (262144, 1, 1)), 8 * 16 * 1024 * 1024),
    ],
)
def test_grids_hold_the_elements_that_ran(kind: Kind, count: int) -> None:
    first = grids.elements(kind)[0]
    assert first.holds(count)
    assert not first.holds(first.most + 1)


def test_rows_come_from_blocks() -> None:
    softmax = grids.rows(traces.kernel(traces.SOFTMAX, (32768, 1, 1), (32, 4, 1)))
    assert softmax is not None
    assert softmax.holds(8 * 16 * 1024)
    assert grids.rows(traces.kernel(traces.NORM, (8192, 1, 1), (32, 4, 1))) == grids.Span(8192, 8192)


def test_calls_are_written_as_the_profiler_writes_them() -> None:
    made = calls.call(
        "example", Tensor((2, 3), "fp16"), Tensors((Tensor((4,), "fp32"),)), Number("-1"), Numbers((5, 6)), Nothing()
    )
    assert made.op == "aten::example"
    assert made.input_dims == "[[2, 3], [[4]], [], [], []]"
    assert made.input_strides == "[[3, 1], [[1]], [], [], []]"
    assert made.input_dtypes == '["c10::Half", "TensorList", "Scalar", "ScalarList", ""]'
    assert made.scalars == '["", "", "-1", "[5, 6]", ""]'


def test_open_dims_are_scaled_by_time_and_strides_keep_their_order() -> None:
    weight = Tensor((1024, 4096), "fp16", calls.transposed((1024, 4096)))
    spec = calls.spec("mm", Tensor((8, 1024), "fp16"), weight)
    (changed, word), *_ = list(scaled(spec, 2.0))
    assert json.loads(changed.call.input_dims or "") == [[8, 2048], [2048, 4096]]
    assert json.loads(changed.call.input_strides or "") == [[2048, 1], [1, 2048]]
    assert word == "K 2048 by time"
    assert list(scaled(calls.spec("tanh", Tensor((8,), "fp16")), 2.0)) == []
