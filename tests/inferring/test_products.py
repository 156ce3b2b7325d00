"""Which sizes of matrix products come first: what the grid, the run and its attention allow."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from kerneldb.replay.infer import infer
from kerneldb.replay.infer.dims import ModelDims, completed
from kerneldb.replay.plan.unknowns import Clues, Device, Kind
from kerneldb.replay.wire.plan import Candidate, OpCall
from tests.inferring import traces

H100 = Device("NVIDIA H100", "NVIDIA", "sm_90", 132, 3350.0, {"fp32": 67.0, "bf16": 989.0})
AMPERE = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute"
HOPPER = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, bf16> >(Params)"
RANGE = (
    "void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out(c10::Scalar const&, "
    "at::Tensor&)::{lambda()#1}::operator()() const::{lambda()#4}::operator()() const::{lambda(long)#1}>(int)"
)
TENSILE = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_MT32x32x256_MI16x16x1"
QWEN = {
    "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16, "num_key_value_heads": 16,
    "vocab_size": 151936,
}  # fmt: skip
MIXTRAL = {
    "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
    "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
}  # fmt: skip
HEAD = OpCall("aten::mm", json.dumps([[32, 2880], [2880, 201088]]))
EMBEDDING = "a common vocabulary"


def rows(count: int) -> tuple[Kind, int]:
    """A normalisation of so many tokens."""
    return traces.kernel(traces.NORM, (count, 1, 1), (32, 4, 1)), 20_000


def lookup(count: int) -> tuple[Kind, int]:
    """A lookup of so many tokens."""
    return traces.kernel(traces.GATHER, (count, 1, 1)), 9_000


def proposed(launches: list[tuple[Kind, int]], wanted: str, clues: Clues, device: Device) -> tuple[Candidate, ...]:
    """The candidates for the last launch of a kernel."""
    made = traces.sequence(launches)
    sequence = type(made)(made.trace, device, made.kinds, made.order, made.duration_ns, made.start_ns, made.phase)
    last = max(place for place, kind in enumerate(sequence.order) if sequence.kinds[kind].name == wanted)
    return next(one.candidates for one in infer(sequence, clues) if any(last in places for places in one.kernels))


def dims(candidate: Candidate) -> list[list[int]]:
    """The dims of the tensors of a call."""
    return [one for one in json.loads(candidate.spec.call.input_dims or "[]") if one]


def test_kernels_that_are_not_persistent_have_as_many_blocks_as_tiles() -> None:
    """128 blocks on 132 multiprocessors are no wave of a product with 3,200 tiles."""
    positions = (traces.kernel(RANGE, (1, 1, 1), (64, 1, 1)), 2_000)
    launches = [lookup(12800), positions, rows(12800), (traces.kernel(AMPERE, (1, 16, 8)), 58_000)]
    listed = proposed(launches, AMPERE, Clues((), QWEN), H100)
    scores = next(one for one in listed if one.why.startswith("scores: 3200×64×64×64"))
    assert (scores.score or 0) < 0.7 * (listed[0].score or 0)


def attention(fused: bool) -> list[tuple[Kind, int]]:
    """A step of a layer's products around attention: a fused one, or a softmax of scores."""
    softmax = traces.kernel(traces.SOFTMAX, (35776, 1, 1), (32, 4, 1))
    middle = traces.kernel(FLASH, (5, 16, 16)) if fused else softmax
    product = traces.kernel(HOPPER, (132, 1, 1), (384, 1, 1))
    between = [(traces.kernel(traces.TANH, (8944, 1, 1)), 20_000)] * 4
    positions = (traces.kernel(RANGE, (9, 1, 1), (64, 1, 1)), 2_000)
    return [lookup(8944), positions, rows(8944), (middle, 90_000), *between, (product, 85_000)]


def scored(listed: tuple[Candidate, ...]) -> float:
    """The best score of a product of scores or values."""
    return max((one.score or 0 for one in listed if one.why.startswith(("scores", "values"))), default=0)


def test_fused_attention_leaves_no_product_of_scores() -> None:
    fused, open_ = (proposed(attention(one), HOPPER, Clues((), QWEN), H100) for one in (True, False))
    assert "tokens" in fused[0].why
    assert scored(fused) < 0.5 * (fused[0].score or 0)
    assert scored(open_) > 1.5 * scored(fused)


def test_scores_beside_a_softmax_count_though_other_layers_are_fused() -> None:
    softmax = (traces.kernel(traces.SOFTMAX, (35776, 1, 1), (32, 4, 1)), 90_000)
    near = [*attention(True)[:-1], softmax, attention(True)[-1]]
    assert scored(proposed(near, HOPPER, Clues((), QWEN), H100)) > 1.5 * scored(
        proposed(attention(True), HOPPER, Clues((), QWEN), H100)
    )


