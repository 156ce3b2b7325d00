"""What a worker tells its supervisor: JSON lines over a pipe of their own.

    {"event": "ready", "facts": {…}}                 the device is open; facts are the fields of `RunFacts`
    {"event": "unusable", "reason": "…"}             the run cannot take place here; the worker ends
    {"event": "begin", "item": "…", "phase": "…"}    work begins on an item (null: on none in particular)
    {"event": "result", "call": {…}}                 a `CallResult`
    {"event": "state", "state": {…}}                 a `DeviceState`
    {"event": "energy", "item": "…", "energy": {…}}  a `CallEnergy`
    {"event": "energy_facts", "energy": {…}}         an `EnergyFacts`
    {"event": "power", "readings": […]}              a list of `PowerReading`
    {"event": "further"}                             few items are left: one line with ids (`[]`: no more) is the answer
    {"event": "broken", "reason": "…"}               the device context broke in the current item; the worker ends
    {"event": "done"}                                all items are done

The job comes to the worker as one line of JSON on standard input; answers are lines too.
"""

from __future__ import annotations

import json
import os
import selectors
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kerneldb.replay import options
from kerneldb.replay.options import Options
from kerneldb.replay.wire import journal
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts, PowerReading
from kerneldb.replay.wire.journal import CallResult, DeviceState

READ_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is to do: items of the plan at `plan`, by id, in this order.

    With the path of a `journal` it is to measure the energy of calls that ran already, as that journal has them. Where
    there may be `further` items, the worker asks for them.
    """

    plan: str
    items: tuple[str, ...]
    options: Options
    journal: str | None = None
    further: bool = False


def job_to_text(job: Job) -> str:
    """The job as one JSON text."""
    given = options.to_dict(job.options)
    same = {"plan": job.plan, "items": job.items, "journal": job.journal, "further": job.further}
    return json.dumps({**same, "options": given})


def job_from_text(text: str) -> Job:
    """The inverse of `job_to_text`."""
    data = json.loads(text)
    given = options.from_dict(data["options"])
    return Job(data["plan"], tuple(data["items"]), given, data.get("journal"), bool(data.get("further")))


class Sender:
    """The worker's end of the pipe. Raises BrokenPipeError where the supervisor is gone."""

    def __init__(self, descriptor: int) -> None:
        self._pipe = os.fdopen(descriptor, "w", encoding="utf-8")

    def ready(self, facts: Mapping[str, Any]) -> None:
        """The device is open."""
        self._send("ready", facts=dict(facts))

    def unusable(self, reason: str) -> None:
        """The run cannot take place here."""
        self._send("unusable", reason=reason)

    def broken(self, reason: str) -> None:
        """The device context broke."""
        self._send("broken", reason=reason)

    def begin(self, item: str | None, phase: str) -> None:
        """Work begins on an item."""
        self._send("begin", item=item, phase=phase)

    def result(self, result: CallResult) -> None:
        """There is a result."""
        self._send("result", call=journal.to_dict(result))

    def state(self, state: DeviceState | None) -> None:
        """A reading of the device."""
        if state is not None:
            self._send("state", state=journal.to_dict(state))

    def energy(self, item: str, energy: CallEnergy) -> None:
        """The energy of a call."""
        self._send("energy", item=item, energy=journal.to_dict(energy))

    def energy_facts(self, facts: EnergyFacts) -> None:
        """What the energies of all calls share."""
        self._send("energy_facts", energy=journal.to_dict(facts))

    def readings(self, readings: Sequence[PowerReading]) -> None:
        """Readings of the device."""
        self._send("power", readings=journal.to_dict(list(readings)))

    def further(self) -> None:
        """Few items are left."""
        self._send("further")

    def done(self) -> None:
        """All items are done."""
        self._send("done")

    def _send(self, event: str, **fields: Any) -> None:
        self._pipe.write(json.dumps({"event": event, **fields}) + "\n")
        self._pipe.flush()


class Receiver:
    """The supervisor's end of the pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self._lines: list[dict[str, Any]] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(descriptor, selectors.EVENT_READ)
        self.ended = False

    def next(self, seconds: float) -> dict[str, Any] | None:
        """The next message; None after `seconds` without one, or where the worker has closed its end (`ended`)."""
        deadline = time.monotonic() + seconds
        while not self._lines and not self.ended:
            left = deadline - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                return None
            self._take(os.read(self._descriptor, READ_BYTES))
        return self._lines.pop(0) if self._lines else None

    def close(self) -> None:
        """Close the pipe."""
        self._selector.close()
        os.close(self._descriptor)

    def _take(self, data: bytes) -> None:
        self.ended = not data
        *whole, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(json.loads(line) for line in whole if line)
