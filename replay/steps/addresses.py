"""Which block of memory an id of an Execution Trace is: its observer numbers the addresses of storages.

Memory events of the profiler have the addresses themselves, with the moments in which blocks were allocated there and
freed. So an id is one address, and each block there is one allocation. Which address is found where an operator returns
an id that it did not take: a block as large was allocated while it ran. All other operators that have the id must
agree: at those moments there is a block at the address, large enough.
"""

from __future__ import annotations

import bisect
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kerneldb.replay.steps.memory import Op, View

Key = tuple[int, bool]
"""An id of an Execution Trace, and whether it lies in host memory."""
BEFORE: Final = -1
"""When a block was allocated of which only the end was recorded."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A memory event: bytes allocated at an address, or freed (negative), on a device (not in host memory)."""

    ts_ns: int
    address: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Block:
    """Memory from when it was allocated until it was freed; None where it outlives what is recorded."""

    made_ns: int
    freed_ns: int | None
    bytes: int


class Blocks:
    """The blocks at one address in order of time."""

    def __init__(self) -> None:
        self.listed: list[Block] = []
        self._made: list[int] = []

    def note(self, moment: Moment) -> None:
        """An event, after all before it."""
        last = self.listed[-1] if self.listed else None
        if moment.bytes > 0:
            self._made.append(moment.ts_ns)
            self.listed.append(Block(moment.ts_ns, None, moment.bytes))
        elif last is None:
            self._made.append(BEFORE)
            self.listed.append(Block(BEFORE, moment.ts_ns, -moment.bytes))
        elif last.freed_ns is None:
            self.listed[-1] = Block(last.made_ns, moment.ts_ns, last.bytes)

    def at(self, moment_ns: int) -> int:
        """The place of the block that was allocated last until then; -1 where it was before what is recorded."""
        return bisect.bisect_right(self._made, moment_ns) - 1

    def made(self, moment_ns: int) -> int:
        """When the block was allocated that is there then."""
        place = self.at(moment_ns)
        return self._made[place] if place >= 0 else BEFORE

    def spare(self, moment_ns: int, size: int) -> int:
        """Bytes of the block that is there then and not needed; none where none is known yet."""
        place = self.at(moment_ns)
        return self.listed[place].bytes - size if place >= 0 else 0

    def hold(self, moment_ns: int, size: int) -> bool:
        """Whether a tensor may have been there: a block as large is, or none is known yet."""
        place = self.at(moment_ns)
        if place < 0:
            return True
        block = self.listed[place]
        return block.bytes >= size and (block.freed_ns is None or block.freed_ns >= moment_ns)


def blocks(moments: Iterable[Moment]) -> dict[str, Blocks]:
    """The blocks by address, of moments in order of time."""
    found: dict[str, Blocks] = defaultdict(Blocks)
    for one in moments:
        found[one.address].note(one)
    return dict(found)


class Seen(NamedTuple):
    """A moment in which an id was there, with the bytes it needs."""

    ts_ns: int
    bytes: int


class Finder:
    """Finds the address of each id, in the order in which operators made them."""

    def __init__(self, ops: Sequence[Op], known: Mapping[str, Blocks], *, host: bool) -> None:
        self._ops = ops
        self._blocks = known
        self._host = host
        self._made = sorted((one.made_ns, address) for address, some in known.items() for one in some.listed)
        self._times = [one for one, _ in self._made]
        self._seen: dict[Key, list[Seen]] = defaultdict(list)
        self._makers: dict[Key, list[tuple[int, Op]]] = defaultdict(list)
        self._free = set(known)

    def found(self) -> dict[Key, Blocks]:
        """The blocks of each id whose address is found."""
        for op in self._ops:
            self._note(op)
        makers = {
            key: min(some, key=lambda one: (one[1].end_ns - one[1].start_ns, one[0]))
            for key, some in self._makers.items()
        }
        made = sorted(makers.items(), key=lambda one: (one[1][1].end_ns, one[1][0]))
        addresses = self._shared_out({key: self._fits(key, self._inside(op)) for key, (_, op) in made})
        # a number that is a tensor while an operator runs fits all that it adds to, each of which is there once
        unnamed = [key for key in self._seen if key not in addresses]
        for key in sorted(unnamed, key=lambda one: -len(self._seen[one])):
            fits = self._fits(key, self._unnamed(key))
            if len(fits) == 1:
                addresses[key] = fits[0]
                self._free.discard(fits[0])
        return {key: self._blocks[address] for key, address in addresses.items()}

    def _note(self, op: Op) -> None:
        took = {(one.storage, one.host) for one in op.taken()}
        for one in op.taken():
            self._see(one, op.start_ns)
        for place, one in enumerate(op.outputs):
            self._see(one, op.end_ns)
            if one.bytes and one.host is self._host and (one.storage, one.host) not in took:
                self._makers[one.storage, one.host].append((place, op))

    def _see(self, view: View, now: int) -> None:
        if view.bytes and view.host is self._host:
            self._seen[view.storage, view.host].append(Seen(now, view.bytes))

    def _fits(self, key: Key, candidates: Iterable[str]) -> list[str]:
        """The addresses with which all moments of an id agree."""
        return [one for one in dict.fromkeys(candidates) if one in self._free and self._agrees(key, one)]

    def _shared_out(self, options: dict[Key, list[str]]) -> dict[Key, str]:
        """The best address of each id that has options: in their order, but first where only one is left.

        An id may fit the address of another that fits nowhere else: two numbers of one operator, say.
        """
        addresses: dict[Key, str] = {}
        wanted: dict[str, list[Key]] = defaultdict(list)
        for key, fits in options.items():
            for address in fits:
                wanted[address].append(key)
        due = deque(key for key in options if self._is_sure(key, options[key]))
        for key in options:
            due.append(key)
            while due:
                taker = due.popleft()
                if taker in addresses or not options[taker]:
                    continue
                address = min(options[taker], key=lambda one: self._off(taker, self._blocks[one]))
                addresses[taker] = address
                self._free.discard(address)
                for other in wanted[address]:
                    options[other].remove(address)
                    if other not in addresses and self._is_sure(other, options[other]):
                        due.append(other)
        return addresses

    def _is_sure(self, key: Key, fits: Sequence[str]) -> bool:
        """Whether one address is left, at which all operators that returned the id allocated."""
        return len(fits) == 1 and not self._off(key, self._blocks[fits[0]])[0]

    def _off(self, key: Key, some: Blocks) -> tuple[int, int]:
        """How many operators returned the id and allocated nothing there; bytes that no tensor needs."""
        made = (op.start_ns <= some.made(op.end_ns) for _, op in self._makers[key])
        return sum(not one for one in made), sum(some.spare(*one) for one in self._seen[key])

    def _agrees(self, key: Key, address: str) -> bool:
        return all(self._blocks[address].hold(*one) for one in self._seen[key])

    def _inside(self, op: Op) -> Iterator[str]:
        """Addresses of blocks that were allocated while an operator ran, the earliest first."""
        place = bisect.bisect_left(self._times, op.start_ns)
        while place < len(self._made) and self._made[place][0] <= op.end_ns:
            yield self._made[place][1]
            place += 1

    def _unnamed(self, key: Key) -> Iterator[str]:
        """Addresses with a block of just the bytes that there must be when an id is there first."""
        first, size = self._seen[key][0].ts_ns, max(one.bytes for one in self._seen[key])
        for address in self._free:
            some = self._blocks[address]
            place = max(some.at(first), 0)
            if some.listed[place].bytes == size and some.listed[place].made_ns <= first:
                yield address
