"""The journal of a replay run: what became of each planned item, written as soon as it is known.

JSON Lines, UTF-8, append only, flushed line by line: a run that is killed loses at most the item it was working on.

    {"kind": "run", "format": "kerneldb-replay-journal", "version": 1, "run": {…}}     the facts of the run
    {"kind": "call", "call": {…}}      one item under one cache state, with its kernels. A later line replaces an
                                       earlier one of the same item and cache; `final` false: still being worked on
    {"kind": "energy", "energy": {…}}  what the energies of all calls share; a later line replaces an earlier one
    {"kind": "power", "readings": […]} readings of the device during the energy measurement
    {"kind": "resume", "run": {…}}     the run went on later, with these facts
    {"kind": "end", "finished": true, "remaining": 0, "wall_s": 31.4}

A last line without its line end was cut by a crash, and is dropped. Standard library only.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kerneldb.replay.errors import JournalError, JournalExistsError
from kerneldb.replay.measure.spread import Spread
from kerneldb.replay.wire import energy as records
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts, PowerReading
from kerneldb.replay.wire.plan import Candidate, OpCall, candidate_from_dict
from kerneldb.replay.wire.plan import call_from_dict as op_call
from kerneldb.replay.worker.activity import Activity

FORMAT: Final = "kerneldb-replay-journal"
VERSION: Final = 1
OK: Final = "ok"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Where and how a run was made. Fields are None where the machine does not say.

    `started` is UTC, ISO 8601. `l2_bytes` and `memory_bytes` are of the device, clocks in MHz. `arguments` are the
    options of the run, `plan_notes` the notes of its plan.
    """

    run_id: str
    started: str
    cache: str
    device: str
    device_index: int | None = None
    gpu: str | None = None
    vendor: str | None = None
    arch: str | None = None
    uuid: str | None = None
    driver: str | None = None
    torch: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    cublas: str | None = None
    kerneldb: str | None = None
    host: str | None = None
    python: str | None = None
    l2_bytes: int | None = None
    memory_bytes: int | None = None
    sm_count: int | None = None
    max_sm_mhz: int | None = None
    max_memory_mhz: int | None = None
    power_limit_w: float | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    plan_notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A reading of the device: clocks in MHz, °C, watts, and the names of the reasons why clocks are held down."""

    sm_mhz: int | None = None
    memory_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    throttle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopCost:
    """Time per call in a CUDA-graph loop: `calls` calls per graph, over a ring of `ring` input sets."""

    time: Spread
    calls: int
    ring: int


@dataclass(frozen=True, slots=True)
class KernelResult:
    """A planned kernel and what came out in its place.

    `replayed` is None where nothing did. `unknown` names the launch fields that neither side has, `share` is the
    kernel's part of the call's GPU time (0–1), `time` its CUPTI durations.
    """

    ordinal: int
    signature_id: str
    name: str
    grade: str
    reason: str | None = None
    replayed: Activity | None = None
    unknown: tuple[str, ...] = ()
    share: float | None = None
    time: Spread | None = None


@dataclass(frozen=True, slots=True)
class Try:
    """A call tried for an item whose own is not recorded, and how the kernel that came out compares.

    `candidate` is its place among the item's candidates, None where it was made from an earlier try; `attempt` the
    number by which a result names it. Times are GPU nanoseconds. `reason` says what differs, or the error.
    """

    call: OpCall
    why: str
    grade: str
    candidate: int | None = None
    overload: str | None = None
    same_name: bool | None = None
    same_grid: bool | None = None
    same_block: bool | None = None
    same_shared: bool | None = None
    time_ns: float | None = None
    recorded_ns: float | None = None
    score: float | None = None
    reason: str | None = None
    accepted: bool = False
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class CallResult:
    """What became of one item under one cache state.

    `status` is ok, failed or skipped (not attempted; a resumed run tries it). `time` is the GPU time of the call (all
    activities, CUPTI), on a CPU its wall time; `loop` the CUDA-graph loop, with `loop_note` where there is none.
    `extra` activities came out unplanned, `missing` names did not come out. `tries` counts rebuilt calls, and `attempt`
    is the one that stands, from 0; `wall_s` seconds spent. `energy` is None where none was asked for, or none is known
    yet. `trail` are the calls tried for an item without a recorded one, and `found` the one that is believed.
    """

    item: str
    route: str
    cache: str
    status: str
    grade: str
    reason: str | None = None
    overload: str | None = None
    notes: tuple[str, ...] = ()
    tries: int = 0
    warmup: int = 0
    runs: int = 0
    wall_s: float = 0.0
    final: bool = True
    kernels: tuple[KernelResult, ...] = ()
    extra: tuple[Activity, ...] = ()
    missing: tuple[str, ...] = ()
    time: Spread | None = None
    loop: LoopCost | None = None
    loop_note: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    state: DeviceState | None = None
    attempt: int | None = None
    energy: CallEnergy | None = None
    trail: tuple[Try, ...] = ()
    found: Candidate | None = None


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal read back. `calls` holds the last line of each item and cache state, in the order of the file."""

    run: RunFacts
    calls: tuple[CallResult, ...] = ()
    resumed: tuple[RunFacts, ...] = ()
    finished: bool = False
    cut: bool = False
    energy: EnergyFacts | None = None
    readings: tuple[PowerReading, ...] = ()

    def settled(self, cache: str) -> frozenset[str]:
        """The items that a resumed run need not look at again: final, and not skipped."""
        return frozenset(one.item for one in self.calls if one.cache == cache and one.final and one.status != SKIPPED)

    def unmeasured(self, cache: str) -> tuple[CallResult, ...]:
        """The calls that ran, and whose energy is still to be measured."""
        ran = (one for one in self.calls if one.cache == cache and one.final and one.status == OK)
        return tuple(one for one in ran if one.energy is None or not one.energy.final)


