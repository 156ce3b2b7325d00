"""Pictures of every screen in a small and in a wide terminal, of its other states in a small one.

`KERNELDB_SNAPSHOTS=write pytest tests/tui/test_snapshots.py` accepts what is drawn now. Look at the pictures then.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import os
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from textual.widgets import Input

from kerneldb.tui.app import KerneldbApp
from kerneldb.tui.model import Choice
from kerneldb.tui.saved_history import SavedHistory
from kerneldb.tui.screens.replay import ReplayPane
from kerneldb.tui.screens.sql import SqlEditor, SqlPane
from kerneldb.tui.store import Condition, Store
from kerneldb.tui.widgets.header import Status
from kerneldb.warehouse import session
from tests.conftest import made_once
from tests.tui import pictures
from tests.tui.pictures import Album, still
from tests.tui.piloting import drawn_at_rest, press, settled
from tests.tui.test_replay import WAITS, fake, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from textual.pilot import Pilot

SNAPSHOTS: Final = Path(__file__).parent / "snapshots"
DRAWN_WITH: Final = "8.2.8"
"""Another Textual draws other pictures of the same screens."""
SIZES: Final = {"80x24": (80, 24), "160x48": (160, 48)}
GEMM: Final = "category = 'GEMM'"

pytestmark = [
    pytest.mark.skipif(
        importlib.metadata.version("textual") != DRAWN_WITH, reason=f"the pictures are of Textual {DRAWN_WITH}"
    ),
    pytest.mark.skipif(importlib.metadata.version("duckdb").startswith("1."), reason="DuckDB 1 words errors otherwise"),
]


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the databases of `pictures`. Read only."""
    shelf = tmp_path_factory.mktemp("pictures")
    for name in ("decoder", "week", "counters", "sums", "empty"):
        place = made_once(tmp_path_factory, f"{name}.shelf", partial(drafted, getattr(pictures, name)))
        shutil.copyfile(place, shelf / f"{name}.duckdb")
    return shelf


def drafted(make: Callable[[Path], Path], draft: Path) -> None:
    """Make a database at `draft`."""
    folder = draft.with_suffix(".folder")
    folder.mkdir()
    path = make(folder)
    session.release_all()
    path.rename(draft)


@pytest.fixture(params=["80x24", pytest.param("160x48", marks=pytest.mark.thorough)])
def size(request: pytest.FixtureRequest) -> str:
    """A size of the terminal."""
    found: str = request.param
    return found


small = pytest.mark.parametrize("size", ["80x24"])
"""In one size only: what is new in the state of a screen is the same in both."""


@pytest.fixture(scope="module")
def albums(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Album]:
    """An album for each size."""
    write, aside = os.environ.get("KERNELDB_SNAPSHOTS") == "write", tmp_path_factory.mktemp("differ")
    return {size: Album(SNAPSHOTS / size, aside / size, write=write) for size in SIZES}


@pytest.fixture
def album(albums: dict[str, Album], size: str, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Album]:
    """The album of `size`. Databases are named without their folder, so that no picture holds the folder's name."""
    monkeypatch.chdir(shelf)
    found = albums[size]
    found.problems.clear()
    yield found
    assert not found.problems, "\n".join(found.problems)


@contextlib.asynccontextmanager
async def shown(
    database: str, album: Album, choice: Choice | None = None, *, first: str = "overview"
) -> AsyncIterator[tuple[KerneldbApp, Pilot[Any]]]:
    """The application on a database of the shelf, in the size of the album."""
    app = KerneldbApp(f"{database}.duckdb", choice, first=first, watch=False)
    with drawn_at_rest():
        async with app.run_test(size=SIZES[album.folder.name], notifications=True) as pilot:
            still(app)
            await settled(pilot)
            yield app, pilot


async def take(album: Album, pilot: Pilot[Any], name: str, *keys: str) -> None:
    """Press keys and take the picture `name`."""
    await press(pilot, *keys)
    assert isinstance(pilot.app, KerneldbApp)
    still(pilot.app)
    await settled(pilot)
    album.take(pilot.app, name)


