"""Answers that somebody waits for: in a thread each, whose statements end with the client, and after a time."""

from __future__ import annotations

import math
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from kerneldb.agents import RUNS
from kerneldb.agents.answers import answered, refusal
from kerneldb.warehouse.execute import POLL_S, Interrupter

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerneldb.agents.answers import Answer

SECONDS: Final = 30.0
THOROUGH: Final = frozenset({"why", "diff", "history"})
THOROUGH_SECONDS: Final = 300.0
"""Of tools that ask much: `why` of ten million launches takes a quarter of a minute where nothing else runs."""


def seconds_of(tool: str) -> float:
    """How long a tool may take. What runs on a GPU has limits of its own."""
    if tool in RUNS:
        return math.inf
    return THOROUGH_SECONDS if tool in THOROUGH else SECONDS


async def awaited(work: Callable[[], Answer], seconds: float) -> Answer:
    """The answer of `work`. Its statements are interrupted when nobody waits any more, and after `seconds`."""
    statements = Interrupter()
    found: Future[Answer] = Future()
    async with anyio.create_task_group() as group:
        group.start_soon(_end, statements, found, seconds)
        try:
            # Not abandoned: a thread that nobody waits for would hold the file.
            await anyio.to_thread.run_sync(_settle, found, work, statements)
        finally:
            found.cancel()  # where no thread was free yet
            group.cancel_scope.cancel()
    return refusal(f"cancelled after {seconds:g} s") if statements.used else found.result()


def _settle(found: Future[Answer], work: Callable[[], Answer], statements: Interrupter) -> None:
    try:
        with statements:
            found.set_result(answered(work))
    except BaseException as error:  # noqa: BLE001 (raised where the answer is asked for)
        found.set_exception(error)


async def _end(statements: Interrupter, found: Future[Answer], seconds: float) -> None:
    """Interrupt when this is cancelled or the time is over, again until the work has ended."""
    try:
        await anyio.sleep(seconds)
    finally:
        with anyio.CancelScope(shield=True):
            while not found.done():
                statements.interrupt()
                await anyio.sleep(POLL_S)
