"""Sizes of matrix products from nothing but a launch and its duration."""

from __future__ import annotations

import json

import pytest

from kerneldb.replay.infer import calls, infer
from kerneldb.replay.plan.unknowns import Clues, Device, Kind, Sequence
from tests.inferring import traces

TENSILE = "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI16x16x16x1_SN_1LDSB1"
RADEON = Device("Radeon 8060S", "AMD", "gfx1151", 40, 256.0, {"fp16": 59.4})
CUTLASS = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_32x3_tn_align8>(T1::Params)"
A100 = Device("A100", "NVIDIA", "sm_80", 108, 1555.0, {"bf16": 312.0, "fp16": 312.0})
VECTOR = "void gemv2T_kernel_val<int, int, double, double, double, double, 128, 16, 4, 4, 0>(double)"
T4 = Device("T4", "NVIDIA", "sm_75", 40, 320.0)
EIGHT_BITS = "cutlass3x_sm100_tensorop_s64x256x32gemm_f8_f8_f32_f16_f16_64x256x128_1x1x1_0_tnn_align4_1sm_bias_f16"


def alone(kind: Kind, duration_ns: int, device: Device) -> list[tuple[str, list[list[int]], str]]:
    """Operator, dims of tensors and reason of the candidates for a launch with nothing around it."""
    sequence = Sequence("t", device, (kind,), (0,), (duration_ns,), (0,), (None,))
    (guess,) = infer(sequence, Clues())
    return [
        (one.spec.call.op, [dims for dims in json.loads(one.spec.call.input_dims or "[]") if dims], one.why)
        for one in guess.candidates
    ]


@pytest.mark.parametrize(
    ("kind", "duration_ns", "device", "dims"),
    [
        (traces.kernel(TENSILE, (64, 64, 1)), 40_244_698, RADEON, [[8192, 8192], [8192, 8192]]),
        (traces.kernel(CUTLASS, (512, 1, 1)), 611_000, A100, [[4096, 4096], [4096, 4096]]),
        (traces.kernel(VECTOR, (1024, 1, 40), (128, 1, 1)), 2_484_200, T4, [[1, 8192], [8192, 8192]]),
    ],
)
def test_tiles_and_time_tell_the_size(kind: Kind, duration_ns: int, device: Device, dims: list[list[int]]) -> None:
    op, first, why = alone(kind, duration_ns, device)[0]
    assert (op, first) == ("aten::mm", dims)
    assert "by time" in why


def test_persistent_grids_tell_no_size_so_a_cube_stands_in() -> None:
    listed = alone(traces.product(traces.LINEAR.replace("_bias", "")), 250_000, traces.H200)
    assert {why.partition(":")[0] for _, _, why in listed} == {"a cube by time"}
    assert listed[0][1] == [[4096, 4096], [4096, 4096]]


def test_eight_bits_are_multiplied_with_scales() -> None:
    op, dims, _ = alone(traces.kernel(EIGHT_BITS, (9, 32, 1), (384, 1, 1)), 406_240, Device(arch="sm_100"))[0]
    assert op == "aten::_scaled_mm"
    assert dims[0][1] == dims[1][0]


def test_batches_stand_in_the_third_dim_of_the_grid() -> None:
    listed = alone(traces.kernel(CUTLASS, (8, 4, 16)), 200_000, A100)
    assert any(op == "aten::bmm" and dims[0][0] == 16 for op, dims, _ in listed)


def test_sizes_of_a_known_model_come_first() -> None:
    layer = traces.prefill()
    (guess,) = [one for one in infer(layer, Clues((), traces.CONFIG)) if 13 in one.kernels[-1]]
    assert not any("by time" in one.why for one in guess.candidates)


VOCABULARY = "void mul_mat_vec_dq_q6_K<32, 1>(void const*, float const*, float*, int, int)"


def test_a_quantised_vector_product_has_a_block_per_result_and_the_bytes_of_its_blocks() -> None:
    """A vocabulary of 248,320 by a hidden size of 2,560, as a sample of llama.cpp has them, in 2.36 ms on 256 GB/s."""
    listed = alone(traces.kernel(VOCABULARY, (248_320, 1, 1), (32, 1, 1)), 2_359_405, RADEON)
    assert {dims[1][1] for op, dims, _ in listed if op == "aten::mm"} == {248_320}
    assert listed[0][1][0][1] == pytest.approx(2560, rel=0.25)


@pytest.mark.parametrize(("dtype", "bits"), [("q6_K", 6.5625), ("q4_0", 4.5), ("q8_0", 8.5), ("bf16", 16), (None, 32)])
def test_bits_of_a_weight(dtype: str | None, bits: float) -> None:
    assert 8 * calls.weight_bytes(dtype) == bits


def test_a_model_whose_sizes_take_another_time_leaves_room_for_other_sizes() -> None:
    """A product of unknown grid; what was seen around it speaks for 32 tokens and a width of 32."""
    around = (traces.kernel(traces.ADD, (1, 1, 1)), traces.kernel(traces.NORM, (32, 1, 1), (32, 4, 1)))
    product = Kind("p", "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", wanted=True)

    def why(duration_ns: int) -> list[str]:
        durations, places = (1500, 1500, duration_ns), (0, 1, 2)
        sequence = Sequence("t", traces.H200, (*around, product), places, durations, places, (None, None, None))
        (guess,) = [one for one in infer(sequence, Clues()) if one.kernels == ((2,),)]
        return [one.why for one in guess.candidates]

    assert not any("by time" in one for one in why(4_000))
    assert "a cube by time" in why(156_744)[0]
