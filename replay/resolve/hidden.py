"""Variables that a trace does not record and that change the kernel: variants to try when the plain call misses.

Frequencies in recorded models: inputs not aligned to 16 bytes 1.3 %, nonzero storage offset 4.4 %, the same tensor
passed twice 1.5 %. Also: 0-dim tensors in host memory, copies between host and device, inputs that beta = 0 leaves
unread, the order of index values (kernels whose grid depends on the data), autograd on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from kerneldb.replay.resolve import recorded
from kerneldb.replay.resolve.draft import Draft
from kerneldb.replay.resolve.tensors import Fill, TensorSpec, is_integer
from kerneldb.replay.wire.plan import CallSpec

COPIES: Final = frozenset({"copy_", "_to_copy", "to"})


def variants(draft: Draft, spec: CallSpec, device: str) -> Iterator[Draft]:
    """Variants of `draft`, the most frequent first, each noted `hidden:…`."""
    places = [index for index, spec in draft.tensors() if spec.dims and not draft.overload.parameters[index].out]
    for offset, word in ((1, "misaligned"), (64, "offset")):
        if len(places) > 1:
            yield _shifted(draft, places, offset).noted(f"hidden:{word}(all)")
        for index in places[:4]:
            yield _shifted(draft, [index], offset).noted(f"hidden:{word}({draft.name(index)})")
    yield from _aliases(draft)
    if device != "cpu":
        yield from _host_scalars(draft)
        yield from _transfers(draft, recorded.short_name(spec.call.op), device)
    yield from _unread(draft)
    yield from _index_orders(draft)
    if spec.children and not draft.overload.has_out:  # composite calls under autograd may take another path
        yield replace(draft, grad=True).noted("hidden:autograd")


def _shifted(draft: Draft, places: list[int], offset: int) -> Draft:
    for index in places:
        spec: TensorSpec = draft.values[index]
        draft = draft.with_value(index, replace(spec, offset=offset, storage=spec.storage and spec.storage + offset))
    return draft


def _aliases(draft: Draft) -> Iterator[Draft]:
    """Arguments of equal shape may have been one tensor (`mul(x, x)`, attention of x with itself)."""
    groups: dict[TensorSpec, list[int]] = {}
    for index, spec in draft.tensors():
        groups.setdefault(replace(spec, fill=Fill("normal")), []).append(index)
    for number, places in enumerate(groups.values(), 1):
        aliased = draft
        for index in places if len(places) > 1 else ():
            aliased = aliased.with_value(index, replace(draft.values[places[0]], group=number))
        if aliased is not draft:
            yield aliased.noted(f"hidden:aliased({','.join(map(draft.name, places))})")


def _host_scalars(draft: Draft) -> Iterator[Draft]:
    for index, spec in draft.tensors():
        if not spec.dims:
            yield draft.with_value(index, replace(spec, place="cpu")).noted(f"hidden:host-scalar({draft.name(index)})")


def _transfers(draft: Draft, op: str, device: str) -> Iterator[Draft]:
    """Copies between host and device, pageable and pinned."""
    if op not in COPIES:
        return
    places = [index for index, spec in draft.tensors() if spec.dims or op != "copy_"]
    for place in ("cpu", "pinned"):
        for index in places[:2]:
            moved = draft.with_value(index, replace(draft.values[index], place=place))
            moved = moved if op == "copy_" else _to_device(moved, device)
            yield moved.noted(f"hidden:{place}({draft.name(index)})")
    if op != "copy_":
        yield _to_device(draft, "cpu").noted("hidden:to-host")


def _to_device(draft: Draft, device: str) -> Draft:
    import torch

    pairs = enumerate(zip(draft.overload.parameters, draft.values, strict=False))
    index = next((index for index, (one, _) in pairs if one.base == "Device"), None)
    return draft if index is None else draft.with_value(index, torch.device(device))


def _unread(draft: Draft) -> Iterator[Draft]:
    """With beta = 0 the added matrix is not read; `empty` ones are what callers pass."""
    named = dict(zip((one.name for one in draft.overload.parameters), draft.values, strict=False))
    beta: Any = named.get("beta")
    if isinstance(beta, int | float) and beta == 0 and isinstance(draft.values[0], TensorSpec):
        spec = replace(draft.values[0], fill=Fill("empty"))
        yield draft.with_value(0, spec).noted("hidden:uninitialised(self)")


def _index_orders(draft: Draft) -> Iterator[Draft]:
    """Ascending and constant index values in place of random ones."""
    for index, spec in draft.tensors():
        if spec.fill.kind != "integers" or not is_integer(spec.dtype):
            continue
        for kind in ("range", "constant"):
            ordered = replace(spec, fill=Fill(kind, spec.fill.low, spec.fill.high))
            yield draft.with_value(index, ordered).noted(f"hidden:{kind}({draft.name(index)})")
