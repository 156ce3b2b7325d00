"""A device and its meter, simulated: no time passes but what this clock is put forward.

The meter is made after that of an H100 or H200: its counter moves every 100 ms, a reading takes 4 ms, and each step is
what the device drew in the last 25 ms of it (a quarter of the time), with some noise.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from kerneldb.recordings import Reading
from kerneldb.replay.measure.energy.loads import Loads, Prepared
from kerneldb.replay.measure.energy.meter import MeterError, Sample
from kerneldb.replay.measure.energy.steps import Clock, Load
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts
from kerneldb.replay.wire.messages import Energy, Message, Readings, SharedEnergy
from kerneldb.replay.wire.plan import Item, PlannedKernel

IDLE_W = 75.0
CONTEXT_W = 120.0
GAP_W = 135.0
GAP_NS = 1200.0
PADDING_W = 138.0
EMPTY_NS = 900.0
MAX_MHZ = 1980.0


@dataclass
class Work:
    """A call of `kernel_ns` at `kernel_w`, then a gap at the device's launch-loop power; true values at 40 °C.

    Behind it the device may wait for `padding_ns`. `clock` is the share of the highest clock at which it runs.
    """

    kernel_w: float
    kernel_ns: float
    gap_ns: float = GAP_NS
    padding_ns: float = 0.0
    clock: float = 1.0

    @property
    def slot_s(self) -> float:
        return (self.kernel_ns + self.gap_ns + self.padding_ns) / 1e9

    @property
    def above_mj(self) -> float:
        return (self.kernel_w - GAP_W) * self.kernel_ns / 1e6

    @property
    def energy_mj(self) -> float:
        return self.kernel_w * self.kernel_ns / 1e6

    def joules(self, start: float, end: float) -> float:
        """Energy between two times, slots beginning at 0."""
        return self._until(end) - self._until(start)

    def _until(self, at: float) -> float:
        whole, rest = divmod(at, self.slot_s)
        kernel = min(rest, self.kernel_ns / 1e9)
        gap = min(rest - kernel, self.gap_ns / 1e9)
        return whole * self.slot_j + self.kernel_w * kernel + GAP_W * gap + PADDING_W * (rest - kernel - gap)

    @property
    def slot_j(self) -> float:
        return (self.kernel_w * self.kernel_ns + GAP_W * self.gap_ns + PADDING_W * self.padding_ns) / 1e9

    @property
    def mean_w(self) -> float:
        return self.slot_j / self.slot_s

    def under(self, cap_w: float) -> Work:
        """The same at the highest clock at which its mean power is below a cap: energy goes with the clock."""
        found, clock = self, 1.0
        while found.mean_w > cap_w and clock > 0.3:
            clock -= 0.002
            above = (self.kernel_w - GAP_W) * self.kernel_ns * clock
            taken = self.kernel_ns / clock
            found = Work(GAP_W + above / taken, taken, self.gap_ns, self.padding_ns, clock)
        return found


@dataclass
class Device(Clock):
    """Its clock, what it runs, its temperature, and its counter.

    `leak` is watts per °C above 40; `gain` what the meter makes of a watt at a time; `jitter_s` how irregularly the
    counter moves; `noise` the scatter of a step; `spread` that of a call's power from one window to another; `cap_w` is
    the mean power to which a load is held down by its clock.
    """

    seed: int = 0
    period_s: float = 0.1
    duty: float = 0.25
    noise: float = 0.01
    jitter_s: float = 0.0005
    leak: float = 0.0
    cap_w: float = 1e9
    spread: float = 0.0
    gain: Callable[[float], float] = field(default=lambda _: 1.0)
    now_s: float = 100.0
    energy_mj: float = 5e8
    temperature: float = 40.0
    load: Work | None = None
    factor: float = 1.0
    busy_until: float = 0.0
    context: bool = False
    random: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self._tick = self.now_s + self.random.random() * self.period_s
        self._due = self._tick

    # the clock
    def now(self) -> float:
        return self.now_s

    def epoch(self) -> float:
        return 1.7e9 + self.now_s

    def sleep(self, seconds: float) -> None:
        until = self.now_s + seconds
        while self._due <= until:
            self._step(self._due)
        self.now_s = until

    def _step(self, at: float) -> None:
        """The counter moves: by the power of the last part of the step, times the whole step."""
        sampled = self.duty * self.period_s
        power = self._joules(at - sampled, at) / sampled
        power += self.leak * (self.temperature - 40.0)
        power *= self.gain(at) * self.random.gauss(1.0, self.noise)
        self.energy_mj += 1000 * power * self.period_s
        self.temperature += (40.0 + power / 25.0 - self.temperature) * 0.01
        self._tick += self.period_s
        self._due = max(self._tick + self.random.gauss(0.0, self.jitter_s), at + 1e-6)

    def _joules(self, start: float, end: float) -> float:
        if self.load is None or start >= self.busy_until:
            return (CONTEXT_W if self.context else IDLE_W) * (end - start)
        return self.load.joules(start, end) * self.factor

    def run(self, work: Work, ahead_s: float) -> None:
        if self.load is not work:
            self.load = work
            self.factor = self.random.gauss(1.0, self.spread)
        self.busy_until = self.now_s + ahead_s


class SimulatedMeter:
    """Reads the counter of a device; dies or sticks at a time."""

    def __init__(self, device: Device, *, dies_at: float = 1e9, sticks_at: float = 1e9) -> None:
        self.name = "simulated"
        self._device = device
        self._dies_at = dies_at
        self._sticks_at = sticks_at
        self._reading_s = 0.004
        self._last = device.energy_mj

    def energy_mj(self) -> float:
        self._device.sleep(self._reading_s / 2)
        if self._device.now_s >= self._dies_at:
            message = "GPU is lost"
            raise MeterError(message)
        if self._device.now_s < self._sticks_at:
            self._last = self._device.energy_mj
        self._device.sleep(self._reading_s / 2)
        return round(self._last)

    def sample(self) -> Sample:
        energy = self.energy_mj()
        self._device.sleep(0.008)
        epoch = round(self._device.epoch() * 1e9)
        clock = self._device.load.clock if self._device.load is not None else 1.0
        return Sample(epoch, epoch, energy, temperature_c=self._device.temperature, sm_mhz=MAX_MHZ * clock,
                      throttle="software power cap" if clock < 1 else "")  # fmt: skip

    def close(self) -> None: ...


@dataclass
class SimulatedLoad(Load):
    """Keeps a device at one kind of work."""

    device: Device
    work: Work
    kind: str = "graph"
    dry: int = 0
    dries: float = 0.0

    def __post_init__(self) -> None:
        self.work = self.work.under(self.device.cap_w)

    def begin(self) -> None: ...

    def top_up(self, ahead_s: float) -> bool:
        self.device.run(self.work, ahead_s)
        self.dry += ahead_s < self.dries
        return True

    def mark(self) -> float:
        return self.device.now()

    def per_call(self, first: float, last: float) -> float:
        del first, last
        return self.work.slot_s

    def close(self) -> None:
        self.device.load = None


@dataclass
class SimulatedLoads(Loads):
    """Calls by the id of their item. `uncapturable` ones run one by one, with a gap ten times their kernel's time.

    So do those of `slow_host`, which run out of work but where idle padding gives the host time.

    Those of `dries` run out of work where no more than that is queued, in seconds.
    """

    device: Device
    works: dict[str, Work]
    upkeep: dict[str, Work] = field(default_factory=dict)
    failing: frozenset[str] = frozenset()
    uncapturable: frozenset[str] = frozenset()
    slow_host: frozenset[str] = frozenset()
    flush_bytes: int = 0
    dries: dict[str, float] = field(default_factory=dict)
    empties: float | None = EMPTY_NS

    def call(self, item: Item, attempt: int, call_ns: float, *, capture: bool, padding_ns: float = 0.0) -> Prepared:
        del attempt, call_ns
        if item.id in self.failing or (capture and item.id in self.uncapturable | self.slow_host):
            message = "operation not permitted when stream is capturing"
            raise RuntimeError(message)
        work = self.works[item.id]
        if item.id in self.slow_host:
            padded = Work(work.kernel_w, work.kernel_ns, work.gap_ns, padding_ns)
            load = SimulatedLoad(self.device, padded, kind="eager", dries=0.0 if padding_ns else 99.0)
            return Prepared(load, padding_ns=padding_ns)
        if not capture:
            slow = Work(work.kernel_w, work.kernel_ns, 10 * work.kernel_ns)
            return Prepared(SimulatedLoad(self.device, slow, kind="eager"))
        if item.id in self.upkeep:
            own = self.upkeep[item.id]
            joint = Work((work.joules(0, work.slot_s) + own.joules(0, own.slot_s)) / (work.slot_s + own.slot_s),
                         work.kernel_ns + work.gap_ns + own.kernel_ns + own.gap_ns, 0.0)  # fmt: skip
            return Prepared(SimulatedLoad(self.device, joint), SimulatedLoad(self.device, own), upkeeps=1.0)
        padded = Work(work.kernel_w, work.kernel_ns, work.gap_ns, padding_ns)
        return Prepared(SimulatedLoad(self.device, padded, dries=self.dries.get(item.id, 0.0)), padding_ns=padding_ns)

    def empty(self) -> Load | None:
        self.device.context = True
        return SimulatedLoad(self.device, Work(GAP_W, GAP_NS, 0.0))

    def padding(self) -> Load | None:
        return SimulatedLoad(self.device, Work(PADDING_W, 100_000.0, 0.0))

    def empty_ns(self) -> float | None:
        return self.empties

    def anchor(self) -> Load:
        return SimulatedLoad(self.device, Work(480.0, 340_000.0))


@dataclass
class Notes:
    """What a phase reported."""

    energies: dict[str, CallEnergy] = field(default_factory=dict)
    history: list[tuple[str, CallEnergy]] = field(default_factory=list)
    facts: EnergyFacts = field(default_factory=EnergyFacts)
    read: list[Reading] = field(default_factory=list)

    def __call__(self, message: Message) -> None:
        match message:
            case Energy(item, energy):
                self.energies[item] = energy
                self.history.append((item, energy))
            case SharedEnergy(energy):
                self.facts = energy
            case Readings(readings):
                self.read.extend(readings)


def planned(name: str, total_ns: int = 1_000_000) -> Item:
    return Item(name, "aten", None, (PlannedKernel(0, name, name, total_ns=total_ns),))
