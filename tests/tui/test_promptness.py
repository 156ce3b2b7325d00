"""What comes before it is asked for, and keys that come before the screen is there."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from textual import events

from kerneldb.api import timeline
from kerneldb.api.browsing import Numbers, Runs
from kerneldb.selection import Selection
from kerneldb.tui import app as tui_app
from kerneldb.tui.model import Choice
from kerneldb.tui.screens import BY_NAME
from kerneldb.tui.screens.timeline_data import FirstView
from kerneldb.tui.store import Store
from kerneldb.tui.widgets.gantt import Gantt
from kerneldb.tui.widgets.header import Tabs
from kerneldb.tui.widgets.table import Table
from kerneldb.tui.widgets.where_bar import WhereInput
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, press, settled

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui import app as tui_app
from kerneldb.tui.app import KerneldbApp

pytestmark = pytest.mark.thorough
KEYS = {"slash": "/", "space": " ", "equals_sign": "="}


def burst(app: KerneldbApp, *keys: str) -> None:
    """Keys at once, as a terminal hands them over that was busy."""
    for key in keys:
        app.post_message(events.Key(key, KEYS.get(key, key if len(key) == 1 else None)))


def test_keys_right_behind_the_slash_are_the_condition(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database) as (app, pilot):
            for keys, shown in ((("w",), "overview"), (("down", "slash"), "overview"), (("2", "slash"), "kernels")):
                burst(app, *keys, *"ghw", "slash", "2", "q")
                await settled(pilot)
                assert app.query_one(WhereInput).value == "ghw/2q"
                assert app.editing
                assert (app.choice.level, app.query_one(Tabs).active) == ("kernel", shown)
                await press(pilot, "escape")
                assert (app.editing, app.query_one(WhereInput).value) == (False, "")
            await press(pilot, "8")
            assert app.query_one(Tabs).active == "sql"

    driven(flow)


def test_a_screen_that_takes_w_keeps_it(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="timeline") as (app, pilot):
            burst(app, "w", "d", "w")
            await settled(pilot)
            assert not app.editing
            assert app.query_one(Gantt).picture.first_ns > 0

    driven(flow)


def counted_beginnings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of each first question of a timeline from now on. Nothing is asked because nobody presses a key."""
    monkeypatch.setattr(tui_app, "REST_S", 3600.0)
    calls: list[tuple[Any, ...]] = []
    asked = timeline.beginning

    def beginning(*arguments: Any) -> Any:
        calls.append(arguments[1:])
        return asked(*arguments)

    monkeypatch.setattr(timeline, "beginning", beginning)
    return calls


