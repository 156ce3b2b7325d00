"""Opening another database, and reading traces into the one that is open."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import OptionList, Static

from kerneldb.tui.dialogs import AskLine, Window
from kerneldb.tui.replay_process import environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

HINT: Final = (
    "A database is opened; a trace, or a folder of traces, is read into the one that is open.\n"
    "PyTorch .json .json.gz · nsys .sqlite .csv · ncu .csv · rocprof .db .csv"
)
RECENT: Final = 8


def is_database(path: Path) -> bool:
    """Whether `path` is a DuckDB file; rocpd's files end with `.db`, too.

    Such a file holds `DUCK` at bytes 8 to 11 (https://duckdb.org/docs/stable/internals/storage).
    """
    try:
        with path.open("rb") as file:
            return file.read(12)[8:] == b"DUCK"
    except OSError:
        return False


class AskOpen(AskLine[Path]):
    """A path to open, and the files opened before: down goes to them."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("down", "recent", "Recent files", show=False)]

    def __init__(self, recent: Sequence[str]) -> None:
        super().__init__("Open", HINT)
        self._recent = [path for path in recent if Path(path).exists()][:RECENT]

    def compose_box(self) -> ComposeResult:
        """The line, and the files below it."""
        yield from super().compose_box()
        if self._recent:
            yield OptionList(*self._recent, markup=False)

    def confirmed(self, text: str) -> None:
        """Take what is there."""
        path = Path(text).expanduser()
        if not text or not path.exists():
            self.show_problem(f"{path} is not there")
        else:
            self.dismiss(path)

    def action_recent(self) -> None:
        """To the files."""
        for found in self.query(OptionList):
            found.focus()

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(Path(self._recent[event.option_index]))


class Ingesting(Window[bool]):
    """`kerneldb ingest` while it runs: its messages, the latest at the bottom. Escape cancels it, or closes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "done", "Close", show=False)]

    def __init__(self, database: str, path: Path) -> None:
        super().__init__("Ingest")
        self.command: tuple[str, ...] = (sys.executable, "-P", "-m", "kerneldb", "ingest", str(path))
        # Not among the arguments, which everybody on the machine may read: the address of a lake may hold a password.
        self.environment = environment(KERNELDB_DB=database)
        self._path = path
        self._lines: list[str] = []
        self._process: asyncio.subprocess.Process | None = None
        self.code: int | None = None

    def compose_box(self) -> ComposeResult:
        """What is read, the messages of the command, and the key that closes."""
        yield Static(f"reading {self._path}", markup=False)
        with VerticalScroll(can_focus=False):
            yield Static("", id="ingest-output", markup=False)
        yield Static("esc cancels", id="ingest-hint", classes="window--hint", markup=False)

    def on_mount(self) -> None:
        """Start."""
        self.run_worker(self._follow(), group="ingest")

    def on_unmount(self) -> None:
        """End the command: it does not go on unseen."""
        self._stop()

    async def _follow(self) -> None:
        self._process = process = await asyncio.create_subprocess_exec(
            *self.command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, start_new_session=True, env=self.environment
        )
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        try:
            while process.stderr is not None and (chunk := await process.stderr.read(4096)):
                self._add(decoder.decode(chunk))
            # Before anything stops it: to signal a process that just ended takes its exit code away from asyncio.
            self.code = await process.wait()
        finally:
            self._stop()
        ended = {0: "done", 130: "cancelled"}.get(self.code, "failed; what could be read is kept")
        self.query_one("#ingest-hint", Static).update(f"{ended}; enter closes")

    def _add(self, text: str) -> None:
        """Show more output. Progress writes the last line anew after a carriage return."""
        lines = ("\n".join(self._lines) + text).split("\n")
        self._lines = [line.rstrip("\r").rpartition("\r")[2] for line in lines][-200:]
        self.query_one("#ingest-output", Static).update("\n".join(self._lines))
        self.query_one(VerticalScroll).scroll_end(animate=False)

    def _stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def action_close(self) -> None:
        """Cancel the command; close once it has ended."""
        if self.code is None:
            self._stop()
        else:
            self.dismiss(self.code == 0)

    def action_done(self) -> None:
        """Close, once it has ended."""
        if self.code is not None:
            self.dismiss(self.code == 0)
