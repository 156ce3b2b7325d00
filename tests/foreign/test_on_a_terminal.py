"""Hostile texts on a real terminal, and on every screen."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Final

import pytest

from kerneldb.output.terminal import ERASE_LINE
from kerneldb.tui.screens import PLACES
from tests.cli.test_working import said_on_a_terminal
from tests.foreign.texts import OWNED, is_harmless
from tests.tui.piloting import driven, opened, press
from tests.tui.test_tmux import command, terminal

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp
    from tests.tui.test_tmux import Terminal

__all__ = ["terminal"]

COMMANDS: Final = """
import sys
from kerneldb.cli import cli, process

asked = (
    ["top", "--wide"], ["query", "FROM kernel_names", "--csv"], ["query", "FROM traces", "--json"], ["ncu", "command"],
    ["query", "FROM kernel_names LIMIT 20"], ["show", "void"],
    ["show", "\\x1b]0;owned\\x07"], ["traces", "--format", "ndjson"],
)
for words in asked:
    try:
        cli(["--db", sys.argv[1], *words], prog_name="kerneldb")
    except SystemExit:
        pass
process.run(lambda: sys.exit(sys.stderr.write("after \\x1b[2J\\n")))
"""


def test_commands_on_a_terminal(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    said = said_on_a_terminal([sys.executable, "-c", COMMANDS, str(hostile)], code=None)
    plain = said.replace(ERASE_LINE.decode(), "").replace("\r\n", "\n")
    assert is_harmless(plain), {line for line in plain.split("\n") if not is_harmless(line)}
    assert plain.count(OWNED) > 20
    assert "after \\x1b[2J" in plain


def drawn(app: KerneldbApp) -> str:
    """All that is sent to the terminal; no style of it is a link."""
    segments = [segment for strip in app.screen._compositor.render_strips() for segment in strip]
    assert not any(segment.style is not None and segment.style.link for segment in segments)
    return "".join(segment.text for segment in segments)


@pytest.mark.thorough
def test_every_screen(small: Path) -> None:
    async def flow() -> None:
        async with opened(small, size=(160, 48)) as (app, pilot):
            for place in PLACES:
                await press(pilot, place.key)
                assert drawn(app).isprintable(), place.name
            await press(pilot, "2", "y", "n")
            assert is_harmless(app.clipboard)
            assert "\n" not in app.clipboard
            assert drawn(app).isprintable()
            app.copy_to_clipboard("a\x1b[2J")
            assert app.clipboard == "a\\x1b[2J"

    driven(flow)


DRIVEN: Final = re.compile(
    rb"\x1b[\]P_^X][^\x07\x1b]*owned|\xc2[\x80-\x9f]|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xaf]|\x1b\\]8;"
)
"""Sequences with our word, controls of 8 bits, marks of direction and without width, links."""


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_screens_on_a_terminal(small: Path, terminal: Terminal, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    terminal.tmux("pipe-pane", "-o", f"cat > {shlex.quote(str(sent))}")
    title = terminal.state("pane_title")
    terminal.type(command(small))
    terminal.press("Enter")
    terminal.wait("largest kernels")
    for key, text in (("2", "operators →"), ("4", "launches"), ("8", "^j runs")):
        terminal.press(key)
        terminal.wait(text)
    assert terminal.state("pane_title") == title
    terminal.press("C-q")
    terminal.wait("ready>")
    assert DRIVEN.findall(sent.read_bytes()) == []
