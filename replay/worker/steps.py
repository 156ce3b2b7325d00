"""The worker's third job: recorded steps as a whole. Rehearse, find the calls that launch the recorded kernels, time.

Each mode gives one result: the step run call by call (`eager`), and captured in CUDA graphs (`cuda_graph`). Kernels are
timed by CUPTI inside the step; the step itself by the clock of the device, without a profiler. Before either, the step
runs for a while, so that clocks and memory are as in a program that goes on.

Call by call it is timed before this process has had a profiler: CUPTI stays attached, and slows launches down by 10 to
20 % of a training step from then on (pytorch/pytorch#146604). Most steps launch the recorded kernels by the calls that
are tried first; where others turn out to, it is timed again.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kerneldb import codec
from kerneldb.recordings import Measurement
from kerneldb.replay import facts, routes
from kerneldb.replay.errors import FAILURES, first_line
from kerneldb.replay.measure.energy.meter import Meter, MeterError, NoMeterError, open_meter
from kerneldb.replay.measure.loops import spread
from kerneldb.replay.options import Options
from kerneldb.replay.recording import measuring
from kerneldb.replay.recording.ranks import ALONE, Ranks
from kerneldb.replay.recording.settings import Settings
from kerneldb.replay.routes import base
from kerneldb.replay.routes.grades import CallMatch
from kerneldb.replay.steps.choosing import NONE_FITS, Seen, choose
from kerneldb.replay.steps.exchanges import ALONE_IN_STEP, StepExchange, Together, joined, ordered
from kerneldb.replay.steps.graphs import Captured, aligned_by_stream, capture
from kerneldb.replay.steps.player import Made, Player
from kerneldb.replay.steps.rehearsal import rehearse
from kerneldb.replay.wire.messages import Begin, Send, StepDone
from kerneldb.replay.wire.plan import CallSpec, Item
from kerneldb.replay.wire.results import Activity, AttemptResult, Grade, Spread
from kerneldb.replay.wire.step_results import StepKernel, StepResult, Trail
from kerneldb.replay.wire.steps import Step
from kerneldb.replay.worker.executor import BrokenDeviceError, usual
from kerneldb.replay.worker.profiling import Marked, Session, marker

ROUNDS: Final = 6
ROUND_SECONDS: Final = 40.0
WARM_SECONDS: Final = 3.0
CPU_WARM_SECONDS: Final = 0.2
WALL_SECONDS: Final = 3.0
CPU_WALL_SECONDS: Final = 0.6
LONGEST_REST: Final = 1.0
CLOSE: Final = 0.1
LOOKS: Final = 3
"""How often the step runs with each of several calls that fit."""
NOT_RUN: Final = "stood in for by a wait"
ON_CPU: Final = "on a CPU no kernel comes out"
NOTES: Final = 12
ORDERED: Final = "streams wait for each other as recorded, and for data"
AFTER_PROFILER: Final = "the step was timed with a profiler attached, so that its launches took longer"
BY_DATA: Final = "streams wait for each other's data: what the program let them wait for is not recorded"


@dataclasses.dataclass(slots=True)
class Played:
    """What one kernel of one call of the step came to: durations over the runs, and how it compares.

    Of a collective that all ranks ran, `durations` are of the transfer, and `waits` what it waited for others.
    """

    grade: Grade
    durations: Sequence[float] = ()
    reason: str | None = None
    filled: bool = False
    waits: Sequence[float] = ()


class StepRun:
    """Runs one step of a plan, and reports its results."""

    def __init__(
        self,
        step: Step,
        items: Mapping[str, Item],
        options: Options,
        send: Send,
        filled: frozenset[str] = frozenset(),
        together: Together = ALONE_IN_STEP,
    ) -> None:
        self._step = step
        self._options = options
        self._send = send
        self._ranks = together.ranks
        self._player = Player(step, items, options.device, filled, together)
        self._trails: tuple[Trail, ...] = ()
        self._notes: list[str] = []
        self._started = time.monotonic()

    def unprofiled(self) -> tuple[Made, list[Measurement]]:
        """The step as a whole by the calls that are tried first, and which those are. Raises BrokenDeviceError."""
        self._rehearse()
        self._warm(self._player.run)
        return self._player.made, self.whole(self._player.run)

    def run(self, first: tuple[Made, list[Measurement]]) -> None:
        """Both modes. What was measured `first` holds where the calls are the same. Raises BrokenDeviceError."""
        play = self.ready().run
        calls, played, waits = self._run_marked(self._options.runs)
        made, measured = first
        if not all(self._ranks.gather(made == self._player.made)):
            measured = self.whole(play)
            self._notes.append(AFTER_PROFILER)
        self._report("eager", played, measured)
        if not self._options.on_cpu and self._options.loops:
            self._graph(waits, calls)

    def _run_marked(self, runs: int) -> tuple[list[Sequence[Activity]], list[list[Played]], set[int]]:
        """What each call launched, what came of its kernels, and the places of calls that waited for the device."""
        marked = self._profiled(self._marked_run, runs)
        calls = [usual([[one.activities for one in marked.get(str(place), [])] or [[]]]) for place in self._places]
        waits = {
            place
            for place in self._places
            if not isinstance(self._player.prepared[place].apart, StepExchange)  # NCCL waits for events of its own
            and any(one.waits for one in marked.get(str(place), []))
        }
        played = [self._of_call(place, *calls[place][:2]) for place in self._places]
        take_apart(self._player.together, self._step, played)
        return [one[0] for one in calls], played, waits

    def _look(self) -> dict[str, Seen]:
        """What the items of the step come to as they are made now."""
        self._rehearse()
        self._player.run()
        _, played, _ = self._run_marked(LOOKS)
        groups: dict[str, list[Played]] = defaultdict(list)
        for call, kernels in zip(self._step.calls, played, strict=True):
            groups[call.item] += kernels
        return {name: _seen(listed) for name, listed in groups.items()}

    def ready(self) -> Player:
        """Rehearse, choose among the calls of one kernel, and warm up; returns what runs the step.

        Raises BrokenDeviceError.
        """
        self._settle()
        self._trails = () if self._options.on_cpu else self._chosen()
        if any(self._ranks.gather(bool(self._trails))):  # on one rank: its exchanges wait for the others
            self._rehearse()
        self._warm(self._player.run)
        return self._player

    def _chosen(self) -> tuple[Trail, ...]:
        """Choose among the calls of one kernel. A rank that is done runs the step for those that are not."""

        def look() -> dict[str, Seen]:
            self._ranks.gather(True)
            return self._look()

        trails = choose(self._player, look)
        while any(self._ranks.gather(False)):
            self._look()
        return trails

    def as_before(self, result: StepResult) -> Player:
        """What runs the step with the calls that an earlier run of it chose. Raises BrokenDeviceError."""
        player = self._player
        player.attempts.update(dict(result.attempts))
        for trail in result.trails:
            chosen = next((one for one in trail.tried if one.accepted), None)
            item = player.items.get(trail.item)
            if item is not None and chosen is None:
                player.fill(trail.item, NONE_FITS)
            elif item is not None and chosen is not None:
                player.stand_in(trail.item, _made_by(item, chosen))
        self._rehearse()
        for _ in range(LOOKS):
            player.run()
            self._check()
        return player

    def _marked_run(self) -> None:
        self._player.run(around=lambda place: marker(str(place)))

    @property
    def _places(self) -> range:
        return range(len(self._step.calls))

    def _settle(self) -> None:
        """Rehearse until the recorded kernels come out, each item with the best of its calls."""
        player, best = self._player, dict[str, tuple[int, int]]()
        until = time.monotonic() + ROUND_SECONDS
        for _ in range(ROUNDS):
            self._rehearse()
            if self._options.on_cpu:
                return
            marked = self._profiled(self._marked_run, runs=1)
            ranks = defaultdict[str, int](int)
            for place in self._places:
                item = self._step.calls[place].item
                match = self._match(place, [one for some in marked.get(str(place), []) for one in some.activities])
                ranks[item] = max(ranks[item], Grade.L4.rank if match is None else match.grade.rank)
            for item, rank in ranks.items():
                best[item] = min(best.get(item, (rank, player.attempts[item])), (rank, player.attempts[item]))
            missed = [item for item, rank in ranks.items() if rank and best[item][0] and item not in player.filled]
            again = bool([item for item in missed if player.further(item)]) and time.monotonic() <= until
            if not any(self._ranks.gather(again)):
                break
        for item, (_, attempt) in best.items():
            player.attempts[item] = attempt
        self._rehearse()

    def _rehearse(self) -> None:
        self._player.notes.clear()
        self._player.prepare()
        rehearse(self._player, lambda item: self._send(Begin(item, "rehearse")), self._check)
        self._send(Begin(None, "collect"))

    def _check(self) -> None:
        if not self._options.on_cpu:
            import torch

            try:
                torch.cuda.synchronize()
            except RuntimeError as error:
                raise BrokenDeviceError(str(error).splitlines()[0]) from error

    def _match(self, place: int, seen: Sequence[Activity]) -> CallMatch | None:
        """How a call compares; None where it was not made."""
        how = self._player.prepared[place]
        call, item = how.resolved or how.apart, self._player.items.get(self._step.calls[place].item)
        return None if call is None or item is None else routes.verify(item, call, base.Seen(seen))

    def _warm(self, play: Callable[[], object]) -> None:
        seconds = CPU_WARM_SECONDS if self._options.on_cpu else WARM_SECONDS
        until = time.monotonic() + seconds
        self._once(play)
        if self._ranks.many:  # all run it equally often
            begun = time.monotonic()
            self._once(play)
            slowest_s = max(*self._ranks.gather(time.monotonic() - begun), 1e-6)
            for _ in range(math.ceil(seconds / slowest_s)):
                self._once(play)
            return
        while time.monotonic() < until:
            self._once(play)

    def _once(self, play: Callable[[], object]) -> None:
        """Run the step when all ranks are here, and wait for the device."""
        self._ranks.wait()
        play()
        self._check()

    def _paced(self, play: Callable[[], object], runs: int) -> None:
        """Run the step again and again; the device rests between its runs as much as in the recorded step.

        A device that rests less than when it was recorded draws more power, and has lower clocks.
        """
        for _ in range(runs):
            ends = time.monotonic() + self._step.span_ns / 1e9
            self._once(play)
            if not self._options.on_cpu:
                time.sleep(max(0.0, min(ends - time.monotonic(), LONGEST_REST)))

    def _profiled(self, play: Callable[[], object], runs: int | None = None) -> dict[str, list[Marked]]:
        with Session(gpu=not self._options.on_cpu) as session:
            self._paced(play, runs or self._options.runs)
        return session.seen

    def _of_call(self, place: int, seen: Sequence[Activity], durations: Sequence[Sequence[float]]) -> list[Played]:
        """The kernels of a call, in the order of the item's."""
        call = self._step.calls[place]
        item = self._player.items.get(call.item)
        if item is None or call.item in self._player.filled:
            why = self._player.filled.get(call.item) or "no route replays it"
            return [Played(Grade.L4, reason=f"{NOT_RUN}: {why}", filled=True) for _ in call.recorded_ns]
        if self._options.on_cpu:
            return [Played(Grade.L4, reason=ON_CPU) for _ in call.recorded_ns]
        match = self._match(place, seen)
        assert match is not None  # noqa: S101 (it is not filled)
        return [
            Played(one.grade, () if one.place is None else durations[one.place], one.reason) for one in match.kernels
        ]

    def _graph(self, waits: set[int], launched: Sequence[Sequence[Activity]]) -> None:
        """The step as CUDA graphs, each kernel found by its place in the order of the eager run."""
        captured, reason = self._captured(waits)
        reason = self._ranks.agree(reason)
        if captured is None or reason is not None:
            self._tell(self._result("cuda_graph", (), reason=f"no CUDA graph: {reason}"))
            return
        self._warm(captured.replay)
        with Session(gpu=True, ordered=True) as session:
            self._paced(captured.replay, self._options.runs)
        streams = self._player.lanes.schedule.streams
        found = aligned_by_stream(launched, streams, session.activities, self._options.runs)
        if not all(self._ranks.gather(found is not None)) or found is None:
            self._tell(self._result("cuda_graph", (), reason="the runs of the graph differ in their kernels"))
            return
        played = [self._of_call(place, seen, durations) for place, (seen, durations) in enumerate(found)]
        take_apart(self._player.together, self._step, played)
        self._report("cuda_graph", played, self.whole(captured.replay), captured)

    def _captured(self, waits: set[int]) -> tuple[Captured | None, str | None]:
        """The step as CUDA graphs, or why there are none."""
        try:
            return capture(self._player, waits), None
        except FAILURES as error:
            self._check()
            return None, first_line(error)

    def whole(self, play: Callable[[], object]) -> list[Measurement]:
        """The step without a profiler: wall time, and energy where it is asked for and there is a meter."""
        seconds = CPU_WALL_SECONDS if self._options.on_cpu else WALL_SECONDS
        settings = Settings("step", device=self._options.device, seconds=seconds)
        meter, why = self._meter() if self._options.energy else (None, "not asked for")
        try:
            period = None if meter is None else measuring.learn_period(meter)
            found, _ = measuring.run(play, settings, meter, period, self._ranks)  # type: ignore[arg-type]  # what counts no tokens
        except MeterError as error:
            why, (found, _) = str(error), measuring.run(play, settings, None, None, self._ranks)  # type: ignore[arg-type]
        finally:
            if meter is not None:
                meter.close()
        rows = measuring.of_repetitions(found, on_gpu=settings.on_gpu, no_meter=why)
        return [one for one in rows if one.repetition is None]

    def _meter(self) -> tuple[Meter | None, str | None]:
        try:
            return open_meter(self._options.device, facts.uuid(self._options.device)), None
        except (NoMeterError, MeterError) as error:
            return None, str(error)

    def _report(
        self,
        mode: Any,
        played: Sequence[Sequence[Played]],
        measured: Iterable[Measurement],
        graph: Captured | None = None,
    ) -> None:
        kernels = tuple(_kernels(self._step, self._player.items, played))
        more: dict[str, Any] = {} if graph is None else {"segments": graph.segments, "uncaptured": graph.between}
        self._tell(self._result(mode, kernels, measured=tuple(measured), **more))

    def _tell(self, result: StepResult) -> None:
        """Report the results of all ranks, which the first one tells."""
        for one in self._ranks.gather(codec.encode(result)):
            self._send(StepDone(codec.decode(StepResult, one)))

    def _result(self, mode: Any, kernels: tuple[StepKernel, ...], **more: Any) -> StepResult:
        player = self._player
        ways = [(how.resolved is not None or how.linked, how.apart is not None) for how in player.prepared]
        notes = self._notes + [f"{why}: {count}" for why, count in player.notes.most_common(NOTES)]
        if player.lanes.several:
            notes.append(ORDERED if player.lanes.schedule.told else BY_DATA)
        return StepResult(
            step=self._step.id,
            mode=mode,
            calls=len(self._step.calls),
            rebuilt=sum(rebuilt for rebuilt, _ in ways),
            apart=sum(apart and not rebuilt for rebuilt, apart in ways),
            filled=sum(not any(one) for one in ways),
            kernels=kernels,
            substituted=sum(len(how.own) for how in player.prepared),
            notes=tuple(notes),
            trails=self._trails,
            attempts=tuple(sorted((item, attempt) for item, attempt in player.attempts.items() if attempt)),
            memory_bytes=_most_memory(self._options),
            wall_s=round(time.monotonic() - self._started, 3),
            ranks=self._ranks.place.world_size,
            streams=player.lanes.schedule.count if player.lanes.several else 1,
            **more,
        )


