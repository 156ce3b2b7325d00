"""Operators that work row by row: softmax, normalisations, reductions over the last dim, cumulative sums."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from kerneldb.replay.infer import grids
from kerneldb.replay.infer.calls import Argument, Dims, Nothing, Number, Numbers, Tensor, item_bytes, numel, spec
from kerneldb.replay.infer.products import VOCABULARIES
from kerneldb.replay.infer.view import Proposal, View, moved, shown

EPSILON: Final = Number("1.0000000000000001e-05")
LAST: Final = Number("-1")
KEEP: Final = Number("True")
HARDLY: Final = 0.4
TO_FLOAT: Final = "fp32"


def proposals(view: View) -> Iterator[Proposal]:
    """The calls that this kernel may have been."""
    category = view.known.category
    if category == "SOFTMAX":
        yield from _softmax(view)
    elif category == "NORMALIZATION":
        yield from _norm(view)
    elif category == "REDUCTION":
        yield from _reduction(view)
    elif view.known.operation == "cumsum":
        yield from _cumulative(view)


def _dtype(view: View) -> str:
    return view.known.dtype or view.model.dtype


def _widths(view: View) -> list[tuple[int, str]]:
    """Row lengths that the model has."""
    scene, model = view.scene, view.model
    named = [
        (model.hidden, "hidden"), (scene.keys, "keys"), (model.vocab, "vocabulary"),
        (model.ffn, f"feed-forward{model.assumed}"), (model.head_dim, "head"), (scene.queries, "tokens"),
        *((one, "a width seen") for one in model.widths),
    ]  # fmt: skip
    if not model.vocab:
        named += [(one, "a common vocabulary") for one in VOCABULARIES]
    return list({one: (one, name) for one, name in reversed(named) if one}.values())[::-1]


def _softmax(view: View) -> Iterator[Proposal]:
    scene, model = view.scene, view.model
    found = grids.rows(view.kind)
    dtype, out = _dtype(view), view.known.dtypes[1] if len(view.known.dtypes) > 1 else _dtype(view)
    log2 = view.known.details.get("log2_elements")
    dims: list[tuple[Dims, str, float]] = []
    scores = (scene.batch, model.heads, scene.queries, scene.keys)
    if 0 not in scores and found is not None and found.holds(numel(scores[:-1])):
        dims.append((scores, "attention scores", 1.0))
    if found is not None:
        dims += [((found.most, width), name, 0.7) for width, name in _widths(view)]
    into_float = out == TO_FLOAT and "float, float" in view.kind.name
    for shape, name, fit in dims:
        if isinstance(log2, int) and not (1 << log2 >> 1) < shape[-1] <= 1 << log2:
            continue
        for convert in (into_float, not into_float):
            held = Tensor(shape, dtype)
            size = moved(held) + numel(shape) * item_bytes(TO_FLOAT if convert else dtype)
            made = spec("_softmax", held, LAST, Number(str(convert)))
            yield Proposal(
                made, f"softmax of {shown(shape)}: {name}", size, fit * (1.0 if convert == into_float else 0.8)
            )


def _norm(view: View) -> Iterator[Proposal]:
    found, scene, dtype = grids.rows(view.kind), view.scene, _dtype(view)
    if found is None:
        return
    for rank, (width, name) in enumerate(_widths(view)):
        if width == 1:
            continue
        tokens = (scene.batch, scene.queries) if found.most == scene.tokens else (found.most,)
        held = Tensor((*tokens, width), dtype)
        scale = Tensor((width,), dtype)
        fit = 0.98**rank if name in {"hidden", "a width seen"} else HARDLY
        why = f"norm of {shown(held.dims)}: {name}"
        if view.known.operation == "rms_norm":
            yield Proposal(spec("_fused_rms_norm", held, Numbers((width,)), scale, EPSILON), why, 2 * moved(held), fit)
        else:
            made = spec("native_layer_norm", held, Numbers((width,)), scale, scale, EPSILON)
            yield Proposal(made, why, 2 * moved(held), fit)


def _reduction(view: View) -> Iterator[Proposal]:
    found, scene, dtype = grids.rows(view.kind), view.scene, _dtype(view)
    if found is None:
        return
    usual: dict[Dims, float] = dict.fromkeys(((scene.batch, scene.queries), (scene.batch, 1)), 1.0)
    rows = [(dims, fit) for dims, fit in usual.items() if found.holds(numel(dims))] or [((found.most,), 0.8)]
    for (lead, fit), (rank, (width, name)) in itertools.product(rows, enumerate(_widths(view))):
        held = Tensor((*lead, width), dtype)
        for op, rest, share in _reducers(view):
            made = spec(op, held, *rest)
            usual_width = "vocabulary" if op.startswith("arg") else "hidden"
            yield Proposal(
                made,
                f"{op} over {width} ({name}) of {shown(lead)}",
                moved(held),
                fit * share * 0.98**rank * (1 if usual_width in name else HARDLY),
            )


def _reducers(view: View) -> Iterator[tuple[str, tuple[Argument, ...], float]]:
    operation = view.known.operation or "sum"
    if operation in {"argmax", "argmin"}:
        yield operation, (LAST, Number("False")), 1.0
    elif operation in {"mean", "sum"}:
        yield operation, (Numbers((-1,)), KEEP, Nothing()), 1.0
    elif operation in {"all", "any"}:
        yield operation, (LAST, Number("False")), 1.0
    elif operation in {"max", "min"}:
        yield f"a{operation}", (Numbers((-1,)), KEEP), 1.0
    elif operation == "norm":
        yield "linalg_vector_norm", (Number("2"), Numbers((-1,)), KEEP, Nothing()), 1.0
    else:
        yield operation, (), 0.5


def _cumulative(view: View) -> Iterator[Proposal]:
    scene, dtype = view.scene, _dtype(view)
    for rank, dims in enumerate(dict.fromkeys(((scene.batch, scene.keys), (scene.batch, scene.queries)))):
        held = Tensor(dims, dtype)
        yield Proposal(spec("cumsum", held, LAST, Nothing()), f"cumsum of {shown(dims)}", 2 * moved(held), 0.9**rank)
