"""The line of keys, and the panel of all keys, offer what does something in the state that the screen is in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kerneldb
from kerneldb.tui.widgets.header import Keys
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, press, settled, text_of
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp

pytestmark = pytest.mark.thorough

DIFF_KEYS = {"a", "b", "x", "+", "-", "u"}
SIDES = {"a", "b", "x"}


def offered(app: KerneldbApp) -> set[str]:
    """The keys at the bottom, all of them: also those that do not fit."""
    return {key.written for key in app.query_one(Keys).shown if key.enabled}


def working(app: KerneldbApp) -> set[str]:
    """The descriptions of all keys that work, as the panel of keys lists them."""
    return {active.binding.description for active in app.screen.active_bindings.values() if active.enabled}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two traces of a gemm, `one` and `two`. Read only."""
    folder = tmp_path_factory.mktemp("pair")
    warehouse, make = Warehouse.create_or_open(folder / "k.duckdb"), Traces(folder)
    for name in ("one", "two"):
        warehouse.commit(make(name, tuple(Launch("gemm", 100 * start, 50) for start in range(9))))
    return warehouse.path


def test_diff_offers_none_of_its_keys_where_there_is_one_trace(trace_database: Path) -> None:
    async def flow() -> None:
        async with opened(trace_database, first="diff") as (app, pilot):
            assert "there is only step" in text_of(app)
            assert not offered(app) & DIFF_KEYS
            assert not working(app) & {"A", "B", "Swap", "Threshold", "less", "Unchanged"}
            before = app.screen
            await press(pilot, "a", "b", "x", "plus", "minus", "u")
            assert app.screen is before
            assert app.pane.state == "empty"

    driven(flow)


def test_diff_offers_all_of_its_keys_with_two_traces(pair: Path) -> None:
    async def flow() -> None:
        async with opened(pair, first="diff") as (app, _):
            assert offered(app) >= DIFF_KEYS

    driven(flow)


def test_diff_offers_other_sides_where_the_comparison_failed(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def flow() -> None:
        async with opened(pair) as (app, pilot):

            async def fails(_: Any) -> Any:
                message = "no luck"
                raise kerneldb.KerneldbError(message)

            monkeypatch.setattr(app.store, "call", fails)
            await press(pilot, "6")
            assert "no luck" in text_of(app)
            assert offered(app) & DIFF_KEYS == SIDES

    driven(flow)


def test_diff_forgets_rows_of_traces_that_are_gone(pair: Path, tmp_path: Path) -> None:
    copied = tmp_path / "k.duckdb"
    copied.write_bytes(pair.read_bytes())

    async def flow() -> None:
        async with opened(copied, first="diff") as (app, pilot):
            kerneldb.open(copied).remove("two")
            await press(pilot, "f5")
            assert "there is only one" in text_of(app)
            assert app.pane.command() is None
            assert app.pane.copies() == []
            assert not offered(app) & DIFF_KEYS

    driven(flow)


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A database without traces."""
    return Warehouse.create_or_open(tmp_path / "empty.duckdb").path


@pytest.mark.parametrize(("screen", "keys"), [("overview", {"space"}), ("kernel", {"n", "p", "l", "."})])
def test_keys_of_what_is_not_there_are_not_offered(empty: Path, pair: Path, screen: str, keys: set[str]) -> None:
    async def flow() -> None:
        async with opened(empty, first=screen, size=(200, 30)) as (app, pilot):
            assert app.pane.state == "empty"
            assert not offered(app) & keys
            await press(pilot, *(key.replace(".", "full_stop") for key in keys))
            assert app.pane.state == "empty"
        async with opened(pair, first=screen, size=(200, 30)) as (app, _):
            assert offered(app) & keys

    driven(flow)


def test_results_are_offered_where_a_run_is_known(pair: Path, tmp_path: Path) -> None:
    copied = tmp_path / "k.duckdb"
    copied.write_bytes(pair.read_bytes())

    async def flow() -> None:
        async with opened(copied, first="replay", size=(200, 30)) as (app, pilot):
            assert "l" not in offered(app)
            await press(pilot, "l")
            assert app.pane.query_one("#plan").display
            with Warehouse(copied).connection(read_only=False) as con:
                con.execute("INSERT INTO replay_runs BY NAME SELECT 'r1' AS run_id, now()::TIMESTAMP AS started")
            await press(pilot, "f5")
            assert "l" in offered(app)

    driven(flow)


@pytest.mark.parametrize("some", [True, False])
def test_a_range_is_taken_where_there_are_durations(pair: Path, sums: Path, some: bool) -> None:
    async def flow() -> None:
        async with opened(pair if some else sums, first="kernel", size=(200, 30)) as (app, pilot):
            await settled(pilot)
            assert ("⏎" in offered(app)) == some

    driven(flow)
