"""What a user of the whole program meets: narrow and wide terminals, hurried keys, long texts, no colours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import OptionList, SelectionList, Static

from kerneldb.tui import theme
from kerneldb.tui.model import Choice
from kerneldb.tui.screens.diff import DiffPane
from kerneldb.tui.screens.kernel import HEIGHT, Histogram
from kerneldb.tui.screens.timeline import TimelinePane
from kerneldb.tui.widgets.gantt import Gantt
from kerneldb.tui.widgets.header import Keys
from kerneldb.tui.widgets.scatter import LEFT, Scatter
from kerneldb.tui.widgets.table import Table
from kerneldb.tui.widgets.where_bar import EngineMessage, WhereBar, fitted
from tests.tui import pictures
from tests.tui.piloting import driven, opened, press, settled, started, text_of
from tests.tui.test_sql import run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp

pytestmark = pytest.mark.thorough

GEMM = "category = 'GEMM'"
BAD = "catx = 1"
SMALL, LARGE = (80, 24), (160, 48)


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces `monday` and `tuesday`. Read only."""
    return pictures.week(tmp_path_factory.mktemp("week"))


def held(
    work: Callable[..., Awaitable[Any]],
) -> tuple[Callable[..., Coroutine[Any, Any, Any]], asyncio.Event, list[int]]:
    """`work` that waits for an event, the event, and how many calls of it are open (now, at most)."""
    go, calls = asyncio.Event(), [0, 0]

    async def later(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        calls[1] = max(calls)
        try:
            await go.wait()
            return await work(*arguments, **options)
        finally:
            calls[0] -= 1

    return later, go, calls


def test_a_condition_leaves_the_histogram_in_sight(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, Choice(GEMM), first="kernel", size=SMALL) as (app, pilot):
            for width, height in (SMALL, LARGE):
                await pilot.resize_terminal(width, height)
                await settled(pilot)
                shown = text_of(app)
                assert "all launches of the signature" in shown
                assert "took" in shown
                assert app.query_one("#overview-times").region.right <= width

    driven(flow)


def test_the_keys_of_the_help_go_with_it(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=SMALL) as (app, pilot):
            before = app.query_one(Keys).shown
            for key in ("question_mark", "escape"):
                await press(pilot, "question_mark")
                assert "Scroll keys" in {shown.does for shown in app.query_one(Keys).shown}
                await press(pilot, key)
                assert app.query_one(Keys).shown == before

    driven(flow)


def test_a_terminal_that_becomes_wide_shows_facts_at_once(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=SMALL) as (app, pilot):
            await pilot.resize_terminal(*LARGE)
            await settled(pilot)
            assert "launches" in str(app.query_one("#kernels-facts", Static).content)

    driven(flow)


def test_a_long_condition_leaves_room_for_what_is_wrong_with_it(trace_database: Path) -> None:
    condition = " OR ".join([*(f"short_name = 'a long name {number}'" for number in range(60)), BAD])

    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=SMALL) as (app, pilot):
            await press(pilot, "slash")
            app.query_one(WhereBar).line.value = condition
            await press(pilot, "enter")
            assert 'Referenced column "catx" not found' in " ".join(text_of(app).split())
            assert app.query_one(WhereBar).line.value == condition

    driven(flow)


@pytest.mark.parametrize("first", [BAD, "duration_ns > 0"])
def test_what_is_typed_meanwhile_stays(trace_database: Path, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=SMALL) as (app, pilot):
            bar = app.query_one(WhereBar)
            later, go, _ = held(app.store.check)
            monkeypatch.setattr(app.store, "check", later)
            await pilot.press("slash")
            bar.line.value = first
            await pilot.press("enter", "slash")
            bar.line.value = GEMM
            go.set()
            await settled(pilot)
            assert bar.line.value == GEMM
            assert bar.has_class("-bad") == (first == BAD)
            assert (BAD in text_of(app)) == (first == BAD)
            await press(pilot, "enter")
            assert app.choice.where == GEMM
            assert not bar.has_class("-bad")

    driven(flow)


def test_the_mark_below_a_long_line_stays_at_its_place() -> None:
    line = "LINE 1: " + "a" * 60 + " FROM wrong " + "b" * 60
    message = f"Parser Error: no\n\n{line}\n{' ' * line.index('wrong')}^^^^^"
    assert fitted(message, 200) == message
    for width in (76, 40, 24):
        _, _, cut, mark = fitted(message, width).split("\n")
        assert len(cut) <= width
        assert cut[mark.index("^") : mark.rindex("^") + 1] == "wrong"
    assert fitted("Binder Error: no", 5) == "Binder Error: no"


