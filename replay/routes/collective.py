"""The route of collectives: what NCCL or RCCL exchanged, of the recorded type, sizes and ranks, by torch.distributed.

A collective runs on all ranks of its group at once, so this route alone replays none: `kerneldb.replay.worker.group`
does, with a worker per rank. Where there is one worker only, the reason says how many are needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.plan.work import Work
from kerneldb.replay.routes.base import Route
from kerneldb.replay.wire.plan import Item

ROUTE: Final = "collective"
OPERATOR: Final = "record_param_comms"
"""The operator by which PyTorch notes what a collective exchanges."""
SIZE: Final = "Group size"
DTYPES: Final = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32", "long": "int64",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2", "complexfloat": "complex64", "complexdouble": "complex128",
}  # fmt: skip
"""Recorded type → dtype of torch."""
TYPE_PREFIXES: Final = re.compile(r"^(c10::|at::|k)")
REDUCTIONS: Final = (("PreMulSum", "AVG"), ("SumPostDiv", "AVG"), ("Avg", "AVG"), ("Sum", "SUM"), ("Prod", "PRODUCT"),
                     ("Max", "MAX"), ("Min", "MIN"))  # fmt: skip
"""Part of the kernel's name → ReduceOp of torch. The first that fits holds."""
UNDERSCORES: Final = re.compile(r"^_|_base$|_")


@dataclass(frozen=True, slots=True)
class Message:
    """What a collective exchanges: `dtype` of torch, elements that a rank gives and gets, ranks of the group."""

    operation: str
    dtype: str
    given: int
    taken: int
    ranks: int
    reduction: str = "SUM"

    @property
    def elements(self) -> int:
        """The larger of both, by which nccl-tests counts."""
        return max(self.given, self.taken)


def message(item: Item) -> Message:
    """What the plan says of the collective. Raises UnresolvedCallError where it lacks something."""
    said = json.loads((item.spec and item.spec.call.extra) or "{}")
    try:
        name, dtype = str(said["Collective name"]), str(said["dtype"])
        given, taken = int(said["In msg nelems"]), int(said["Out msg nelems"])
        ranks = int(said[SIZE])
    except KeyError as error:
        raise UnresolvedCallError(Reason.NO_INPUTS, f"{error.args[0]} of the collective") from error
    except (TypeError, ValueError) as error:
        raise UnresolvedCallError(Reason.UNREADABLE, f"what the collective exchanges: {error}") from error
    known = DTYPES.get(TYPE_PREFIXES.sub("", dtype).lower())
    if known is None:
        raise UnresolvedCallError(Reason.DTYPE, dtype)
    kernel = item.kernels[0].name if item.kernels else ""
    reduction = next((one for part, one in REDUCTIONS if part in kernel), "SUM")
    return Message(operation_of(name), known, given, taken, ranks, reduction)


def operation_of(name: str) -> str:
    """The kind of a collective, as `collectives` names it, from its name in PyTorch: `_allgather_base`."""
    return UNDERSCORES.sub("", name.lower())


class CollectiveRoute(Route):
    """What ranks exchanged, on as many devices as it took."""

    name = ROUTE
    about = "repeats the exchange between ranks, on as many GPUs as were recorded"
    waits = True

    def claims(self, work: Work) -> bool:
        """A record of what ranks exchanged, with how many they were."""
        call = None if work.spec is None else work.spec.call
        return call is not None and call.op == OPERATOR and SIZE in (call.extra or "")

    def ranks(self, item: Item) -> int:
        """The ranks of its group; 1 where they are not recorded."""
        try:
            return message(item).ranks
        except UnresolvedCallError:
            return 1

    def prepare(self, item: Item, device: str) -> Iterator[Any]:
        """No call: raises UnresolvedCallError with the number of ranks that it takes."""
        del device
        yield from ()
        ranks = message(item).ranks
        raise UnresolvedCallError(Reason.REFUSED, f"a collective of {ranks} ranks needs as many GPUs: --gpus {ranks}")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective with its buffers in memory, one of all elements (`whole`) and one of a rank's `part`."""

    message: Message
    whole: Any
    part: Any
    rank: int

    @property
    def overload(self) -> str:
        """What is called."""
        return f"torch.distributed, {self.message.operation}"

    @property
    def reduction(self) -> Any:
        """The ReduceOp of torch."""
        return getattr(_dist().ReduceOp, self.message.reduction)

    def call(self) -> Any:
        """Take part in it once."""
        return EXCHANGES[self.message.operation](self)


