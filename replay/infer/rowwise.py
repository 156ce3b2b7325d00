"""Operators that work row by row: softmax, normalisations, reductions over the last dim, cumulative sums."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod
from typing import Final

from kerneldb.replay.infer import grids
from kerneldb.replay.infer.calls import Argument, Dims, Tensor, spec
from kerneldb.replay.infer.products import VOCABULARIES
from kerneldb.replay.infer.view import Proposal, View, moved, shown

EPSILON: Final = "1.0000000000000001e-05"
LAST: Final = "-1"
HARDLY: Final = 0.4
TO_FLOAT: Final = "fp32"
REDUCERS: Final[dict[str, tuple[str, tuple[Argument, ...]]]] = {
    **{name: (name, (LAST, "False")) for name in ("argmax", "argmin", "all", "any")},
    **{name: (name, ((-1,), "True", None)) for name in ("mean", "sum")},
    **{name: (f"a{name}", ((-1,), "True")) for name in ("max", "min")},
    "norm": ("linalg_vector_norm", ("2", (-1,), "True", None)),
}
"""The operators of reductions, with the arguments after the tensor."""


def _widths(view: View) -> list[tuple[int, str]]:
    """Row lengths that the model has."""
    step, model = view.step, view.model
    named = [
        (model.hidden, "hidden"), (step.keys, "keys"), (model.vocab, "vocabulary"),
        (model.ffn, f"feed-forward{model.assumed}"), (model.head_dim, "head"), (step.queries, "tokens"),
        *((one, "a width seen") for one in model.widths),
    ]  # fmt: skip
    if not model.vocab:
        named += [(one, "a common vocabulary") for one in VOCABULARIES]
    return list({one: (one, name) for one, name in reversed(named) if one}.values())[::-1]


def softmax(view: View) -> Iterator[Proposal]:
    """The softmaxes that this kernel may have been."""
    step, model, found = view.step, view.model, grids.rows(view.kind)
    out = view.known.dtypes[1] if len(view.known.dtypes) > 1 else view.dtype
    log2 = view.known.details.get("log2_elements")
    if found is None:
        return
    dims: list[tuple[Dims, str, float]] = [((found.most, width), name, 0.7) for width, name in _widths(view)]
    scores = (step.batch, model.heads, step.queries, step.keys)
    if 0 not in scores and found.holds(prod(scores[:-1])):
        dims.insert(0, (scores, "attention scores", 1.0))
    into_float = out == TO_FLOAT and "float, float" in view.kind.name
    for shape, name, fit in dims:
        if isinstance(log2, int) and not (1 << log2 >> 1) < shape[-1] <= 1 << log2:
            continue
        held = Tensor(shape, view.dtype)
        for convert, share in ((into_float, 1.0), (not into_float, 0.8)):
            size = moved(held, Tensor(shape, TO_FLOAT if convert else view.dtype))
            made = spec("_softmax", held, LAST, str(convert))
            yield Proposal(made, f"softmax of {shown(shape)}: {name}", size, fit * share)


def norm(view: View) -> Iterator[Proposal]:
    """The normalisations that this kernel may have been."""
    found, step = grids.rows(view.kind), view.step
    if found is None:
        return
    for rank, (width, name) in enumerate(_widths(view)):
        if width == 1:
            continue
        tokens = (step.batch, step.queries) if found.most == step.tokens else (found.most,)
        held, scale = Tensor((*tokens, width), view.dtype), Tensor((width,), view.dtype)
        fit = 0.98**rank if name in {"hidden", "a width seen"} else HARDLY
        if view.known.operation == "rms_norm":
            made = spec("_fused_rms_norm", held, (width,), scale, EPSILON)
        else:
            made = spec("native_layer_norm", held, (width,), scale, scale, EPSILON)
        yield Proposal(made, f"norm of {shown(held.dims)}: {name}", 2 * moved(held), fit)


def reduction(view: View) -> Iterator[Proposal]:
    """The reductions that this kernel may have been."""
    found, step, operation = grids.rows(view.kind), view.step, view.known.operation or "sum"
    if found is None:
        return
    usual = dict.fromkeys(((step.batch, step.queries), (step.batch, 1)))
    rows: list[tuple[Dims, float]] = [(dims, 1.0) for dims in usual if found.holds(prod(dims))]
    op, rest = REDUCERS.get(operation, (operation, ()))
    share, likely = 1.0 if operation in REDUCERS else 0.5, "vocabulary" if op.startswith("arg") else "hidden"
    rows = rows or [((found.most,), 0.8)]
    for (lead, fit), (rank, (width, name)) in itertools.product(rows, enumerate(_widths(view))):
        held = Tensor((*lead, width), view.dtype)
        why = f"{op} over {width} ({name}) of {shown(lead)}"
        strength = fit * share * 0.98**rank * (1 if likely in name else HARDLY)
        yield Proposal(spec(op, held, *rest), why, moved(held), strength)


def cumulative(view: View) -> Iterator[Proposal]:
    """The cumulative sums that this kernel may have been; other scans and sorts have no rule."""
    batch, lengths = view.step.batch, dict.fromkeys((view.step.keys, view.step.queries))
    for rank, length in enumerate(lengths if view.known.operation == "cumsum" else ()):
        dims = (batch, length)
        held = Tensor(dims, view.dtype)
        yield Proposal(spec("cumsum", held, LAST, None), f"cumsum of {shown(dims)}", 2 * moved(held), 0.9**rank)
