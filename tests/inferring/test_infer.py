"""Candidates from names, grids, durations and neighbours, against the calls that really ran."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from kerneldb.replay.infer import calls, grids, infer
from kerneldb.replay.infer.calls import Tensor
from kerneldb.replay.infer.dims import ModelDims, completed, from_config
from kerneldb.replay.infer.search import scaled
from kerneldb.replay.plan.unknowns import Clues, Guess, Kind, Sequence
from kerneldb.replay.wire.plan import CallSpec, OpCall
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
    made = calls.call("example", Tensor((2, 3), "fp16"), (Tensor((4,), "fp32"),), "-1", (5, 6), None)
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


PRODUCT = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"
ONE_TOKEN = Kind("s", PRODUCT, grid=(4, 22, 1), block=(384, 1, 1), shared_bytes=164_308, wanted=True)
"""A product of examples/decoder-h200.json.gz: one token by a weight of 2048 × 5632, in 8,096 ns."""


def recorded(op: str, *dims: list[int]) -> OpCall:
    """A call of which another step of the run tells the dims."""
    return OpCall(f"aten::{op}", json.dumps(list(dims)))


@pytest.mark.parametrize(
    "weight",
    [recorded("mm", [128, 2048], [2048, 5632]), recorded("linear", [1, 128, 2048], [5632, 2048], [5632])],
    ids=["mm", "linear"],
)
def test_weights_recorded_in_the_run_come_first(weight: OpCall) -> None:
    sequence = Sequence("t", traces.H200, (ONE_TOKEN,), (0,), (8096,), (0,), ("decode",))
    others = [recorded("mm", [128, 2048], [2048, 512]), recorded("addmm", [2048], [128, 5632], [5632, 2048])]
    (guess,) = infer(sequence, Clues(tuple((one, 48) for one in (*others, weight))))
    assert dims(guess) == ("aten::mm", [[1, 2048], [2048, 5632]])
    assert "a weight recorded in the run" in guess.candidates[0].why
    (alone,) = infer(sequence, Clues())
    assert dims(alone) != dims(guess)


def test_the_dims_of_a_model_are_read_from_recorded_calls() -> None:
    seen = [
        (recorded("index_select", [32000, 2048], [], [128]), 2),
        (recorded("_scaled_dot_product_flash_attention", [1, 32, 128, 64], [1, 4, 128, 64], [1, 4, 128, 64]), 24),
        (recorded("native_layer_norm", [1, 128, 2048], [], [2048], [2048]), 49),
        (recorded("mm", [], [2048, 0]), 3),
        (OpCall("aten::mm", "[[[1, 2]], [[2, 3]]]"), 3),
        (OpCall("aten::mm"), 3),
    ]
    model = completed(ModelDims(ffn=5632, heads=1), seen)
    assert (model.vocab, model.hidden, model.heads, model.kv_heads, model.head_dim) == (32000, 2048, 32, 4, 64)
    assert (model.ffn, model.weights) == (5632, ())


@pytest.mark.parametrize(
    ("call", "widths"),
    [
        (OpCall("aten::mm", "[[1, 64], [64, 3]]", None), [[[1, 128], [128, 3]]]),
        (OpCall("aten::mm", "[[], [64, 3]]", "[[], [3, 1]]"), []),
        (OpCall("aten::mm", "[[1, 64]]", "[[64, 1]]"), []),
        (OpCall("aten::mm", None), []),
        (OpCall("aten::sum", "[[[4, 64]]]", "[[[64, 1]]]"), []),
    ],
    ids=["no strides", "no dims", "one factor", "nothing", "a list of tensors"],
)
def test_calls_of_which_little_was_recorded_are_scaled_as_far_as_they_go(
    call: OpCall, widths: list[list[list[int]]]
) -> None:
    made = list(scaled(CallSpec(call), 2.0))
    assert [json.loads(one.call.input_dims or "") for one, _ in made] == widths
    assert all(one.call.input_strides is None for one, _ in made)


def test_the_language_part_of_a_multimodal_config_counts() -> None:
    text = {"hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944}
    around = {"vocab_size": 152064, "hidden_size": 1280, "vision_config": {"hidden_size": 1152}}
    for config in ({**around, "text_config": text}, {**around, "thinker_config": {"text_config": text, "n_inner": 5}}):
        model = from_config(config, "bf16")
        assert (model.hidden, model.heads, model.kv_heads, model.ffn) == (3584, 28, 4, 18944)
        assert (model.head_dim, model.vocab) == (128, 152064)


@pytest.mark.parametrize("kernel", ["batch_norm_collect_statistics_kernel", "batch_norm_transform_input_kernel"])
def test_a_norm_over_channels_is_no_norm_of_rows(kernel: str) -> None:
    """64 channels of an image, as a MI210 ran them: neither tokens, nor a layer norm."""
    kind = traces.kernel(f"void at::native::{kernel}<c10::BFloat16, c10::BFloat16, float, int>(int)", (64, 5, 1))
    assert grids.rows(kind) is None
    (guess,) = infer(Sequence("t", traces.H200, (kind,), (0,), (35_870,), (0,), (None,)), Clues())
    assert guess.candidates == ()
    assert "no size fits" in (guess.reason or "")
