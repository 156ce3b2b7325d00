"""Marked rows that a tool reported as sums: no condition selects them, so what to do instead is said, and is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kerneldb
from kerneldb.tui.commands import copies
from kerneldb.tui.model import Choice
from kerneldb.warehouse import Warehouse
from tests.tui.odd_traces import sums_only
from tests.tui.piloting import driven, opened, press, text_of
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp
    from kerneldb.tui.model import Level


pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """gemm as sums, and a launch of add. Read only."""
    folder = tmp_path_factory.mktemp("mixed")
    path = sums_only(folder)
    Warehouse.create_or_open(path).commit(Traces(folder)("listed", (Launch("add", 0, 40, op="aten::add"),)))
    return path


def said(app: KerneldbApp) -> str:
    return " ".join(note.message for note in app._notifications)


@pytest.mark.parametrize(("level", "total"), [("op", 300), ("signature", 200)])
def test_marked_sums_stay_marked_and_their_sql_is_copied(sums: Path, level: Level, total: int) -> None:
    async def flow() -> None:
        async with opened(sums, Choice(level=level), first="kernels", size=(100, 24)) as (app, pilot):
            await press(pilot, "space", "enter")
            assert (app.choice.where, app.pane.id, app.pane.state) == ("", "pane-kernels", "ready")
            assert "No condition selects 1 marked row" in said(app)
            assert "y m copies SQL" in said(app)
            await press(pilot, "y", "m")
            rows = kerneldb.open(sums).sql(app.clipboard).rows()
            assert sum(row["total_ns"] for row in rows) == total
            await press(pilot, "escape", "enter")
            below = "s:gemm:1:" if level == "signature" else "s:gemm:2:"  # space went on to the next row, if any
            assert (app.pane.id, app.signature) == ("pane-kernel", below)

    driven(flow)


def test_the_sql_keeps_to_the_traces_of_the_selection(mixed: Path) -> None:
    async def flow() -> None:
        async with opened(mixed, Choice(traces=("sums",), level="signature"), first="kernels") as (app, pilot):
            await press(pilot, "space", "space", "y", "m")
            expected = (
                "FROM kernel_rollups WHERE timing <> 'profiled' AND trace IN ('sums') "
                "AND signature_id IN ('s:gemm:1:', 's:gemm:2:')"
            )
            assert app.clipboard == expected
            assert len(kerneldb.open(mixed).sql(app.clipboard).rows()) == 2

    driven(flow)


def test_of_marked_rows_those_with_launches_are_selected_and_the_others_named(mixed: Path) -> None:
    async def flow() -> None:
        async with opened(mixed, Choice(level="signature"), first="kernels") as (app, pilot):
            await press(pilot, "space", "space", "space", "enter")
            assert app.choice.where == "signature_id IN ('s:add:1:aten::add')"
            assert "2 marked rows left out" in said(app)

    driven(flow)


def test_the_menu_offers_sql_of_marked_sums_only_where_there_are_any(mixed: Path) -> None:
    async def flow() -> None:
        async with opened(mixed, Choice(level="signature"), first="kernels") as (app, pilot):
            assert "m" not in offered(app)
            await press(pilot, "end", "space")
            assert "m" not in offered(app)
            await press(pilot, "home", "space")
            assert "m" in offered(app)
            app.choose(level="launch")
            await press(pilot, "space")
            assert "m" not in offered(app)

    driven(flow)


def offered(app: KerneldbApp) -> list[Any]:
    return [entry.key for entry in copies(app)]


def test_a_condition_on_sums_says_where_to_ask_instead(sums: Path) -> None:
    async def flow() -> None:
        async with opened(sums, Choice("category = 'GEMM'"), first="kernels", size=(80, 24)) as (app, _):
            assert app.pane.state == "empty"
            assert "8 asks in SQL: FROM kernel_rollups WHERE …" in text_of(app)

    driven(flow)
