"""Completion in the shells themselves: what a person types, then Tab, in a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.thorough

LONGEST_S: Final = 120
ESCAPES: Final = re.compile(r"\x1b(?:\[[0-9;?<>=]*[a-zA-Z]|\][^\x07]*\x07|[()][AB0]|[=>])")
TYPED: Final = {
    "kerneldb que": "query",
    "kerneldb top --trace st": "step",
    "kerneldb top --where durat": "duration_ns",
    "kerneldb top --where \"category = 'GE": "GEMM'",
    "kerneldb top --where \"short_name = 'Memse": "Memset (Device)'",
    "kerneldb top --trace=st": "--trace=step",
}
"""What is typed, and what stands there then: of a command, a trace, a column, a value, one with a blank, behind `=`."""
GOES_ON: Final = ('kerneldb query "select durat', 'kerneldb top --where "durat')
"""Within these the quote stays open: nobody ends behind the name of a column."""
QUOTED: Final = "kerneldb top --where=\"category = 'GE"
RUNNING: Final = {
    "bash": "source <(kerneldb db completion bash)",
    "zsh": "source <(kerneldb db completion zsh)",
    "fish": "kerneldb db completion fish | source",
}
"""What the help of `kerneldb db completion` says for the shell that runs."""
SETUP: Final = {
    "bash": ("--rcfile", "rc", "-i"),
    "zsh": ("-i",),
    "fish": ("-i", "-C", "source completion.fish; function fish_prompt; echo -n 'READY> '; end"),
}


class Terminal:
    """A shell at a terminal; `shown` is all that it has written since `type`."""

    def __init__(self, fd: int) -> None:
        self._fd, self.shown = fd, ""

    def type(self, text: str) -> None:
        """Press keys."""
        self.shown = ""
        os.write(self._fd, text.encode())

    def waits_for(self, text: str) -> None:
        """Read until `text` is there; where a bell says that nothing was found in time, Tab asks again."""
        until = time.monotonic() + LONGEST_S
        while text not in (seen := ESCAPES.sub("", self.shown).replace("\x07", "")):
            assert time.monotonic() < until, (text, self.shown)
            if "\x07" in self.shown:
                self.shown = seen
                os.write(self._fd, b"\t")
            if select.select([self._fd], [], [], 1)[0]:
                self.shown += os.read(self._fd, 65536).decode(errors="replace")


@contextmanager
def at_terminal(shell: str, folder: Path, database: Path, *, installed: bool = True) -> Iterator[Terminal]:
    """A shell in `folder`, and with the completion of kerneldb where that is `installed`."""
    scripts = {"bash": "completion.bash", "zsh": "_kerneldb", "fish": "completion.fish"}
    made = [sys.executable, "-m", "kerneldb", "db", "completion", shell]
    script = subprocess.run(made, capture_output=True, check=True).stdout if installed else b""
    (folder / (scripts[shell] if installed or shell != "zsh" else "none")).write_bytes(script)
    (folder / "rc").write_text("source completion.bash\nPS1='READY> '\n")
    (folder / ".zshrc").write_text(f"fpath=({folder} $fpath)\nautoload -U compinit && compinit -u -D\nPS1='READY> '\n")
    program = folder / "kerneldb"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kerneldb "$@"\n')
    program.chmod(0o755)
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(folder)
        given = {"HOME": ".", "ZDOTDIR": ".", "TERM": "xterm", "COLUMNS": "160", "KERNELDB_DB": str(database)}
        os.execvpe(shell, [shell, *SETUP[shell]], os.environ | given | {"PATH": f"{folder}:{os.environ['PATH']}"})  # noqa: S606 (of this test)
    try:
        yield Terminal(fd)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_tab_completes(shell: str, tmp_path: Path, shared_database: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    with at_terminal(shell, tmp_path, shared_database) as terminal:
        terminal.waits_for("READY> ")
        quoted = {} if shell == "zsh" else {QUOTED: "GEMM'"}  # which zsh cannot
        for typed, completed in (TYPED | quoted).items():
            terminal.type(typed + "\t")
            terminal.waits_for(completed)
            terminal.type("\x15")  # an empty line again
        for typed in GOES_ON:
            terminal.type(typed + "\t")
            terminal.waits_for("duration_ns")
            terminal.type('"\x01echo \r')  # what the shell takes it for
            terminal.waits_for(typed.replace('"', "").removesuffix("durat") + "duration_ns")
            terminal.waits_for("READY> ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_that_runs_completes_after_the_line_of_the_help(
    shell: str, tmp_path: Path, shared_database: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    made = [sys.executable, "-m", "kerneldb", "db", "completion", "--help"]
    assert RUNNING[shell] in subprocess.run(made, capture_output=True, check=True, text=True).stdout
    with at_terminal(shell, tmp_path, shared_database, installed=False) as terminal:
        terminal.waits_for("READY> ")
        terminal.type(RUNNING[shell] + "; echo sour''ced\r")
        terminal.waits_for("sourced")
        terminal.waits_for("READY> ")
        terminal.type("kerneldb top --trace st\t")
        terminal.waits_for("step")


def test_fish_shows_names_and_help_with_commas_whole(tmp_path: Path, shared_database: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("no fish on this machine")
    with at_terminal("fish", tmp_path, shared_database) as terminal:
        terminal.waits_for("READY> ")
        terminal.type("complete -C 'kerneldb top --d'\r")
        terminal.waits_for("before or after the command")
