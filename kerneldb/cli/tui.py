"""`kerneldb tui`."""

from __future__ import annotations

import os
import sys

import click

from kerneldb.cli.options import conditions, trace_names
from kerneldb.cli.root import chosen_database, cli, refuse

SCREENS = ("overview", "kernels", "kernel", "timeline", "roofline", "diff", "replay", "sql")
DUMB = ("dumb", "unknown")
"""Names in terminfo of terminals that cannot move a cursor."""


@cli.command(short_help="Browse and compare kernels in the terminal.")
@click.argument("traces", nargs=-1, metavar="[TRACE]...", shell_complete=trace_names)
@click.option(
    "--where",
    metavar="TEXT",
    shell_complete=conditions,
    help="Start with this SQL condition over the view `kernels`; / changes it.",
)
@click.option("--screen", type=click.Choice(SCREENS), default="overview", show_default=True, help="The first screen.")
def tui(traces: tuple[str, ...], *, where: str | None, screen: str) -> None:
    """Browse the kernels of the database in the terminal: of the named traces, or of all.

    Keys: 1 to 8 show the screens, / takes a condition, ^y copies the command that prints what is shown, ? lists all
    keys, q quits. Other commands can write to the database meanwhile, and what they add appears. NO_COLOR switches
    colours off; TEXTUAL_THEME picks others (textual-light, ansi-dark, …).

    \b
      kerneldb tui
      kerneldb tui decoder-h200 --where "category = 'GEMM'"
      kerneldb tui --db run.duckdb --screen timeline
    """
    if not on_terminal():
        refuse("tui needs a terminal; kerneldb top, show, query and report print")
    browse(traces, where or "", screen)


def on_terminal() -> bool:
    """Whether somebody sits at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def browse(traces: tuple[str, ...], where: str, screen: str) -> None:
    """Show the screens, `screen` first; ends the command with their exit code."""
    if not sys.stderr.isatty():
        refuse("tui draws on standard error, which is not a terminal here; leave out the redirection (2>)")
    if os.environ.get("TERM") in DUMB:
        refuse(f"tui cannot draw on a terminal of type TERM={os.environ['TERM']}; set TERM to the type of yours")
    from kerneldb.tui.app import KerneldbApp
    from kerneldb.tui.model import Choice
    from kerneldb.tui.saved_history import SavedHistory, default_place

    choice = Choice(where=where, traces=traces)
    app = KerneldbApp(chosen_database(), choice, first=screen, saved=SavedHistory(default_place()))
    app.run()
    if app.return_code:
        click.get_current_context().exit(app.return_code)
