"""A command that ends leaves nothing undone: its code, its output and what was registered for the end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ENDING = """
import atexit, sys
from kerneldb.cli import process

def command():
    atexit.register(print, "registered")
    sys.stdout.write("written ")
    {end}

process.run(command)
"""


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("sys.exit(0)", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('why')", 1, "why"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("pass", 0, ""),
    ],
)
def test_a_command_ends_with_its_code_its_output_and_what_was_registered(end: str, code: int, said: str) -> None:
    command = [sys.executable, "-c", ENDING.format(end=end)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "written registered\n")
    assert said in done.stderr


def test_a_reader_of_the_output_that_is_gone_is_no_error() -> None:
    text = "import sys; from kerneldb.cli import process; process.run(lambda: (sys.stdout.write('x'), sys.exit(0)))"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0