def exchange(wanted: Message, rank: int, device: str) -> Exchange:
    """Make the buffers. Raises UnresolvedCallError where the kind is not known or the sizes do not fit it."""
    import torch

    if wanted.operation not in EXCHANGES:
        raise UnresolvedCallError(Reason.NO_OPERATOR, f"collective {wanted.operation!r}")
    smaller = min(wanted.given, wanted.taken)
    if wanted.operation.startswith(SHARING) and smaller * wanted.ranks != wanted.elements:
        detail = f"{wanted.operation} of {wanted.given} and {wanted.taken} elements among {wanted.ranks}"
        raise UnresolvedCallError(Reason.UNREADABLE, detail)
    if wanted.operation.startswith("alltoall") and wanted.given != wanted.taken:
        detail = f"unequal shares: {wanted.operation} of {wanted.given} and {wanted.taken} elements"
        raise UnresolvedCallError(Reason.NO_INPUTS, detail)
    dtype = getattr(torch, wanted.dtype)
    whole, part = (_filled(size, dtype, device) for size in (wanted.elements, smaller))
    return Exchange(wanted, whole, part, rank)


def _filled(size: int, dtype: Any, device: str) -> Any:
    """Values whose sums stay finite, and no zeros."""
    import torch

    if dtype.is_floating_point or dtype.is_complex:
        return torch.rand(size, device=device, dtype=torch.float32).sub_(0.5).to(dtype)
    return torch.ones(size, device=device, dtype=dtype)


def _dist() -> Any:
    import torch.distributed as dist

    return dist


def _all_to_all(one: Exchange) -> Any:
    import torch

    return _dist().all_to_all_single(torch.empty_like(one.whole), one.whole)


def _pair(one: Exchange) -> None:
    """Every rank sends to the next and receives from the one before."""
    dist = _dist()
    after, before = (one.rank + 1) % one.message.ranks, (one.rank - 1) % one.message.ranks
    both = [dist.P2POp(dist.isend, one.whole, after), dist.P2POp(dist.irecv, one.part, before)]
    for request in dist.batch_isend_irecv(both):
        request.wait()


def _one_way(one: Exchange) -> None:
    """Rank 0 sends, rank 1 receives."""
    dist = _dist()
    if one.rank == 0:
        dist.send(one.whole, 1)
    elif one.rank == 1:
        dist.recv(one.part, 0)


def _parts(one: Exchange) -> list[Any] | None:
    """The parts of all ranks, which rank 0 alone has."""
    return list(one.whole.chunk(one.message.ranks)) if one.rank == 0 else None


EXCHANGES: Final[dict[str, Callable[[Exchange], Any]]] = {
    "allreduce": lambda one: _dist().all_reduce(one.whole, op=one.reduction),
    "allreducecoalesced": lambda one: _dist().all_reduce(one.whole, op=one.reduction),
    "allgather": lambda one: _dist().all_gather_into_tensor(one.whole, one.part),
    "allgatherintotensorcoalesced": lambda one: _dist().all_gather_into_tensor(one.whole, one.part),
    "reducescatter": lambda one: _dist().reduce_scatter_tensor(one.part, one.whole, op=one.reduction),
    "reducescattertensorcoalesced": lambda one: _dist().reduce_scatter_tensor(one.part, one.whole, op=one.reduction),
    "broadcast": lambda one: _dist().broadcast(one.whole, 0),
    "reduce": lambda one: _dist().reduce(one.whole, 0, op=one.reduction),
    "alltoall": _all_to_all,
    "alltoallv": _all_to_all,
    "gather": lambda one: _dist().gather(one.part, _parts(one), dst=0),
    "scatter": lambda one: _dist().scatter(one.part, _parts(one), src=0),
    "send": _one_way,
    "recv": _one_way,
    "sendrecv": _pair,
    "coalesced": _pair,
    "barrier": lambda one: _dist().all_reduce(one.whole, op=one.reduction),
}
"""Kind, as `collectives` names it → the call."""
SHARING: Final = ("allgather", "reducescatter", "gather", "scatter")
"""Of these, each rank has a part of the whole; begins of the kinds' names."""
