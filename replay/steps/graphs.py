"""A step as CUDA graphs: as one where all of it can be captured, else split at the calls that cannot, by name.

Between two graphs such a call runs by itself. It runs on the tensors that it had while the step was captured. Those and
what it returned then stay alive, since the graphs after it read that: its kernels run each time, its results are those
of the first.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kerneldb.replay.errors import FAILURES, first_line
from kerneldb.replay.measure.loops import capturing
from kerneldb.replay.steps.exchanges import StepExchange
from kerneldb.replay.steps.player import Player
from kerneldb.replay.wire.results import Activity

RESTARTS: Final = 24


@dataclass(slots=True)
class Captured:
    """Graphs and the calls between them, in order; `between` are the operators of these."""

    parts: list[Callable[[], object]] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)
    segments: int = 0
    between: tuple[str, ...] = ()
    stream: Any = None

    def replay(self) -> None:
        """Run the step."""
        import torch

        with torch.no_grad():
            for part in self.parts:
                part()


class _RefusedError(Exception):
    """A call cannot be captured."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


def capture(player: Player, waits: set[int]) -> Captured:
    """Capture the step; `waits` are the places of calls that wait for the device. Raises what its calls raise."""
    alone = set(waits)
    for _ in range(RESTARTS):
        captured, refused, failed = _attempt(player, alone)
        outcomes = player.together.ranks.gather([captured is not None, failed])
        failed = next((one for _, one in outcomes if one), None)
        if failed is not None:
            raise RuntimeError(failed)
        if captured is not None and all(done for done, _ in outcomes):
            return captured
        alone |= refused
    message = f"more than {RESTARTS} calls of the step cannot be captured"
    raise RuntimeError(message)


def _attempt(player: Player, alone: set[int]) -> tuple[Captured | None, set[int], str | None]:
    """The step captured, or the place of the call that cannot be, or why all of it cannot."""
    import torch

    exchanging = [place for place in sorted(alone) if isinstance(player.prepared[place].apart, StepExchange)]
    try:
        with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
            player.run()  # what each stream has of its own (workspaces) is made outside of a graph
            torch.cuda.synchronize()
            if exchanging:
                return None, set(), f"an exchange between ranks cannot be captured: {_name(player, exchanging[0])}"
            return _captured(player, alone), set(), None
    except _RefusedError as refused:
        with contextlib.suppress(RuntimeError):
            torch.cuda.synchronize()
        return None, {refused.place}, None
    except FAILURES as error:
        return None, set(), first_line(error)


def _captured(player: Player, alone: set[int]) -> Captured:
    import torch

    made, pool, calls = Captured(), torch.cuda.graph_pool_handle(), player.step.calls
    names: list[str] = []
    player.begin()
    place = 0
    while place < len(calls):
        if place in alone:
            made.parts.append(_by_itself(player, place, made.held))
            names.append(_name(player, place))
            place += 1
            continue
        graph = torch.cuda.CUDAGraph()
        with capturing(graph, pool), player.lanes.open():
            while place < len(calls) and place not in alone:
                _step(player, place)
                place += 1
        made.parts.append(graph.replay)
        made.held.append(graph)
        made.segments += 1
    made.between = tuple(dict.fromkeys(names))
    torch.cuda.synchronize()
    return made


def _step(player: Player, place: int) -> None:
    try:
        player.play(place)
    except FAILURES as error:
        raise _RefusedError(place) from error


def _by_itself(player: Player, place: int, held: list[Any]) -> Callable[[], object]:
    call, how = player.step.calls[place], player.prepared[place]
    player.before(call)
    if how.resolved is None:
        player.make(place)
        again: Callable[[], object] = functools.partial(player.make, place)
    else:
        args, kwargs = player.arguments(call, how)
        function, settings = how.resolved.overload.function, how.settings

        def again() -> None:
            with settings():
                function(*args, **kwargs)

        player.make(place)
    held.extend(player.made_by(call))
    player.after(call)
    return again


def _name(player: Player, place: int) -> str:
    item = player.items.get(player.step.calls[place].item)
    return "" if item is None else (item.spec.call.op if item.spec else item.route)


Found = list[tuple[list[Activity], list[list[float]]]]


def aligned_by_stream(
    launched: Sequence[Sequence[Activity]], streams: Sequence[int], activities: Sequence[Activity], runs: int
) -> Found | None:
    """As `aligned`, each stream by itself where the names of kernels tell streams apart.

    Which kernel of two streams begins first differs from run to run.
    """
    names: dict[int, set[str]] = defaultdict(set)
    for some, stream in zip(launched, streams, strict=True):
        names[stream].update(one.name for one in some)
    if len(names) < 2 or len(set().union(*names.values())) < sum(map(len, names.values())):  # noqa: PLR2004 (one)
        return aligned(launched, activities, runs)
    found: Found = [([], []) for _ in launched]
    elsewhere = {name for stream, some in names.items() if stream for name in some}
    for stream, own in names.items():
        ran = [one for one in activities if (one.name in own if stream else one.name not in elsewhere)]
        of_it = [some if its == stream else [] for some, its in zip(launched, streams, strict=True)]
        part = aligned(of_it, ran, runs)
        if part is None:
            return None
        found = [mine if mine[0] else other for mine, other in zip(found, part, strict=True)]
    return found


def aligned(launched: Sequence[Sequence[Activity]], activities: Sequence[Activity], runs: int) -> Found | None:
    """The kernels of each call among those of `runs` replays, in order, with their durations, one a run.

    `launched` are those of each call when it ran by itself; where both sequences differ, the longest common ones are
    taken. None where the replays differ.
    """
    if not runs or not activities or len(activities) % runs:
        return None
    size = len(activities) // runs
    turns = [activities[turn * size : (turn + 1) * size] for turn in range(runs)]
    if any([one.name for one in turn] != [one.name for one in turns[0]] for turn in turns):
        return None
    flat = [(place, one.name, one.grid, one.block) for place, some in enumerate(launched) for one in some]
    came = [(one.name, one.grid, one.block) for one in turns[0]]
    matcher = difflib.SequenceMatcher(None, [one[1:] for one in flat], came, autojunk=False)
    found: Found = [([], []) for _ in launched]
    for first, second, count in matcher.get_matching_blocks():
        for offset in range(count):
            seen, durations = found[flat[first + offset][0]]
            seen.append(turns[0][second + offset])
            durations.append([turn[second + offset].duration_ns for turn in turns])
    return found
