"""Ends from outside: the terminal goes away, also where no signal says so, or the process gets SIGTERM."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

HANGUP_EXIT: Final = 129
"""The exit code of a process that a hang-up (SIGHUP) ends, as shells give it."""
SIGTERM_EXIT: Final = 143
"""The exit code of a process that SIGTERM ends, as shells give it."""
POLL_MS: Final = 500
GRACE_S: Final = 1.5
"""How long an orderly end may take. Without a terminal to write to, Textual may wait for ever."""


def watch_terminal(leave: Callable[[], object], ended: Callable[[], bool]) -> None:
    """Call `leave`, from another thread, when the terminal hangs up; end the process where it stays.

    A hung-up terminal reads as empty, for ever and at once, which Textual takes for a pipe. `ended` says that the
    program is at its end anyway.
    """
    if sys.__stdin__ is None or not sys.__stdin__.isatty() or not hasattr(select, "poll"):
        return
    poller = select.poll()
    poller.register(sys.__stdin__.fileno(), 0)  # no events asked for: hang-ups and errors are always reported

    def watch() -> None:
        while not ended():
            for _, event in poller.poll(POLL_MS):
                if event & (select.POLLHUP | select.POLLERR):
                    with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                        leave()
                    time.sleep(GRACE_S)
                    os._exit(HANGUP_EXIT)
                return

    threading.Thread(target=watch, name="kerneldb-hangup", daemon=True).start()


def handle_sigterm(loop: asyncio.AbstractEventLoop, leave: Callable[[], object]) -> None:
    """Call `leave` at the first SIGTERM (kill, timeout, a scheduler), so that the terminal is given back.

    Without a handler the process ends at once, and leaves the shell a terminal that echoes nothing. A second SIGTERM
    does end it.
    """

    def received() -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        leave()

    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # no such signals here, or no main thread
        loop.add_signal_handler(signal.SIGTERM, received)
