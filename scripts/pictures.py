"""Pictures of all screens and pages at four sizes, to look at: PNG files, drawn by Chromium.

    python -m scripts.pictures build/pictures [--only terminal|pages]

Run from the repository, with the development tools installed. The screens are those of `scripts.screenshots` (80x24,
100x30, 120x40, 200x60); the pages are the report of the bundled trace, a comparison, the pages of `kerneldb serve` and
a timeline with sums, on a phone, two laptops, a wide screen and paper, light and dark.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import kerneldb
from kerneldb.report import changes, events, gather, html, serve
from kerneldb.tui.app import KerneldbApp
from scripts.screenshots import STEPS
from tests.browser import browser
from tests.tui import pictures
from tests.tui.piloting import press, settled

if TYPE_CHECKING:
    from collections.abc import Iterator

TERMINALS: Final = ((80, 24), (100, 30), (120, 40), (200, 60))
BROWSERS: Final = {"phone": (390, 844), "small": (1024, 768), "laptop": (1440, 900), "wide": (2560, 1440)}


async def screens(database: str, size: tuple[int, int], target: Path) -> None:
    """Draw the screens of one database, which lies in the current folder."""
    app = KerneldbApp(f"{database}.duckdb", watch=False)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        for name, (where, keys) in STEPS.items():
            if where != database:
                continue
            await press(pilot, *keys)
            pictures.still(app)
            await settled(pilot)
            drawing = target / f"{size[0]}x{size[1]}-{name}.svg"
            drawing.write_text(pictures.drawn(app))


def terminal(target: Path) -> None:
    """All screens in all sizes."""
    for size in TERMINALS:
        for database in ("decoder", "pair"):
            asyncio.run(screens(database, size, target))
    with browser() as page:
        for drawing in sorted(target.glob("*.svg")):
            columns, rows = map(int, drawing.name.split("-")[0].split("x"))
            page.size(round(12.2 * columns) + 20, round(24.4 * rows) + 60)
            page.go(drawing.as_uri(), "0")
            page.picture(drawing.with_suffix(".png"))
            drawing.unlink()


def pages(target: Path) -> None:
    """All pages in all sizes, each from its top to its end."""
    with browser() as page:
        for name, text in made():
            file = target / f"{name}.html"
            file.write_text(text, encoding="utf-8")
            for size, scheme in itertools.product(BROWSERS, ("light", "dark")):
                page.size(*BROWSERS[size])
                page.looks(scheme)
                page.go(file.as_uri())
                page.picture(target / f"{name}-{size}-{scheme}.png", whole=True)
            page.paper(target / f"{name}-print.pdf")
            file.unlink()


def made() -> Iterator[tuple[str, str]]:
    """Names and texts of pages, of the databases in the current folder."""
    decoder, pair = kerneldb.open("decoder.duckdb"), kerneldb.open("pair.duckdb")
    yield "report", html.page(gather.single(decoder, ["decoder-h200"]))
    yield "comparison", html.page(changes.comparison(pair, "first", "second"))
    yield "index", bytes(serve._index(pair, {}).body).decode()
    events.MOST = 1000
    yield "summed", html.page(gather.single(decoder, ["decoder-h200"]))


def main() -> None:
    """Make the databases in a temporary folder, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, help="folder of the pictures")
    parser.add_argument("--only", choices=("terminal", "pages"))
    given = parser.parse_args()
    target = given.target.absolute()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for make in (pictures.decoder, pictures.pair):
            make(Path(folder))
        for draw in (terminal, pages):
            if given.only in {None, draw.__name__}:
                draw(target)


if __name__ == "__main__":
    main()
