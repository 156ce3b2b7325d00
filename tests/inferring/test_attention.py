"""Which call of attention it was: several launch the same kernel, and the recorded duration chooses."""

from __future__ import annotations

import json

import pytest

from kerneldb.replay import routes
from kerneldb.replay.infer import attention
from kerneldb.replay.infer.search import Attempt
from kerneldb.replay.resolve import overload_name
from kerneldb.replay.wire.plan import CallSpec, Candidate, Item, PlannedKernel
from tests.inferring.test_search import find
from tests.replay.specs import ABSENT, op_call, scalar, spec, tensor

pytest.importorskip("torch", reason="torch is not installed")

HALF = "c10::Half"
KERNEL = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1_kernel0_0"


def call(*, causal: bool = True, keys: int = 128, masked: bool = False) -> CallSpec:
    query, other = tensor([2, 4, 64, 32], HALF), tensor([2, 4, keys, 32], HALF)
    mask = tensor([2, 4, 64, keys], HALF, [64 * keys, 0, keys, 1]) if masked else ABSENT
    flags = (scalar("False"), scalar("0."), scalar(causal), scalar("False"))
    return spec("aten::_scaled_dot_product_cudnn_attention", query, other, other, mask, *flags, ABSENT)


def inherited(*donated: CallSpec) -> Item:
    kernels = (PlannedKernel(0, "s", KERNEL, "kernel", (1, 4, 2), (384, 1, 1), 1024, median_ns=10_000),)
    given = tuple(Candidate(one, f"as known #{number}", 0.95, "inherited") for number, one in enumerate(donated))
    return Item("item", "inherited", donated[0], kernels, given)


def took(attempt: Attempt) -> tuple[str, float]:
    """The recorded call has a mask; a causal one takes 0.38 of its time, one without a mask 0.8."""
    columns = attempt.spec.call
    masked, keys = json.loads(columns.input_dims or "")[3], json.loads(columns.input_dims or "")[1][2]
    causal = json.loads(columns.scalars or "")[6] == "True"
    return "", keys / 128 * (1.0 if masked else 0.38 if causal else 0.8)


def test_the_mask_that_the_donor_lacks_is_found_by_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    result = find(inherited(call()), took, monkeypatch)
    assert result.found is not None
    assert result.found.spec.call == call(masked=True, causal=False).call
    assert [(one.why, one.accepted) for one in result.trail][:2] == [
        ("as known #0", False),
        ("as known #0; with a mask", True),
    ]
    assert {one.time_ns for one in result.trail[:2]} == {3800.0, 10_000.0}


def test_its_energy_is_that_of_the_call_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    item = inherited(call())
    stands = routes.find("inherited").again(item, find(item, took, monkeypatch))
    assert stands is not None
    (chosen,) = routes.find("inherited").prepare(stands[0], "meta")
    assert (chosen.overload, chosen.args[3].shape) == (
        "aten::_scaled_dot_product_cudnn_attention.default",
        (2, 4, 64, 128),
    )


def test_of_several_donors_that_of_the_recorded_time_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    donors = [call(masked=True, causal=False, keys=one) for one in (64, 96, 128)]
    result = find(inherited(*donors), took, monkeypatch)
    assert result.found is not None
    assert (result.found.spec, result.found.source) == (donors[2], "inherited")
    assert [one.accepted for one in result.trail] == [False, False, True]


def test_the_number_of_keys_is_found_by_time_where_no_donor_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    result = find(inherited(call(masked=True, causal=False, keys=64)), took, monkeypatch)
    assert result.found is not None
    assert result.found.spec.call == call(masked=True, causal=False).call
    assert result.found.why.endswith("keys 128 by time")


def test_a_donor_that_takes_as_long_as_recorded_is_not_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    result = find(inherited(call(masked=True, causal=False)), took, monkeypatch)
    assert [one.accepted for one in result.trail] == [True]


def test_only_attention_is_searched_for() -> None:
    assert routes.search(inherited(call())) is not None
    other = spec("aten::mm", tensor([4, 4]), tensor([4, 4]))
    assert routes.search(inherited(other)) is None


@pytest.mark.parametrize(("name", "places"), attention.PLACES.items())
def test_places_are_those_of_the_schema(name: str, places: attention.Places) -> None:
    torch = pytest.importorskip("torch")
    schema = getattr(torch.ops.aten, name).default._schema
    names = [one.name for one in schema.arguments]
    assert names[places.causal] == ("custom_mask_type" if places.flags == ("0", "1") else "is_causal")
    assert places.longest is None or names[places.longest] in {"max_k", "max_seqlen_k"}
    assert places.mask is None or names[places.mask] in {"attn_bias", "attn_mask", "bias"}


def test_variants_are_calls_that_torch_has() -> None:
    made = {word: one for one, word in attention.variants(call())}
    assert set(made) == {"with a mask", "without a mask"}
    assert {overload_name(one) for one in made.values()} == {"aten::_scaled_dot_product_cudnn_attention.default"}


@pytest.mark.parametrize(
    "other",
    [
        spec("aten::mm", tensor([4, 4]), tensor([4, 4])),
        spec("aten::_scaled_dot_product_flash_attention", tensor([4, 4]), tensor([4, 4]), tensor([4, 4])),
        CallSpec(op_call("aten::scaled_dot_product_attention")),
    ],
)
def test_calls_that_are_not_known_have_no_variants(other: CallSpec) -> None:
    assert list(attention.variants(other)) == []
