"""The loads of GPUs and CPUs: calls made ready to run again and again.

The state of the cache is that of the timing (`kerneldb.replay.measure.sets`): cold inputs take turns in a ring larger
than three times the L2, all others stay where the call left them. A graph goes once or several times around the ring,
so that the ring does not begin anew before its end. Where copies of small inputs cannot fill the ring, the cache is
read full once per round, and where a call changes its inputs, they are put back once per round: both are upkeep, whose
energy is measured alone and taken off. So are pads, which let the device wait between calls and touch nothing. Of cold
inputs of at most 64 KB a flush would leave more noise than it is worth: they are left in the cache, and what it costs
to bring so many bytes from memory is added.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kerneldb.replay import routes
from kerneldb.replay.errors import FAILURES
from kerneldb.replay.measure.energy.loads import EagerLoad, GraphLoad, Load, Prepared
from kerneldb.replay.measure.residency import OPTIMIZERS, roles
from kerneldb.replay.measure.sets import RING_FACTOR, Flush, Sets, ring_copies, written
from kerneldb.replay.options import Options
from kerneldb.replay.resolve.errors import Reason, UnresolvedCallError
from kerneldb.replay.resolve.recorded import short_name
from kerneldb.replay.routes import Call
from kerneldb.replay.wire.plan import Item

GRAPH_NS: Final = 4_000_000
MOST_CALLS: Final = 1024
MOST_CALLS_IN_PLACE: Final = 32
MOST_ROUNDS: Final = 64
EMPTY_NODES: Final = 4096
COLD_MATTERS: Final = 0.05
LITTLE_COLD_BYTES: Final = 1 << 16
OVERWRITTEN: Final = frozenset({"copy_", "fill_", "zero_", "random_", "normal_", "uniform_"})
ANCHOR_ROWS: Final = 1024
ANCHOR_INNER: Final = 4096
CPU_ANCHOR_SIZE: Final = 256
CPU_CACHE_BYTES: Final = 32 << 20
COPIES_SHARE: Final = 0.25
PAD_LEAST_NS: Final = 20_000.0
PAD_REFERENCE_NS: Final = 100_000.0
PAD_CYCLES: Final = (20_000, 200_000)
PAD_NODES: Final = 16
EMPTY_PROFILED: Final = 200


def built(item: Item, attempt: int, device: str) -> Call:
    """The `attempt`-th call of an item. Raises UnresolvedCallError where there is none."""
    for number, call in enumerate(routes.find(item.route).prepare(item, device)):
        if number == attempt:
            return call
    raise UnresolvedCallError(Reason.NO_OVERLOAD, "the call that was replayed cannot be built again")


@dataclass(frozen=True, slots=True)
class Round:
    """How a graph is made up: `rounds` times upkeep, then `calls` calls.

    `warm` tells that cold inputs are found in the cache all the same: they are too small to be worth a flush. A pad
    stands behind every `pad_every` calls (0: there are none).
    """

    calls: int
    rounds: int
    flush: bool = False
    restore: bool = False
    warm: bool = False
    pad_every: int = 0

    @property
    def pads(self) -> int:
        """How many pads it has."""
        return self.calls * self.rounds // self.pad_every if self.pad_every else 0


def plan_round(call_ns: float, sets: Sets, inputs_bytes: int, *, restore: bool, pad_ns: float = 0.0) -> Round:
    """The make-up of a graph of about 4 ms, of a call whose inputs have `inputs_bytes` together, and pads."""
    call_ns += pad_ns
    copies, complete = sets.copies, sets.complete
    little = sets.cold_bytes <= LITTLE_COLD_BYTES
    most = MOST_CALLS_IN_PLACE if restore else MOST_CALLS
    calls = max(1, min(most, round(GRAPH_NS / max(call_ns, 1.0))))
    flush = not complete and not little and sets.cold_bytes >= COLD_MATTERS * inputs_bytes
    calls = max(1, min(calls, copies)) if flush else copies * math.ceil(calls / copies)
    left = GRAPH_NS / max(call_ns * calls, 1.0)
    rounds = max(1, min(MOST_ROUNDS, round(left), MOST_CALLS // calls)) if flush or restore else 1
    every = min(math.ceil(PAD_LEAST_NS / pad_ns), calls * rounds) if pad_ns else 0
    return Round(calls, rounds, flush, restore, warm=not complete and little, pad_every=every)


def drifts(item: Item, call: Call) -> bool:
    """Whether values drift when the call runs again and again: it changes an input, and does not just overwrite it."""
    operator = "" if item.spec is None else short_name(item.spec.call.op)
    return bool(written(call)) and operator not in OVERWRITTEN and not OPTIMIZERS.match(operator)


class GpuLoads:
    """Loads on a GPU."""

    def __init__(self, options: Options) -> None:
        import torch

        from kerneldb.replay.worker.executor import l2_bytes

        self._torch = torch
        self._options = options
        self._l2 = l2_bytes(torch.cuda.get_device_properties(torch.cuda.current_device()))
        self._flush = Flush(options.device, self._l2)
        self.flush_bytes = RING_FACTOR * self._l2
        self._pad_times: tuple[float, float] | None = None

    def call(self, item: Item, attempt: int, call_ns: float, *, capture: bool, pad_ns: float = 0.0) -> Prepared:
        """A graph of the call, around the ring of its cold inputs; single calls where there is to be none."""
        call = built(item, attempt, self._options.device)
        call.call()
        sets = self._sets(item, call, call_ns)
        if not capture:
            turn = _every(1, _turning(call, sets), self._waiting(pad_ns)) if pad_ns else _turning(call, sets)
            return Prepared(EagerLoad(turn, call_ns + pad_ns, on_cpu=False), pad_ns=pad_ns, release=sets.reset)
        shape = self._round(item, call, call_ns, sets, pad_ns)
        calls = shape.calls * shape.rounds
        each_ns = pad_ns * calls / max(shape.pads, 1)
        load = GraphLoad(self._body(call, sets, shape, each_ns), call.call, calls)
        once = 1 / shape.calls
        upkeep = None
        if shape.restore:
            upkeep = GraphLoad(_times(sets.upkeep, shape.rounds), sets.upkeep, shape.rounds)
        cold = sets.cold_bytes if shape.warm else 0
        return Prepared(load, upkeep, once * shape.flush, once * shape.restore, cold, pad_ns, sets.reset)

    def empty(self) -> Load:
        """A graph of kernels that return at once.

        It is asked for first of all, so that pads are calibrated before a load may have brought the clock down.
        """
        self._pad_times = self._calibrated()
        nothing = self._nothing
        return GraphLoad(_times(nothing, EMPTY_NODES), nothing, EMPTY_NODES)

    def flush(self) -> Load:
        """A graph of reading the cache full."""
        return GraphLoad(_times(self._flush, 16), self._flush, 16)

    def pad(self) -> Load:
        """A graph of kernels that wait."""
        wait = self._waiting(PAD_REFERENCE_NS)
        nodes = round(GRAPH_NS / PAD_REFERENCE_NS)
        return GraphLoad(_times(wait, nodes), wait, nodes)

    def empty_ns(self) -> float | None:
        """Median duration of kernels that return at once, in a profiler session; None where that fails."""
        from kerneldb.replay.worker.profiling import Session, marker

        try:
            with Session(gpu=True) as session:
                with marker("empty"):
                    for _ in range(EMPTY_PROFILED):
                        self._nothing()
                self._torch.cuda.synchronize()
        except (*FAILURES, OSError):
            return None
        seen = [one.duration_ns for marked in session.seen.get("empty", []) for one in marked.activities]
        return statistics.median(seen) if seen else None

    def anchor(self) -> Load:
        """A product of single-precision matrices that leaves part of the device idle: far below the board's limit."""
        torch, device = self._torch, self._options.device
        made = torch.Generator(device=device).manual_seed(1)
        a = torch.randn(ANCHOR_ROWS, ANCHOR_INNER, device=device, generator=made)
        b = torch.randn(ANCHOR_INNER, ANCHOR_ROWS, device=device, generator=made)
        out = torch.empty(ANCHOR_ROWS, ANCHOR_ROWS, device=device)

        def product() -> None:
            torch.mm(a, b, out=out)

        return GraphLoad(_times(product, 8), product, 8)

    def check(self) -> None:
        """Wait for the device; errors that survive a failed call surface here."""
        from kerneldb.replay.worker.executor import BrokenDeviceError

        try:
            self._torch.cuda.synchronize()
        except RuntimeError as error:
            raise BrokenDeviceError(str(error).splitlines()[0]) from error

    def release(self) -> None:
        """Empty PyTorch's cache of free blocks."""
        self._torch.cuda.empty_cache()

    def _nothing(self) -> None:
        self._torch.cuda._sleep(0)

    def _waiting(self, wanted_ns: float) -> Callable[[], None]:
        """A kernel that waits for as long, with the gap before the next."""
        if self._pad_times is None:
            self._pad_times = self._calibrated()
        first_ns, cycle_ns = self._pad_times
        cycles = max(0, round((wanted_ns - first_ns) / cycle_ns))
        return lambda: self._torch.cuda._sleep(cycles)

    def _calibrated(self) -> tuple[float, float]:
        """Nanoseconds of a waiting kernel with its gap, beside its cycles; and those of a cycle."""
        taken: list[float] = []
        for cycles in PAD_CYCLES:

            def wait(cycles: int = cycles) -> None:
                self._torch.cuda._sleep(cycles)

            load = GraphLoad(_times(wait, PAD_NODES), wait, PAD_NODES)
            taken.append(load.seconds * 1e9)
            load.close()
        cycle_ns = max((taken[1] - taken[0]) / (PAD_CYCLES[1] - PAD_CYCLES[0]), 0.1)
        return taken[0] - cycle_ns * PAD_CYCLES[0], cycle_ns

    def _sets(self, item: Item, call: Call, call_ns: float) -> Sets:
        given = roles(item, call.inputs, getattr(call, "cache", None) or self._options.cache, self._l2)
        cold = sum(one.bytes for one, role in zip(call.inputs, given, strict=True) if role == "cold")
        calls = max(1, min(MOST_CALLS, round(GRAPH_NS / max(call_ns, 1.0))))
        copies = ring_copies(cold, self._l2)
        turns = max(calls, copies) if copies <= MOST_CALLS else calls
        if drifts(item, call):
            turns = min(turns, MOST_CALLS_IN_PLACE)
        memory = int(COPIES_SHARE * self._torch.cuda.mem_get_info()[0])
        return Sets(call, given, turns=turns, l2_bytes=self._l2, memory_bytes=memory)

    def _round(self, item: Item, call: Call, call_ns: float, sets: Sets, pad_ns: float) -> Round:
        inputs = sum(one.bytes for one in call.inputs)
        return plan_round(call_ns, sets, inputs, restore=drifts(item, call), pad_ns=pad_ns)

    def _body(self, call: Call, sets: Sets, shape: Round, pad_ns: float) -> Callable[[], None]:
        turn: Callable[[], object] = _turning(call, sets)
        if shape.pad_every:
            turn = _every(shape.pad_every, turn, self._waiting(pad_ns))

        def one_round() -> None:
            if shape.restore:
                sets.upkeep()
            if shape.flush:
                self._flush()
            for _ in range(shape.calls):
                turn()

        return _times(one_round, shape.rounds)


