"""What a profile of XLA holds, whichever file it stands in: planes with lines of events, and modules of HLO."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kerneldb.ingest import digits
from kerneldb.ingest.launches import INT32_MAX
from kerneldb.ingest.output import Report

if TYPE_CHECKING:
    from kerneldb.ingest.xla.hlo import Module

GPU: Final = re.compile(r"(?:(\S+) )?/device:GPU:(\d+)\b.*")
HOST: Final = re.compile(r"(?:(\S+) )?/host:(?!metadata|__)\w+")
"""Names of planes. Source: openxla/xprof, xplane_to_trace_container.cc, which puts the host before them."""
STREAM: Final = re.compile(r"(?i)stream ?#(\d+)\b.*")
Stats = Mapping[str, Any]


class Event(NamedTuple):
    """Something with a start and a duration in ns. `stats` are numbers and texts by name."""

    name: str
    start_ns: int | None
    duration_ns: int | None
    stats: Stats


class Collected(Protocol):
    """Events that are decoded as they are iterated over, and counted without that."""

    def __iter__(self) -> Iterator[Event]:
        """The events, decoded anew."""

    def __len__(self) -> int:
        """How many there are, damaged ones with them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A stream of a GPU, or a thread. `events` are read anew each time they are iterated over."""

    name: str
    events: Collected

    @property
    def stream(self) -> int | None:
        """The number of the stream whose activities these are; None for a line that repeats them, such as `XLA Ops`."""
        found = STREAM.fullmatch(self.name)
        return digits.whole(found.group(1)) if found else None


@dataclasses.dataclass(frozen=True, slots=True)
class Plane:
    """A GPU, the host, or something else."""

    name: str
    lines: list[Line]
    stats: Stats

    @property
    def device(self) -> int | None:
        """The number of the GPU, None for another plane."""
        found = GPU.fullmatch(self.name)
        return digits.whole(found.group(2)) if found else None

    @property
    def host(self) -> str:
        """The machine, where the name of a GPU or of threads says it."""
        found = GPU.fullmatch(self.name) or HOST.fullmatch(self.name)
        return found.group(1) or "" if found else ""


@dataclasses.dataclass(slots=True)
class Recording:
    """A whole profile. `facts` are versions and names; `report` counts what is damaged.

    `module` finds a module by number and name, None where the file holds none. `base_ns` is the time of zero.
    """

    planes: list[Plane]
    era: str
    base_ns: int | None = None
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    report: Report = dataclasses.field(default_factory=Report)
    module: Callable[[int | None, str | None], Module | None] = lambda _number, _name: None
    modules: int = 0

    @property
    def gpus(self) -> list[Plane]:
        """The planes of GPUs."""
        return [plane for plane in self.planes if plane.device is not None]

    @property
    def hosts(self) -> list[Plane]:
        """The planes of threads."""
        return [plane for plane in self.planes if HOST.fullmatch(plane.name)]

    def numbers(self) -> dict[tuple[str, int], int]:
        """The number of each GPU, by machine and number there: its own, or a free one where two have it or none can."""
        found = dict.fromkeys((plane.host, plane.device) for plane in self.gpus if plane.device is not None)
        free = itertools.count(max((number for _, number in found if number <= INT32_MAX), default=0) + 1)
        taken: set[int] = set()
        numbers = {}
        for host, number in found:
            numbers[host, number] = next(free) if number in taken or number > INT32_MAX else number
            taken.add(number)
        return numbers
