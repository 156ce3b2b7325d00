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
from kerneldb.replay.resolve.tensors import INTEGERS, Fill, TensorSpec
from kerneldb.replay.wire.plan import CallSpec

COPIES: Final = frozenset({"copy_", "_to_copy", "to"})


def variants(call: ResolvedCall, spec: CallSpec, device: str) -> Iterator[ResolvedCall]:
    """Variants of `call`, the most frequent first, each noted `hidden:…`."""
    places = [index for index, spec in call.tensors() if spec.dims and not call.overload.parameters[index].out]
    for offset, word in ((1, "misaligned"), (64, "offset")):
        if len(places) > 1:
            yield _shifted(call, places, offset).noted(f"hidden:{word}(all)")
        for index in places[:4]:
            yield _shifted(call, [index], offset).noted(f"hidden:{word}({call.name(index)})")
    yield from _aliases(call)
    if device != "cpu":
        yield from _host_scalars(call)
        yield from _transfers(call, recorded.short_name(spec.call.op), device)
    # With beta = 0 the added matrix is not read; `empty` ones are what callers pass.
    named = dict(zip((one.name for one in call.overload.parameters), call.values, strict=False))
    beta: Any = named.get("beta")
    if isinstance(beta, int | float) and beta == 0 and isinstance(call.values[0], TensorSpec):
        unread = replace(call.values[0], fill=Fill("empty"))
        yield call.with_value(0, unread).noted("hidden:uninitialised(self)")
    # Ascending and constant index values in place of random ones.
    for index, drawn in call.tensors():
        if drawn.fill.kind != "integers" or drawn.dtype not in INTEGERS:
            continue
        for kind in ("range", "constant"):
            ordered = replace(drawn, fill=Fill(kind, drawn.fill.low, drawn.fill.high))
            yield call.with_value(index, ordered).noted(f"hidden:{kind}({call.name(index)})")
    if spec.children and not call.overload.has_out:  # composite calls under autograd may take another path
        yield replace(call, grad=True).noted("hidden:autograd")


def _shifted(call: ResolvedCall, places: list[int], offset: int) -> ResolvedCall:
    for index in places:
        spec: TensorSpec = call.values[index]
        call = call.with_value(index, replace(spec, offset=offset, storage=spec.storage and spec.storage + offset))
    return call


def _aliases(call: ResolvedCall) -> Iterator[ResolvedCall]:
    """Arguments of equal shape may have been one tensor (`mul(x, x)`, attention of x with itself)."""
    groups: dict[TensorSpec, list[int]] = {}
    for index, spec in call.tensors():
        groups.setdefault(replace(spec, fill=Fill("normal")), []).append(index)
    for number, places in enumerate(groups.values(), 1):
        aliased = call
        for index in places if len(places) > 1 else ():
            aliased = aliased.with_value(index, replace(call.values[places[0]], group=number))
        if aliased is not call:
            yield aliased.noted(f"hidden:aliased({','.join(map(call.name, places))})")


def _host_scalars(call: ResolvedCall) -> Iterator[ResolvedCall]:
    for index, spec in call.tensors():
        if not spec.dims:
            yield call.with_value(index, replace(spec, place="cpu")).noted(f"hidden:host-scalar({call.name(index)})")


def _transfers(call: ResolvedCall, op: str, device: str) -> Iterator[ResolvedCall]:
    """Copies between host and device, pageable and pinned."""
    if op not in COPIES:
        return
    places = [index for index, spec in call.tensors() if spec.dims or op != "copy_"]
    for place in ("cpu", "pinned"):
        for index in places[:2]:
            moved = call.with_value(index, replace(call.values[index], place=place))
            moved = moved if op == "copy_" else _to_device(moved, device)
            yield moved.noted(f"hidden:{place}({call.name(index)})")
    if op != "copy_":
        yield _to_device(call, "cpu").noted("hidden:to-host")


def _to_device(call: ResolvedCall, device: str) -> ResolvedCall:
    import torch

    pairs = enumerate(zip(call.overload.parameters, call.values, strict=False))
    index = next((index for index, (one, _) in pairs if one.base == "Device"), None)
    return call if index is None else call.with_value(index, torch.device(device))