def test_a_statement_that_fails_is_marked_at_its_place_in_any_terminal(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=LARGE) as (app, pilot):
            await run(
                app, pilot, f"SELECT '{'x' * 30}' AS text, 'some more text that is long enough' AS more FRM kernels"
            )
            for width in (160, 60):
                await pilot.resize_terminal(width, 30)
                await settled(pilot)
                lines = str(app.pane.query_one(EngineMessage).content).split("\n")
                place = next(number for number, line in enumerate(lines) if line.strip(" ^") == "" and "^" in line)
                assert lines[place - 1][lines[place].index("^") :].startswith(("FRM", "kernels"))
                assert len(lines[place - 1]) <= width

    driven(flow)


def test_numbers_and_wide_characters_of_a_statement_are_shown_whole(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=SMALL) as (app, pilot):
            await run(app, pilot, "SELECT range * range AS i, -i AS j, '日本語日本語' AS u FROM range(1000)")
            await press(pilot, "escape", "end")
            shown = text_of(app)
            assert "998,001 -998,001 日本語日本語" in shown
            assert "…" not in shown

    driven(flow)


def test_another_statement_is_shown_from_its_first_column(trace_database: Path) -> None:
    wide = "SELECT " + ", ".join(f"repeat('{letter}', 30) AS {letter}" for letter in "abcdef")

    async def flow() -> None:
        async with opened(trace_database, first="sql", size=SMALL) as (app, pilot):
            table = app.pane.query_one(Table)
            await run(app, pilot, wide)
            await press(pilot, "escape", "right", "right")
            assert table.scroll_offset.x == 16
            await press(pilot, "f5")
            assert table.scroll_offset.x == 16
            await run(app, pilot, wide.replace("30", "31"))
            assert table.scroll_offset.x == 0

    driven(flow)


def test_every_cell_of_a_wide_row_can_be_copied(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=SMALL) as (app, pilot):
            await run(app, pilot, "SELECT " + ", ".join(f"{number} AS c{number}" for number in range(40)))
            await press(pilot, "escape", "y", "c")
            assert app.screen.query_one(OptionList).option_count == 40
            await press(pilot, "end", "enter")
            assert app.clipboard == "39"

    driven(flow)


def test_a_page_that_does_not_fit_shows_its_keys(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="sql", size=(60, 12)) as (app, pilot):
            await run(app, pilot, "SELECT repeat('long ', 400) AS text")
            await press(pilot, "escape", "enter")
            assert "y copies, esc closes" in text_of(app)

    driven(flow)


def test_marks_of_columns_differ_in_characters_and_stay_in_sight(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="kernels", size=(60, 12)) as (app, pilot):
            await press(pilot, "h", "j", "space")
            lines = [line for line in text_of(app).splitlines() if "▐" in line]
            assert ["X" in line.split("▌")[0] for line in lines][:3] == [True, False, True]
            marks = app.screen.query_one(SelectionList)
            await press(pilot, "end")
            assert "replay×" in text_of(app)
            assert marks.highlighted == marks.option_count - 1

    driven(flow)


def test_export_says_what_it_writes(week: Path) -> None:
    written = {
        "kernels": "the selected launches",
        "diff": "all rows of the comparison",
        "sql": "all rows of the statement",
    }

    async def flow() -> None:
        async with opened(week, first="kernels", size=SMALL) as (app, pilot):
            for screen, what in written.items():
                app.show(screen)
                await settled(pilot)
                await press(pilot, *(["escape"] if screen == "sql" else []), "e")
                assert f"Writes {what}" in text_of(app)
                await press(pilot, "escape")

    driven(flow)