class CpuLoads:
    """Loads on the CPU."""

    flush_bytes = 0

    def __init__(self, options: Options) -> None:
        self._options = options

    def call(self, item: Item, attempt: int, call_ns: float, *, capture: bool, pad_ns: float = 0.0) -> Prepared:
        """Single calls, one behind the other."""
        del capture, pad_ns
        call = built(item, attempt, "cpu")
        given = roles(item, call.inputs, getattr(call, "cache", None) or self._options.cache, CPU_CACHE_BYTES)
        sets = Sets(call, given, turns=16, l2_bytes=CPU_CACHE_BYTES, memory_bytes=CPU_CACHE_BYTES * 8)
        return Prepared(EagerLoad(_turning(call, sets), call_ns, on_cpu=True), release=sets.reset)

    def empty(self) -> None:
        """A CPU has no gaps of its own: it is idle, or at work."""

    def flush(self) -> None:
        """Not needed."""

    def pad(self) -> None:
        """Not needed."""

    def empty_ns(self) -> None:
        """A CPU has no kernels."""

    def anchor(self) -> Load:
        """A product of matrices."""
        import torch

        a, b = (torch.randn(CPU_ANCHOR_SIZE, CPU_ANCHOR_SIZE) for _ in range(2))
        return EagerLoad(lambda: torch.mm(a, b), 1e6, on_cpu=True)

    def check(self) -> None:
        """Nothing to wait for."""

    def release(self) -> None:
        """Nothing is held."""


def _turning(call: Call, sets: Sets) -> Callable[[], None]:
    def turn() -> None:
        sets.turn()
        call.call()

    return turn


def _every(times: int, work: Callable[[], object], further: Callable[[], object]) -> Callable[[], None]:
    """`work`, with `further` behind every `times`-th."""
    count = itertools.count(1)

    def both() -> None:
        work()
        if next(count) % times == 0:
            further()

    return both


def _times(work: Callable[[], object], times: int) -> Callable[[], None]:
    def body() -> None:
        for _ in range(times):
            work()

    return body
