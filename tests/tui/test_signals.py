"""A terminal that goes away without a signal: the program ends, and so does the replay that it follows."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING

import pytest

from kerneldb.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S = 120.0
LOCAL = 3
"""Place of the flags about echo and lines among the attributes of a terminal."""
REPLAY = """
import sys
from kerneldb.cli import main
from kerneldb.tui.screens.replay import ReplayPane
ReplayPane.command_of_child = (sys.executable, "-c", sys.argv.pop(1))
main()
"""
ENDLESS = """
import json, pathlib, signal, sys, time
place = pathlib.Path({place!r})
json.load(sys.stdin)
def say(**event):
    print(json.dumps(event), flush=True)
try:
    say(event="planned", calls=4)
    while True:
        say(event="progress", item="a", kernel="endless_kernel", grade="L0", done=1, total=4)
        time.sleep(0.05)
except (KeyboardInterrupt, BrokenPipeError) as error:
    place.write_text(type(error).__name__)
"""


class Program:
    """A process on a terminal that controls no session, so that nothing signals its end; `close` takes it away."""

    def __init__(self, *arguments: str) -> None:
        self.terminal, theirs = os.openpty()
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
        self.process = subprocess.Popen(
            [sys.executable, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env=environment,
        )  # fmt: skip
        os.close(theirs)

    def wait(self, text: str) -> None:
        """Read until the program has written `text`."""
        shown, ends = b"", time.monotonic() + PATIENCE_S
        while text.encode() not in shown:
            assert time.monotonic() < ends, f"no {text!r} in {shown[-2000:]!r}"
            if select.select([self.terminal], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    shown += os.read(self.terminal, 65_536)

    def close(self) -> None:
        """The terminal is gone."""
        os.close(self.terminal)
        self.terminal = -1

    def end(self) -> None:
        """Whatever happened, leave nothing behind."""
        if self.terminal >= 0:
            self.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    """Programs that are ended with the test."""
    found: list[Program] = []
    yield found
    for program in found:
        program.end()


def test_the_program_ends_with_its_terminal(trace_database: Path, programs: list[Program]) -> None:
    program = Program("-m", "kerneldb", "--db", str(trace_database), "tui")
    programs.append(program)
    program.wait("largest kernels")
    program.close()
    assert program.process.wait(PATIENCE_S) == 129
    with Warehouse.open(trace_database).connection(read_only=False) as con:
        assert con.execute("SELECT count(*) > 0 FROM launches").fetchone() == (True,)


def test_a_process_that_is_told_to_end_gives_the_terminal_back(trace_database: Path, programs: list[Program]) -> None:
    program = Program("-m", "kerneldb", "--db", str(trace_database), "tui")
    programs.append(program)
    program.wait("largest kernels")
    assert not termios.tcgetattr(program.terminal)[LOCAL] & termios.ECHO
    program.process.terminate()
    program.wait("\x1b[?1049l")  # the screen of the shell
    assert program.process.wait(PATIENCE_S) == 143
    assert termios.tcgetattr(program.terminal)[LOCAL] & (termios.ECHO | termios.ICANON) == termios.ECHO | termios.ICANON


@pytest.mark.thorough
def test_the_replay_ends_with_the_terminal(trace_database: Path, programs: list[Program], tmp_path: Path) -> None:
    place = tmp_path / "ended"
    program = Program(
        "-c", REPLAY, ENDLESS.format(place=str(place)), "--db", str(trace_database), "tui", "--screen", "replay"
    )
    programs.append(program)
    program.wait("enter replays")
    os.write(program.terminal, b"\r")
    program.wait("endless_kernel")
    program.close()
    assert program.process.wait(PATIENCE_S) == 129
    ends = time.monotonic() + PATIENCE_S
    while not place.exists() or not place.read_text():
        assert time.monotonic() < ends, "the replay goes on"
        time.sleep(0.05)
    assert place.read_text() in {"KeyboardInterrupt", "BrokenPipeError"}
