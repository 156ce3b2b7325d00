"""`kerneldb tui`: needs a terminal, passes its options on, and gives the terminal back."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kerneldb.cli import cli

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def test_without_a_terminal_it_says_what_prints(trace_database: Path) -> None:
    result = CliRunner().invoke(cli, ["--db", str(trace_database), "tui"])
    assert result.exit_code == 2
    assert "needs a terminal" in result.stderr
    assert result.stdout == ""


def test_screens_are_known() -> None:
    result = CliRunner().invoke(cli, ["tui", "--screen", "nowhere"])
    assert result.exit_code == 2
    assert "nowhere" in result.stderr


@pytest.mark.parametrize("source", ["kerneldb", "kerneldb.cli", "kerneldb.api", "kerneldb.report"])
def test_nothing_else_imports_textual(source: str) -> None:
    code = f"import sys, {source}; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_engine_is_not_imported_before_the_first_frame() -> None:
    code = "import sys, kerneldb.tui.app; sys.exit(bool({'duckdb', 'polars', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def on_terminal(
    arguments: Sequence[str],
    steps: Sequence[tuple[str, bytes]],
    seconds: float = 40.0,
    kind: str = "xterm-256color",
) -> tuple[int, str]:
    """Run the program on a terminal of its own: each step waits for a text, then types. Exit code and output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM=kind, COLUMNS="100", LINES="30")
        os.execv(sys.executable, [sys.executable, "-m", "kerneldb", *arguments])  # noqa: S606
    shown, ends, waiting = b"", time.monotonic() + seconds, list(steps)
    status: int | None = None
    while time.monotonic() < ends and status is None:
        if select.select([terminal], [], [], 0.1)[0]:
            with contextlib.suppress(OSError):
                shown += os.read(terminal, 65_536)
        if waiting and waiting[0][0].encode() in shown:
            os.write(terminal, waiting.pop(0)[1])
        done, code = os.waitpid(pid, os.WNOHANG)
        status = os.waitstatus_to_exitcode(code) if done else None
    os.close(terminal)
    assert status is not None, f"it did not end; {len(waiting)} steps are left: {shown[-2000:]!r}"
    return status, shown.decode(errors="replace")


def test_the_terminal_is_given_back(trace_database: Path) -> None:
    arguments = ["--db", str(trace_database), "tui", "step", "--where", "op = 'aten::mm'", "--screen", "kernels"]
    status, shown = on_terminal(arguments, [("TFLOP/s", b"q")])
    assert status == 0
    assert "op = 'aten::mm'" in shown
    assert "Traceback" not in shown
    assert "leaked" not in shown  # what DuckDB says of connections that are still there when Python ends
    # The alternate screen, the mouse and the hidden cursor are taken back.
    for on, off in (("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?1000h", "\x1b[?1000l"), ("\x1b[?25l", "\x1b[?25h")):
        assert shown.rindex(off) > shown.rindex(on)


def test_a_terminal_that_cannot_be_drawn_on_is_told(trace_database: Path) -> None:
    code, shown = on_terminal(["--db", str(trace_database), "tui"], [], kind="dumb")
    assert code == 2
    assert "TERM=dumb" in shown
    assert "\x1b[" not in shown