def test_width_and_vocabulary_come_from_a_recorded_product() -> None:
    """vLLM's decoding, of which only the product with the vocabulary stands outside the graph."""
    add = (traces.kernel(traces.ADD, (1, 1, 1)), 1_500)
    product = Kind("p", TENSILE, wanted=True)
    launches = [add, rows(32), *[(product, 16_000)] * 12]
    listed = proposed(launches, TENSILE, Clues(((HEAD, 1),)), H100)
    assert not any(EMBEDDING in one.why for one in listed)
    assert 2880 in {size for one in listed[:1] for shape in dims(one) for size in shape}


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({(2880, 201088): 1}, (2880, 201088)),
        ({(4096, 12288): 32, (4096, 4096): 32, (4096, 22016): 32, (11008, 4096): 32, (4096, 32000): 1}, (4096, 32000)),
        ({(2048, 1000): 4, (512, 1000): 4}, (0, 0)),
        ({(1024, 3072): 24, (1024, 1024): 24}, (1024, 0)),
    ],
    ids=["vocabulary", "decoder", "classifier", "layers"],
)
def test_weights_tell_the_width_and_the_vocabulary(
    weights: Mapping[tuple[int, int], int], expected: tuple[int, int]
) -> None:
    seen = [(OpCall("aten::mm", json.dumps([[16, k], [k, n]])), count) for (k, n), count in weights.items()]
    model = completed(ModelDims(), seen)
    assert (model.hidden, model.vocab) == expected


def test_norms_count_before_weights() -> None:
    norm = OpCall("aten::native_layer_norm", json.dumps([[1, 16, 512], [], [512], [512]]))
    product = OpCall("aten::mm", json.dumps([[16, 2048], [2048, 2048]]))
    assert completed(ModelDims(), [(norm, 1), (product, 50)]).hidden == 512


def test_other_widths_follow_the_recorded_one() -> None:
    """Half of the tokens were seen, and so twice the widths."""
    derived = ModelDims(
        hidden=2048, ffn=5632, heads=32, kv_heads=32, head_dim=64, widths=(2048, 5632, 1), source="trace"
    )
    norm = OpCall("aten::native_layer_norm", json.dumps([[1, 16, 1024], [], [1024], [1024]]))
    model = completed(derived, [(norm, 1)])
    assert (model.hidden, model.ffn, model.heads, model.widths) == (1024, 2816, 16, (1024, 2816))


def test_a_product_of_every_layer_is_not_that_of_the_vocabulary() -> None:
    """Without a config: 24 launches in a step are not the last product, 1 is."""
    shared = [lookup(128), rows(128), (traces.kernel(traces.ADD, (256, 1, 1)), 3_000), rows(128)]
    product = (traces.product(traces.LINEAR), 95_000)
    other = (traces.product(traces.VALUES), 40_000)
    layers = proposed([*shared, *[product] * 24], traces.LINEAR, Clues(), traces.H200)
    once = proposed([*shared, *[other] * 24, product], traces.LINEAR, Clues(), traces.H200)
    assert not any(EMBEDDING in one.why for one in layers)
    assert any(EMBEDDING in one.why for one in once)


def test_experts_multiply_the_rows_that_the_grid_shows() -> None:
    """A tile of rows by the 112 tiles of an expert's width, of 8 × 1024 tokens."""
    name = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x4_tn_align8>(T1::Params)"
    launches = [lookup(8192), rows(8192), (traces.kernel(name, (112, 9, 1)), 250_000)]
    listed = proposed(launches, name, Clues((), MIXTRAL), H100)
    assert dims(listed[0]) == [[1152, 4096], [4096, 14336]]
    assert "up of an expert, rows by the grid (the tokens of an expert are not known)" in listed[0].why
    even = next(one for one in listed if "shared out evenly" in one.why)
    assert dims(even)[-2][0] == 2048


def test_experts_of_persistent_kernels_have_rows_by_time() -> None:
    launches = [lookup(8192), rows(8192), (traces.product(traces.LINEAR.replace("_bias", "")), 400_000)]
    listed = proposed(launches, traces.LINEAR.replace("_bias", ""), Clues((), MIXTRAL), traces.H200)
    timed = [one for one in listed if "rows by time" in one.why]
    assert timed
    assert all(0 < dims(one)[-2][0] <= 8192 for one in timed)
    assert all("not known" in one.why for one in timed)


def test_an_expert_of_one_token_has_one_row() -> None:
    launches = [lookup(1), rows(1), (traces.product(traces.LINEAR), 30_000)]
    listed = proposed(launches, traces.LINEAR, Clues((), MIXTRAL), traces.H200)
    assert {dims(one)[-2][0] for one in listed if "expert" in one.why} == {1}


def test_an_assumed_feed_forward_width_is_said() -> None:
    layer = traces.prefill()
    guesses = [one for one in infer(layer, Clues((), traces.CONFIG)) if {11, 12, 13} & set(one.kernels[-1])]
    assert len(guesses) == 3
    assert all("4 × hidden assumed" in one.candidates[0].why for one in guesses)
    told = infer(layer, Clues((), {**traces.CONFIG, "intermediate_size": 4096}))
    assert not any("assumed" in one.why for guess in told for one in guess.candidates)
