"""What a worker tells its host: JSON lines over a pipe of their own. Each is one of the dataclasses below.

    {"event": "ready", "facts": {…}}                 the device is open
    {"event": "result", "call": {…}}                 there is a result
    {"event": "further"}                             few items are left: one line with ids (`[]`: no more) is the answer

The job comes to the worker as one line of JSON on standard input; answers are lines too.
"""

from __future__ import annotations

import os
import selectors
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kerneldb import codec
from kerneldb.recordings import Reading
from kerneldb.replay.options import Options
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts
from kerneldb.replay.wire.results import CallResult
from kerneldb.replay.wire.step_results import StepResult


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is to do: items of the plan at `plan`, by id, in this order.

    With the path of a `journal` it is to measure the energy of calls that ran already, as that journal has them, or to
    run them once more under a counter profiler, in `steps` where there are any. Where there may be `further` items, the
    worker asks for them. Else with `steps`, it is to run these steps of the plan in context; calls of items in `filled`
    broke a worker before, and are stood in for.
    """

    plan: str
    items: tuple[str, ...]
    options: Options
    journal: str | None = None
    further: bool = False
    steps: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ready:
    """The device is open; `facts` are fields of `RunFacts`."""

    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unusable:
    """The run cannot take place here; the worker ends."""

    reason: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The device context broke in the current item; the worker ends."""

    reason: str


@dataclass(frozen=True, slots=True)
class Begin:
    """Work begins on an item (None: on none in particular): `phase` says which."""

    item: str | None
    phase: str


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an item; the journal has it as a line."""

    call: CallResult


@dataclass(frozen=True, slots=True)
class StepDone:
    """The result of a step in one mode; the journal has it as a line."""

    result: StepResult


@dataclass(frozen=True, slots=True)
class Energy:
    """The energy of a call, as known so far."""

    item: str
    energy: CallEnergy


@dataclass(frozen=True, slots=True)
class SharedEnergy:
    """What the energies of all calls share, as known so far; the journal has it as a line."""

    energy: EnergyFacts


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings of the device; the journal has them as a line."""

    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """A call ran under a counter profiler, or could not, for `reason`."""

    item: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Counters:
    """What a counter profiler wrote of a batch of calls; the journal has it as a line.

    `files` lie beside the journal. `items` are the calls that ran, in that order (each in an NVTX range `kerneldb ID`),
    `refused` those without counters, with the reason. `tool` is the profiler and its version, `command` its options.
    """

    files: tuple[str, ...]
    items: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    tool: str = ""
    command: tuple[str, ...] = ()

    @property
    def asked(self) -> tuple[str, ...]:
        """All calls that it says something of."""
        return (*self.items, *self.refused)

    def __post_init__(self) -> None:
        """Refuse files that do not lie beside the journal."""
        for name in self.files:
            if name in {"", ".", ".."} or "/" in name or "\0" in name:
                raise codec.CodecError(
                    f"expected the name of a file beside the journal, found '{codec.printable(name)}'"
                )


@dataclass(frozen=True, slots=True)
class Further:
    """Few items are left."""


@dataclass(frozen=True, slots=True)
class Done:
    """All items are done."""


Message = (
    Ready | Unusable | Broken | Begin | Result | StepDone | Energy | SharedEnergy | Readings | Counted | Further | Done
)
Send = Callable[[Message], None]

MESSAGES: Final = codec.Tagged(
    "event", ready=Ready, unusable=Unusable, broken=Broken, begin=Begin, result=Result, step=StepDone, energy=Energy,
    energy_facts=SharedEnergy, power=Readings, counted=Counted, further=Further, done=Done,
)  # fmt: skip


class Sender:
    """The worker's end of the pipe; calling it sends. Raises BrokenPipeError where the host is gone."""

    def __init__(self, descriptor: int) -> None:
        self._pipe = os.fdopen(descriptor, "w", encoding="utf-8")

    def __call__(self, message: Message) -> None:
        """Send a message."""
        self._pipe.write(f"{MESSAGES.dump(message)}\n")
        self._pipe.flush()


class Receiver:
    """The host's end of the pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self._lines: deque[bytes] = deque()
        self._selector = selectors.DefaultSelector()
        self._selector.register(descriptor, selectors.EVENT_READ)
        self.ended = False

    def next(self, seconds: float) -> Message | None:
        """The next message; None after `seconds` without one, or where the worker has closed its end (`ended`)."""
        deadline = time.monotonic() + seconds
        while not self._lines and not self.ended:
            left = deadline - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                return None
            data = os.read(self._descriptor, 1 << 16)
            self.ended = not data
            *whole, self._rest = (self._rest + data).split(b"\n")
            self._lines.extend(line for line in whole if line)
        message: Message | None = MESSAGES.load(self._lines.popleft().decode()) if self._lines else None
        return message

    def close(self) -> None:
        """Close the pipe."""
        self._selector.close()
        os.close(self._descriptor)
