"""Draw the screens of `kerneldb tui` for the documentation, from the bundled trace and its replay on an H200.

    python -m scripts.screenshots docs/images

Run from the repository, with the development tools installed. The pictures are `tui-SCREEN.svg`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.tui.app import KerneldbApp
from tests.tui import pictures
from tests.tui.piloting import press, settled

if TYPE_CHECKING:
    from collections.abc import Mapping

SIZE: Final = (120, 34)
STEPS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "overview": ("decoder", ("1",)),
    "kernels": ("decoder", ("2",)),
    "kernel": ("decoder", ("n",)),
    "timeline": ("decoder", ("4", "s", "s", "s", "s", "s", "s")),
    "roofline": ("decoder", ("5",)),
    "replay": ("decoder", ("7", "l")),
    "sql": ("decoder", ("8", "ctrl+j")),
    "diff": ("pair", ("6", "u")),
}
"""Each screen with its database and the keys that lead to it, one after the other on one database."""


async def tour(database: str, target: Path) -> None:
    """Draw the screens of one database, which lies in the current folder."""
    app = KerneldbApp(f"{database}.duckdb", watch=False)
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        for name, (where, keys) in STEPS.items():
            if where == database:
                await press(pilot, *keys)
                pictures.still(app)
                await settled(pilot)
                (target / f"tui-{name}.svg").write_text(pictures.drawn(app))


def main() -> None:
    """Make the databases in a temporary folder, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, help="folder of the pictures")
    target = parser.parse_args().target.absolute()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for make in (pictures.decoder, pictures.pair):
            make(Path(folder))
        for database in ("decoder", "pair"):
            asyncio.run(tour(database, target))


if __name__ == "__main__":
    main()
