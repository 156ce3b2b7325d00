"""The rows of the Kernels table: groups with what was asked later, and launches page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kerneldb.tui import shapes
from kerneldb.tui.model import equals
from kerneldb.tui.screens.kernel_columns import needed
from kerneldb.tui.widgets.rows import PAGE, PagedRows, Row

if TYPE_CHECKING:
    import pyarrow as pa

    from kerneldb.api.browsing import LaunchKeys
    from kerneldb.tui.screens.kernels import KernelsPane

MORE: Final = ("p50_ns", "p95_ns", "tflops", "gbs", "energy_mj", "replay_ratio")


def merged(table: pa.Table, more: pa.Table) -> pa.Table:
    """`table` with the columns of `more`, found by `key`; unknown where `more` has no such key."""
    import pyarrow.compute as pc

    places = pc.index_in(table["key"], value_set=more["key"].combine_chunks())
    for name in MORE:
        table = table.append_column(name, more[name].take(places))
    return table


def op_condition(row: Row, alike: int) -> str:
    """What the launches of an operator's row meet; `alike` rows, with it, are of this operator.

    One that was found for launches recorded without one is listed apart.
    """
    condition = equals("op", row["op"])
    return condition if alike == 1 else f"{condition} AND {equals('found_by', row['found_by'])}"


class LaunchRows(PagedRows):
    """The launches of the Selection in an order. Their keys are in memory (8 bytes each), pages come when drawn.

    `widths` are the cells that columns need for the rows known by now: starts are long where a clock is damaged.
    """

    def __init__(self, pane: KernelsPane, keys: LaunchKeys) -> None:
        super().__init__(len(keys), self._wanted)
        self._pane = pane
        self._keys = keys
        self.widths: dict[str, int] = {}

    @classmethod
    async def made(cls, pane: KernelsPane, order: str, *, descending: bool) -> LaunchRows:
        """The launches in the order of a column, with the first page."""
        from kerneldb.api import browsing

        selection = pane.choice.selection()
        by = None if order == "launch_index" else order
        keys = await pane.store.read(lambda con: browsing.launch_keys(con, selection, by, descending=descending))
        rows = cls(pane, keys)
        if len(keys):
            await rows.fetch(0)
        return rows

    def find(self, row: Row) -> int | None:
        """Where a launch that was shown stands now."""
        if "launch_index" not in row:
            return None
        return self._keys.find(row["trace_id"], row["launch_index"])

    def _wanted(self, number: int) -> None:
        self._pane.run_worker(self._arrive(number), group="pages")

    async def _arrive(self, number: int) -> None:
        from kerneldb.errors import KerneldbError

        try:
            await self.fetch(number)
        except KerneldbError:
            self.forget(number)
        else:
            self._pane.arrived(self)

    async def fetch(self, number: int) -> None:
        """Ask for a page."""
        from kerneldb.api import browsing

        wanted = self._keys.slice(number * PAGE, PAGE)
        found = await self._pane.store.read(lambda con: browsing.launch_page(con, wanted))
        page = [None if row is None else _decorated(row) for row in found]
        for row in filter(None, page):
            self.widths |= {key: max(width, self.widths.get(key, 0)) for key, width in needed(row).items()}
        self.put(number, page)


def _decorated(row: Row) -> Row:
    return row | {"launch": shapes.launch(row), "shape": shapes.shape(row["shape"])}