class Writer:
    """Appends to a journal. A line is with the operating system when its method returns: it outlives this process.

    Raises JournalExistsError where there is a journal at `path` and `resume` is not set. Resuming drops a cut last
    line.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        begun = exists(path)
        if begun and not resume:
            msg = f"{path}: there is a journal already; resume it, or name another file"
            raise JournalExistsError(msg)
        if begun:
            _drop_cut_line(path)
        self._file = path.open("a", encoding="utf-8")
        self._begun = exists(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def run(self, facts: RunFacts) -> None:
        """Write the facts of the run: the header of a new journal, a `resume` line of an old one."""
        if self._begun:
            self._line({"kind": "resume", "run": to_dict(facts)})
        else:
            self._line({"kind": "run", "format": FORMAT, "version": VERSION, "run": to_dict(facts)})
        self._begun = True

    @property
    def begun(self) -> bool:
        """Whether the journal has its header: before, nothing else may be written."""
        return self._begun

    def call(self, result: CallResult) -> None:
        """Write the result of one item."""
        self._line({"kind": "call", "call": to_dict(result)})

    def energy(self, facts: EnergyFacts) -> None:
        """Write what the energies of all calls share."""
        self._line({"kind": "energy", "energy": to_dict(facts)})

    def power(self, readings: Sequence[PowerReading]) -> None:
        """Write readings of the device."""
        self._line({"kind": "power", "readings": to_dict(list(readings))})

    def end(self, *, finished: bool, remaining: int, wall_s: float) -> None:
        """Write how the run ended."""
        self._line({"kind": "end", "finished": finished, "remaining": remaining, "wall_s": round(wall_s, 3)})

    def _line(self, data: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(data) + "\n")
        self._file.flush()


def exists(path: Path) -> bool:
    """Whether there is anything at `path`."""
    return path.exists() and path.stat().st_size > 0


def read(path: Path) -> Journal:
    """The journal at `path`. Raises JournalError, naming the line."""
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text.split("\n")
    cut = lines.pop()
    return _journal([_parse(line, number) for number, line in enumerate(lines, 1) if line], cut=bool(cut), path=path)


def to_dict(value: Any) -> Any:
    """A result as JSON-ready values, fields that hold their default left out."""
    if isinstance(value, tuple | list):
        return [to_dict(entry) for entry in value]
    if not dataclasses.is_dataclass(value):
        return value
    pairs = ((entry, getattr(value, entry.name)) for entry in dataclasses.fields(value))
    return {entry.name: to_dict(held) for entry, held in pairs if held != _default(entry)}


def call_from_dict(data: Mapping[str, Any]) -> CallResult:
    """The inverse of `to_dict` for the result of an item. Raises KeyError or TypeError on other data."""
    loop = data.get("loop")
    result: CallResult = _known(
        CallResult,
        data,
        notes=tuple(data.get("notes", ())),
        missing=tuple(data.get("missing", ())),
        kernels=tuple(_kernel(one) for one in data.get("kernels", ())),
        extra=tuple(_activity(one) for one in data.get("extra", ())),
        time=_spread(data.get("time")),
        loop=None if loop is None else LoopCost(Spread(**loop["time"]), loop["calls"], loop["ring"]),
        state=None if data.get("state") is None else state_from_dict(data["state"]),
        energy=None if data.get("energy") is None else records.call_energy(data["energy"]),
        trail=tuple(_try(one) for one in data.get("trail", ())),
        found=None if data.get("found") is None else candidate_from_dict(data["found"]),
    )
    return result


def state_from_dict(data: Mapping[str, Any]) -> DeviceState:
    """The inverse of `to_dict` for a reading of the device."""
    state: DeviceState = _known(DeviceState, data, throttle=tuple(data.get("throttle", ())))
    return state


def facts_from_dict(data: Mapping[str, Any]) -> RunFacts:
    """The inverse of `to_dict` for the facts of a run."""
    run: RunFacts = _known(RunFacts, data)
    return run


def _journal(lines: list[dict[str, Any]], *, cut: bool, path: Path) -> Journal:
    header = lines[0] if lines else {}
    if header.get("format") != FORMAT or int(header.get("version", VERSION + 1)) > VERSION:
        msg = f"{path}: line 1 is no header of a replay journal that this kerneldb reads"
        raise JournalError(msg)
    try:
        calls = [call_from_dict(line["call"]) for line in lines if line["kind"] == "call"]
        resumed = tuple(facts_from_dict(line["run"]) for line in lines if line["kind"] == "resume")
        run = facts_from_dict(header["run"])
        energy = [records.energy_facts(line["energy"]) for line in lines if line["kind"] == "energy"]
        power = (one for line in lines if line["kind"] == "power" for one in line["readings"])
        readings = tuple(records.power_reading(one) for one in power)
    except (KeyError, TypeError) as error:
        msg = f"{path}: not the lines of a replay journal ({error!r})"
        raise JournalError(msg) from error
    last = {(call.item, call.cache): call for call in calls}
    finished = lines[-1]["kind"] == "end" and bool(lines[-1]["finished"])
    return Journal(run, tuple(last.values()), resumed, finished, cut, energy[-1] if energy else None, readings)


def _parse(line: str, number: int) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except ValueError as error:
        msg = f"line {number}: not JSON ({error})"
        raise JournalError(msg) from error
    if not isinstance(data, dict) or "kind" not in data:
        msg = f"line {number}: not a line of a replay journal"
        raise JournalError(msg)
    return data


def _drop_cut_line(path: Path) -> None:
    with path.open("rb+") as file:
        whole = file.read()
        file.truncate(whole.rfind(b"\n") + 1)


def _default(entry: dataclasses.Field[Any]) -> Any:
    if entry.default_factory is not dataclasses.MISSING:
        return entry.default_factory()
    return entry.default


def _known(kind: type[Any], data: Mapping[str, Any], **parsed: Any) -> Any:
    names = {entry.name for entry in dataclasses.fields(kind)}
    return kind(**{**{name: value for name, value in data.items() if name in names}, **parsed})


def _spread(data: Mapping[str, Any] | None) -> Spread | None:
    return None if data is None else Spread(**data)


def _try(data: Mapping[str, Any]) -> Try:
    one: Try = _known(Try, data, call=op_call(data["call"]))
    return one


def _activity(data: Mapping[str, Any]) -> Activity:
    triples = {name: tuple(data[name]) for name in ("grid", "block") if data.get(name) is not None}
    activity: Activity = _known(Activity, data, **triples)
    return activity


def _kernel(data: Mapping[str, Any]) -> KernelResult:
    replayed = data.get("replayed")
    kernel: KernelResult = _known(
        KernelResult,
        data,
        unknown=tuple(data.get("unknown", ())),
        replayed=None if replayed is None else _activity(replayed),
        time=_spread(data.get("time")),
    )
    return kernel
