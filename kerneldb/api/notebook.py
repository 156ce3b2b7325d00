"""What a database shows in a notebook: the one place that looks up to the layer of reports, when asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    import altair as alt

    from kerneldb.api import Database
    from kerneldb.report.notebook import Page


class InNotebooks:
    """The methods of `Database` that take the extra `report`."""

    def report(self, *names: str, compare: bool = False) -> Page:
        """The report on traces (all where none is named), or what changed from one to the other, for a notebook."""
        from kerneldb.report import notebook

        return notebook.report(cast("Database", self), names, compare=compare)

    def chart(self, name: str, *, where: str | None = None, traces: Sequence[str] = ()) -> alt.TopLevelMixin:
        """The answer `name` (roofline, idle, idle_gaps, collectives, collective_waits, phases) as an Altair chart.

        Raises UsageError for another name, which lists these.
        """
        from kerneldb.report import notebook

        notebook.check_chart(name)
        return notebook.chart(name, cast("Database", self).analyze(name, where=where, traces=traces).rows())
