"""The worker's second job, without a device: what it asks of the journal, and what it says where it cannot measure."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from kerneldb import codec
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.measure.energy import meter
from kerneldb.replay.measure.energy.evaluate import Limits
from kerneldb.replay.measure.energy.meter import Meter
from kerneldb.replay.measure.loops import spread
from kerneldb.replay.options import Options
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts, Window
from kerneldb.replay.wire.journal import Writer
from kerneldb.replay.wire.messages import Broken, Done, Job, Message, Unusable
from kerneldb.replay.wire.results import CallResult, LoopCost, RunFacts
from kerneldb.replay.worker import energy as measuring
from kerneldb.replay.worker.executor import BrokenDeviceError
from tests.energy.simulated import Device, Notes, SimulatedMeter
from tests.replay_worker.plans import item, kernel, write

TIME = spread([2000.0, 2010.0, 2020.0, 2030.0, 2040.0, 2050.0])
assert TIME is not None
RAN = CallResult("a", "aten", "mixed", "ok", "L0", time=TIME, loop=LoopCost(TIME, 10, 1), attempt=1)


class Sent(Notes):
    """A sender that keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def __call__(self, message: Message) -> None:
        match message:
            case Done():
                self.said.append("done")
            case Unusable(reason):
                self.said.append(f"unusable: {reason}")
            case Broken(reason):
                self.said.append(f"broken: {reason}")
            case _:
                super().__call__(message)


def measured(folder: Path, *calls: CallResult, opens: Any = None, **options: Any) -> tuple[int, Sent]:
    path = write(folder / "plan", *(item(one.item, one.route, None, kernel()) for one in calls))
    with Writer(folder / "journal") as writer:
        facts = RunFacts("r", "2026-01-01T00:00:00+00:00", "mixed", "cpu", max_sm_mhz=1980, power_limit_w=700.0)
        writer.run(facts)
        for one in calls:
            writer.call(one)
    chosen = Options(device="cpu", **options)
    job = Job(str(path), tuple(one.item for one in calls), chosen, str(folder / "journal"))
    sent = Sent()
    return measuring.main(codec.load(Job, codec.dump(job)), sent, opens or (lambda *_: None)), sent  # type: ignore[arg-type]


@pytest.fixture
def simulated() -> Any:
    def opener(device: str, uuid: str | None) -> Meter | None:
        del device, uuid
        return SimulatedMeter(Device())

    meter.register("simulated", opener)
    yield
    meter.unregister("simulated")


@dataclasses.dataclass
class Phase:
    """In place of the phase: notes its tasks."""

    tasks: list[Any] = dataclasses.field(default_factory=list)
    breaks: bool = False
    limits: Any = None

    def __call__(self, *given: Any) -> Phase:
        self.limits = given[-1]
        return self

    def run(self, tasks: list[Any], budget_s: float) -> None:
        del budget_s
        self.tasks += tasks
        if self.breaks:
            message = "illegal access"
            raise BrokenDeviceError(message)


def test_without_a_meter_run_and_calls_have_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerneldb.replay.measure.energy.meter.RaplMeter.__init__.__defaults__", (tmp_path,))
    code, sent = measured(tmp_path, RAN, dataclasses.replace(RAN, item="b"))
    assert (code, sent.said) == (0, ["done"])
    assert "no RAPL counters" in str(sent.facts.reason)
    assert {name: one.reason for name, one in sent.energies.items()} == dict.fromkeys("ab", sent.facts.reason)


def test_tasks_are_the_calls_that_ran(tmp_path: Path, simulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    phase = Phase()
    monkeypatch.setattr(measuring, "Phase", phase)
    window = Window(1.0, 1.4, 300.0, 1.0, 2000.0, 14)
    calls = (
        RAN,
        dataclasses.replace(RAN, item="begun", energy=CallEnergy(1.0, final=False, windows=(window,))),
        dataclasses.replace(RAN, item="waits", loop=None, loop_note="waits for the device, which a CUDA graph cannot"),
        dataclasses.replace(RAN, item="unasked", loop=None, loop_note="not asked for"),
        dataclasses.replace(RAN, item="old", attempt=None),
        dataclasses.replace(RAN, item="empty", time=None),
        dataclasses.replace(RAN, item="stranger", route="another"),
    )
    code, sent = measured(tmp_path, *calls)
    assert (code, sent.said) == (0, ["done"])
    assert {(one.item.id, one.capture, len(one.windows)) for one in phase.tasks} == {
        ("a", True, 0), ("begun", True, 1), ("waits", False, 0), ("unasked", True, 0)
    }  # fmt: skip
    assert (phase.tasks[0].attempt, phase.tasks[0].kernels.ns) == (1, 2025.0)
    assert {one.item.id: one.loop_ns for one in phase.tasks}["a"] == 2025.0
    assert phase.limits == Limits(700.0, 1980)
    reasons = {name: one.reason for name, one in sent.energies.items()}
    assert "no route 'another'" in str(reasons.pop("stranger"))
    assert reasons == {"old": measuring.OLD, "empty": measuring.NO_TIME}


def test_a_broken_device_is_reported(tmp_path: Path, simulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "Phase", Phase(breaks=True))
    assert measured(tmp_path, RAN)[1].said == ["broken: illegal access"]


def test_a_machine_that_cannot_run_it_is_reported(tmp_path: Path, simulated: None) -> None:
    def opens(*_: Any) -> None:
        message = "no GPU here"
        raise ReplayError(message)

    code, sent = measured(tmp_path, RAN, opens=opens)
    assert (code, sent.said) == (1, ["unusable: no GPU here"])
    assert sent.facts == EnergyFacts()
