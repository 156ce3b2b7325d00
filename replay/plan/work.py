"""What planning knows before a route has it: launches that are replayed alike, as the database describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kerneldb.replay.wire.plan import CallSpec, Candidate, Item, PlannedKernel


@dataclass(frozen=True, slots=True)
class Work:
    """A distinct operator call with the kernels that it launched; or launches of which no call is recorded.

    `id` is that of the item to be made of it. `spec` is the recorded call with its evidence; `candidates` are calls
    that may stand for one that was not recorded; `category` is that of the kernels (of the first, where they differ).
    `why_not` is the reason where no route has it; `below` is what calls inside it launched, each of them a work too.
    """

    id: str
    kernels: tuple[PlannedKernel, ...]
    category: str = "OTHER"
    spec: CallSpec | None = None
    candidates: tuple[Candidate, ...] = ()
    why_not: str | None = None
    below: tuple[PlannedKernel, ...] = ()


class Archive(Protocol):
    """What the database holds beside launches and calls."""

    def sources(self, language: str, hashes: Sequence[str], names: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Archived sources of kernels by hash or by name: hash, name, text, origin, file."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a work: the item that a route made of it, or none; `reason` says what it lacks."""

    work: Work
    route: str
    item: Item | None = None
    reason: str | None = None
