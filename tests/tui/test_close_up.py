"""A stretch with few launches, drawn from one read: the same as by the statements that sum up any stretch."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kerneldb.api import close_up, timeline
from kerneldb.selection import Selection
from kerneldb.tui.screens.timeline import TimelinePane
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, press
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from collections.abc import Callable

    from kerneldb.api.timeline import Axis, Lane, Stretch

TIES: Final = Path(__file__).parents[1] / "answers" / "ties.sql"
LEAST, MOST = 5, 40
"""Bins of a labelled launch, and so many labels."""


def launches(seed: int) -> tuple[Launch, ...]:
    """Launches at random places: short ones, some that take no time, and some across many bins, one over another."""
    chance, made = random.Random(seed), []
    for _ in range(150):
        name, longest = chance.choice([("gemm", 900), ("add", 30), ("nccl", 20_000), ("Memset", 0)])
        phase, stream = chance.choice([None, "forward", "backward"]), chance.choice([7, 20])
        made.append(Launch(name, chance.randrange(50_000), chance.randint(0, longest), stream, phase=phase))
    return tuple(sorted(made, key=lambda launch: launch.start))


@pytest.fixture(scope="module", params=["random", "one clock", "ties"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces side by side, ranks on one clock, and many launches alike, of two processes, with modules. Read only."""
    folder = tmp_path_factory.mktemp(request.param.replace(" ", "-"))
    warehouse, make = Warehouse.create_or_open(folder / "k.duckdb"), Traces(folder)
    if request.param == "ties":
        with warehouse.connection(read_only=False) as con:
            con.execute(TIES.read_text(encoding="utf-8"))
        return warehouse.path
    clock = {"stated_run": "job", "clock": "epoch"} if request.param == "one clock" else {}
    for rank in range(3):
        warehouse.commit(make(f"rank{rank}", launches(rank), rank=rank, base_ns=10_000 + 700 * rank, **clock))
    return warehouse.path


def ask(path: Path, work: Callable[[Any], Any]) -> Any:
    with Warehouse(path).connection() as con:
        return work(con)


def stretches(axis: Axis) -> list[Stretch]:
    """Parts of an axis, of a few ns up to most of it, and beyond its end."""
    chance, end = random.Random(3), axis.end_ns
    found = [timeline.Stretch.of(1, end, 60), timeline.Stretch.of(end - 10, end + 900, 13)]
    for _ in range(3):
        first = chance.randrange(end)
        found.append(timeline.Stretch.of(first, first + round(end ** chance.random()) + 1, chance.randrange(1, 80)))
    return found


def plain(bins: Any) -> Any:
    return {key: dict(value) for key, value in bins.items()}


@dataclasses.dataclass(frozen=True)
class Question:
    """A stretch, and where the cursor is."""

    axis: Axis
    selection: Selection
    stretch: Stretch
    lane: Lane
    span: tuple[int, int]


def compared(path: Path, asked: Question) -> int:
    """Look at a stretch in both ways; how many launches it holds."""
    where = asked.axis, asked.selection, asked.stretch
    cursor, least = (asked.lane, asked.span), LEAST * asked.stretch.step_ns
    with Warehouse(path).connection() as con:
        found = close_up.close_up(con, *where, *cursor, least_ns=least, most=MOST)
        seen, names = timeline.lanes(con, *where), timeline.names(con, *where)
        labels = timeline.labels(con, *where, least, MOST)
        launch = timeline.at(con, asked.axis, asked.selection, *cursor)
    assert found is not None
    assert plain(found.seen.lanes) == plain(seen.lanes)
    assert list(found.seen.categories.items()) == list(seen.categories.items())
    assert plain(found.names.phases) == plain(names.phases)
    assert plain(found.names.modules) == plain(names.modules)
    assert (found.labels, found.launch) == (labels, launch)
    return seen.launches