def take_apart(together: Together, step: Step, played: Sequence[Sequence[Played]]) -> None:
    """Split the times of collectives into transfer and waiting: all are there when the last has come.

    So the shortest of the ranks is the transfer, run by run.
    """
    if not together.ranks.many:
        return
    mine: dict[tuple[int, ...], list[Sequence[Played]]] = defaultdict(list)
    for place, call in ordered(step.calls):
        if call.exchange is not None and together.can(call.exchange):
            mine[call.exchange.group].append(played[place])
    shown = [(group, [[one.durations for one in some] for some in listed]) for group, listed in mine.items()]
    everyone = [{tuple(group): listed for group, listed in one} for one in together.ranks.gather(shown)]
    for group, listed in mine.items():
        for number, kernels in enumerate(listed):
            for ordinal, one in enumerate(kernels):
                _take_apart(one, [everyone[rank][group][number][ordinal : ordinal + 1] for rank in group])


def _take_apart(one: Played, ranks: Sequence[Sequence[Sequence[float]]]) -> None:
    """Split the time of a kernel, where all ranks have it in as many runs."""
    lengths = {len(runs) for some in ranks for runs in some}
    if all(ranks) and lengths == {len(one.durations)}:
        shortest = [min(run) for run in zip(*(some[0] for some in ranks), strict=True)]
        one.waits = [whole - transfer for whole, transfer in zip(one.durations, shortest, strict=True)]
        one.durations = shortest


