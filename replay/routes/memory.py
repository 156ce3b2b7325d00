"""The route of copies and fills: exact bytes, direction, pinned or pageable as the recorded name says.

Copies go through `copy_` of bytes, which PyTorch hands to cudaMemcpyAsync; fills call cudaMemsetAsync (hipMemsetAsync)
itself, because `zero_` of PyTorch launches a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay import libraries
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.wire.plan import Item, PlannedKernel

DIRECTION: Final = re.compile(r"(HtoD|DtoH|DtoD|HtoH|PtoP|HostToDevice|DeviceToHost|DeviceToDevice|HostToHost)")
LONG_FORMS: Final = {"HostToDevice": "HtoD", "DeviceToHost": "DtoH", "DeviceToDevice": "DtoD", "HostToHost": "HtoH"}
PINNED: Final = "Pinned"


@dataclass(frozen=True, slots=True)
class Bytes:
    """A buffer of the call."""

    name: str
    tensor: Any

    @property
    def bytes(self) -> int:
        """Its size."""
        return int(self.tensor.numel())


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of bytes between two buffers."""

    inputs: tuple[Bytes, Bytes]
    non_blocking: bool
    notes: tuple[str, ...] = ()
    overload: str = "aten::copy_"

    def call(self) -> Any:
        """Copy once."""
        source, target = self.inputs
        return target.tensor.copy_(source.tensor, non_blocking=self.non_blocking)

    def refill(self, seed: int = 0) -> None:
        """Draw the bytes anew; a copy does not change its source, so `seed` only has to differ."""
        del seed
        self.inputs[0].tensor.random_(0, 256)


@dataclass(frozen=True, slots=True)
class Fill:
    """A fill of a buffer, by the runtime where it can be called directly, else by `zero_`."""

    inputs: tuple[Bytes]
    runtime: Any
    notes: tuple[str, ...] = ()
    overload: str = "cudaMemsetAsync"

    def call(self) -> Any:
        """Fill once, on the current stream. Raises UnresolvedCallError (REFUSED) with the runtime's error code."""
        tensor = self.inputs[0].tensor
        if self.runtime is None:
            return tensor.zero_()
        import torch

        stream = torch.cuda.current_stream(tensor.device).cuda_stream
        code = self.runtime(tensor.data_ptr(), 0, tensor.numel(), stream)
        if code:
            raise UnresolvedCallError(Reason.REFUSED, f"{self.overload}: error {code}")
        return None

    def refill(self, seed: int = 0) -> None:
        """Nothing: a fill reads nothing."""


class MemoryRoute:
    """Copies and fills of exact bytes."""

    name = "memory"

    def prepare(self, item: Item, device: str) -> Iterator[Any]:
        """One call per planned activity. Raises UnresolvedCallError without bytes, or for copies between devices."""
        if len(item.kernels) != 1 or item.kernels[0].bytes is None:
            raise UnresolvedCallError(Reason.NO_INPUTS, "one copy or fill with its bytes")
        planned = item.kernels[0]
        yield _fill(planned, device) if planned.kind == "memset" else _copy(planned, device)


def _fill(planned: PlannedKernel, device: str) -> Fill:
    buffer = Bytes("self", _buffer(planned.bytes or 0, device, pinned=False))
    runtime = None if device == "cpu" else libraries.memset()
    notes = () if runtime is not None else ("filled by zero_: the runtime's memset was not found",)
    return Fill((buffer,), runtime, notes, "aten::zero_" if runtime is None else "cudaMemsetAsync")


def _copy(planned: PlannedKernel, device: str) -> Copy:
    direction = copy_direction(planned)
    if direction == "PtoP":
        raise UnresolvedCallError(Reason.REFUSED, "a copy between two devices")
    ends = _ends(planned.name, direction, device)
    size = planned.bytes or 0
    source, target = (_buffer(size, place, pinned=pinned) for place, pinned in ends)
    on_host_pinned = any(pinned for _, pinned in ends)
    return Copy((Bytes("source", source), Bytes("self", target)), non_blocking=on_host_pinned or direction == "DtoD")


def copy_direction(planned: PlannedKernel) -> str:
    """HtoD, DtoH, DtoD, HtoH or PtoP, from `copy_kind` or the name. Raises UnresolvedCallError (UNREADABLE)."""
    found = DIRECTION.search(planned.copy_kind or "") or DIRECTION.search(planned.name)
    if found is None:
        raise UnresolvedCallError(Reason.UNREADABLE, f"no direction in {planned.name!r}")
    return LONG_FORMS.get(found[1], found[1])


def _ends(name: str, direction: str, device: str) -> Sequence[tuple[str, bool]]:
    """Place and pinnedness of source and target; the name tells them as `(Pinned -> Device)`."""
    inner = re.search(r"\((\w+) -> (\w+)\)", name)
    words = (inner[1], inner[2]) if inner else ("", "")
    letters = (direction[0], direction[-1])
    return [
        ("cpu" if letter == "H" else device, letter == "H" and word == PINNED and device != "cpu")
        for letter, word in zip(letters, words, strict=True)
    ]


def _buffer(size: int, device: str, *, pinned: bool) -> Any:
    import torch

    buffer = torch.empty(size, dtype=torch.uint8, device=device, pin_memory=pinned)
    return buffer.random_(0, 256)