async def write_where(pilot: Pilot[Any], text: str) -> None:
    pilot.app.query_one("#where-input", Input).value = text
    await press(pilot, "slash", "enter")


def test_screens_of_one_trace(album: Album) -> None:
    async def flow() -> None:
        async with shown("decoder", album) as (app, pilot):
            await take(album, pilot, "overview")
            await take(album, pilot, "kernels", "2")
            await take(album, pilot, "kernels-marked", "space", "down", "space")
            await take(album, pilot, "kernel", "escape", "home", "n")
            await take(album, pilot, "kernel-range", "shift+right", "shift+right", "shift+right", "full_stop")
            await take(album, pilot, "timeline-launch", "4")
            await take(album, pilot, "timeline-measured", "m", "full_stop", "full_stop")
            await take(album, pilot, "timeline", "escape", "escape")
            await take(album, pilot, "roofline", "5")
            await take(album, pilot, "roofline-walked", "down", "down", "down")
            await take(album, pilot, "diff-one-trace", "6")
            await take(album, pilot, "replay-plan", "7")
            await take(album, pilot, "replay-results", "l")
            app.theme = "textual-light"
            await take(album, pilot, "kernels-light", "escape", "2")
            app.theme = "ansi-dark"
            await take(album, pilot, "overview-ansi", "1")

    asyncio.run(flow())


@pytest.mark.thorough
@small
def test_levels_and_conditions(album: Album) -> None:
    async def flow() -> None:
        async with shown("decoder", album, Choice(GEMM, level="op"), first="kernels") as (_, pilot):
            await take(album, pilot, "kernels-operators")
            await take(album, pilot, "kernels-signatures", "g", "g")
            await take(album, pilot, "kernels-launches", "g")
            await write_where(pilot, "category = = 3")
            await take(album, pilot, "kernels-bad-condition")
            await write_where(pilot, "duration_ns > 1e12")
            await take(album, pilot, "kernels-no-match")
            await take(album, pilot, "overview-no-match", "1")
            await take(album, pilot, "timeline-no-match", "4")
            await take(album, pilot, "replay-no-match", "7")
            await write_where(pilot, "category = 'COPY'")
            await take(album, pilot, "roofline-no-flops", "5")

    asyncio.run(flow())


def test_windows(album: Album) -> None:
    async def flow() -> None:
        async with shown("decoder", album, first="kernels") as (app, pilot):
            app.saved = SavedHistory()
            for name in ("week.duckdb", "decoder.duckdb"):
                app.saved.add("files", name)
            await take(album, pilot, "window-copy", "y")
            await take(album, pilot, "window-columns", "escape", "h")
            await take(album, pilot, "window-export", "escape", "e")
            await take(album, pilot, "window-cells", "escape", "y", "c")
            await take(album, pilot, "window-go-to", "escape", "escape", "colon")
            await take(album, pilot, "window-open", "escape", "o")
            await take(album, pilot, "help", "escape", "question_mark")
            await take(album, pilot, "zoomed", "escape", "z")

    asyncio.run(flow())


@pytest.mark.thorough
@small
def test_statements(album: Album) -> None:
    async def flow() -> None:
        async with shown("decoder", album, first="sql") as (app, pilot):
            assert isinstance(app.pane, SqlPane)
            await take(album, pilot, "sql")
            await take(album, pilot, "sql-rows", "ctrl+j")
            app.query_one(SqlEditor).text = "SELECT nothing FROM selection"
            await take(album, pilot, "sql-error", "ctrl+j")
            app.query_one(SqlEditor).load_text("")
            names = {" ": "space", ".": "full_stop"}
            await take(album, pilot, "sql-offers", *(names.get(key, key) for key in "FROM kernels k WHERE k.d"))
            await take(album, pilot, "sql-catalogue", "escape", "f2", *"idle")

    asyncio.run(flow())