def test_the_timeline_is_asked_for_once_and_before_it_is_there(
    trace_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counted_beginnings(monkeypatch)

    async def flow() -> None:
        async with opened(trace_database, first="kernels") as (app, pilot):
            app.show("timeline")
            assert not app.query(Gantt)
            await settled(pilot)
            (first,) = calls
            assert first[0] is None
            assert first[2] == app.query_one(Gantt).columns

            app.choose(where="category = 'GEMM'")
            await settled(pilot)
            assert calls[1][:2] == (app.pane._first._axis[2], Selection("category = 'GEMM'"))  # type: ignore[attr-defined]
            assert len(calls) == 2

    driven(flow)


def test_what_was_foreseen_at_rest_is_shown_without_asking(
    trace_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counted_beginnings(monkeypatch)

    async def flow() -> None:
        async with opened(trace_database, first="kernels") as (app, pilot):
            app._prefetch()
            while app.store.waiting or not calls:
                await asyncio.sleep(0.01)
            await press(pilot, "4")
            assert len(calls) == 1
            assert app.query_one(Gantt).picture.rows

            await press(pilot, "2")
            app._prefetch()
            await settled(pilot)
            assert len(calls) == 1, "nothing is out of date"

            app.choose(traces=("step",))
            await settled(pilot)
            app._prefetch()
            while app.store.waiting or len(calls) < 2:
                await asyncio.sleep(0.01)
            await press(pilot, "4")
            assert [call[1] for call in calls] == [Selection(), Selection(None, ("step",))]

    driven(flow)


def test_going_back_to_a_selection_asks_nothing_until_the_file_changes(
    trace_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, version = counted_beginnings(monkeypatch), [1]
    monkeypatch.setattr(Store, "version", lambda _: version[0])

    async def flow() -> None:
        async with opened(trace_database, first="timeline") as (app, pilot):
            everything = app.query_one(Gantt).picture
            calls.clear()  # what was asked while the screen opened
            app.choose(where="category = 'GEMM'")
            await settled(pilot)
            assert app.query_one(Gantt).picture != everything
            await press(pilot, "left_square_bracket")
            assert app.query_one(Gantt).picture == everything
            assert len(calls) == 1

            version[0] = 2
            await press(pilot, "right_square_bracket")
            assert [call[1].where for call in calls] == ["category = 'GEMM'", "category = 'GEMM'"]
            assert calls[1][0] is None, "the axis is another one, too"

    driven(flow)


def test_few_answers_are_kept_and_none_of_a_lake(trace_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted_beginnings(monkeypatch)

    async def flow() -> None:
        store, first = Store(trace_database), FirstView()
        for columns in (*range(20, 30), 29, 20):
            await first.get(store, Selection(), columns)
        assert [call[2] for call in calls] == [*range(20, 30), 20]
        monkeypatch.setattr(store, "version", lambda: None)
        for _ in range(2):
            await first.get(store, Selection(), 20)
        assert len(calls) == 13
        store.close()

    asyncio.run(flow())


def test_the_code_of_the_timeline_is_there_before_it_is_shown(
    trace_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = BY_NAME["timeline"].module
    monkeypatch.delitem(sys.modules, name, raising=False)

    async def flow() -> None:
        async with opened(trace_database, first="overview") as (app, _):
            assert name in sys.modules
            assert not app.query(Gantt)

    driven(flow)


def test_what_is_foreseen_gives_way(trace_database: Path) -> None:
    begun, free = threading.Event(), threading.Event()

    def slow(_con: Any) -> str:
        begun.set()
        assert free.wait(30)
        return "slow"

    async def flow() -> None:
        store = Store(trace_database)
        given_up, wanted = store.prefetch(slow), None
        await asyncio.to_thread(begun.wait)
        assert await store.read(lambda con: con.execute("SELECT 1").fetchone()) == (1,)
        assert given_up.cancelled() or given_up.cancelling()

        wanted = store.prefetch(slow)
        await asyncio.sleep(0)
        store.want(wanted)
        await store.read(lambda con: con.execute("SELECT 1").fetchone())
        free.set()
        assert await wanted == "slow"
        store.close()

    asyncio.run(flow())


def test_a_first_question_of_other_contents_is_asked_anew(trace_database: Path) -> None:
    async def flow() -> None:
        store, first = Store(trace_database), FirstView()
        first.prefetch(store, Selection(), 40)
        axis, seen = await first.get(store, Selection("category = 'GEMM'"), 40)
        assert set(seen.categories) == {"GEMM"}
        again, everything = await first.get(store, Selection(), 20)
        assert again is axis
        assert set(everything.categories) > {"GEMM"}
        assert max(place for bins in everything.lanes.values() for place in bins) < 20
        store.close()

    asyncio.run(flow())


def test_what_a_file_said_that_was_replaced_is_not_taken_for_the_new_one(database: Path, tmp_path: Path) -> None:
    other = Warehouse.create_or_open(tmp_path / "empty.duckdb").path

    async def flow() -> None:
        store, first, gate = Store(database), FirstView(), threading.Event()
        attached = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hold(_: object) -> None:
            loop.call_soon_threadsafe(attached.set)
            gate.wait(30)

        holding = asyncio.create_task(store.read(hold))
        await attached.wait()
        other.replace(database)
        _, seen = await first.get(store, Selection(), 40)
        assert seen.categories, "the old file is attached"
        gate.set()
        await holding
        assert store.changed()
        _, seen = await first.get(store, Selection(), 40)
        assert not seen.categories
        store.close()

    asyncio.run(flow())


def test_runs_are_the_numbers_that_they_stand_for() -> None:
    import pyarrow as pa

    parts = [range(5, 9), range(20, 21), range(100, 107)]
    runs, numbers = Runs(parts), Numbers(pa.chunked_array([pa.array(list(part)) for part in parts]))
    assert len(runs) == len(numbers) == 12
    for start in range(13):
        for count in range(14):
            assert runs.slice(start, count) == numbers.slice(start, count)
    assert [runs.find(number) for number in range(110)] == [numbers.find(number) for number in range(110)]
    assert (len(Runs([])), Runs([]).slice(0, 5), Runs([]).find(1)) == (0, [], None)


def test_no_password_is_shown() -> None:
    store = Store("ducklake:postgres:dbname=traces host=db password=secret")
    assert (store.path.name, store.is_lake, store.version()) == ("traces.ducklake", True, None)
    assert "secret" not in store.title
    assert "secret" in store.address
    store.close()


def test_launches_of_all_traces_need_no_list(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, Choice(level="launch"), first="kernels") as (app, pilot):
            table = app.pane.query_one(Table)
            assert isinstance(table.rows._keys.keys, Runs)  # type: ignore[attr-defined]
            await press(pilot, "S")
            assert isinstance(table.rows._keys.keys, Numbers)  # type: ignore[attr-defined]

    driven(flow)
