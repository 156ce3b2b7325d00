"""Kernels whose source is lost: their operators, named in the kernel's name, are compiled again.

TorchInductor calls a kernel `triton_poi_fused_add_mul_1` after the operators in it, in alphabetical order
(`get_fused_kernel_name` of torch/_inductor/utils.py). The operators are put in each order, over the recorded inputs,
and compiled. A source with the recorded hash is the lost one, and runs with the recorded constants. Otherwise the first
order that compiles runs: the same operators over the same inputs by another kernel.

Only chains of elementwise operators are made so; reductions and templates are not.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kerneldb.ids import code_hash
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.triton.code import INDUCTOR, Code

UNARY: Final = frozenset(
    ("relu", "sigmoid", "tanh", "exp", "log", "neg", "abs", "sqrt", "rsqrt", "silu", "gelu", "sin", "cos", "clone")
)
BINARY: Final = frozenset(("add", "mul", "sub", "div", "maximum", "minimum"))
CONVERT: Final = "_to_copy"
OPERATOR: Final = "|".join(sorted({*UNARY, *BINARY, CONVERT}))
NAME: Final = re.compile(rf"triton_poi_fused_((?:(?:{OPERATOR})_)+)(\d+)")
MOST_OPERATORS: Final = 3
CACHE_VARIABLE: Final = "TORCHINDUCTOR_CACHE_DIR"
SETTINGS: Final = {"fx_graph_cache": False, "compile_threads": 1}


@dataclass(frozen=True, slots=True)
class Recompiled:
    """What came of one order of the operators: a function of the first `reads` tensors, and what it was compiled to."""

    function: Callable[..., Any]
    reads: int
    sources: tuple[Code, ...]


def operators(name: str) -> tuple[list[str], int]:
    """The operators in a kernel's name, and the number behind them.

    Raises UnresolvedCallError (SOURCE) for names of another kind, or with an operator that is not elementwise.

    >>> operators("triton_poi_fused__to_copy_add_mul_1")
    (['_to_copy', 'add', 'mul'], 1)
    """
    match = NAME.fullmatch(name)
    if match is None:
        raise UnresolvedCallError(Reason.SOURCE, f"lost, and the operators of {name} are not all elementwise")
    found = re.findall(rf"({OPERATOR})_", match[1])
    if len(found) > MOST_OPERATORS:
        raise UnresolvedCallError(Reason.SOURCE, f"lost, and {name} has more than {MOST_OPERATORS} operators")
    return found, int(match[2])


def anew(name: str, kernel_hash: str | None, tensors: Sequence[Any]) -> tuple[Recompiled, Code | None]:
    """The operators in `name`, compiled; with the lost source where one has the recorded hash.

    Raises UnresolvedCallError (SOURCE) where no order of the operators takes these inputs, and errors of torch.
    """
    first: Recompiled | None = None
    for attempt in attempts(name, tensors):
        first = first or attempt
        for source in attempt.sources:
            if source.hash == kernel_hash:
                return attempt, source
    assert first is not None  # noqa: S101 (for the type checker: attempts gives one or raises)
    return first, None


def attempts(name: str, tensors: Sequence[Any]) -> Iterator[Recompiled]:
    """Each order of the operators in `name`, compiled over `tensors`, of which the last or the first is written.

    Raises UnresolvedCallError (SOURCE) as `operators` does, or where no order takes these inputs.
    """
    named, number = operators(name)
    needed = 1 + sum(one in BINARY for one in named)
    everything = range(len(tensors))
    written = next((at for given, at in ((everything[:-1], -1), (everything, 0)) if len(given) == needed), None)
    if written is None:
        raise UnresolvedCallError(Reason.SOURCE, f"lost, and {name} does not read as many inputs as its operators do")
    for order in dict.fromkeys(itertools.permutations(named)):
        yield _compiled(order, tensors[:needed], tensors[written].dtype, number)


def _compiled(order: Sequence[str], inputs: Sequence[Any], dtype: Any, number: int) -> Recompiled:
    import torch
    import torch._dynamo
    import torch._inductor.config as inductor

    torch._dynamo.reset()  # it gives up on a function that is compiled too often
    function = torch.compile(_chain(order, dtype), dynamic=False)
    with tempfile.TemporaryDirectory(prefix="kerneldb-inductor-") as folder, _cache(folder), torch.no_grad():
        with inductor.patch(SETTINGS):
            function(*inputs)
        texts = [path.read_text(encoding="utf-8") for path in sorted(Path(folder).rglob("*.py"))]
    return Recompiled(function, len(inputs), tuple(_kernels(texts, number)))


def _chain(order: Sequence[str], dtype: Any) -> Callable[..., Any]:
    """The operators one after the other; each binary one takes the next input."""
    import torch

    def chain(first: Any, *others: Any) -> Any:
        rest = iter(others)
        for one in order:
            if one == CONVERT:
                first = first.to(dtype)
            elif one in BINARY:
                first = getattr(torch, one)(first, next(rest))
            else:
                first = getattr(torch.ops.aten, one)(first)
        return first

    return chain


def _kernels(texts: Sequence[str], number: int) -> Iterator[Code]:
    """The kernels among the compiled files, under the number that the lost one had in its program."""
    for text in texts:
        match = re.search(r"^def (triton_poi_fused_\w+?)_\d+\(", text, re.MULTILINE)
        if match is not None and "async_compile" not in text:
            named = re.sub(rf"\b{match[1]}_\d+\b", f"{match[1]}_{number}", text)
            yield Code(code_hash(named), f"{match[1]}_{number}", named, INDUCTOR, "compiled anew")


@contextlib.contextmanager
def _cache(folder: str) -> Iterator[None]:
    """TorchInductor writes to an empty cache, so that all in it is of this kernel."""
    before = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = folder
    try:
        yield
    finally:
        os.environ.pop(CACHE_VARIABLE)
        if before is not None:
            os.environ[CACHE_VARIABLE] = before
