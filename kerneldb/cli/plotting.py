"""The option `--plot` of commands whose answer can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., None])


def plot_option(command: Command) -> Command:
    """`--plot FILE`; ending and libraries are checked before anything is asked."""
    return click.option(
        "--plot",
        type=click.Path(dir_okay=False, path_type=Path),
        callback=_checked,
        metavar="FILE",
        help="Also draw the rows as a chart: FILE.svg, FILE.png or FILE.html.",
    )(command)


def _checked(_ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> Path | None:
    if value is not None:
        from kerneldb.report import plots

        plots.check(value)
    return value


def draw(name: str, rows: list[dict[str, Any]], path: Path | None) -> None:
    """Draw the rows of the answer `name` to `path`, if there is one, and say so."""
    if path is None:
        return
    from kerneldb.cli.console import note
    from kerneldb.report import plots

    plots.save(name, rows, path)
    note(f"drew {path}")
