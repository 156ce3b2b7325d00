"""What the command palette and keys of all screens do: go to, copy, export, facts about the session."""

from __future__ import annotations

import contextlib
import platform
import re
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final

from textual.app import SystemCommand
from textual.binding import Binding
from textual.command import CommandPalette
from textual.css.query import NoMatches

from kerneldb import files
from kerneldb.errors import KerneldbError
from kerneldb.tui import theme
from kerneldb.tui.dialogs import WindowBase
from kerneldb.tui.model import quoted
from kerneldb.tui.pane import Copy
from kerneldb.tui.screens import PLACES
from kerneldb.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from textual.widget import Widget

    from kerneldb.tui.app import KerneldbApp

WITHOUT_KEY: Final = (
    Binding("", "clear", "Clear the Selection", tooltip="Look at everything again"),
    Binding(
        "c", "call", "Call", tooltip="The call that launched what the cursor is on; of a kernel, its longest launch"
    ),
    Binding("g", "level", "Next level", tooltip="Operators, kernels, signatures, launches"),
)
"""Actions of the application that no key of its own does: `c` and `g` are keys of some screens."""
UNITS_NS: Final = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
KEYS: Final = "123456789abcdefghijklmnopqrstuvwxyz"
"""One for each of the first cells of a row; further ones are chosen by the cursor."""


class Palette(WindowBase, CommandPalette):
    """Textual's palette. Its list may not be drawn yet, or be gone already, when keys and answers come to it."""

    def _action_command_list(self, action: str) -> None:
        with contextlib.suppress(KeyError):
            super()._action_command_list(action)

    def _refresh_command_list(self, *found: Any, **options: Any) -> None:
        with contextlib.suppress(NoMatches):
            super()._refresh_command_list(*found, **options)


def commands(app: KerneldbApp) -> Iterator[SystemCommand]:
    """The entries of the palette: screens, actions, themes."""
    for place in PLACES:
        yield SystemCommand(f"{place.key}  {place.title}", place.about, lambda name=place.name: app.show(name))
    for binding in (*WITHOUT_KEY, *app.BINDINGS):
        if isinstance(binding, Binding) and binding.tooltip:
            title = f"{binding.description}  {app.get_key_display(binding)}".rstrip()
            run = partial(app.run_action, binding.action)
            yield SystemCommand(title, binding.tooltip, partial(app.run_worker, run))
    for name, title in theme.THEMES.items():
        yield SystemCommand(
            f"Theme: {name}", f"Colours for {name} terminals", lambda title=title: setattr(app, "theme", title)
        )


async def go_to(app: KerneldbApp, text: str) -> None:
    """Show what `text` is: a time (12.5 ms), the begin of a signature's id, a trace, or words of a kernel's name."""
    if (time_ns := time_of(text)) is not None:
        app.time_ns = time_ns
        app.show("timeline")
        return
    found = await app.store.rows("tui_go_to", {"text": text, "id": text.lower()})
    if found and found[0]["what"] == "signature":
        app.show_signature(found[0]["target"])
    elif found:
        app.choose(traces=(found[0]["target"],))
    else:
        app.choose(where=f"name ILIKE {quoted('%' + text + '%')}")
        app.show("kernels")


def time_of(text: str) -> int | None:
    """Nanoseconds of a time with its unit, such as `12.5 ms` or `40us`; None where it is something else."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*(ns|us|µs|ms|s)", text.strip())
    return round(float(found[1]) * UNITS_NS[found[2]]) if found else None


def cells(focused: Widget | None) -> Iterator[Copy]:
    """The entry of the copy menu that offers the cells of the row under the cursor, as the database has them."""
    if not isinstance(focused, Table) or (row := focused.row) is None:
        return
    shown = [(placed.column.title or placed.column.key, row.get(placed.column.key)) for placed in focused.placed]
    known = [(title, str(value)) for title, value in shown if value is not None]
    if keyed := tuple(Copy(key, *entry) for key, entry in zip(chain(KEYS, repeat("")), known, strict=False)):
        yield Copy("c", "cell…", keyed[0].text, keyed)


def copies(app: KerneldbApp) -> list[Copy]:
    """What the screen in front offers, the cells of the row under the cursor, the WHERE text and the command."""
    # A sentence may hide what was shown before.
    hidden = not app.pane.composed or app.pane.has_class("-sentence")
    entries = [
        *([] if hidden else app.pane.copies()),
        *cells(app.focused),
        Copy("w", "WHERE text", app.choice.where, lines=True),
        Copy("l", "command line", app.shown_command(), lines=True),
    ]
    return [entry for entry in entries if entry.text]


async def export(app: KerneldbApp, path: Path) -> None:
    """Write what is selected to `path`, and say so."""
    if not app.pane.composed:
        return
    with app.busy_while():
        try:
            count = await app.pane.export(path)
        except (KerneldbError, OSError) as error:
            text = files.told(error) if isinstance(error, OSError) else str(error)
            app.notify(text, title="Not written", severity="error", markup=False)
        else:
            app.notify(f"{count:,} rows to {path}", title="Written", markup=False)


def session_facts(app: KerneldbApp) -> str:
    """Versions, file and terminal."""
    from importlib.metadata import version

    from kerneldb import __version__

    facts = {
        "kerneldb": __version__,
        "textual": version("textual"),
        "duckdb": version("duckdb"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "terminal": f"{app.size.width} × {app.size.height}, {app.console.color_system or 'no colours'}",
        "theme": app.theme,
        "database": app.store.title,
        "selection": app.command("top"),
    }
    return "\n".join(f"{name:<10} {value}" for name, value in facts.items())