@pytest.mark.thorough
@small
def test_a_replay(album: Album) -> None:
    async def flow() -> None:
        async with shown("decoder", album, first="replay") as (app, pilot):
            pane = app.pane
            assert isinstance(pane, ReplayPane)
            pane.command_of_child = fake(WAITS)
            await pilot.press("enter")
            await until(lambda: pane.progress is not None and bool(pane.progress.deaths), pilot)
            await pilot.pause()
            album.take(app, "replay-live")
            await pilot.press("q")
            await pilot.pause()
            album.take(app, "window-confirm")
            await pilot.press("n", "x")
            await settled(pilot)
            album.take(app, "replay-stopped")

    asyncio.run(flow())


def test_screens_of_two_traces(album: Album) -> None:
    async def flow() -> None:
        async with shown("week", album) as (app, pilot):
            app.query_one("#overview-traces").focus()
            await take(album, pilot, "overview-marked", "space", "space")
            await take(album, pilot, "diff", "d")
            await take(album, pilot, "diff-unchanged", "u")
            await take(album, pilot, "diff-pick", "a")
            await take(album, pilot, "timeline-two-traces", "escape", "4", "0")

    asyncio.run(flow())


@pytest.mark.thorough
@small
def test_counters_without_times(album: Album) -> None:
    async def flow() -> None:
        async with shown("counters", album) as (_, pilot):
            await take(album, pilot, "counters-overview")
            await take(album, pilot, "counters-kernels", "2")
            await take(album, pilot, "counters-launches", "g", "g")
            await take(album, pilot, "counters-kernel", "3")
            await take(album, pilot, "counters-timeline", "4")
            await take(album, pilot, "counters-roofline", "5")
            await take(album, pilot, "counters-replay", "7")

    asyncio.run(flow())


@pytest.mark.thorough
@small
def test_sums_without_launches(album: Album) -> None:
    async def flow() -> None:
        async with shown("sums", album) as (_, pilot):
            await take(album, pilot, "sums-overview")
            await take(album, pilot, "sums-kernels", "2")
            await take(album, pilot, "sums-kernel", "3")
            await take(album, pilot, "sums-timeline", "4")
            await take(album, pilot, "sums-roofline", "5")

    asyncio.run(flow())


@pytest.mark.thorough
@small
def test_nothing_to_show(album: Album) -> None:
    async def flow() -> None:
        async with shown("empty", album) as (_, pilot):
            await take(album, pilot, "empty-overview")
            for key, name in (("2", "kernels"), ("4", "timeline"), ("5", "roofline"), ("6", "diff"), ("7", "replay")):
                await take(album, pilot, f"empty-{name}", key)
        async with shown("none", album) as (_, pilot):
            await take(album, pilot, "missing")

    asyncio.run(flow())


@pytest.mark.thorough
@small
def test_questions_on_the_way(album: Album, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_self: Store, _attempt: Any) -> None:
        await asyncio.Event().wait()

    async def flow() -> None:
        app = KerneldbApp("decoder.duckdb", first="kernels", watch=False)
        async with app.run_test(size=SIZES[album.folder.name]) as pilot:
            await pilot.pause()
            album.take(app, "kernels-loading")
            await pilot.press("1")
            await pilot.pause()
            album.take(app, "overview-loading")
            sentence = "decoder.duckdb is in use by process 4242 (kerneldb ingest more.json.gz); waiting for it"
            app.query_one(Status).condition = Condition("locked", sentence)
            await pilot.pause()
            album.take(app, "overview-locked")

    monkeypatch.setattr(Store, "_retried", never)
    asyncio.run(flow())


def test_no_picture_is_left_over(albums: dict[str, Album], request: pytest.FixtureRequest) -> None:
    tests = {item.name.partition("[")[0] for item in request.session.items if item.path == Path(__file__)}
    wanted = {name for name in globals() if name.startswith("test_")}
    if tests != wanted or request.config.getoption("markexpr") or request.config.getoption("keyword"):
        pytest.skip("not all pictures were taken")
    if os.environ.get("PYTEST_XDIST_WORKER"):
        pytest.skip("other workers take pictures, too")
    for album in albums.values():
        assert not album.unused()
