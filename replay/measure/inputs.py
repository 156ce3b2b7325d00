"""The inputs of a call: which were in the cache when it was recorded, and bringing them into that state.

Which inputs a kernel found in the L2 cache when it was recorded: the rule of the cache state `mixed`.

A model reads every layer's weights once per pass, so they come from memory, clean; what the kernel before has just
written lies in the L2, dirty (measured on an H200: GEMV over 32 MB of weights 12.5 µs in the model, 9.0 with warm and
15.3 with dirty-flushed caches; elementwise kernels 2.1–2.4 µs in the model, 1.7 warm, 2.7–3.0 cold). Where the plan
says how many bytes kernels had moved since an input was last used (`Item.reuse`), it is cold beyond 0.7 of the L2, else
fresh. Of the steps of twelve programs on an H100, timed alone by the names below, kernels whose inputs were all nearer
took 0.98 of their recorded time, others 0.92 to 0.95 (without products and convolutions). By distances, the absolute
errors of twelve programs are 1.5 to 5.2 % on an H200 (results/2026-11-30-h200-steps). Else the rule goes by the
schema name of the argument:

    cold    parameters and statistics of layers (weight, bias, running_mean, …); the second factor of a two-dimensional
            product and the one-dimensional bias of `addmm`; a one-dimensional factor or summand of a larger tensor,
            which is the scale or shift of a layer written out in single operators; what a backward operator reads
            beside gradients, which was saved in the forward pass; the lists of optimizers, unless all of them fit into
            half of the L2
    fresh   all else: rewritten right before each run. Where such an input is larger than half of the L2, rewriting
            leaves what its producer would leave: the end of it in the cache

Recorded durations play no part in the rule.

`Sets` brings the inputs into that state before each run, without writing anything it should not. Cold inputs rotate
among copies. There are as many copies as runs, or as make a ring larger than three times the L2: either way the copy of
the next run has left the cache or never entered it, and its lines are clean. A flush that writes would leave the L2
full of dirty lines, whose write-back is charged to the kernel (10–24 % measured). Fresh inputs are rewritten in place,
as by the kernel before; those that the call itself changes are restored, so that values cannot drift towards inf or
denormals over the runs.

`Layouts` keeps their dims. An out= tensor of other dims grows in the first call, which copies what it held into larger
memory; the next one finds it large enough. A recorded call is the first one with its tensors, so each run is.
"""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Sequence
from typing import Any, Final

from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.routes.base import Call, Input
from kerneldb.replay.wire.plan import Item

RING_FACTOR: Final = 3
GROWING: Final = "its results grow in the first call, and no more in a loop"
EVICTED: Final = 0.7
"""The share of the L2 whose size in other bytes drives an input out: the halves of the L2 hold some lines twice."""
WORD_BYTES: Final = 4


class Role(enum.StrEnum):
    """How an input is prepared before each run: left alone, brought from memory, or rewritten."""

    WARM = "warm"
    COLD = "cold"
    FRESH = "fresh"


PRODUCTS: Final = frozenset({"mm", "addmm", "_addmm_activation", "linear", "mv", "addmv", "_scaled_mm"})
POINTWISE: Final = frozenset({"mul", "add", "sub", "div"})
OPTIMIZERS: Final = re.compile(r"_fused_(adam|adamw|sgd|adagrad)|_foreach_")
BACKWARD: Final = re.compile(r"_backward(_|$)|_bwd")
ENTRY: Final = re.compile(r"\[\d+\]$")


def roles(item: Item, inputs: Sequence[Input], cache: str, l2_bytes: int) -> list[Role]:
    """The role of each input under the cache state `cache`: cold, warm or mixed."""
    if cache != "mixed":
        return [Role.COLD if cache == "cold" else Role.WARM for _ in inputs]
    operator = "" if item.spec is None else short_name(item.spec.call.op)
    known = [_distance(item, one) for one in inputs]
    if all(one is not None for one in known):
        return [_by_distance(one, l2_bytes) for one in known]
    by_name = _by_name(operator, inputs, l2_bytes)
    pairs = zip(known, by_name, strict=True)
    return [role if one is None else _by_distance(one, l2_bytes) for one, role in pairs]


def _by_distance(moved: int | None, l2_bytes: int) -> Role:
    return Role.COLD if moved is not None and moved > EVICTED * l2_bytes else Role.FRESH