@pytest.mark.parametrize("where", [None, "duration_ns > 20 AND category IS NOT NULL"])
def test_a_close_up_is_what_the_statements_find(path: Path, where: str | None) -> None:
    axis, selection = ask(path, lambda con: timeline.axis(con, ())), Selection(where)
    everything = ask(path, lambda con: timeline.lanes(con, axis, selection, axis.stretch(0, axis.end_ns, 50)))
    held = 0
    for place, stretch in enumerate(stretches(axis)):
        lane = list(everything.lanes)[place % len(everything.lanes)]
        span = stretch.first_ns + stretch.step_ns, stretch.first_ns + 3 * stretch.step_ns
        held += compared(path, Question(axis, selection, stretch, lane, span))
    assert held > 100


def test_many_launches_are_left_to_the_statements(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axis = ask(path, lambda con: timeline.axis(con, ()))
    stretch = timeline.Stretch.of(1, axis.end_ns, 60)
    n = ask(path, lambda con: timeline.lanes(con, axis, Selection(), stretch)).launches

    def closely(con: Any) -> Any:
        return close_up.close_up(con, axis, Selection(), stretch, None, (0, 1), least_ns=1, most=1)

    monkeypatch.setattr(close_up, "FEW", n)
    assert ask(path, closely).seen.launches == n
    monkeypatch.setattr(close_up, "FEW", n - 1)
    assert ask(path, closely) is None


def test_how_many_launches_to_expect(path: Path) -> None:
    axis = ask(path, lambda con: timeline.axis(con, ()))
    full = axis.stretch(0, axis.end_ns, 50)
    everything = ask(path, lambda con: timeline.lanes(con, axis, Selection(), full))

    def expected(first: int, last: int, bins: int = 1) -> int:
        return close_up.expected(axis, full, everything, timeline.Stretch.of(first, last, bins))

    assert expected(full.first_ns, full.last_ns, full.bins) == everything.launches
    step = full.step_ns
    second = sum(bins[1].launches for bins in everything.lanes.values() if 1 in bins)
    assert expected(step, 2 * step) == second
    assert expected(step, step + step // 2) == second * (step // 2) // step
    assert expected(full.last_ns + step, full.last_ns + 2 * step) == 0


def test_a_launch_is_told_as_the_view_of_all_launches_has_it(path: Path) -> None:
    kinds = "SELECT count(inferred_id), count(*) FILTER (work_method = 'annotation'), count(tflops) FROM all_launches"

    def compared(con: Any) -> None:
        if path.parent.name.startswith("ties"):
            assert min(con.execute(kinds).fetchall()[0]) > 0
        every = con.execute("SELECT trace_id, launch_index FROM all_launches ORDER BY ALL").fetchall()
        for trace_id, index in random.Random(7).sample(every, min(len(every), 40)):
            told = timeline.told(con, [{"trace_id": trace_id, "launch_index": index}])
            assert told is not None
            told["lane"] = told["lane"] if told["lane"] is None else told["lane"] // 2
            columns = [name for name in told if name not in {"exchange", "caller", "around"}]
            read = ", ".join("coalesce(stream, queue) AS lane" if name == "lane" else name for name in columns)
            place = {"trace_id": trace_id, "launch_index": index}
            sql = f"SELECT {read} FROM all_launches WHERE trace_id = $trace_id AND launch_index = $launch_index"
            (row,) = con.execute(sql, place).fetchall()
            assert dict(zip(columns, row, strict=True)) == {name: told[name] for name in columns}

    ask(path, compared)


def test_a_screen_shows_the_same_either_way(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    async def flow() -> None:
        for few in (close_up.FEW, -1):
            monkeypatch.setattr(close_up, "FEW", few)
            async with opened(path) as (app, pilot):
                await press(pilot, "4", *["right"] * 9, "w", "w", "w", "d", "full_stop")
                pane = app.query_one(TimelinePane)
                board = pane.board
                assert board.is_whole == (few > 0)
                assert board.stretch != board.full
                picture = [(row.label, row.note, row.cells, row.names, row.hues) for row in board.picture().rows]
                seen.append((picture, board.view.launches, pane.launch))

    driven(flow)
    at_once, in_parts = seen
    assert at_once == in_parts
    assert at_once[1] > 0
    assert at_once[2] is not None
