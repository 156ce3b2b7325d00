"""A replay in a process of its own, as the screen follows it: its events, and what they add up to."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from kerneldb import codec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from kerneldb.tui.child import Order

Event = dict[str, Any]
Ended = Literal["done", "stopped", "failed"]

COMMAND: Final = (sys.executable, "-P", "-m", "kerneldb.tui.child")
KEPT: Final = 240
"""Readings of power, clock and temperature that are kept for the sparklines."""
TAIL: Final = 200
TAIL_BYTES: Final = 4096
ENDS: Final[Mapping[str, Ended]] = {"failed": "failed", "stopped": "stopped"}
"""Events that end a run without results."""
UNREPLAYED: Final = "stopped before a call was replayed"
GOOD: Final = frozenset({"L0", "L1"})


@dataclasses.dataclass(slots=True)
class Progress:
    """How far a run is. `stage` says what it does; readings are the latest ones, with those before them.

    `bad` are kernels that did not come out the same, with their grade; `deaths` are reasons of workers that ended.
    """

    stage: str = "planning"
    run_id: str | None = None
    done: int = 0
    total: int = 0
    eta_s: float | None = None
    kernel: str = ""
    grades: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    bad: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    deaths: list[str] = dataclasses.field(default_factory=list)
    readings: dict[str, collections.deque[float]] = dataclasses.field(default_factory=dict)
    ended: Ended | None = None
    message: str = ""

    def take(self, event: Mapping[str, Any]) -> None:
        """Add an event."""
        kind = event["event"]
        if kind in {"planned", "start"}:
            self.stage = "starting"
            self.total = int(event.get("calls", event.get("items", self.total)))
            self.run_id = event.get("run", self.run_id)
        elif kind in {"progress", "energy"}:
            self._advance(event)
        elif kind == "worker":
            self.deaths.append(str(event.get("reason")))
        elif kind == "done":
            self._finish(event)
        elif kind in ENDS:
            self.ended, self.message = ENDS[kind], str(event["message"])

    def _advance(self, event: Mapping[str, Any]) -> None:
        self.stage = "timing" if event["event"] == "progress" else "energy"
        self.done, self.total, self.eta_s = event["done"], event["total"], event.get("eta_s")
        self.kernel = event.get("kernel") or event.get("item") or ""
        if event["event"] == "progress":
            grade = event.get("grade") or "L4"
            self.grades[grade] += 1
            if grade not in GOOD:
                self.bad.append((grade, self.kernel))
        for name in ("power_w", "sm_mhz", "temperature_c"):
            if event.get(name) is not None:
                self.readings.setdefault(name, collections.deque(maxlen=KEPT)).append(float(event[name]))

    def _finish(self, event: Mapping[str, Any]) -> None:
        self.ended = "done" if event["finished"] else "stopped"
        self.run_id = event["run"]
        reason = event.get("energy_reason")
        self.message = f"no energy: {reason}" if reason else ""

    def latest(self, name: str) -> float | None:
        """The last reading of `power_w`, `sm_mhz` or `temperature_c`."""
        readings = self.readings.get(name)
        return readings[-1] if readings else None


class Child:
    """One replay process. `events` starts it and yields what it says, up to its end.

    A thread reads its pipe: a process that ends on its own after the application did keeps nothing from closing.
    """

    def __init__(self, order: Order, command: Sequence[str] = COMMAND) -> None:
        self._order = order
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._told = False

    def stop(self) -> None:
        """Ask it to end, so that the run can be resumed: as Ctrl-C does."""
        if self._process is not None and self._process.poll() is None:
            self._told = True
            self._process.send_signal(signal.SIGINT)

    async def events(self) -> AsyncIterator[Event]:
        """What the process says. Where it dies without a word, its last line of text becomes a `failed` event."""
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def put(line: bytes | None) -> None:
            # The loop may be closed by then: nobody listens any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(lines.put_nowait, line)

        with tempfile.TemporaryFile() as errors:
            self._process = process = self._started(errors)
            threading.Thread(target=_read, args=(process, put), daemon=True).start()
            last = ""
            while (line := await lines.get()) is not None:
                if (event := _event(line)) is not None:
                    last = event["event"]
                    yield event
            if last not in {"done", *ENDS}:
                yield self._silent_end(last, _tail(errors), process.returncode)

    def _silent_end(self, last: str, said: str, code: int | None) -> Event:
        """What became of a process that died without a word; one that was told to end may not have had time for one."""
        if self._told and last in {"", "planned"}:
            return {"event": "stopped", "message": UNREPLAYED}
        return {"event": "failed", "message": said or f"the replay process ended with code {code}"}

    def _started(self, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(  # noqa: S603 (our own interpreter)
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            env=environment(),
        )
        assert process.stdin is not None  # noqa: S101 (it was asked for)
        with contextlib.suppress(BrokenPipeError):  # one that died before reading is noticed by its closed pipe
            process.stdin.write(codec.dump(self._order).encode())
            process.stdin.close()
        return process


def _read(process: subprocess.Popen[bytes], put: Callable[[bytes | None], None]) -> None:
    """Pass on the lines of a process, and None when it has ended."""
    assert process.stdout is not None  # noqa: S101 (it was asked for)
    with process.stdout as stream:
        for line in stream:
            put(line)
    process.wait()
    put(None)


def _event(line: bytes) -> Event | None:
    """The event that a line is; None for anything else that libraries print."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("event"), str) else None


def _tail(stream: IO[bytes]) -> str:
    """The last line of text in a file."""
    stream.seek(0, os.SEEK_END)
    stream.seek(max(0, stream.tell() - TAIL_BYTES))
    lines = [line.strip() for line in stream.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:TAIL] if lines else ""


def environment(**more: str) -> dict[str, str]:
    """Our environment, and `more`, in which the process also finds a kerneldb that runs from its sources."""
    sources = str(Path(str(sys.modules["kerneldb"].__file__)).parents[1])
    paths = (sources, os.environ.get("PYTHONPATH"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), **more}