def test_a_comparison_is_shown_with_the_sides_it_is_of(week: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def flow() -> None:
        async with opened(week, first="diff", size=(120, 30)) as (app, pilot):
            pane = app.query_one(DiffPane)
            before, command = text_of(app), pane.command()
            later, go, calls = held(app.store.call)
            monkeypatch.setattr(app.store, "call", later)
            await pilot.press("x", "plus", "plus", "minus", "u", "u")
            for _ in range(3):
                await pilot.pause()
            assert text_of(app).replace("◌", "●") == before
            assert pane.command() == command
            go.set()
            await settled(pilot)
            assert calls[1] == 1
            assert "A tuesday  → B monday" in text_of(app)
            assert "threshold 5 %" in text_of(app)

    driven(flow)


def test_no_color_leaves_no_colour(week: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def flow() -> None:
        async with started(week, first="kernels", size=SMALL) as (app, pilot):
            for keys in ((), ("3",), ("6",), ("8",), ("ctrl+p",)):
                await press(pilot, *keys)
                styles = {
                    part.style for strip in app.screen._compositor.render_strips() for part in strip if part.style
                }
                for style in styles:
                    assert style.color is None or style.color.is_default
                    assert style.bgcolor is None or style.bgcolor.is_default
                assert any(style.reverse or style.underline for style in styles)

    asyncio.run(flow())


def test_without_colours_categories_are_letters_which_the_legend_explains(
    trace_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bars of the timeline, a line high or more, and in dots of the roofline."""
    monkeypatch.setenv("NO_COLOR", "1")

    def drawn(app: KerneldbApp, name: str) -> str:
        return str(app.query_one(f"#{name}", Static).render())

    async def flow() -> None:
        async with started(trace_database, first="timeline", size=LARGE) as (app, pilot):
            chart, pane = app.query_one(Gantt), app.pane
            assert isinstance(pane, TimelinePane)
            (lane,) = (row for row in chart.picture.rows if row.kind == "lane")
            lowest = "".join(part.text for part in chart._lane(lane, chart._height - 1, chart._height, here=False))
            assert chart._height > 1, "names stand in another line"
            letters = {place: theme.category_letter(cell.category) for place, cell in lane.cells.items()}
            assert {place: lowest[place].upper() for place in letters} == letters
            assert len(set(letters.values())) > 1
            most = max(pane.board.view.categories.items(), key=lambda item: item[1])[0]
            assert f"{theme.category_letter(most)} {most} " in drawn(app, "legend")
            await press(pilot, "5")
            plane = app.query_one(Scatter)
            lines = ["".join(part.text for part in plane.render_line(y))[LEFT + 1 :] for y in range(plane.lines)]
            places = {plane.cell(dot): dot for dot in sorted(plane.plane.dots, key=lambda dot: dot.share)}
            shown = {(column, line): lines[line][column] for column, line in places}
            assert shown == {
                place: theme.category_letter(dot.category, small=dot.share < 0.01) for place, dot in places.items()
            }
            assert {letter.isupper() for letter in shown.values()} == {True, False}
            for dot in plane.plane.dots:
                assert f"{theme.category_letter(dot.category)} {dot.category}" in drawn(app, "left-out")

    asyncio.run(flow())


def test_marked_launches_are_taken_by_enter(week: Path) -> None:
    where = "duration_ns > 300"
    marked = "trace = 'monday' AND launch_index IN (0, 1) OR trace = 'tuesday' AND launch_index IN (129)"

    async def flow() -> None:
        async with opened(week, Choice(where, level="launch"), first="kernels", size=LARGE) as (app, pilot):
            await press(pilot, "space", "space", "end", "space", "enter")
            assert app.choice == Choice(f"{where} AND ({marked})", level="launch")
            rows = app.query_one("#kernels-table", Table).rows
            assert [(rows.row(place) or {})["launch_index"] for place in range(len(rows))] == [0, 1, 129]
            await press(pilot, "escape")
            assert app.choice.where == where

    driven(flow)


def test_without_colours_a_range_of_durations_is_underlined(
    trace_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    def underlined(app: KerneldbApp) -> set[int]:
        lines = [app.query_one(Histogram).render_line(y) for y in range(HEIGHT)]
        return {sum(1 for part in line if part.style and part.style.underline) for line in lines}

    async def flow() -> None:
        async with started(trace_database, first="kernel", size=LARGE) as (app, pilot):
            assert underlined(app) == {0}
            await press(pilot, "shift+right", "shift+right", "shift+right")
            assert underlined(app) == {3}

    asyncio.run(flow())


def test_an_entry_of_the_copy_menu_is_one_line_in_a_narrow_terminal(week: Path) -> None:
    async def flow() -> None:
        async with opened(week, Choice(GEMM), first="kernels", size=(40, 12)) as (app, pilot):
            await press(pilot, "y")
            entries = app.screen.query_one(OptionList)
            assert entries.size.height == entries.option_count
            assert "l  command line" in text_of(app)

    driven(flow)
