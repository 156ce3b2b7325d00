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
from kerneldb.replay.resolve.calls import ResolvedCall
from kerneldb.replay.resolve.tensors import Fill, TensorSpec, is_integer
from kerneldb.replay.wire.plan import CallSpec

COPIES: Final = frozenset({"copy_", "_to_copy", "to"})


def variants(resolved: ResolvedCall, spec: CallSpec, device: str) -> Iterator[ResolvedCall]:
    """Variants of `resolved`, the most frequent first, each noted `hidden:…`."""
    places = [index for index, spec in resolved.tensors() if spec.dims and not resolved.overload.parameters[index].out]
    for offset, word in ((1, "misaligned"), (64, "offset")):
        if len(places) > 1:
            yield _shifted(resolved, places, offset).noted(f"hidden:{word}(all)")
        for index in places[:4]:
            yield _shifted(resolved, [index], offset).noted(f"hidden:{word}({resolved.name(index)})")
    yield from _aliases(resolved)
    if device != "cpu":
        yield from _host_scalars(resolved)
        yield from _transfers(resolved, recorded.short_name(spec.call.op), device)
    yield from _unread(resolved)
    yield from _index_orders(resolved)
    if spec.children and not resolved.overload.has_out:  # composite calls under autograd may take another path
        yield replace(resolved, grad=True).noted("hidden:autograd")


def _shifted(resolved: ResolvedCall, places: list[int], offset: int) -> ResolvedCall:
    for index in places:
        spec: TensorSpec = resolved.values[index]
        resolved = resolved.with_value(
            index, replace(spec, offset=offset, storage=spec.storage and spec.storage + offset)
        )
    return resolved


def _aliases(resolved: ResolvedCall) -> Iterator[ResolvedCall]:
    """Arguments of equal shape may have been one tensor (`mul(x, x)`, attention of x with itself)."""
    groups: dict[TensorSpec, list[int]] = {}
    for index, spec in resolved.tensors():
        groups.setdefault(replace(spec, fill=Fill("normal")), []).append(index)
    for number, places in enumerate(groups.values(), 1):
        aliased = resolved
        for index in places if len(places) > 1 else ():
            aliased = aliased.with_value(index, replace(resolved.values[places[0]], group=number))
        if aliased is not resolved:
            yield aliased.noted(f"hidden:aliased({','.join(map(resolved.name, places))})")


def _host_scalars(resolved: ResolvedCall) -> Iterator[ResolvedCall]:
    for index, spec in resolved.tensors():
        if not spec.dims:
            yield resolved.with_value(index, replace(spec, place="cpu")).noted(
                f"hidden:host-scalar({resolved.name(index)})"
            )


def _transfers(resolved: ResolvedCall, op: str, device: str) -> Iterator[ResolvedCall]:
    """Copies between host and device, pageable and pinned."""
    if op not in COPIES:
        return
    places = [index for index, spec in resolved.tensors() if spec.dims or op != "copy_"]
    for place in ("cpu", "pinned"):
        for index in places[:2]:
            moved = resolved.with_value(index, replace(resolved.values[index], place=place))
            moved = moved if op == "copy_" else _to_device(moved, device)
            yield moved.noted(f"hidden:{place}({resolved.name(index)})")
    if op != "copy_":
        yield _to_device(resolved, "cpu").noted("hidden:to-host")


def _to_device(resolved: ResolvedCall, device: str) -> ResolvedCall:
    import torch

    pairs = enumerate(zip(resolved.overload.parameters, resolved.values, strict=False))
    index = next((index for index, (one, _) in pairs if one.base == "Device"), None)
    return resolved if index is None else resolved.with_value(index, torch.device(device))


def _unread(resolved: ResolvedCall) -> Iterator[ResolvedCall]:
    """With beta = 0 the added matrix is not read; `empty` ones are what callers pass."""
    named = dict(zip((one.name for one in resolved.overload.parameters), resolved.values, strict=False))
    beta: Any = named.get("beta")
    if isinstance(beta, int | float) and beta == 0 and isinstance(resolved.values[0], TensorSpec):
        spec = replace(resolved.values[0], fill=Fill("empty"))
        yield resolved.with_value(0, spec).noted("hidden:uninitialised(self)")


def _index_orders(resolved: ResolvedCall) -> Iterator[ResolvedCall]:
    """Ascending and constant index values in place of random ones."""
    for index, spec in resolved.tensors():
        if spec.fill.kind != "integers" or not is_integer(spec.dtype):
            continue
        for kind in ("range", "constant"):
            ordered = replace(spec, fill=Fill(kind, spec.fill.low, spec.fill.high))
            yield resolved.with_value(index, ordered).noted(f"hidden:{kind}({resolved.name(index)})")
