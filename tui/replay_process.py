"""A replay in a process of its own, as the screen follows it: its events, and its progress."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import tempfile
import threading
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from kerneldb import codec
from kerneldb.replay import processes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from kerneldb.tui.replay_child import Order

Event = dict[str, Any]
Ended = Literal["done", "stopped", "failed"]

COMMAND: Final = processes.command("kerneldb.tui.replay_child")
KEPT: Final = 240
"""Readings of power, clock and temperature that are kept for the sparklines."""
ENDS: Final[Mapping[str, Ended]] = {"failed": "failed", "stopped": "stopped"}
"""Events that end a run without results."""


@dataclasses.dataclass(slots=True)
class Progress:
    """How far a run is. `stage` is what it does now; `readings` are the last ones by name, the latest at the end.

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
        elif kind in {"progress", "energy", "counters"}:
            self._advance(event, "timing" if kind == "progress" else kind)
        elif kind == "worker":
            self.deaths.append(str(event.get("reason")))
        elif kind == "done":
            self.ended, self.run_id = "done" if event["finished"] else "stopped", event["run"]
            reason = event.get("energy_reason")
            self.message = f"no energy: {reason}" if reason else ""
        elif kind in ENDS:
            self.ended, self.message = ENDS[kind], str(event["message"])

    def _advance(self, event: Mapping[str, Any], stage: str) -> None:
        self.stage = stage
        self.done, self.total, self.eta_s = event["done"], event["total"], event.get("eta_s")
        self.kernel = event.get("kernel") or event.get("item") or ""
        if stage == "timing":
            grade = event.get("grade") or "L4"
            self.grades[grade] += 1
            if grade not in {"L0", "L1"}:
                self.bad.append((grade, self.kernel))
        for name in ("power_w", "sm_mhz", "temperature_c"):
            if event.get(name) is not None:
                self.readings.setdefault(name, collections.deque(maxlen=KEPT)).append(float(event[name]))


class ReplayProcess:
    """One replay process. `events` starts it and yields its events, up to its end.

    A thread reads its pipe: a process that ends on its own after the application did keeps nothing from closing.
    """

    def __init__(self, order: Order, command: Sequence[str] = COMMAND) -> None:
        self._order = order
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def stop(self) -> None:
        """Ask it to end, so that the run can be resumed: as Ctrl-C does."""
        if self._process is not None and self._process.poll() is None:
            self._stopped = True
            self._process.send_signal(signal.SIGINT)

    async def events(self) -> AsyncIterator[Event]:
        """The events of the process. Where it dies without one, its last line of text becomes a `failed` event."""
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def put(line: bytes | None) -> None:
            # The loop may be closed by then: nobody listens any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(lines.put_nowait, line)

        with tempfile.TemporaryFile() as errors:
            self._process = process = self._start(errors)
            threading.Thread(target=_read, args=(process, put), daemon=True).start()
            last = ""
            while (line := await lines.get()) is not None:
                if (event := _event(line)) is not None:
                    last = event["event"]
                    yield event
            if self._stopped and last in {"", "planned"}:  # there may have been no time for an event
                yield {"event": "stopped", "message": "stopped before a call was replayed"}
            elif last not in {"done", *ENDS}:
                code = process.returncode
                yield {"event": "failed", "message": _tail(errors) or f"the replay process ended with code {code}"}

    def _start(self, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(  # noqa: S603 (our own interpreter)
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            env=processes.environment(),
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
    """The last line of text in a file, or its first 200 characters."""
    stream.seek(max(0, stream.seek(0, os.SEEK_END) - 4096))
    lines = stream.read().decode("utf-8", "replace").split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
