"""The pictures in the documentation: each screen has one, and the pages show them all."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kerneldb.tui.screens import PLACES

DOCS = Path(__file__).resolve().parents[2] / "docs"
SHOWN = {
    name
    for page in ("tui.md", "tui-pictures.md")
    for name in re.findall(r"\(images/(\S+)\)", (DOCS / page).read_text())
}


@pytest.mark.parametrize("name", [place.name for place in PLACES])
def test_every_screen_has_a_picture_that_is_shown(name: str) -> None:
    picture = DOCS / "images" / f"tui-{name}.svg"
    assert picture.name in SHOWN
    root = ET.parse(picture).getroot()  # noqa: S314 (made here)
    title = next(place.title for place in PLACES if place.name == name)
    assert root.tag.endswith("svg")
    assert title in picture.read_text().replace("&#160;", " ")


def test_no_picture_is_left_over() -> None:
    assert {path.name for path in (DOCS / "images").glob("tui-*.svg")} == SHOWN


def test_the_script_draws_every_screen() -> None:
    spec = importlib.util.spec_from_file_location("screenshots", DOCS.parent / "scripts" / "screenshots.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert set(script.STEPS) == {place.name for place in PLACES}
