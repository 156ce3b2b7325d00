"""The comparison of two traces: its rows are those that the command line prints, and every key of its screen."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kerneldb.cli import cli
from kerneldb.tui.model import Choice
from kerneldb.tui.screens.diff import DiffPane, PickTrace
from kerneldb.tui.widgets.table import Table
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, press, settled, text_of
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kerneldb.tui.app import KerneldbApp

pytestmark = pytest.mark.thorough


def repeated(name: str, duration: int, number: int, jitter: int = 5) -> tuple[Launch, ...]:
    return tuple(Launch(name, 10_000 * place, duration + place % jitter, op=f"aten::{name}") for place in range(number))


BEFORE = (*repeated("gemm", 1_000, 60), *repeated("add", 400, 60), *repeated("Memset", 90, 20))
AFTER = (*repeated("gemm", 1_400, 60), *repeated("add", 400, 60), *repeated("nccl", 300, 10))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces `monday` and `tuesday`, in which gemm got slower, and `third`. Read only."""
    folder = tmp_path_factory.mktemp("pair")
    warehouse, make = Warehouse.create_or_open(folder / "k.duckdb"), Traces(folder)
    for name, launches in (("monday", BEFORE), ("tuesday", AFTER), ("third", BEFORE[:70])):
        warehouse.commit(make(name, launches))
    return warehouse.path


def run(
    path: Path,
    flow: Callable[[KerneldbApp, Any], Coroutine[Any, Any, None]],
    choice: Choice | None = None,
) -> None:
    async def whole() -> None:
        async with opened(path, choice, first="diff", size=(120, 30)) as (app, pilot):
            await flow(app, pilot)

    driven(whole)


def pane_of(app: KerneldbApp) -> DiffPane:
    assert isinstance(app.pane, DiffPane)
    return app.pane


def command_of(app: KerneldbApp) -> list[dict[str, Any]]:
    """What the command line that the screen stands for prints."""
    line = pane_of(app).command()
    assert line is not None
    result = CliRunner().invoke(cli, [*shlex.split(line)[1:], "--json"])
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


@pytest.mark.parametrize("where", ["", pytest.param("category = 'GEMM'", marks=pytest.mark.volume)])
def test_rows_and_sums_are_what_the_command_line_prints(pair: Path, where: str) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        await press(pilot, "u")
        assert pane.found is not None
        printed = command_of(app)
        rows = app.query_one(Table).rows
        shown = [rows.row(index) or {} for index in range(len(rows))]
        for row in shown:
            del row["place"]
        assert shown == printed
        assert pane.found.before_ns == sum(row["total_before_ns"] for row in printed)
        assert "monday" in text_of(app)
        if not where:
            assert [(row["kernel"], row["verdict"]) for row in printed][:2] == [
                ("gemm", "slower"),
                ("nccl", "only after"),
            ]
            assert "1 ▲ slower" in text_of(app)

    run(pair, flow, Choice(where))