def _made_by(item: Item, chosen: AttemptResult) -> Item:
    """An item with the call that was accepted for it."""
    if chosen.candidate is not None and chosen.candidate < len(item.candidates):
        return dataclasses.replace(item, candidates=(item.candidates[chosen.candidate],))
    spec = CallSpec(chosen.call) if item.spec is None else dataclasses.replace(item.spec, call=chosen.call)
    return dataclasses.replace(item, spec=spec, candidates=())


def _seen(kernels: Sequence[Played]) -> Seen:
    worst = max(kernels, key=lambda one: one.grade.rank)
    whole = all(one.durations for one in kernels)
    time = sum(statistics.median(one.durations) for one in kernels) if whole else None
    return Seen(worst.grade, time, worst.reason)


def _most_memory(options: Options) -> int | None:
    if options.on_cpu:
        return None
    import torch

    return int(torch.cuda.max_memory_allocated())


def _kernels(step: Step, items: Mapping[str, Item], played: Sequence[Sequence[Played]]) -> Iterator[StepKernel]:
    """The kernels of the step by item and place in it: sums over its calls."""
    groups: dict[tuple[str, int], list[tuple[int, Played]]] = defaultdict(list)
    waits: dict[tuple[str, int], list[int]] = defaultdict(list)
    for call, kernels in zip(step.calls, played, strict=True):
        for ordinal, (recorded, one) in enumerate(zip(call.own_ns, kernels, strict=False)):
            groups[call.item, ordinal].append((recorded, one))
            waits[call.item, ordinal] += call.waited_ns[ordinal : ordinal + 1]
    for (name, ordinal), listed in groups.items():
        item = items.get(name)
        if item is None:  # the database has what no route replays
            continue
        worst = max((one for _, one in listed), key=lambda one: one.grade.rank)
        waited = waits[name, ordinal]
        yield StepKernel(
            signature_id=item.kernels[ordinal].signature_id,
            item=name,
            ordinal=ordinal,
            launches=len(listed),
            grade=worst.grade,
            recorded_ns=sum(recorded for recorded, _ in listed),
            time=_summed([one.durations for _, one in listed]),
            reason=worst.reason,
            close_ns=sum(recorded for recorded, one in listed if _close(recorded, one)),
            filled=sum(one.filled for _, one in listed),
            waited_ns=sum(waited) if len(waited) == len(listed) else None,
            wait=_summed([one.waits for _, one in listed]),
        )


