"""A stand-in for the name decoder, and the calls of a real trace."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from kerneldb.work import LaunchShape, OpCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Name:
    """Just what the models read of a decoded name."""

    category: str | None = None
    family: str | None = None
    operation: str | None = None
    dtype: str | None = None
    vector_width: int | None = None
    tile_m: int | None = None
    tile_n: int | None = None
    tile_k: int | None = None
    details: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Launch:
    """One linked GPU kernel of a trace."""

    kernel: str
    call: OpCall
    name: Name
    shape: LaunchShape


MakeName = type[Name]
_RULES = (
    (r"splitKreduce", "GEMM", "splitk_reduce"),
    (r"^nvjet|xmma_gemm|cutlass_\d+\w*gemm|Cijk_", "GEMM", "gemm"),
    (r"gemv", "GEMV", "gemv"),
    (r"index|gather", "INDEXING", "index"),
    (r"CatArray", "CONCAT", "cat"),
    (r"reduce_kernel", "REDUCTION", "reduce"),
    (r"(?i)softmax", "SOFTMAX", "softmax"),
    (r"layer_norm", "NORMALIZATION", "layer_norm"),
    (r"elementwise_kernel", "ELEMENTWISE", "elementwise"),
)


def read_name(kernel: str) -> Name:
    """A rough decoder, enough to tell the kernels of the sample traces apart."""
    for pattern, category, family in _RULES:
        if re.search(pattern, kernel):
            return _elementwise(kernel) if category == "ELEMENTWISE" else Name(category, family)
    return Name("OTHER")


def _elementwise(kernel: str) -> Name:
    found = re.search(r"(vectorized_|unrolled_)?elementwise_kernel(?:_manual_unroll)?<(?:(\d+)(?:, (\d+))?)?", kernel)
    assert found is not None
    prefix, first, second = found.groups()
    width = second or (None if prefix == "unrolled_" else first)
    fill = re.search(r"FillFunctor<(\w+)", kernel)
    dtype = fill.group(1) if fill else "fp32"
    return Name("ELEMENTWISE", f"{prefix or ''}elementwise", dtype=dtype, vector_width=int(width) if width else None)


def _text(value: object) -> str | None:
    return None if value is None else json.dumps(value)


def _launch(event: dict[str, Any], op: dict[str, Any]) -> Launch:
    found, own = op["args"], event["args"]
    keys = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")
    call = OpCall(op["name"], *(_text(found.get(key)) for key in keys))
    grid, block = (tuple(own[key]) if own.get(key) else None for key in ("grid", "block"))
    return Launch(event["name"], call, read_name(event["name"]), LaunchShape("kernel", grid, block))


def linked_launches(path: Path) -> Iterator[Launch]:
    """The kernels of a torch.profiler trace whose operator is recorded with its shapes."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    ops = {event["args"]["External id"]: event for event in events if event.get("cat") == "cpu_op" and "args" in event}
    for event in events:
        op = ops.get(event.get("args", {}).get("External id")) if event.get("cat") == "kernel" else None
        if op is not None and "Input Dims" in op["args"]:
            yield _launch(event, op)


@pytest.fixture(scope="session")
def launches_of(shared_data: Path) -> Callable[[str], list[Launch]]:
    """A function that reads one of the real traces, skipping where it is missing."""

    @functools.cache
    def read(file: str) -> list[Launch]:
        path = shared_data / "pytorch" / file
        if not path.is_file():
            pytest.skip(f"no trace {path}")
        return list(linked_launches(path))

    return read


@pytest.fixture
def make_name() -> MakeName:
    """The class of stand-in names."""
    return Name
