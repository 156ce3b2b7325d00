"""Columns that fit, rows that come page by page, the histogram, completion."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest
from textual.app import App, ComposeResult

from kerneldb.api.completion import Offer, Words
from kerneldb.tui.screens.kernel import Bin, Histogram
from kerneldb.tui.widgets.columns import Column, fitted, kernel_facts, text
from kerneldb.tui.widgets.table import PAGE, PAGES, ArrowRows, ListRows, PagedRows, Table
from kerneldb.tui.widgets.where_bar import Condition

COLUMNS = (
    text("name", "name", 10, stretch=True),
    Column("n", "n", 6),
    Column("mean", "mean", 8, rank=1),
    Column("rare", "rare", 8, rank=5),
)


@pytest.mark.parametrize(
    ("width", "shown"), [(60, "name n mean rare"), (30, "name n mean"), (20, "name n"), (16, "name n"), (5, "name n")]
)
def test_the_least_important_columns_go_first(width: int, shown: str) -> None:
    placed = fitted(COLUMNS, width)
    assert [one.column.key for one in placed] == shown.split()
    assert placed[-1].start + placed[-1].width == max(width, 8 + 1 + 6)
    assert len(fitted(COLUMNS, width, everything=True)) == len(COLUMNS)


def test_what_is_not_known_of_a_launch_is_left_out() -> None:
    assert kernel_facts({"kernel": "copy", "grid_x": None}, "launch").plain == "copy\n"
    assert kernel_facts({"kernel": "gemm", "grid_x": 4, "grid_y": 2}, "launch").plain == "gemm\n\ngrid  4×2"


def test_pages_are_asked_for_once_and_the_oldest_are_dropped() -> None:
    asked: list[int] = []
    rows = PagedRows(PAGE * (PAGES + 2), asked.append)
    assert rows.row(0) is None
    assert rows.row(1) is None
    assert asked == [0]
    rows.put(0, [{"x": place} for place in range(PAGE)])
    assert rows.row(PAGE - 1) == {"x": PAGE - 1}
    for number in range(1, PAGES + 1):
        rows.put(number, [None] * PAGE)
    assert rows.row(0) is None
    assert asked == [0, 0]
    rows.forget(0)
    assert rows.row(3) is None
    assert asked == [0, 0, 0]


def test_rows_of_a_table_are_sorted_with_unknown_ones_last() -> None:
    table = pa.table({"key": ["a", "b", "c", "d"], "n": [2, None, 7, 2]})
    rows = ArrowRows(table)
    for descending, expected in ((True, "cadb"), (False, "adcb")):
        ordered = rows.sorted_by("n", descending=descending, then=[("key", "ascending")])
        assert "".join((ordered.row(place) or {})["key"] for place in range(4)) == expected


class Shown(App[None]):
    """One widget."""

    def __init__(self, widget: Any) -> None:
        super().__init__()
        self.widget = widget
        self.said: list[Any] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_table_chosen(self, event: Table.Chosen) -> None:
        self.said.append(("chosen", event.table.cursor))

    def on_table_sort_wanted(self, event: Table.SortWanted) -> None:
        self.said.append((event.key, event.descending))
        self.widget.sort = (event.key, event.descending)

    def on_histogram_taken(self, event: Histogram.Taken) -> None:
        self.said.append((event.low, event.high))


def driven(widget: Any, *keys: str) -> list[Any]:
    async def flow() -> list[Any]:
        app = Shown(widget)
        async with app.run_test(size=(60, 12)) as pilot:
            if isinstance(widget, Table):
                widget.show(
                    ListRows([{"name": f"k{place}", "n": place, "mean": 1, "rare": None} for place in range(100)])
                )
            widget.focus()
            await pilot.press(*keys)
            await pilot.pause()
        return app.said

    return asyncio.run(flow())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("keys", "row"),
    [
        ("down down", 2),
        ("j j k", 1),
        ("end", 99),
        ("end up", 98),
        ("end home", 0),
        ("pagedown", 10),
        ("pagedown pagedown pageup", 10),
        ("up", 0),
        ("end down", 99),
    ],
)
def test_keys_move_the_cursor(keys: str, row: int) -> None:
    table = Table(COLUMNS)
    assert driven(table, *keys.split(), "enter") == [("chosen", row)]
    assert 0 <= row - round(table.scroll_offset.y) < 11


def test_s_takes_the_next_column_and_shift_s_the_other_way() -> None:
    assert driven(Table(COLUMNS), "s", "s", "S", "S", "s") == [
        *[("name", True), ("n", True)],
        *[("n", False), ("mean", False), ("mean", True)],
    ]


def test_clicks_take_rows_and_sort_columns() -> None:
    async def flow() -> list[Any]:
        table = Table(COLUMNS)
        app = Shown(table)
        async with app.run_test(size=(60, 12)) as pilot:
            table.show(ListRows([{"name": f"k{place}", "n": place} for place in range(100)]))
            await pilot.pause()
            await pilot.click(table, offset=(2, 4))
            assert table.cursor == 3
            await pilot.click(table, offset=(2, 4), times=2)
            n = next(placed for placed in table.placed if placed.column.key == "n")
            await pilot.click(table, offset=(n.start + 1, 0))
            await pilot.click(table, offset=(n.start + 1, 0))
            await pilot.pause()
        return app.said

    said = asyncio.run(flow())
    assert ("chosen", 3) in said
    assert said[-2:] == [("n", True), ("n", False)]


def test_a_range_of_the_histogram_is_handed_over_with_its_values() -> None:
    histogram = Histogram()
    bins = [Bin(5, 10, 12), Bin(), Bin(2, 30, 33), Bin(1, 90, 90)]

    class WithBins(Histogram):
        def on_mount(self) -> None:
            self.show(bins)

    del histogram
    assert driven(WithBins(), "right", "enter") == [(10, 12)]
    assert driven(WithBins(), "right", "shift+right", "shift+right", "enter") == [(10, 33)]
    assert driven(WithBins(), "left", "shift+left", "enter") == [(30, 90)]
    assert driven(WithBins(), "enter") == [(10, 90)]
    assert driven(WithBins(), "right", "right", "enter") == []


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [
        ("cat", "category"),
        ("kind = 'kernel' and DUR", "kind = 'kernel' and duration_ns"),
        ("category = 'GE", "category = 'GEMM'"),
        ("category", None),
        ("", None),
        ("x = ", None),
    ],
)
def test_the_last_word_is_completed(typed: str, suggested: str | None) -> None:
    condition = Condition()
    columns = [Offer(name, "column", "kernels") for name in ("category", "duration_ns")]
    condition.words = Words([*columns, Offer("'GEMM'", "value", "category")])
    assert asyncio.run(condition.get_suggestion(typed)) == suggested
