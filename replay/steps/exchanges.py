"""Collectives of a step that all ranks of a job run at once: the recorded exchange, on the tensors of the step.

Each is called so that it runs on the current stream: with PyTorch 2.8 or newer its kernel is there, with older ones on
a stream of the process group, which waits for the current one and is waited for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from kerneldb.replay.errors import Reason, UnresolvedCallError
from kerneldb.replay.recording.ranks import ALONE, Ranks
from kerneldb.replay.routes import collective
from kerneldb.replay.routes.collective import Message
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.steps import UNKNOWN, Exchange, Step, StepCall

Tensors = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Together:
    """The ranks that run a step at once, with a process group for each of its groups; alone there are none."""

    ranks: Ranks = ALONE
    groups: Mapping[tuple[int, ...], Any] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()

    def can(self, exchange: Exchange | None) -> bool:
        """Whether the ranks of a collective are here, and all can make it."""
        return exchange is not None and exchange.group in self.groups and exchange.operation not in self.refused


ALONE_IN_STEP: Final = Together()


def joined(
    ranks: Ranks,
    step: Step,
    items: Mapping[str, Item],
    device: str,
    broken: Collection[str] = (),
    groups: Mapping[tuple[int, ...], Any] = MappingProxyType({}),
) -> Together:
    """The ranks with the groups that the step of any of them needs; all make them in the same order.

    `groups` are those of an earlier step, `broken` the items that cost a worker. What one of them cannot make no other
    makes: it would wait forever.
    """
    import torch.distributed as dist

    exchanging = [call for call in step.calls if call.exchange is not None]
    own = sorted({call.exchange.group for call in exchanging if call.exchange is not None})
    needed = sorted({tuple(group) for one in ranks.gather(own) for group in one} - groups.keys())
    world = tuple(range(ranks.place.world_size))
    new = {one: dist.group.WORLD if one == world else dist.new_group(list(one)) for one in needed}
    known = Together(ranks, {**groups, **new})
    usable = {name: item for name, item in items.items() if name not in broken}
    refused = {name for call in exchanging for name in _refused(usable.get(call.item), call, known, device)}
    return dataclasses.replace(known, refused=frozenset(name for one in ranks.gather(sorted(refused)) for name in one))


def _refused(item: Item | None, call: StepCall, together: Together, device: str) -> Iterable[str]:
    """The operations that cannot be made, if this one cannot: with one end of a pair the other."""
    try:
        if item is not None:
            made(item, call, together, device)
            return ()
    except UnresolvedCallError:
        pass
    operation = "" if call.exchange is None else call.exchange.operation
    return ENDS if operation in ENDS else (operation,)


@dataclass(frozen=True, slots=True)
class StepExchange:
    """A collective as a call of a step. Of the tensors that it has none of in the step, it has its own."""

    message: Message
    exchange: Exchange
    group: Any
    device: str
    inputs: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    own: dict[str, Any] = field(default_factory=dict)

    @property
    def overload(self) -> str:
        """What is called."""
        return f"torch.distributed, {self.exchange.operation}"

    def call(self) -> None:
        """Take part in it once, with tensors of its own."""
        self.on([], [])

    def refill(self, seed: int = 0) -> None:
        """Leave the tensors: how long an exchange takes does not depend on their values."""
        del seed

    def on(self, given: list[Any], taken: list[Any]) -> None:
        """Take part in it once, with the tensors of the step that it gives and takes."""
        EXCHANGES[self.exchange.operation](self, given, taken)

    @property
    def reduction(self) -> Any:
        """The ReduceOp of torch."""
        import torch.distributed as dist

        return getattr(dist.ReduceOp, self.message.reduction)

    @property
    def root(self) -> int:
        """The rank (of the job) at the root: the first of the group where it is not known."""
        wanted = self.exchange.root
        return wanted if wanted is not None and wanted in self.exchange.group else self.exchange.group[0]

    def one(self, tensors: Tensors, name: str, elements: int) -> Any:
        """The tensor, where it is one of so many elements, else one of its own."""
        import torch

        dtype = getattr(torch, self.message.dtype)
        if len(tensors) == 1 and tensors[0].numel() == elements and tensors[0].dtype == dtype:
            return tensors[0]
        if name not in self.own:
            self.own[name] = torch.ones(elements, dtype=dtype, device=self.device)
        return self.own[name]

    def given(self, tensors: Tensors) -> Any:
        """What the rank gives, as one tensor."""
        return self.one(tensors, "given", self.message.given)

    def taken(self, tensors: Tensors) -> Any:
        """What it takes, as one tensor."""
        return self.one(tensors, "taken", self.message.taken)


def made(item: Item, call: StepCall, together: Together, device: str) -> StepExchange:
    """The call of a collective. Raises UnresolvedCallError where its kind, sizes or ranks are not known."""
    exchange = call.exchange
    if exchange is None or not together.can(exchange):
        raise UnresolvedCallError(Reason.REFUSED, "the ranks of a collective are not here")
    if exchange.operation not in EXCHANGES:
        raise UnresolvedCallError(Reason.NO_OPERATOR, f"collective {exchange.operation!r}")
    if exchange.operation in ENDS and exchange.peer is None:
        raise UnresolvedCallError(Reason.NO_INPUTS, f"the other end of a {exchange.operation}")
    return StepExchange(collective.message(item), exchange, together.groups[exchange.group], device)


def places(call: StepCall) -> tuple[list[int], list[int]]:
    """The tensors of the step that a collective gives and takes."""
    given = [slot for slots in call.inputs[:1] for slot in slots if slot != UNKNOWN]
    return given, [slot for slot in call.outputs if slot != UNKNOWN]


def _dist() -> Any:
    import torch.distributed as dist

    return dist


def _all_reduce(one: StepExchange, given: Tensors, taken: Tensors) -> None:
    del taken
    if len(given) > 1:
        _dist().all_reduce_coalesced(list(given), op=one.reduction, group=one.group)
    else:
        _dist().all_reduce(one.given(given), op=one.reduction, group=one.group)


def _broadcast(one: StepExchange, given: Tensors, taken: Tensors) -> None:
    del taken
    _dist().broadcast(one.given(given), one.root, group=one.group)


def _reduce(one: StepExchange, given: Tensors, taken: Tensors) -> None:
    del taken
    _dist().reduce(one.given(given), one.root, op=one.reduction, group=one.group)


def _all_gather(one: StepExchange, given: Tensors, taken: Tensors) -> None:
    gather = getattr(_dist(), "all_gather_single", None) or _dist().all_gather_into_tensor  # before PyTorch 2.13
    gather(one.taken(taken), one.given(given), group=one.group)


def _reduce_scatter(one: StepExchange, given: Tensors, taken: Tensors) -> None:
    scatter = getattr(_dist(), "reduce_scatter_single", None) or _dist().reduce_scatter_tensor
    scatter(one.taken(taken), one.given(given), op=one.reduction, group=one.group)


def _all_to_all(one: StepExchange, given: Tensors, taken: Tensors) -> None:
    if len(given) > 1 and len(taken) > 1:
        _dist().all_to_all(list(taken), list(given), group=one.group)
        return
    given_shares, taken_shares = (list(shares) or None for shares in (one.exchange.given, one.exchange.taken))
    into, of = one.taken(taken), one.given(given)
    _dist().all_to_all_single(into, of, taken_shares, given_shares, group=one.group)


def _send(one: StepExchange, given: Tensors, taken: Tensors) -> None:
    del taken
    _dist().send(one.given(given), one.exchange.peer, group=one.group)


def _receive(one: StepExchange, given: Tensors, taken: Tensors) -> None:
    _dist().recv(one.taken(taken or given), one.exchange.peer, group=one.group)


def _barrier(one: StepExchange, given: Tensors, taken: Tensors) -> None:
    del given, taken
    _dist().all_reduce(one.given([]), op=one.reduction, group=one.group)


EXCHANGES: Final[dict[str, Callable[[StepExchange, Tensors, Tensors], None]]] = {
    "allreduce": _all_reduce,
    "allreducecoalesced": _all_reduce,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "allgather": _all_gather,
    "allgatherintotensorcoalesced": _all_gather,
    "reducescatter": _reduce_scatter,
    "reducescattertensorcoalesced": _reduce_scatter,
    "alltoall": _all_to_all,
    "alltoallv": _all_to_all,
    "send": _send,
    "recv": _receive,
    "barrier": _barrier,
}
"""Kind, as `collectives` names it → the call."""
ENDS: Final = frozenset({"send", "recv"})


def ordered(calls: Iterable[StepCall]) -> list[tuple[int, StepCall]]:
    """The places of the exchanges that all ranks of a group run, with their calls, in order."""
    return [
        (place, call)
        for place, call in enumerate(calls)
        if call.exchange is not None and call.exchange.operation not in ENDS
    ]
