"""Pictures of screens: databases made of what the repository holds, and an album that compares."""

from __future__ import annotations

import difflib
import functools
import gzip
import html
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from rich.console import Console
from textual.widgets import Input, TextArea

import kerneldb
from kerneldb.api.planning import Request
from kerneldb.replay.wire import plan as plans
from kerneldb.warehouse import Warehouse
from tests.conftest import raw_result
from tests.tui.test_diff import AFTER, BEFORE
from tests.warehouse.conftest import Traces

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from kerneldb.tui.app import KerneldbApp

ROOT: Final = Path(__file__).resolve().parents[2]
COUNTED_LINES: Final = 45


def decoder(folder: Path) -> Path:
    """The bundled trace, and its replay on an H200."""
    path = folder / "decoder.duckdb"
    database = kerneldb.open(path)
    database.ingest(ROOT / "examples" / "decoder-h200.json.gz", name="decoder-h200")
    plan, journal = folder / "plan", folder / "journal"
    planned = database.plan_replay(Request(where=None, traces=("decoder-h200",))).plan
    plans.write(planned, plan)
    # The plan of that journal is not kept: a few of its calls were planned with other sizes than now.
    items = {item.id for item in planned.items}
    lines = raw_result("2026-11-21-h200-replay", "decoder-h200.journal").splitlines(True)
    told = [json.loads(line) for line in lines]
    journal.write_bytes(b"".join(line for line, one in zip(lines, told, strict=True) if within(one, items)))
    database.read_journal(plan, journal)
    return path


def within(line: Mapping[str, Any], items: Set[str]) -> bool:
    """Whether a line of a journal is about the run, or about one of these items."""
    return line["kind"] != "call" or line["call"]["item"] in items


def pair(folder: Path) -> Path:
    """The prefill of one model on two boards, `first` and `second`."""
    path = folder / "pair.duckdb"
    database = kerneldb.open(path)
    for name, result, raw in (
        ("first", "2026-11-21-h200-energy", "bloom-560m/prefill.pt.trace.json"),
        ("second", "2026-11-21-h200-reconciliation", "board2/bloom-560m-prefill.pt.trace.json"),
    ):
        trace = folder / f"{name}.json"
        trace.write_bytes(raw_result(result, raw))
        database.ingest(trace, name=name)
    return path


def counters(folder: Path) -> Path:
    """A few kernels of a decoder block under ncu: no times of a program, many counters."""
    path, report = folder / "counters.duckdb", folder / "block.csv"
    lines = raw_result("2026-11-21-h200-ncu", "command.raw.csv").splitlines(True)
    report.write_bytes(b"".join(lines[:COUNTED_LINES]))
    kerneldb.open(path).ingest(report, name="block")
    return path


def sums(folder: Path) -> Path:
    """What nsys prints as sums per kernel: no single launches."""
    path = folder / "sums.duckdb"
    kerneldb.open(path).ingest(ROOT / "tests" / "fixtures" / "nsys" / "r23_cuda_gpu_kern_sum.tsv", name="sums")
    return path


def empty(folder: Path) -> Path:
    """A file without traces."""
    return Warehouse.create_or_open(folder / "empty.duckdb").path


def week(folder: Path) -> Path:
    """Two made-up traces, `monday` and `tuesday`: one kernel got slower, one is gone, one is new."""
    warehouse, make = Warehouse.create_or_open(folder / "week.duckdb"), Traces(folder)
    for name, launches in (("monday", BEFORE), ("tuesday", AFTER)):
        warehouse.commit(make(name, launches))
    return warehouse.path


def drawn(app: KerneldbApp) -> str:
    """The screen as SVG, the same whenever the same is shown. Without a name, Rich makes one of all that is on it."""
    named = functools.partialmethod(Console.export_svg, unique_id="terminal")
    with mock.patch.object(Console, "export_svg", named):
        return app.export_screenshot()


def still(app: KerneldbApp) -> None:
    """No cursor of a text field blinks from now on."""
    for screen in app.screen_stack:
        for field in (*screen.query(Input), *screen.query(TextArea)):
            field.cursor_blink = False


class Album:
    """The accepted pictures of one size of the terminal in `folder`, as compressed SVG, compared with new ones.

    `write` accepts the new ones instead. `aside` takes those that differ, as plain SVG for a browser.
    """

    def __init__(self, folder: Path, aside: Path, *, write: bool) -> None:
        self.folder = folder
        self.aside = aside
        self.write = write
        self.taken: set[str] = set()
        self.problems: list[str] = []

    def take(self, app: KerneldbApp, name: str) -> None:
        """Compare the screen with the picture `name`."""
        assert name not in self.taken
        self.taken.add(name)
        picture, path = drawn(app), self.folder / f"{name}.svg.gz"
        if self.write:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not path.exists() or _read(path) != picture:
                path.write_bytes(gzip.compress(picture.encode(), 9, mtime=0))
        elif not path.exists():
            self._differs(name, picture, "there is no picture of it")
        elif (before := _read(path)) != picture:
            self._differs(name, picture, _changes(before, picture))

    def _differs(self, name: str, picture: str, what: str) -> None:
        self.aside.mkdir(parents=True, exist_ok=True)
        (self.aside / f"{name}.svg").write_text(picture)
        self.problems.append(f"{name}: {what}\n  now: {self.aside / name}.svg")

    def unused(self) -> set[str]:
        """Pictures of states that no test shows any more."""
        found = {path.name.removesuffix(".svg.gz") for path in self.folder.glob("*.svg.gz")} - self.taken
        if self.write:
            for name in found:
                (self.folder / f"{name}.svg.gz").unlink()
            return set()
        return found


def _read(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def _changes(before: str, now: str) -> str:
    old, new = _lines(before), _lines(now)
    changed = [line for line in difflib.unified_diff(old, new, lineterm="", n=0) if not line.startswith(("---", "+++"))]
    return "\n  ".join(["other characters:", *changed[:12]] if changed else ["the same characters in other colours"])


def _lines(picture: str) -> list[str]:
    """The characters of an SVG, line by line."""
    rows: dict[float, list[Any]] = {}
    for x, y, text in re.findall(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', picture):
        rows.setdefault(float(y), []).append((float(x), html.unescape(text)))
    return ["".join(text for _, text in sorted(parts)).rstrip() for _, parts in sorted(rows.items())]
