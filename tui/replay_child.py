"""The process that replays for the screen Replay: a request on stdin, one JSON object a line on stdout.

    python -m kerneldb.tui.replay_child < ORDER

It does what `kerneldb replay` does, with events instead of text, so that the terminal stays free and never holds the
database while results are written. The order is JSON of `Order`. Events are those of
`kerneldb.replay.host.run`, with the names of kernels, and around them `planned`, and at the end `done`,
`failed`, or `stopped` where there was no run yet. An interrupt (SIGINT) stops the run so that it can be resumed.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

from kerneldb import codec
from kerneldb.api.planning import Request
from kerneldb.errors import KerneldbError
from kerneldb.replay.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kerneldb.api.planning import Planned

LOCK_WAIT_S: Final = 60.0
INTERRUPTED: Final = 130


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """What to replay. With `resume`, the run that was stopped goes on, and `request` is left alone."""

    database: str
    request: Request = dataclasses.field(default_factory=Request)
    options: Options = dataclasses.field(default_factory=Options)
    resume: bool = False


def run(order: Order, sink: TextIO) -> int:
    """Replay, and write the events to `sink`. Returns the exit code of `kerneldb replay`."""
    from kerneldb import api

    events = _EventWriter(sink)
    try:
        database = api.open(order.database, create=False, lock_timeout=LOCK_WAIT_S)
        planned = None
        if not order.resume:
            planned = database.plan_replay(order.request)
            events.learn_names(planned)
            events.write({"event": "planned", "calls": len(planned.plan.items)})
        done = database.replay(planned, order.options, events.write)
        events.write({
            "event": "done",
            "run": done.run_id,
            "finished": done.finished,
            "interrupted": done.interrupted,
            "grades": dict(done.by_grade),
            "wall_s": done.wall_s,
            "energy_reason": done.energy_reason,
        })  # fmt: skip
    except KerneldbError as error:
        events.write({"event": "failed", "message": str(error)})
        return error.exit_code
    except KeyboardInterrupt:
        events.write({"event": "stopped", "message": "stopped before a call was replayed"})
        return INTERRUPTED
    return 0


class _EventWriter:
    """Writes events, with the kernel of each item beside its id."""

    def __init__(self, sink: TextIO) -> None:
        self._sink = sink
        self._names: dict[str, str] = {}

    def learn_names(self, planned: Planned) -> None:
        """Remember which kernel each item of the plan is about."""
        from kerneldb.names import decode

        for item in planned.plan.items:
            kernel = max(item.kernels, key=lambda one: one.total_ns or 0)
            self._names[item.id] = decode(kernel.name).short_name if kernel.name else kernel.kind

    def write(self, event: Mapping[str, Any]) -> None:
        """Write one event."""
        named = {**event, "kernel": self._names[event["item"]]} if event.get("item") in self._names else event
        try:
            self._sink.write(json.dumps(named, default=str) + "\n")
            self._sink.flush()
        except BrokenPipeError:
            # Nobody listens any more. A run that goes on ends here, to be resumed; one that ends anyway is committed.
            if event["event"] in {"progress", "energy", "counters"}:
                raise KeyboardInterrupt from None


def main() -> None:
    """Take the order from stdin."""
    sys.exit(run(codec.load(Order, sys.stdin.read(), own=True), sys.stdout))


if __name__ == "__main__":
    main()
