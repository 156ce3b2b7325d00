"""A command that takes long says so on a terminal, and takes it back before it says anything else."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest

from kerneldb.cli import working
from kerneldb.cli.console import note
from kerneldb.output.terminal import ERASE_LINE

SLOW = """
import time
from kerneldb.cli import working
import click

@click.command()
@click.pass_context
def cli(context):
    working.begin()
    while not context.meta[working.KEY]._drawn:
        time.sleep(0.01)
    working.end()
    click.echo("data")

cli(prog_name="kerneldb top")
"""


def said_on_a_terminal(command: list[str], code: int | None = 0) -> str:
    """What a command writes to a terminal that is its stdout and stderr; `code` is that of its end (None: any)."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # the end of the other side
            while part := os.read(ours, 4096):
                said += part
        assert process.wait() == code or code is None
    os.close(ours)
    return said.decode()


def test_a_line_tells_of_work_and_goes_before_the_data() -> None:
    said = said_on_a_terminal([sys.executable, "-c", SLOW])
    assert "kerneldb top: at work" in said
    assert said.endswith(f"{ERASE_LINE.decode()}data\r\n")


def test_what_is_no_terminal_gets_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with click.Context(click.Command("top")) as context:
        working.begin()
        working.begin()
        note("done")
        assert "kerneldb-working" not in [thread.name for thread in threading.enumerate()]
        assert context.meta[working.KEY] is not None
    assert capsys.readouterr().err == "done\n"


def test_outside_of_a_command_there_is_nothing_to_end(tmp_path: Path) -> None:
    working.end()
    assert list(tmp_path.iterdir()) == []
