"""Everything is there for the keyboard: each widget gets it, each action has a key, and the panel of keys names it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING, Any

import pytest
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets._key_panel import BindingsTable

import kerneldb.tui
from kerneldb.tui import dialogs
from kerneldb.tui.app import KerneldbApp
from kerneldb.tui.dialogs import Ingesting, WindowBase
from kerneldb.tui.screens import PLACES
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import driven, opened, press, settled
from tests.warehouse.conftest import Launch, Traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from textual.pilot import Pilot

CLASSES = [
    found
    for module in pkgutil.walk_packages(kerneldb.tui.__path__, "kerneldb.tui.")
    for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
    if found.__module__ == module.name
]
CALLED_BY_TEXTUAL = {"quit", "suspend_process", "cursor_right"}
"""Bound by Textual itself, under keys of its own."""
WHILE_A_REPLAY_RUNS = {"pause"}
"""The panel lists what works now."""
MOUSE = {
    "Tabs": "1", "Keys": "question_mark", "LevelBar": "g", "Table": "s", "Gantt": "w", "Scatter": "right"
}  # fmt: skip
"""Widgets that a mouse does something on, with a key that does the same."""


def bound(cls: type[Any]) -> Iterator[Binding]:
    for base in cls.__mro__:
        if base.__module__.startswith("kerneldb.tui"):
            yield from (one for one in base.__dict__.get("BINDINGS", ()) if isinstance(one, Binding))


BOUND = {binding for cls in CLASSES for binding in bound(cls)}


@pytest.fixture(scope="module")
def pair(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two traces with work, steps, launches and what Diff and Replay need. Read only."""
    folder = tmp_path_factory.mktemp("keys")
    warehouse, make = Warehouse.create_or_open(folder / "k.duckdb"), Traces(folder)
    for name, duration in (("one", 50), ("two", 90)):
        launches = tuple(Launch("gemm", 1000 * start, duration, op="aten::mm") for start in range(30))
        warehouse.commit(make(name, launches))
    kerneldb.open(warehouse.path).ingest(root / "tests" / "fixtures" / "train-step-h200.json.gz", name="step")
    return warehouse.path


def test_every_action_has_a_key_and_every_key_says_what_it_does() -> None:
    actions = {
        name.removeprefix("action_"): cls
        for cls in CLASSES
        for name in vars(cls)
        if name.startswith("action_") and not issubclass(cls, Ingesting)
    }
    with_keys = {binding.action.partition("(")[0].removeprefix("app.") for binding in BOUND}
    inherited = {"clear", "pick"}  # of the palette, and of Enter in lists
    assert sorted(set(actions) - with_keys - CALLED_BY_TEXTUAL - inherited) == []
    assert [binding for binding in BOUND if not binding.description] == []


def test_whatever_a_mouse_does_a_key_does() -> None:
    handlers = ("on_click", "on_mouse_down", "on_mouse_move", "on_mouse_scroll_down", "on_mouse_scroll_up")
    assert {cls.__name__ for cls in CLASSES if any(name in vars(cls) for name in handlers)} == set(MOUSE)
    keys = {key for binding in BOUND for key in binding.key.split(",")} | {place.key for place in PLACES}
    assert set(MOUSE.values()) <= keys


def listed(app: KerneldbApp) -> str:
    """What the panel of keys says."""
    table = app.screen.query_one(BindingsTable).render_bindings_table()
    return "\n".join(str(cell) for column in table.columns for cell in column.cells)


async def keys_named(pilot: Pilot[Any], app: KerneldbApp) -> str:
    await press(pilot, "f1")
    named = listed(app)
    await press(pilot, "f1")
    return named


def takers(app: KerneldbApp) -> set[Widget]:
    """The widgets of the screen in front that are there for the keyboard."""
    return {one for one in app.pane.walk_children(Widget, with_self=True) if one.focusable and one.is_on_screen}


async def walk(pilot: Pilot[Any], app: KerneldbApp) -> str:
    """Go through the screen by Tab; what the panels of keys name on the way."""
    reached: set[Widget] = set()
    named = ""
    while app.focused is not None and app.focused not in reached:
        if type(app.focused) not in set(map(type, reached)):  # others of its kind have the same keys
            named += await keys_named(pilot, app)
        reached.add(app.focused)
        await press(pilot, "tab")
    assert takers(app) <= reached
    return named


def test_every_widget_is_reached_and_every_key_is_named(pair: Path) -> None:
    async def flow() -> None:
        named, walked = "", set[type[Any]]()
        async with opened(pair, size=(160, 48)) as (app, pilot):
            for place in PLACES:
                if place.name == "sql":
                    await press(pilot, "ctrl+e", "ctrl+j")
                else:
                    await press(pilot, place.key)
                await settled(pilot)
                assert app.pane.state == "ready", place.name
                named += await walk(pilot, app)
                walked |= {type(one) for one in app.pane.walk_children(Widget, with_self=True)}
                await press(pilot, "escape")
            walked |= {KerneldbApp, *(type(one) for one in app.screen.walk_children(Widget))}
        windows = {cls for cls in CLASSES if issubclass(cls, WindowBase) or cls.__module__ == dialogs.__name__}
        assert {cls for cls in CLASSES if issubclass(cls, Widget) and any(bound(cls))} - windows <= walked
        missing = {
            binding.action
            for cls in walked
            for binding in bound(cls)
            if binding.description not in named and (binding.tooltip or "?") not in named
        }
        assert missing == WHILE_A_REPLAY_RUNS

    driven(flow)
