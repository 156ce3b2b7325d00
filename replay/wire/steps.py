"""A recorded step as the plan file carries it. Standard library only.

A step is a list of calls in recorded order. Calls name items of the plan (how to rebuild the operator, which kernels it
launched) and tensors of the step. A tensor is a view of a storage; a storage is one allocation: memory that was freed
and allocated anew is another one, also where the recording gives both the same id.

    {"step": {"id": "…", "trace": "model-decode", "method": "execution trace", "storages": [{"bytes": 8192, …}],
     "tensors": [{"storage": 0, "dims": [64, 64], "strides": [64, 1], "dtype": "float"}],
     "calls": [{"item": "…", "inputs": [[0], [1]], "outputs": [2], "frees": [0], "recorded_ns": [5120]}]}}
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from kerneldb.codec import LARGEST, Between, CodecError, Int32

UNKNOWN: Final = -1
Size = Annotated[int, Between(0, LARGEST)]
Index = Annotated[int, Between(UNKNOWN, (1 << 31) - 1)]
Method = Literal["execution trace and memory events", "execution trace", "inferred from dims"]
Mode = Literal["eager", "cuda_graph"]


@dataclass(frozen=True, slots=True)
class Storage:
    """One allocation of `bytes`. `given` was there before the step: a parameter, a cache, an input."""

    bytes: Size
    given: bool = False
    host: bool = False


@dataclass(frozen=True, slots=True)
class Tensor:
    """A view of a storage (by its place in `Step.storages`); offset and strides in elements, dtype as recorded."""

    storage: Size
    dims: tuple[Size, ...] = ()
    strides: tuple[Size, ...] = ()
    dtype: str = "float"
    offset: Size = 0

    def __post_init__(self) -> None:
        """Refuse a tensor whose strides are not one per dim."""
        if len(self.dims) != len(self.strides):
            message = f"{len(self.dims)} dims and {len(self.strides)} strides"
            raise CodecError(message, "strides")


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a collective does (`allreduce`, …) and with whom: the ranks of its `group`, in their order in it.

    `given` and `taken` are the shares of each rank where they differ, `root` the rank (of the job) that sends to all or
    gets from all, `peer` the other end of a send or receive.
    """

    operation: str
    group: tuple[Size, ...] = ()
    given: tuple[Size, ...] = ()
    taken: tuple[Size, ...] = ()
    root: Size | None = None
    peer: Size | None = None


@dataclass(frozen=True, slots=True)
class StepCall:
    """A call of the step: an item of the plan, and the tensors that it took and returned, by place in `Step.tensors`.

    `inputs` has an entry per argument: none for what is no tensor, several for a list, -1 for one that is not known.
    `allocates` are storages allocated since the call before, `frees` those freed after this one. `recorded_ns` are the
    durations of its kernels, in the order of the item's; of a collective, `waited_ns` of them were waiting for others,
    where that is known. `after` are calls of other streams that its stream was told to wait for.
    """

    item: str
    inputs: tuple[tuple[Index, ...], ...] = ()
    outputs: tuple[Index, ...] = ()
    allocates: tuple[Size, ...] = ()
    frees: tuple[Size, ...] = ()
    stream: Int32 = 0
    recorded_ns: tuple[Size, ...] = ()
    exchange: Exchange | None = None
    waited_ns: tuple[Size, ...] = ()
    after: tuple[Size, ...] = ()

    def __post_init__(self) -> None:
        """Refuse waits that are not one per kernel."""
        if self.waited_ns and len(self.waited_ns) != len(self.recorded_ns):
            message = f"{len(self.recorded_ns)} durations and {len(self.waited_ns)} waits"
            raise CodecError(message, "waited_ns")

    @property
    def own_ns(self) -> tuple[int, ...]:
        """The durations of its kernels without the waiting for other ranks."""
        waits = self.waited_ns or (0,) * len(self.recorded_ns)
        return tuple(whole - wait for whole, wait in zip(self.recorded_ns, waits, strict=True))


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded step. `method` says where the identity of its tensors comes from.

    `span_ns` is from its first kernel to its last, `busy_ns` the time in which any ran; `again_ns` the kernel time of
    each signature in another recorded iteration, of the same trace. `unplanned_ns` is of kernels without a call.
    The calls of a step that was recorded as a CUDA graph are `calls_from` another trace, which ran the same kernels, or
    in which the graph was `captured`.
    With a `job` it is what `rank` did of a step of `ranks`, which are all in the plan; `alone` says why another rank's
    step is not run with it: the others are not known.
    """

    id: str
    trace: str
    trace_id: str
    method: Method
    storages: tuple[Storage, ...]
    tensors: tuple[Tensor, ...]
    calls: tuple[StepCall, ...]
    iteration: str | None = None
    phase: str | None = None
    recorded_as: Mode = "eager"
    span_ns: Size = 0
    busy_ns: Size = 0
    again_ns: tuple[tuple[str, int], ...] = ()
    again_span_ns: Size | None = None
    calls_from: str | None = None
    captured: bool = False
    unplanned: Size = 0
    unplanned_ns: Size = 0
    rank: Size = 0
    ranks: Int32 = 1
    job: str | None = None
    alone: str | None = None

    def __post_init__(self) -> None:
        """Refuse a tensor without its storage, and a call without its tensors."""
        _within("tensors", (one.storage for one in self.tensors), len(self.storages))
        for place, call in enumerate(self.calls):
            named = itertools.chain(call.outputs, *call.inputs)
            _within(f"calls[{place}]", named, len(self.tensors))
            _within(f"calls[{place}]", (*call.allocates, *call.frees), len(self.storages))
            _within(f"calls[{place}].after", call.after, place)

    def inputs(self, call: StepCall) -> Iterator[Tensor]:
        """The known tensors that a call took."""
        return (self.tensors[one] for one in itertools.chain(*call.inputs) if one != UNKNOWN)


def _within(place: str, numbers: Iterator[int] | Sequence[int], count: int) -> None:
    for number in numbers:
        if number >= count:
            message = f"number {number} of {count}"
            raise CodecError(message, place)