def _summed(runs: Sequence[Sequence[float]]) -> Spread | None:
    """The sum of what is known of each run."""
    return spread([sum(one[run] for one in runs) for run in range(min(map(len, runs)))])


def _close(recorded: int, one: Played) -> bool:
    return bool(one.durations) and abs(statistics.median(one.durations) - recorded) <= CLOSE * recorded


def main(
    steps: Sequence[Step],
    items: Mapping[str, Item],
    options: Options,
    send: Send,
    filled: Iterable[str],
    ranks: Ranks = ALONE,
) -> None:
    """Run the steps, one after the other; those of all `ranks` at the same time. Raises BrokenDeviceError.

    All are timed as a whole before the first of them is profiled.
    """
    broken, together = frozenset(filled), ALONE_IN_STEP
    first: dict[str, tuple[Made, list[Measurement]]] = {}
    for step in [*steps, *steps]:
        send(Begin(None, "step"))
        if ranks.many:
            together = joined(ranks, step, items, options.device, broken, together.groups)
        run = StepRun(step, items, options, send, broken, together)
        if step.id in first:
            run.run(first[step.id])
        else:
            first[step.id] = run.unprofiled()
        del run  # its memory is that of the next one
        _empty(options)


def _empty(options: Options) -> None:
    if not options.on_cpu:
        import torch

        gc.collect()  # of what refers to itself, too: the next step may need all of the memory
        torch.cuda.empty_cache()
