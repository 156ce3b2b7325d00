"""Every screen shows of a lake what it shows of a file with the same traces."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Final

import pytest

import kerneldb
from kerneldb.tui.app import KerneldbApp
from kerneldb.tui.model import Choice
from kerneldb.tui.screens import PLACES
from kerneldb.warehouse import lakes
from tests.tui.piloting import opened, press, settled, text_of

NAME: Final = "k.sqlite"
"""Of the file and of the catalog of the lake: the name is on the screens."""
CHOICE: Final = Choice("category = 'GEMM' AND duration_ns > 2000", traces=("step",), level="launch")


@pytest.fixture(scope="module")
def databases(root: Path, base_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A file and a lake with the same two traces. Read only."""
    file, catalog = (tmp_path_factory.mktemp(kind) / NAME for kind in ("file", "lake"))
    shutil.copy(base_sqlite, catalog)
    found = {"file": str(file), "lake": f"ducklake:sqlite:{catalog}"}
    for source in found.values():
        database = kerneldb.open(source)
        database.ingest(root / "tests" / "fixtures" / "train-step-h200.json.gz", name="step")
        database.ingest(root / "examples" / "decoder-h200.json.gz", name="decoder")
    return found


async def walked(source: str, choice: Choice) -> dict[str, tuple[str, str]]:
    """State and text of each screen."""
    found = {}
    async with opened(source, choice, first="kernels", size=(140, 40)) as (app, pilot):
        await press(pilot, "down")
        for place in PLACES:
            app.show(place.name)
            await settled(pilot)
            if place.name == "sql":
                await press(pilot, "ctrl+j")
            found[place.name] = app.pane.state, shown(app)
    return found


def shown(app: KerneldbApp) -> str:
    """What is on the screen, but for the folder of the database."""
    return text_of(app).replace(str(app.store.path.parent), "")


def test_screens(databases: dict[str, str]) -> None:
    """In one test for all screens: to open the application costs more than to walk through it."""
    found = {kind: asyncio.run(walked(source, CHOICE)) for kind, source in databases.items()}
    lakes.close_all()
    assert found["lake"] == found["file"]
    assert list(found["file"]) == [place.name for place in PLACES]
    for state, text in found["file"].values():
        assert state in {"ready", "empty"}
        assert len(text.splitlines()) == 40
