"""A line on stderr for a command that is at work and has said nothing yet, where stderr is a terminal."""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import Final

import click

from kerneldb.output import terminal

SILENT_S: Final = 0.4
"""How long a command may say nothing before it says that it is at work."""
KEY: Final = "kerneldb.working"


class Working:
    """Says which command is at work, and for how long, until it ends or says something itself."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._ended = threading.Event()
        self._drawing = threading.Lock()
        self._drawn = False
        if sys.stderr.isatty():
            threading.Thread(target=self._tell, name="kerneldb-working", daemon=True).start()

    def end(self) -> None:
        """Take the line away; something else is written now."""
        with self._drawing:
            self._ended.set()
            if self._drawn:
                terminal.control(terminal.ERASE_LINE)
                self._drawn = False

    def _tell(self) -> None:
        began = time.monotonic()
        while not self._ended.wait(SILENT_S):
            with self._drawing:
                if not self._ended.is_set():
                    self._drawn = True
                    seconds = time.monotonic() - began
                    spent = f" for {seconds:.0f} s" if seconds >= 1 else ""
                    terminal.control(terminal.ERASE_LINE)
                    click.echo(f"{self._command}: at work{spent}", err=True, nl=False)


class Notes(logging.Handler):
    """Writes what the library has to say, such as for whom it waits, in place of the line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write it to stderr, which may be a log."""
        end()
        click.echo(record.getMessage(), err=True)


def begin() -> None:
    """Say that the command of the current call is at work, if it takes long."""
    context = click.get_current_context()
    if KEY not in context.meta:
        context.meta[KEY] = working = Working(context.command_path.strip())
        context.call_on_close(working.end)
        notes = Notes(logging.WARNING)
        logging.getLogger("kerneldb").addHandler(notes)
        context.call_on_close(lambda: logging.getLogger("kerneldb").removeHandler(notes))


def end() -> None:
    """Something else is written now."""
    context = click.get_current_context(silent=True)
    if context is not None and KEY in context.meta:
        context.meta[KEY].end()
