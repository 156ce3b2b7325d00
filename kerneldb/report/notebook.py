"""Reports and charts for a notebook: a page in a frame, and charts as Altair objects to change."""

from __future__ import annotations

import html as markup
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kerneldb.errors import KerneldbError, UsageError
from kerneldb.output import opened
from kerneldb.output.text import escape
from kerneldb.report import changes, charts, gather, html, require

if TYPE_CHECKING:
    import altair as alt

    from kerneldb.api import Database
    from kerneldb.report.model import Report

SIDES: Final = 2
TWO_SIDED: Final = "diff"
"""A drawing of two sides, which no analysis has."""
HEIGHT: Final = 900
"""Pixels of the frame."""


class Page:
    """A report as HTML. A notebook shows it in a frame that can reach neither the notebook nor a network."""

    def __init__(self, report: Report) -> None:
        self.title = report.title
        self.html = html.page(report)

    def __repr__(self) -> str:
        return f"<Page: {escape(self.title)}, {len(self.html) / 1e6:.1f} MB>"

    def _repr_html_(self) -> str:
        frame = f'sandbox="allow-scripts" style="width: 100%; height: {HEIGHT}px; border: 0"'
        return f'<iframe title="{markup.escape(self.title)}" {frame} srcdoc="{markup.escape(self.html)}"></iframe>'

    def save(self, path: str | Path) -> None:
        """Write the page, which opens without a network. Raises OSError, which names it."""
        with opened(Path(path)) as file:
            file.write(self.html.encode())


def report(database: Database, names: Sequence[str], *, compare: bool) -> Page:
    """The page on `names` (none: all traces), or on what changed from the first to the second."""
    require()
    if compare and len(names) != SIDES:
        raise UsageError(f"compare takes two traces or runs, not {len(names)}")
    chosen = list(names) or [row["trace"] for row in database.traces().rows()]
    return Page(changes.comparison(database, chosen[0], chosen[1]) if compare else gather.single(database, chosen))


def check_chart(name: str) -> None:
    """Raise UsageError where there is no chart of the analysis `name`, KerneldbError where a library is missing."""
    require()
    if name not in charts.DRAWINGS or name == TWO_SIDED:
        lead = "a difference takes two traces (kerneldb diff --plot draws it)" if name == TWO_SIDED else "no such chart"
        there = ", ".join(one for one in charts.DRAWINGS if one != TWO_SIDED)
        raise UsageError(f"no chart {name!r}: {lead}; there are {there}")


def chart(name: str, rows: Sequence[dict[str, Any]]) -> alt.TopLevelMixin:
    """The rows of the answer `name` as a chart. Raises KerneldbError where they have nothing to draw."""
    spec = charts.DRAWINGS[name](rows)
    if spec is None:
        raise KerneldbError(f"nothing to draw: no row has what the chart of {name} shows")
    import altair as alt

    drawn: alt.TopLevelMixin = (alt.LayerChart if "layer" in spec else alt.Chart).from_dict(spec)
    return drawn
