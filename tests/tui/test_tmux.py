"""The real program in a real terminal emulator: tmux, with a server of its own."""

from __future__ import annotations

import contextlib
import random
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import kerneldb

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"), pytest.mark.thorough]

PATIENCE_S = 120.0
GEMM = "category = 'GEMM'"


class Terminal:
    """A shell in a window of a tmux server on a socket of its own."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")
        settings = folder / "tmux.conf"
        settings.write_text("set -g status off\nset -g default-terminal screen-256color\n")
        environment = {"PS1": "ready> ", "XDG_STATE_HOME": str(folder), "PYTHONWARNINGS": "error", "HISTFILE": ""}
        unset = ["-u", "COLUMNS", "-u", "LINES"]
        settled = [f"{name}={value}" for name, value in environment.items()]
        self.tmux("-f", str(settings), "new-session", "-d", "-x", "100", "-y", "30", "env", *unset, *settled, "sh")
        self.wait("ready>")
        assert self.state("window_width") == "100"

    def tmux(self, *arguments: str) -> str:
        """What a command of tmux prints."""
        done = subprocess.run(
            ["tmux", "-S", self._socket, *arguments], capture_output=True, text=True, check=True, timeout=PATIENCE_S
        )
        return done.stdout

    def press(self, *keys: str) -> None:
        """Send keys by their names in tmux."""
        self.tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Send characters."""
        self.tmux("send-keys", "-l", text)

    def shown(self) -> str:
        """The characters on the screen."""
        return self.tmux("capture-pane", "-p")

    def state(self, name: str) -> str:
        """A format variable of tmux, such as `alternate_on`."""
        return self.tmux("display-message", "-p", f"#{{{name}}}").strip()

    def wait(self, text: str, *, gone: bool = False) -> str:
        """Wait until `text` is on the screen, or gone; the screen then."""
        ends = time.monotonic() + PATIENCE_S
        while (text in (shown := self.shown())) == gone:
            assert time.monotonic() < ends, f"{text!r} is {'still' if gone else 'not'} there:\n{shown}"
            time.sleep(0.1)
        return shown

    def close(self) -> None:
        """End this server; others are not touched."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal with a shell."""
    found = Terminal(tmp_path)
    yield found
    found.close()


def command(path: Path, *more: str) -> str:
    return shlex.join([sys.executable, "-m", "kerneldb", "--db", str(path), "tui", *more])


def restored(terminal: Terminal) -> None:
    """The shell has its terminal again: screen, cursor, mouse, and the echo of what is typed."""
    shown = terminal.wait("ready>")
    assert "Traceback" not in shown
    assert terminal.state("alternate_on") == "0"
    assert terminal.state("cursor_flag") == "1"
    assert [terminal.state(f"mouse_{kind}_flag") for kind in ("standard", "button", "any")] == ["0", "0", "0"]
    terminal.type("echo to-$((40 + 2))")
    terminal.wait("echo to-$((40 + 2))")
    terminal.press("Enter")
    terminal.wait("to-42")


def test_screens_a_filter_a_storm_of_sizes_and_the_end(trace_database: Path, terminal: Terminal) -> None:
    terminal.type(f"{command(trace_database)}; echo code-$(($? + 70))")
    terminal.press("Enter")
    terminal.wait("largest kernels")
    assert terminal.state("alternate_on") == "1"
    terminal.press("2")
    terminal.wait("operators →")
    terminal.press("/")
    terminal.type(GEMM)
    terminal.press("Enter")
    launches = kerneldb.open(trace_database).sql("SELECT count(*) AS n FROM selection", where=GEMM).rows()[0]["n"]
    shown = terminal.wait(f"{launches} of ")
    terminal.wait("ELEMENTWISE", gone=True)
    assert f"where {GEMM}" in shown
    for key, text in (("3", "launches took"), ("4", "all "), ("5", "FLOP/byte"), ("7", "signatures"), ("8", "^j runs")):
        terminal.press(key)
        terminal.wait(text)
    terminal.press("Escape")  # apart from what follows: Escape and a function key at once read as Alt with that key
    terminal.wait("u Use as filter")
    terminal.press("F1")
    terminal.wait("Page down")
    sizes = random.Random(5)
    for _ in range(12):
        terminal.tmux("resize-window", "-x", str(sizes.randint(2, 220)), "-y", str(sizes.randint(2, 60)))
    terminal.tmux("resize-window", "-x", "100", "-y", "30")
    terminal.wait("1 2 3 4 5 6 7 8 SQL")
    terminal.wait("Page down")
    terminal.press("F1")
    terminal.wait("1 Overview")
    terminal.press("C-q")
    terminal.wait("code-70")
    restored(terminal)


def test_a_killed_terminal_is_no_traceback(trace_database: Path, terminal: Terminal, tmp_path: Path) -> None:
    written = tmp_path / "written"
    terminal.tmux("pipe-pane", "-o", f"cat > {shlex.quote(str(written))}")
    terminal.type(command(trace_database))
    terminal.press("Enter")
    terminal.wait("largest kernels")
    terminal.tmux("kill-session")
    ends = time.monotonic() + PATIENCE_S
    while _runs(str(trace_database)):
        assert time.monotonic() < ends, "the program goes on without its terminal"
        time.sleep(0.1)
    assert "Traceback" not in written.read_text(errors="replace")


def test_output_that_is_no_terminal_is_refused(trace_database: Path, terminal: Terminal, tmp_path: Path) -> None:
    terminal.type(f"{command(trace_database)} | true; echo pipe-$((1 + 1))")
    terminal.press("Enter")
    terminal.wait("pipe-2")
    assert "needs a terminal" in terminal.shown()
    log = tmp_path / "log"
    terminal.type(f"{command(trace_database)} 2> {shlex.quote(str(log))}; echo code-$(($? + 70))")
    terminal.press("Enter")
    terminal.wait("code-72")
    assert "standard error" in log.read_text()
    restored(terminal)


@pytest.mark.parametrize("key", ["2", pytest.param("4", marks=pytest.mark.volume)])
def test_keys_that_end_the_program_while_a_screen_is_made(trace_database: Path, terminal: Terminal, key: str) -> None:
    terminal.type(f"{command(trace_database)}; echo code-$(($? + 70))")
    terminal.press("Enter")
    terminal.wait("largest kernels")
    terminal.press(key, "q")
    terminal.wait("code-")
    terminal.wait("code-70")
    restored(terminal)


def test_suspended_and_back_again(database: Path, terminal: Terminal) -> None:
    terminal.type(f"{command(database)}")
    terminal.press("Enter")
    terminal.wait("largest kernels")
    terminal.wait("◌", gone=True)
    for _ in range(20):  # a question may be on its way; it says so then
        terminal.press("C-z")
        time.sleep(0.5)
        if terminal.state("alternate_on") == "0":
            break
    restored(terminal)
    duckdb.connect(database).close()
    terminal.type("fg")
    terminal.press("Enter")
    terminal.wait("largest kernels")
    terminal.press("q")
    restored(terminal)


def _runs(word: str) -> bool:
    """Whether a process has `word` among its arguments, `tui` too."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if word.encode() in words and b"tui" in words:
                return True
    return False
