"""The route of copies and fills: exact bytes, direction, pinned or pageable as the recorded name says.

Copies go through `copy_` of bytes, which PyTorch hands to cudaMemcpyAsync; fills call cudaMemsetAsync (hipMemsetAsync)
itself, because `zero_` of PyTorch launches a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay import facts
from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.plan.work import Work
from kerneldb.replay.routes.base import Route, Seen
from kerneldb.replay.wire.plan import Item, PlannedKernel
from kerneldb.replay.wire.results import Grade

DIRECTION: Final = re.compile(r"(HtoD|DtoH|DtoD|HtoH|PtoP|HostToDevice|DeviceToHost|DeviceToDevice|HostToHost)")
LONG_FORMS: Final = {"HostToDevice": "HtoD", "DeviceToHost": "DtoH", "DeviceToDevice": "DtoD", "HostToHost": "HtoH"}
MEMSET: Final = "cudaMemsetAsync"


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
class Transfer:
    """A copy of bytes from one buffer to another, or a fill of one: `run` does it."""

    inputs: tuple[Bytes, ...]
    run: Callable[[], Any]
    overload: str
    notes: tuple[str, ...] = ()

    def call(self) -> Any:
        """Do it once, on the current stream. Raises UnresolvedCallError (REFUSED) with the runtime's error code."""
        return self.run()

    def refill(self, seed: int = 0) -> None:
        """Draw what is read anew; a copy does not change its source, so `seed` only has to differ."""
        del seed
        for source in self.inputs[:-1]:
            source.tensor.random_(0, 256)


class MemoryRoute(Route):
    """Copies and fills of exact bytes."""

    name = "memory"
    about = "repeats a copy or a fill by its bytes and kind"
    source = None

    def claims(self, work: Work) -> bool:
        """A copy or fill whose size is recorded, and no call with it."""
        alone = work.spec is None and len(work.kernels) == 1
        return alone and work.kernels[0].kind != "kernel" and work.kernels[0].bytes is not None

    def prepare(self, item: Item, device: str) -> Iterator[Any]:
        """One call per planned activity. Raises UnresolvedCallError without bytes, or for copies between devices."""
        if len(item.kernels) != 1 or item.kernels[0].bytes is None:
            raise UnresolvedCallError(Reason.NO_INPUTS, "one copy or fill with its bytes")
        planned = item.kernels[0]
        yield _fill(planned, device) if planned.kind == "memset" else _copy(planned, device)

    def same_operators(self, item: Item, call: Any, seen: Seen) -> Grade:
        """L0 where the call was the one operator, over exactly the bytes of its buffers."""
        del item
        sizes = [[one.bytes] for one in call.inputs]
        roots = [one for one in seen.operations if one.depth == 0 and one.name == call.overload]
        moved = len(roots) == 1 and sorted(size for size in roots[0].dims if size) == sorted(sizes)
        return Grade.L0 if moved else Grade.L3


def _fill(planned: PlannedKernel, device: str) -> Transfer:
    """A fill by the runtime where it can be called directly, else by `zero_`."""
    tensor = _buffer(planned.bytes or 0, device, pinned=False)
    buffers = (Bytes("self", tensor),)
    runtime = None if device == "cpu" else facts.memset()
    if runtime is None:
        return Transfer(buffers, tensor.zero_, "aten::zero_", ("filled by zero_: the runtime's memset was not found",))

    def fill() -> None:
        import torch

        stream = torch.cuda.current_stream(tensor.device).cuda_stream
        code = runtime(tensor.data_ptr(), 0, tensor.numel(), stream)
        if code:
            raise UnresolvedCallError(Reason.REFUSED, f"{MEMSET}: error {code}")

    return Transfer(buffers, fill, MEMSET)


def _copy(planned: PlannedKernel, device: str) -> Transfer:
    direction = copy_direction(planned)
    if direction == "PtoP":
        raise UnresolvedCallError(Reason.REFUSED, "a copy between two devices")
    ends = _ends(planned.name, direction, device)
    source, target = (_buffer(planned.bytes or 0, place, pinned=pinned) for place, pinned in ends)
    free = direction == "DtoD" or any(pinned for _, pinned in ends)
    buffers = (Bytes("source", source), Bytes("self", target))
    return Transfer(buffers, lambda: target.copy_(source, non_blocking=free), "aten::copy_")


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
        ("cpu" if letter == "H" else device, letter == "H" and word == "Pinned" and device != "cpu")
        for letter, word in zip(letters, words, strict=True)
    ]


def _buffer(size: int, device: str, *, pinned: bool) -> Any:
    import torch

    buffer = torch.empty(size, dtype=torch.uint8, device=device, pin_memory=pinned)
    return buffer.random_(0, 256)
