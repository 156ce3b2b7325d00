from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kerneldb.replay.errors import UnresolvedCallError
from kerneldb.replay.resolve import tensors
from kerneldb.replay.resolve.calls import generator, require_memory
from kerneldb.replay.resolve.tensors import POOLED, TORCH_NAMES, Fill, TensorSpec

torch = pytest.importorskip("torch", reason="torch is not installed")

LAYOUTS = [
    ((2, 3), (3, 1)),
    ((2, 3), (1, 2)),
    ((4, 5), (0, 1)),
    ((4, 5), (1, 1)),
    ((2, 3, 4), (24, 8, 2)),
    ((), ()),
    ((0, 3), (3, 1)),
    ((5,), (0,)),
]


def made(dims: tuple[int, ...], strides: tuple[int, ...], dtype: str, fill: Fill, **options: Any) -> Any:
    return tensors.make(TensorSpec(dims, strides, dtype, fill, **options), "cpu", generator("cpu", 0))


@pytest.mark.parametrize(("dims", "strides"), LAYOUTS)
@pytest.mark.parametrize("offset", [0, 1, 64])
def test_layout_is_the_recorded_one(dims: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
    tensor = made(dims, strides, "float32", Fill("normal"), offset=offset)
    assert (tuple(tensor.shape), tensor.stride(), tensor.storage_offset()) == (dims, strides, offset)
    assert not tensor._is_view()
    assert torch.isfinite(tensor).all()
    assert tensor.numel() == 0 or tensor.abs().sum() > 0


@pytest.mark.parametrize("dtype", sorted({name for name in TORCH_NAMES.values() if not name.startswith("q")}))
@pytest.mark.parametrize("kind", ["normal", "uniform", "constant", "empty"])
def test_every_dtype_can_be_filled(dtype: str, kind: str) -> None:
    if dtype.startswith("float4") and kind == "constant":
        pytest.skip("four-bit floats hold random bits whatever the fill")
    tensor = made((4, 8), (8, 1), dtype, Fill(kind, 1, 4))
    assert str(tensor.dtype) == f"torch.{dtype}"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "complex64"])
def test_floats_are_never_all_zero(dtype: str) -> None:
    assert made((64,), (1,), dtype, Fill("normal")).to(torch.complex64).abs().sum() > 1


@pytest.mark.parametrize(
    ("fill", "values"),
    [
        (Fill("range", 0, 3), [0, 1, 2, 0, 1, 2]),
        (Fill("constant", 7), [7] * 6),
        (Fill("cumulative", 0, 10), [0, 2, 4, 6, 8, 10]),
        (Fill("values", values=(3, 1, 4, 1, 5, 9)), [3, 1, 4, 1, 5, 9]),
    ],
)
def test_exact_fills(fill: Fill, values: list[int]) -> None:
    assert made((6,), (1,), "int64", fill).tolist() == values


def test_integers_stay_below_their_limit() -> None:
    drawn = made((1000,), (1,), "int64", Fill("integers", 0, 5))
    assert set(drawn.tolist()) == set(range(5))


def test_mask_has_as_many_true_entries_as_asked() -> None:
    assert int(made((10, 10), (10, 1), "bool", Fill("count", 0, 37)).sum()) == 37


def test_ascending_boundaries() -> None:
    drawn = made((9,), (1,), "float32", Fill("ascending", -1.0, 1.0)).tolist()
    assert drawn == sorted(drawn)


def test_distributions() -> None:
    weights = made((10_000,), (1,), "float32", Fill("normal", 0.0, 0.02))
    assert 0.019 < float(weights.std()) < 0.021


def test_seed_repeats_values() -> None:
    spec = TensorSpec((16,), (1,), "float32")
    first, again, other = (tensors.make(spec, "cpu", generator("cpu", seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_storage_behind_a_narrow_view() -> None:
    assert made((2,), (1,), "float32", Fill("normal"), storage=100).untyped_storage().nbytes() == 400


def test_sizes() -> None:
    assert tensors.span((2, 3), (10, 2)) == 15
    assert tensors.span((0, 3), (3, 1)) == 0
    assert tensors.distinct((4, 5), (0, 1)) == 5
    assert tensors.distinct((4, 5), (1, 1)) == 8
    assert tensors.contiguous((2, 3, 4)) == (12, 4, 1)


def test_inputs_that_take_too_much_of_the_host_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerneldb.files.free_memory", lambda: 400 * 10**6)
    large = TensorSpec((6000, 6000), (6000, 1), "float32")
    half = TensorSpec((3000, 6000), (6000, 1), "float32", group=1)
    broad = replace(large, strides=(0, 0))
    for value, device in ((large, "cuda"), (large, "meta"), (broad, "cpu"), ([half] * 3, "cpu")):
        require_memory([value], device)
    several, said = (
        [replace(half, group=0), replace(half, group=2)],
        r"inputs of 144 MB; .* of the 400 MB that are free",
    )
    for value, device in (([large], "cpu"), (replace(large, place="pinned"), "cuda"), (several, "cpu")):
        with pytest.raises(UnresolvedCallError, match=said):
            require_memory([value], device)


def test_places_of_pooled_windows_are_in_the_windows() -> None:
    """As max_pool2d says them for the same sizes: no row and no column is further off than the window is wide."""
    image = torch.randn(2, 3, 9, 11)
    _, places = torch.nn.functional.max_pool2d(image, 3, 2, 1, return_indices=True)
    fill = Fill(POOLED, 0, 99, (9, 3, 2, 1, 1, 11, 3, 2, 1, 1))
    dims = tuple(places.shape)
    drawn = tensors.make(TensorSpec(dims, tensors.contiguous(dims), "int64", fill), "cpu")
    assert int((drawn // 11 - places // 11).abs().max()) == int((drawn % 11 - places % 11).abs().max()) == 2
    assert len(drawn.unique()) > len(places[0, 0].flatten())
    spread = tensors.make(TensorSpec((2, 3, 4, 4), (0, 0, 4, 1), "int64", fill), "cpu")
    assert 0 <= int(spread.min()) <= int(spread.max()) < 99