def test_quiet_rows_are_hidden_until_asked_for(pair: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        table = app.query_one(Table)
        assert len(table.rows) == 3
        assert "(hidden: u)" in text_of(app)
        await press(pilot, "u")
        assert len(table.rows) == 4
        assert "= unchanged" in text_of(app)

    run(pair, flow)


def test_sides_are_chosen_and_swapped(pair: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        assert pane.sides == ["monday", "tuesday"]
        await press(pilot, "x")
        assert pane.sides == ["tuesday", "monday"]
        assert any(row["verdict"] == "faster" for row in command_of(app))
        await press(pilot, "b")
        assert isinstance(app.screen, PickTrace)
        await press(pilot, "end", "enter")
        assert pane.sides == ["tuesday", "third"]
        await press(pilot, "a")
        await press(pilot, "end", "enter")
        assert pane.sides == ["third", "third"]
        assert {row["verdict"] for row in command_of(app)} == {"unchanged"}
        assert "= unchanged   (hidden: u)" in text_of(app)
        await press(pilot, "a", "escape")
        assert pane.sides == ["third", "third"]

    run(pair, flow)


def test_marked_traces_are_compared(pair: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        app.marked = ("third", "monday")
        app.show("overview")
        app.show("diff")
        await settled(pilot)
        assert pane_of(app).sides == ["third", "monday"]
        app.marked = ("tuesday",)
        app.show("overview")
        app.show("diff")
        await settled(pilot)
        assert pane_of(app).sides == ["tuesday", "monday"]

    run(pair, flow)


def test_the_threshold_turns_changes_into_none(pair: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        await pilot.press("plus", "plus", "plus", "plus", "plus")
        await settled(pilot)
        assert pane.threshold == 50
        assert "--threshold 50%" in (pane.command() or "")
        assert not [row for row in command_of(app) if row["verdict"] == "slower"]
        assert "slower" not in text_of(app)
        await press(pilot, "minus")
        assert pane.threshold == 20
        assert "▲ slower" in text_of(app)

    run(pair, flow)


def test_columns_sort_and_enter_opens_the_kernel(pair: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        table = app.query_one(Table)
        await press(pilot, "s")
        while table.sort is None or table.sort[0] != "total_before_ns":
            await press(pilot, "s")
        totals = [(table.rows.row(index) or {})["total_before_ns"] for index in range(len(table.rows))]
        assert totals == sorted(totals, reverse=True)
        await press(pilot, "home", "down")
        assert "matched by" in text_of(app)
        row = table.row
        assert row is not None
        assert [entry.key for entry in pane_of(app).copies()] == ["n", "r"]
        await press(pilot, "enter")
        assert app.signature == (row["signature_after"] or row["signature_before"])

    run(pair, flow)


def test_export_writes_all_rows(pair: Path, tmp_path: Path) -> None:
    async def flow(app: KerneldbApp, _pilot: Any) -> None:
        target = tmp_path / "diff.json"
        assert await pane_of(app).export(target) == 4
        assert json.loads(target.read_text(encoding="utf-8"))[0]["kernel"] == "gemm"

    run(pair, flow)


def test_one_trace_is_too_few(trace_database: Path) -> None:
    async def flow(app: KerneldbApp, _pilot: Any) -> None:
        assert app.pane.state == "empty"
        assert "Diff needs two traces, and there is only step." in text_of(app)

    run(trace_database, flow)


def test_without_a_trace_it_says_how_to_read_one(tmp_path: Path) -> None:
    async def flow(app: KerneldbApp, _pilot: Any) -> None:
        assert app.pane.state == "empty"
        assert "No traces in this file yet" in text_of(app)

    run(Warehouse.create_or_open(tmp_path / "empty.duckdb").path, flow)


def test_it_fits_any_terminal(pair: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        await press(pilot, "down")
        for size in ((80, 24), (160, 48), (40, 12)):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            assert max(map(len, text_of(app).splitlines())) <= size[0]
            assert "gemm" in text_of(app)

    run(pair, flow)


def test_sides_that_nobody_chose_follow_the_selection(pair: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        assert pane.sides == ["monday", "tuesday"]
        for traces, sides in (
            (("third", "monday"), ["third", "monday"]),
            (("third",), ["third", "monday"]),
            ((), ["monday", "tuesday"]),
        ):
            app.choose(traces=traces)
            await settled(pilot)
            assert pane.sides == sides
        await press(pilot, "b", "end", "enter")
        assert pane.sides == ["monday", "third"]
        app.choose(traces=("tuesday",))
        await settled(pilot)
        assert pane.sides == ["tuesday", "third"]
        await press(pilot, "x")
        assert pane.sides == ["third", "tuesday"]

    run(pair, flow)


def test_a_side_without_times_is_told_from_one_that_got_faster(pair: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        assert "no GPU time" not in text_of(app)
        for where, said in (
            ("trace = 'monday'", "no GPU time of B counts"),
            ("op = 'aten::nccl'", "no GPU time of A counts"),
            ("duration_ns > 1000000", "no GPU time of A and B counts"),
        ):
            app.choose(where=where)
            await settled(pilot)
            assert said in text_of(app)

    run(pair, flow)


def test_the_screen_is_not_empty_where_the_total_changed(tmp_path: Path) -> None:
    """One launch of a kernel proves nothing, and is half of the time."""
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    for name, gemm in (("one", 1_000), ("two", 1_900)):
        warehouse.commit(make(name, (Launch("gemm", 0, gemm), *repeated("add", 400, 3, 1))))

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        table = app.query_one(Table)
        assert [(row["kernel"], row["verdict"]) for row in [table.rows.row(0) or {}]] == [("gemm", "too few")]
        assert "? too few" in text_of(app)
        assert (
            "no kernel changed beyond doubt; the largest part: +900 ns (too few launches to tell) of gemm"
            in text_of(app)
        )
        await press(pilot, "plus", "plus", "plus", "plus")
        assert pane_of(app).threshold == 50
        assert "beyond doubt" not in text_of(app)

    run(warehouse.path, flow)


def test_a_trace_of_another_program_is_compared_only_where_it_is_chosen(tmp_path: Path) -> None:
    """Among traces of two programs the one of the same comes up; where there is none, the screen asks."""
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    for name, launches in (("copies", repeated("Memset", 90, 20)), ("old", BEFORE), ("sent", repeated("nccl", 90, 20))):
        warehouse.commit(make(name, launches))
    warehouse.commit(make("other", BEFORE, arch="sm_80"))
    warehouse.commit(make("new", AFTER))

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        assert pane.sides == ["copies", None]
        assert "copies: no other trace has the same GPU and mostly the same kernels." in text_of(app)
        assert pane.command() is None
        app.choose(traces=("old",))
        await settled(pilot)
        assert pane.sides == ["old", "new"]
        app.choose(traces=())
        await settled(pilot)
        await press(pilot, "x")
        assert pane.sides == [None, "copies"]
        await press(pilot, "a", "home", "down", "down", "enter")
        assert pane.sides == ["sent", "copies"]
        assert "only before" in text_of(app)

    run(warehouse.path, flow)


def test_a_side_that_nobody_chose_gives_way_to_a_nearer_one(tmp_path: Path) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    for name, launches in (
        ("a", BEFORE),
        ("b", AFTER),
        ("sent", repeated("nccl", 90, 20)),
        ("got", repeated("nccl", 80, 20)),
    ):
        warehouse.commit(make(name, launches))

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        assert pane.sides == ["a", "b"]
        await press(pilot, "a", "home", "down", "down", "enter")
        assert pane.sides == ["sent", "got"]
        await press(pilot, "b", "home", "enter")
        assert pane.sides == ["sent", "a"]

    run(warehouse.path, flow)
