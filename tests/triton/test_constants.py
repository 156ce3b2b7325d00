"""What a trace says of a launch."""

from __future__ import annotations

import json

import pytest

from kerneldb.replay.triton import code


def test_a_call_of_inductor() -> None:
    extra = {"kernel_hash": "cabc", "kernel_kwargs": "XBLOCK=1,R0_BLOCK=2048", "num_warps": "16", "num_stages": "1"}
    found = code.read(json.dumps(extra))
    assert found is not None
    assert (found.kernel_hash, dict(found.kwargs)) == ("cabc", {"XBLOCK": "1", "R0_BLOCK": "2048"})
    assert (found.num_warps, found.num_stages, found.grid) == (16, 1, None)
    assert found.shown() == "XBLOCK=1 R0_BLOCK=2048 num_warps=16 num_stages=1"


def test_a_template_has_no_hash() -> None:
    found = code.read('{"kernel_backend": "triton", "num_warps": "4"}')
    assert found is not None
    assert (found.kernel_hash, found.num_warps) == (None, 4)


@pytest.mark.parametrize("extra", [None, "{}", "[]", '{"Collective name": "allreduce"}'])
def test_other_calls_are_none(extra: str | None) -> None:
    assert code.read(extra) is None


@pytest.mark.parametrize(
    ("text", "grid"), [("grid(100,)", (100, 1, 1)), ("(64, 2)", (64, 2, 1)), ("[4, 5, 6]", (4, 5, 6)), ("lambda", None)]
)
def test_grids(text: str, grid: tuple[int, ...] | None) -> None:
    found = code.read(json.dumps({"kernel_hash": "c", "grid": text}))
    assert found is not None
    assert found.grid == grid


def test_values_survive_the_trace() -> None:
    values = {"BLOCK": 128, "EVEN": True, "ACC": None, "MODE": "a,b=c", "SCALE": 0.5}
    extra = json.dumps({"kernel_hash": "c", "kernel_kwargs": code.written(values)})
    found = code.read(extra)
    assert found is not None
    assert {name: code.value_of(text) for name, text in found.kwargs.items()} == values


def test_types_of_triton_stay_texts() -> None:
    assert code.value_of("tl.float32") == "tl.float32"


@pytest.mark.parametrize(
    ("written", "kwargs"),
    [
        (")+(", {}),
        ("XBLOCK=64)+f(YBLOCK=2", {"XBLOCK": "64)+f(YBLOCK=2"}),
        ("XBLOCK=\0", {"XBLOCK": "\0"}),
        ("XBLOCK=" + "-" * 100_000 + "1", {"XBLOCK": "-" * 100_000 + "1"}),
        ("XBLOCK=" + "(" * 5_000, {"XBLOCK": "(" * 5_000}),
    ],
    ids=["two calls", "a call behind", "zero byte", "deep", "open"],
)
def test_texts_that_are_no_constants_stay_texts(written: str, kwargs: dict[str, str]) -> None:
    found = code.read(json.dumps({"kernel_hash": "c", "kernel_kwargs": written}))
    assert found is not None
    assert dict(found.kwargs) == kwargs
    assert [code.value_of(text) for text in found.kwargs.values()] == list(kwargs.values())


def test_numbers_of_thousands_of_digits_are_none() -> None:
    found = code.read(json.dumps({"kernel_hash": "c", "num_warps": "9" * 5000, "grid": f"({'9' * 5000}, 2)"}))
    assert found is not None
    assert (found.num_warps, found.grid) == (None, None)
