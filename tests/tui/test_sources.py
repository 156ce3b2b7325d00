"""Every screen on traces of every tool: something sensible, or a sentence that says why not.

`KERNELDB_TEST_EVERY=1` takes all files of the collection instead of one or two of each kind.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

import pytest

import kerneldb
from kerneldb.api import IngestOptions
from kerneldb.tui.model import Choice
from kerneldb.tui.screens import PLACES
from kerneldb.tui.screens.replay import how_much
from kerneldb.tui.screens.roofline import plain, roofs
from kerneldb.tui.screens.timeline import TimelinePane
from kerneldb.warehouse import Warehouse
from tests.tui import pictures
from tests.tui.piloting import driven, opened, press, settled, text_of
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from textual.pilot import Pilot

    from kerneldb.tui.app import KerneldbApp

pytestmark = pytest.mark.thorough

FILES: Final = {
    "pytorch": ["tracelens-mi210-gpu-only.json.gz"],
    "nsys": ["nsightful_cuda_gpu_trace.csv.gz", "dsocr_prefill_cuda_gpu_kern_sum.csv"],
    "ncu": ["superbench_cublaslt_ncu.log"],
    "rocprof": ["synthetic_gfx1151_full.db"],
}
NO_TIMELINE: Final = {"profiled": "under a counter profiler", "summary": "sums"}
"""Words that say why a trace of a kind has none."""

TRACES: Final = """
    SELECT traces.name, any_value(traces.kind) AS kind, count(launch_index) AS launches
    FROM traces LEFT JOIN launches USING (trace_id) GROUP BY traces.name ORDER BY traces.name
"""


@pytest.fixture(scope="module", params=FILES)
def source(request: pytest.FixtureRequest, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with traces of one tool. Read only."""
    tool: str = request.param
    path = tmp_path_factory.mktemp(tool) / f"{tool}.duckdb"
    if os.environ.get("KERNELDB_TEST_EVERY"):
        wanted = [shared_data / tool]
    else:
        wanted = [shared_data / tool / name for name in FILES[tool]]
    for outcome in kerneldb.open(path).ingest_each(wanted, IngestOptions()):
        assert outcome.error is None or os.environ.get("KERNELDB_TEST_EVERY"), outcome.error
    return path


def traces_of(path: Path) -> list[dict[str, Any]]:
    return kerneldb.open(path).sql(TRACES).rows()


async def check(app: KerneldbApp, pilot: Pilot[Any], kind: str, launches: int) -> None:
    """Every screen of the trace that is chosen."""
    for place in PLACES:
        app.show(place.name)
        await settled(pilot)
        shown, state = text_of(app), app.pane.state
        words = " ".join(shown.split())
        said = [line for line in shown.splitlines()[3:-1] if line.strip()]
        where = (app.choice.traces, place.name, shown)
        assert state in {"ready", "empty"}, where
        assert len(said) >= (3 if state == "ready" else 1), where
        if place.name == "overview":
            assert (state, app.choice.traces[0][:12] in shown) == ("ready", True), where
        if place.name == "timeline" and kind in NO_TIMELINE:
            assert (state, NO_TIMELINE[kind] in words) == ("empty", True), where
        if place.name == "timeline" and kind == "timeline" and launches:
            assert state == "ready", where
        if place.name == "sql":
            assert state == "ready", where


def test_every_screen_opens(source: Path) -> None:
    async def flow() -> None:
        traces = traces_of(source)
        assert traces
        async with opened(source, Choice(traces=(traces[0]["name"],)), size=(100, 40)) as (app, pilot):
            for trace in traces:
                app.signature = None
                app.choose(traces=(trace["name"],), level="kernel")
                await settled(pilot)
                await check(app, pilot, trace["kind"], trace["launches"])

    driven(flow)


HOST_ONLY: Final = {
    "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]
}


