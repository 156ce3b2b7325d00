"""The roofline: its dots are the rows that the command line prints, and every key of its screen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from kerneldb.tui.model import Choice
from kerneldb.tui.screens import roofline
from kerneldb.tui.screens.roofline import RooflinePane
from kerneldb.tui.widgets.scatter import Dot, Plane, Roof, Scale, Scatter
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, press, settled, text_of
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from kerneldb.tui.app import KerneldbApp


def run(
    path: Path,
    flow: Callable[[KerneldbApp, Any], Coroutine[Any, Any, None]],
    *,
    where: str = "",
    size: tuple[int, int] = (100, 30),
) -> None:
    async def whole() -> None:
        async with opened(path, Choice(where), first="roofline", size=(100, 30)) as (app, pilot):
            await flow(app, pilot)

    driven(whole)


def pane_of(app: KerneldbApp) -> RooflinePane:
    assert isinstance(app.pane, RooflinePane)
    return app.pane


@pytest.mark.parametrize("where", [pytest.param("", marks=pytest.mark.volume), "category = 'GEMM'"])
def test_dots_are_what_the_command_line_prints(trace_database: Path, where: str) -> None:
    condition = ["--where", where] if where else []
    result = CliRunner().invoke(
        cli, ["--db", str(trace_database), "analyze", "roofline", *condition, "--limit", "0", "--json"]
    )
    printed: list[dict[str, Any]] = json.loads(result.stdout)

    async def flow(app: KerneldbApp, _pilot: Any) -> None:
        pane = pane_of(app)
        known = [row for row in printed if row["intensity"] and row["flops_per_second"]]
        assert len(known) > 3
        shown = pane.rows[0].keys()
        assert pane.rows == [{name: row[name] for name in shown} for row in known]
        assert pane.without == [{name: row[name] for name in shown} for row in printed if row not in known]
        dots = app.query_one(Scatter).plane.dots
        assert [(dot.x, dot.y) for dot in dots] == [(row["intensity"], row["flops_per_second"]) for row in known]
        assert sum(dot.share for dot in dots) == pytest.approx(1)
        assert f"{len(known)} signatures" in text_of(app)

    run(trace_database, flow, where=where)


def test_arrows_walk_the_dots_and_enter_opens_the_kernel(trace_database: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        await press(pilot, "down", "j", "k")
        assert pane.place == 1
        assert pane.rows[1]["kernel"] in text_of(app)
        await press(pilot, "end")
        assert pane.place == len(pane.rows) - 1
        await press(pilot, "home", "up")
        assert pane.place == 0
        before = pane.rows[pane.place]["intensity"]
        await press(pilot, "left")
        assert pane.rows[pane.place]["intensity"] <= before
        await press(pilot, "right", "right")
        assert pane.rows[pane.place]["intensity"] >= before
        wanted = pane.rows[pane.place]["signature_id"]
        assert pane.command() == app.command("analyze", "roofline")
        assert {entry.key for entry in pane.copies()} == {"n", "r"}
        await press(pilot, "enter")
        assert app.signature == wanted

    run(trace_database, flow)


def test_a_click_next_to_a_dot_chooses_it(trace_database: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane, chart = pane_of(app), app.query_one(Scatter)
        column, line = chart.cell(chart.plane.dots[-1])
        await pilot.click(Scatter, offset=(column + 8, line))
        await settled(pilot)
        assert chart.cell(chart.plane.dots[pane.place]) == (column, line)

    run(trace_database, flow)


@pytest.mark.thorough
def test_the_cursor_stays_on_its_kernel_when_others_go(trace_database: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        place = next(place for place, row in enumerate(pane.rows) if place and row["category"] == "GEMM")
        for _ in range(place):
            await pilot.press("down")
        held = pane.rows[pane.place]["signature_id"]
        app.choose(where="category = 'GEMM'")
        await settled(pilot)
        assert pane.rows[pane.place]["signature_id"] == held

    run(trace_database, flow)


def test_without_work_a_sentence_says_what_to_do(tmp_path: Path) -> None:
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    warehouse.commit(Traces(tmp_path)("plain", (Launch("gemm", 0, 100), Launch("add", 200, 50))))

    async def flow(app: KerneldbApp, _pilot: Any) -> None:
        assert app.pane.state == "empty"
        shown = " ".join(text_of(app).split())
        assert "No FLOPs known of the 2 kernel signatures of the Selection (150 ns)" in shown
        assert "kerneldb db annotate" in shown

    run(warehouse.path, flow)


def test_percentages_stand_in_where_nothing_else_is_known(shared_data: Path, tmp_path: Path) -> None:
    path = tmp_path / "k.duckdb"
    kerneldb.open(path).ingest(shared_data / "ncu" / "mojo_profile.ncu2024.2.raw.auto.csv")

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        assert pane.percent
        assert app.query_one(Scatter).plane.percent
        assert "% of DRAM peak" in text_of(app)
        assert "percentages only" in text_of(app)
        await press(pilot, "down")
        row = pane.rows[pane.place]
        assert f"compute {row['compute_pct']:.1f} %" in text_of(app)

    run(path, flow)


@pytest.mark.thorough
def test_it_fits_any_terminal(trace_database: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        await press(pilot, "down")
        for size in ((80, 24), (160, 48), (40, 12)):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            assert max(map(len, text_of(app).splitlines())) <= size[0]
            assert app.query_one("#ranking").display == (size[0] >= 120)
            assert "┤" in text_of(app)

    run(trace_database, flow)


# The picture.


def test_scales_are_exact_at_their_ends_and_inverse() -> None:
    for scale in (Scale(0.1, 1e3, 81), Scale(0.0, 100.0, 41, linear=True)):
        assert (scale.place(scale.low), scale.place(scale.high)) == pytest.approx((0, scale.cells - 1))
        assert scale.place(scale.value(17)) == pytest.approx(17)
    assert Scale(0.1, 1e3, 41).marks() == [(0, "0.1"), (10, "1"), (20, "10"), (30, "100"), (40, "1k")]
    assert Scale(0.0, 100.0, 41, linear=True).marks()[1] == (10, "25")
    assert [text for _, text in Scale(40.0, 300.0, 41).marks()] == ["50", "100", "200"]


def test_percentages_can_be_had_beside_flops(shared_data: Path, tmp_path: Path) -> None:
    path = tmp_path / "k.duckdb"
    folder = shared_data / "ncu" / "deepseek-ocr-v2"
    kerneldb.open(path).ingest([*folder.glob("*0015*"), *folder.glob("*0016*")])

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = pane_of(app)
        assert not pane.percent
        with_flops = len(pane.rows)
        await press(pilot, "n")
        assert pane.percent
        assert len(pane.rows) > with_flops
        await press(pilot, "n")
        assert len(pane.rows) == with_flops
        assert "the peaks of this GPU are not known" in text_of(app)

    run(path, flow)


def test_without_counters_there_are_no_percentages(trace_database: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        await press(pilot, "n")
        assert not pane_of(app).percent
        assert "No percentages" in "".join(str(note.message) for note in app._notifications)

    run(trace_database, flow)


def test_roofs_of_one_height_are_one_and_bound_what_is_below() -> None:
    row = {"peak_flops_per_second": 1e15, "peak_bytes_per_second": 5e12, "dtype": "bf16"}
    other = {**row, "dtype": "fp16", "peak_flops_per_second": 1.01e15}
    slow = {**row, "dtype": "fp32", "peak_flops_per_second": 6e13}
    unknown = {**row, "peak_flops_per_second": None}
    found = roofline.roofs([row, row, other, slow, unknown])
    assert [roof.label for roof in found] == ["bf16, fp16 1.00 PFLOP/s, 5.00 TB/s", "fp32 60.0 TFLOP/s, 5.00 TB/s"]
    assert (found[1].at(1.0), found[1].at(1e6)) == (5e12, 6e13)


def test_dots_below_a_roof_are_drawn_below_it(trace_database: Path) -> None:
    roof = Roof(1e14, 1e12, "roof")
    dots = [Dot(1.0, 1e10, 0.6, "GEMM"), Dot(1000.0, 1e13, 0.001, "COPY")]

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        chart = app.query_one(Scatter)
        chart.show(Plane(dots, (roof,), "x", "y"), 1)
        await pilot.pause()
        lines = [chart.render_line(line).text for line in range(chart.lines)]
        for dot, glyph in zip(dots, "●·", strict=True):
            column, line = chart.cell(dot)
            assert lines[line][column + 8] == glyph
            above = [row[column + 8] for row in lines[:line]]
            assert any(0x2800 <= ord(character) < 0x2900 for character in above)
        assert any("roof" in line for line in lines)

    run(trace_database, flow)


def test_names_of_roofs_stand_in_their_order(trace_database: Path) -> None:
    heights = {
        "fp16 984 TFLOP/s, 4.79 TB/s": 9.84e14,
        "fp32 132 TFLOP/s, 4.80 TB/s": 1.32e14,
        "fp32 66.5 TFLOP/s": 6.65e13,
    }
    found = tuple(Roof(height, 4.8e12, label) for label, height in heights.items())
    dots = [Dot(0.02, 4e8, 0.5, "GEMM"), Dot(500.0, 8e14, 0.5, "GEMM")]

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        await pilot.resize_terminal(80, 24)
        await settled(pilot)
        app.query_one(Scatter).show(Plane(dots, found, "x", "y"))
        await settled(pilot)
        lines = text_of(app).splitlines()
        placed = [next(at for at, line in enumerate(lines) if label in line) for label in heights]
        assert placed == sorted(placed)

    run(trace_database, flow)


@pytest.mark.parametrize(
    ("bound", "share", "said"),
    [
        ("memory", 126.4, "caches served some of the bytes"),
        ("compute", 101.0, "clocks were higher"),
        ("memory", 99.9, ""),
    ],
)
def test_a_dot_above_its_roof_says_why(bound: str, share: float, said: str) -> None:
    row = {"bound": bound, "ridge": 206.0, "peak_flops_per_second": 1e15, "peak_bytes_per_second": 5e12, "method": "x"}
    text = roofline.bound_of({**row, "pct_attainable": share})
    assert text.startswith("above its roof" if said else f"{bound} bound")
    assert said in text


@pytest.mark.parametrize(
    ("dtype", "flops", "moved", "said"),
    [
        ("fp32", None, 4.8e12, "fp32 inputs may be multiplied as TF32; peak of the memory 4.80 TB/s"),
        ("int4", None, 4.8e12, "no peak of arithmetic is known for int4; peak of the memory 4.80 TB/s"),
        (None, None, 4.8e12, "no peak of arithmetic is known for its type; peak of the memory 4.80 TB/s"),
        ("fp32", 6.69e13, None, "the bandwidth of this GPU is not known; peak of arithmetic 66.9 TFLOP/s"),
        ("fp32", None, None, "the peaks of this GPU are not known"),
    ],
)
def test_a_kernel_without_a_roof_says_which_peak_is_not_known(
    dtype: str | None, flops: float | None, moved: float | None, said: str
) -> None:
    """Other kernels of its GPU may have a roof: that the peaks of the GPU are not known would deny it."""
    peaks = {"peak_flops_per_second": flops, "peak_bytes_per_second": moved}
    assert roofline.bound_of({"bound": None, "ridge": None, "dtype": dtype, **peaks}).endswith(said)