def _distance(item: Item, one: Input) -> int | None:
    """Bytes that had been moved since the input was last used; None where the plan does not say it of this argument.

    The call that is made may be another one than the recorded: that the input has the recorded dims is asked, too.
    """
    place = getattr(one, "place", None)
    if place is None or item.spec is None or not item.reuse:
        return None
    argument, entry = place
    if argument >= len(item.reuse) or entry >= len(item.reuse[argument]):
        return None
    moved = item.reuse[argument][entry]
    recorded = json.loads(item.spec.call.input_dims or "[]")
    dims = recorded[argument] if argument < len(recorded) else None
    if dims and isinstance(dims[0], list):
        dims = dims[entry] if entry < len(dims) else None
    return moved if moved >= 0 and dims == list(one.tensor.shape) else None


def _by_name(operator: str, inputs: Sequence[Input], l2_bytes: int) -> list[Role]:
    if OPTIMIZERS.match(operator):
        total = sum(one.bytes for one in inputs)
        return [Role.FRESH if total <= l2_bytes // 2 else Role.COLD for _ in inputs]
    widest = max((len(one.tensor.shape) for one in inputs), default=0)
    return [_role(operator, ENTRY.sub("", one.name), one, widest) for one in inputs]


def _role(operator: str, name: str, one: Input, widest: int) -> Role:
    dims = len(one.tensor.shape)
    parameter = "weight" in name or name in {"bias", "running_mean", "running_var", "gamma", "scale", "zero_point"}
    factor = operator in PRODUCTS and (dims, name) in {(2, "mat2"), (2, "b"), (1, "self")}
    scale = operator in POINTWISE and dims == 1 and name in {"self", "other"} and widest > 1
    saved = BACKWARD.search(operator) is not None and not name.startswith("grad")
    return Role.COLD if parameter or factor or scale or saved else Role.FRESH


class Sets:
    """The input sets of one call for up to `runs` runs. `copies` counts the sets of the ring (1: no ring).

    `memory_bytes` caps the copies. While a set is in place the tensors of the call point into it; `reset` puts the
    original data back.
    """

    def __init__(self, call: Call, roles: Sequence[Role], *, runs: int, l2_bytes: int, memory_bytes: int) -> None:
        held = [(one, role) for one, role in zip(call.inputs, roles, strict=True) if _movable(one.tensor)]
        on_device = max((one.tensor.device.type for one, _ in held), default="cpu", key=lambda kind: kind != "cpu")
        held = [(one, role) for one, role in held if one.tensor.device.type == on_device]
        changed = written(call)
        cold = [one for one, role in held if role is Role.COLD]
        self._cold = [one.tensor for one in cold]
        touched = [one for one, role in held if role is Role.FRESH or (role is Role.WARM and one.name in changed)]
        flat = [(_flat(one.tensor), one.name in changed) for one in touched]
        self._touched = [(bits, bits.clone() if restored else None) for bits, restored in flat]
        self.cold_bytes = size = sum(one.bytes for one in cold)
        self._ring_bytes = RING_FACTOR * l2_bytes
        fitting = min(runs, ring_copies(size, l2_bytes), memory_bytes // max(size, 1))
        self.copies = max(1, fitting) if cold else 1
        self.flush_each = bool(cold) and self.copies == 1 and size < self._ring_bytes
        self._original = [tensor.data for tensor in self._cold]
        self._ring = [[_copied(tensor) for tensor in self._cold] for _ in range(self.copies)] if self.copies > 1 else []
        drifting = [place for place, one in enumerate(cold) if one.name in changed]
        self._saved = [(copies[place], self._original[place]) for copies in self._ring for place in drifting]
        if self.copies == 1 and size <= memory_bytes:
            self._saved = [(self._cold[place], _copied(self._cold[place])) for place in drifting]
        self._next = 0

    @property
    def needs_flush(self) -> bool:
        """Whether the cache has to be read full once before the first run: the copies were just written."""
        return bool(self._cold)

    def advance(self) -> None:
        """Put the next set in place."""
        if not self._ring:
            return
        for tensor, data in zip(self._cold, self._ring[self._next % len(self._ring)], strict=True):
            tensor.data = data
        self._next += 1

    def touch(self) -> None:
        """Rewrite the fresh inputs, and restore the warm ones that the call changes."""
        for flat, saved in self._touched:
            if saved is None:
                flat.bitwise_or_(0)  # its own bits
            else:
                flat.copy_(saved)

    def restore(self) -> None:
        """Put back the values that the call changes in cold inputs and their copies."""
        for tensor, saved in self._saved:
            _flat(tensor).copy_(_flat(saved))

    def upkeep(self) -> None:
        """Put back all values that the call changes, and touch nothing else: what loops without end need."""
        self.restore()
        for flat, saved in self._touched:
            if saved is not None:
                flat.copy_(saved)

    @property
    def complete(self) -> bool:
        """Whether the ring alone keeps cold inputs cold: its copies together are larger than three times the L2."""
        return not self._cold or self.copies * self.cold_bytes >= self._ring_bytes

    def reset(self) -> None:
        """Put the original data back, and drop the copies."""
        for tensor, data in zip(self._cold, self._original, strict=True):
            tensor.data = data
        self._ring, self._saved = [], []


class Layouts:
    """Dims, strides and memory of the inputs of a call before it ran for the first time."""

    def __init__(self, call: Call) -> None:
        held = (one.tensor for one in call.inputs if _strided(one.tensor))
        self._held = [(tensor, _layout(tensor), tensor.untyped_storage().nbytes()) for tensor in held]

    @property
    def changed(self) -> bool:
        """Whether an input has other dims or another size of memory now."""
        return bool(self._changed())

    def put_back(self) -> None:
        """Give the inputs their dims again, and those that have grown new memory, which is not initialised."""
        import torch

        for tensor, (offset, dims, strides), size in self._changed():
            storage = tensor.untyped_storage()
            if storage.nbytes() != size:
                storage = torch.empty(size, dtype=torch.uint8, device=tensor.device).untyped_storage()
            with torch.no_grad():
                tensor.set_(storage, offset, dims, strides)

    def _changed(self) -> list[tuple[Any, tuple[Any, ...], int]]:
        return [
            (tensor, layout, size)
            for tensor, layout, size in self._held
            if _layout(tensor) != layout or tensor.untyped_storage().nbytes() != size
        ]


class Flush:
    """Reads a buffer of three times the L2, which leaves nothing else in the cache and nothing dirty."""

    def __init__(self, device: str, l2_bytes: int) -> None:
        import torch

        self._buffer = torch.ones(RING_FACTOR * l2_bytes // WORD_BYTES, dtype=torch.float32, device=device)

    def __call__(self) -> None:
        """Read it all."""
        self._buffer.sum()


def written(call: Call) -> frozenset[str]:
    """Names of the inputs that the call changes, lists entry by entry, as it says or from its operator's schema."""
    if (said := getattr(call, "changes", None)) is not None:
        return frozenset(one.name for one in call.inputs if one.name in said)
    schema = getattr(getattr(call, "function", None), "_schema", None)
    arguments = () if schema is None else schema.arguments
    changed = {one.name for one in arguments if one.alias_info is not None and one.alias_info.is_write}
    return frozenset(one.name for one in call.inputs if one.name.split("[")[0] in changed)


def _flat(tensor: Any) -> Any:
    """The whole storage of `tensor` as integers: bits are kept whatever the dtype."""
    import torch

    storage = tensor.untyped_storage()
    size = storage.nbytes()
    word = torch.int32 if size % WORD_BYTES == 0 else torch.uint8
    flat = torch.empty(0, dtype=word, device=tensor.device)
    return flat.set_(storage, 0, (size // flat.element_size(),), (1,))


def ring_copies(size: int, l2_bytes: int) -> int:
    """Copies of `size` bytes in a ring that keeps them cold, one of them to spare; 1 where they fill it alone."""
    ring_bytes = RING_FACTOR * l2_bytes
    return 1 if size >= ring_bytes else math.ceil(ring_bytes / max(size, 1)) + 1


def _movable(tensor: Any) -> bool:
    return bool(_strided(tensor) and tensor.numel() and tensor.untyped_storage().nbytes())


def _strided(tensor: Any) -> bool:
    import torch

    return bool(tensor.layout == torch.strided and not tensor.is_nested)


def _layout(tensor: Any) -> tuple[Any, ...]:
    return tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())


def _copied(tensor: Any) -> Any:
    """A copy in memory of its own, with the same dims, strides and storage offset (alignment chooses kernels)."""
    import torch

    copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    storage = tensor.untyped_storage().clone()
    return copy.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