def drive(path: Path, flow: Callable[[KerneldbApp, Any], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Run `flow` on the application."""

    async def whole() -> None:
        async with opened(path, **options) as (app, pilot):
            await flow(app, pilot)

    driven(whole)


async def words(app: KerneldbApp, pilot: Any, key: str) -> str:
    """What the screen of a key says, on one line."""
    await press(pilot, key)
    return " ".join(text_of(app).split())


def keys(app: KerneldbApp) -> str:
    """The line of keys."""
    return text_of(app).splitlines()[-1]


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of sums only. Read only."""
    return pictures.sums(tmp_path_factory.mktemp("sums"))


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Path]:
    """Makes a database of traces: their names with their launches."""

    def make(kind: str = "timeline", /, **traces: tuple[Launch, ...]) -> Path:
        warehouse, trace = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
        for name, launches in traces.items():
            warehouse.commit(trace(name, launches, kind=kind))
        return warehouse.path

    return make


def test_without_gpu_activity_no_screen_talks_of_sums_or_of_a_condition(tmp_path: Path) -> None:
    trace, path = tmp_path / "host.json", tmp_path / "k.duckdb"
    trace.write_text(json.dumps(HOST_ONLY))
    kerneldb.open(path).ingest(trace)

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        for key in "12357":
            said = await words(app, pilot, key)
            assert "No GPU activity" in said, (key, said)
            assert "Sums only" not in said, (key, said)
            assert "edits the condition" not in said, (key, said)

    drive(path, flow)


def test_sums_alone_are_not_replayed_and_say_so(sums: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        assert "Sums only: a replay needs single launches" in await words(app, pilot, "7")
        app.choose(where="category = 'GEMM'")
        await settled(pilot)
        assert "Sums only: a replay needs single launches" in " ".join(text_of(app).split())

    drive(sums, flow)


def test_keys_of_a_drawing_rest_while_a_sentence_stands_in_its_place(sums: Path) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        for key, own in (("4", "Zoom"), ("5", "Normalized"), ("7", "Replay")):
            await press(pilot, key)
            assert own not in keys(app)
            assert "Quit" in keys(app)
        await press(pilot, "4", "w")
        assert app.editing, "w writes a condition where there is nothing to zoom"

    drive(sums, flow)


def test_keys_of_a_drawing_come_back_with_it(made: Callable[..., Path]) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        assert "Zoom" in keys(app)
        app.choose(where="duration_ns > 1e12")
        await settled(pilot)
        assert "Zoom" not in keys(app)
        app.choose(where="")
        await settled(pilot)
        assert "Zoom" in keys(app)

    drive(made(one=(Launch("gemm", 0, 100),)), flow, first="timeline")


def test_profiled_kernels_are_not_said_to_need_a_timeline_for_a_replay(made: Callable[..., Path]) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        assert "4 needs a timeline" in await words(app, pilot, "1")
        assert "needs a timeline" not in await words(app, pilot, "7")
        assert app.pane.state == "ready"

    drive(made("profiled", counted=(Launch("gemm", 0, 500, timing="profiled"),)), flow)


def test_a_reason_that_many_traces_share_is_said_once(made: Callable[..., Path]) -> None:
    traces = {f"part{number}": (Launch("gemm", 0, 500, timing="profiled"),) for number in range(5)}

    async def flow(app: KerneldbApp, _pilot: Any) -> None:
        said = " ".join(text_of(app).split())
        assert "part0, part1, part2, 2 more: launches ran one by one" in said
        assert said.count("ran one by one") == 1

    drive(made("profiled", **traces), flow, first="timeline")


def test_traces_without_times_beside_one_with_times_are_counted(tmp_path: Path) -> None:
    warehouse, make = Warehouse.create_or_open(tmp_path / "k.duckdb"), Traces(tmp_path)
    warehouse.commit(make("one", (Launch("gemm", 0, 100),)))
    warehouse.commit(make("counted", (Launch("gemm", 0, 500, timing="profiled"),), kind="profiled"))

    async def flow(app: KerneldbApp, _pilot: Any) -> None:
        assert "1 trace without a timeline" in text_of(app)

    drive(warehouse.path, flow, first="timeline")


def test_the_end_of_the_legend_is_never_cut(made: Callable[..., Path]) -> None:
    kernels = ("gemm", "add", "nccl", "Memset")
    launches = tuple(Launch(kernel, 100 * place, 50) for place, kernel in enumerate(kernels))

    async def flow(app: KerneldbApp, pilot: Any) -> None:
        pane = app.pane
        assert isinstance(pane, TimelinePane)
        whole = str(pane.query_one("#legend").render())
        assert "more" not in whole
        await pilot.resize_terminal(64, 24)
        await settled(pilot)
        cut = str(pane.query_one("#legend").render())
        assert whole.count("■") > cut.count("■") > 0
        assert cut.rstrip().endswith(f"+{whole.count('■') - cut.count('■')} more  4 launches · 1 lane")

    drive(made(one=launches), flow, first="timeline")


def test_a_lane_that_is_always_busy_is_so_on_an_axis_of_few_bins(made: Callable[..., Path]) -> None:
    async def flow(app: KerneldbApp, _pilot: Any) -> None:
        shown = text_of(app)
        assert "100 %" in shown
        assert "all 1.00 µs" in shown
        assert "view 1.00 µs" in shown

    drive(made(one=(Launch("gemm", 0, 1_001),)), flow, first="timeline")


def test_the_cursor_leaves_no_half_of_a_time(made: Callable[..., Path]) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        def times() -> str:
            return next(line for line in text_of(app).splitlines() if line.startswith("view"))

        labels = set(times().split("▼")[1].replace("╵", " ").split())
        for _ in range(12):
            await press(pilot, "right")
            assert set(times().replace("╵", " ").replace("▼", " ").split()[3:]) <= labels | {"0", "ns"}, times()

    drive(made(one=(Launch("gemm", 0, 100_000),)), flow, first="timeline")


def test_the_plan_tells_what_is_tried_from_what_is_recorded(made: Callable[..., Path]) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        shown = text_of(app)
        assert "0 % replayable" in shown
        assert "nothing of it can be replayed: see why not" in shown
        assert "enter replays" not in shown
        assert "1 launch, 1 signature" in shown
        await press(pilot, "enter")
        assert not app.pane.is_running  # type: ignore[attr-defined]

    drive(made(one=(Launch("nccl", 0, 100),)), flow, first="replay")


def test_roofs_have_no_name_that_nobody_knows() -> None:
    row = {"peak_flops_per_second": 1e14, "peak_bytes_per_second": 5e12, "dtype": "bf16"}
    unknown = {**row, "dtype": None}
    assert [roof.label.split(" 100")[0] for roof in roofs([unknown, row, unknown])] == ["bf16"]
    assert [roof.label.split(" 100")[0] for roof in roofs([unknown])] == ["unknown type"]


@pytest.mark.parametrize(("value", "text"), [(0.0833, "0.0833"), (205.9, "206"), (999.7, "1,000"), (1_560, "1,560")])
def test_intensities_have_no_power_of_ten(value: float, text: str) -> None:
    assert plain(value) == text


def test_one_is_no_plural(made: Callable[..., Path]) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        assert "1 launch ·" in text_of(app)
        assert "No FLOPs known of the 1 kernel signature" in await words(app, pilot, "5")

    drive(made(one=(Launch("gemm", 0, 100),)), flow)


def test_times_of_several_devices_are_said_to_be_summed(made: Callable[..., Path]) -> None:
    async def flow(app: KerneldbApp, _pilot: Any) -> None:
        assert "wall, summed" in text_of(app)

    drive(made(one=(Launch("gemm", 0, 100), Launch("gemm", 0, 100, device=1))), flow)


def test_the_plan_says_how_much_has_no_recorded_call() -> None:
    def line(category: str, route: str, share: float) -> dict[str, Any]:
        return {"category": category, "route": route, "replayable_pct": share}

    recorded, tried, taken = (
        line("TOTAL recorded", "recorded", 30),
        line("TOTAL inferred", "inferred", 20),
        line("GEMM", "aten", 30),
    )
    assert how_much([taken, line("TOTAL", "", 30)]) == "30.0 % replayable"
    assert (
        how_much([taken, recorded, tried, line("TOTAL", "", 50)])
        == "50.0 % replayable (30.0 % recorded, 20.0 % inferred)"
    )
    assert how_much([tried, line("TOTAL", "", 20)]) == "20.0 % replayable, all inferred"
    assert how_much([line("TOTAL", "", 0)]) == "0 % replayable"


def test_a_pinned_lane_names_its_device(made: Callable[..., Path]) -> None:
    async def flow(app: KerneldbApp, pilot: Any) -> None:
        await press(pilot, "j", "p")
        assert "⚑1:s7 one" in text_of(app)

    drive(made(one=(Launch("gemm", 0, 100), Launch("gemm", 0, 100, device=1))), flow, first="timeline")
