"""The timeline of several ranks in a page: a collective leads to itself on the other ranks; lanes are filtered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.report import gather, html
from tests.browser import browser, needs_browser
from tests.collective.test_stragglers import PAUSES, trace

pytestmark = [pytest.mark.again, needs_browser]

LEAVES_US = 200
"""So much sooner rank 0 leaves the last all-reduce, which it began first: as who sends may leave a broadcast."""
EPOCH_US = 1_700_000_000_000_000
VIEW = "Object.values(window.views)[0]"
TOLD = f"[...{VIEW}.told.querySelectorAll('tr')].map((tr) => [...tr.cells].map((cell) => cell.textContent))"
TITLES = f"{VIEW}.rows.filter((row) => row.head).map((row) => Drawing.titled(row.head))"
LATE = f"""(() => {{ const view = {VIEW}, lane = view.data.lanes.find((one) => one.lane === "stream 20");
  view.choose({{lane, i: 2}}); view.canvas.focus({{preventScroll: true}}); }})()"""


def ingested(folder: Path, *, shared: bool) -> Database:
    """The ranks of `test_stragglers`, by a clock that they share, or each by its own."""
    for rank in PAUSES:
        made: dict[str, Any] = {**trace(rank), "baseTimeNanoseconds": 0}
        made["traceEvents"][-1]["dur"] -= LEAVES_US * (rank == 0)
        for event in made["traceEvents"]:
            event["ts"] += EPOCH_US if shared else EPOCH_US * rank
        (folder / f"rank{rank}.json").write_text(json.dumps(made), encoding="utf-8")
    database = kerneldb.open(folder / "k.duckdb")
    database.ingest(sorted(folder.glob("rank*.json")), run="job")
    return database


def written(folder: Path, *, shared: bool) -> Path:
    """Their page."""
    page = folder / "page.html"
    page.write_text(html.page(gather.single(ingested(folder, shared=shared), ["job"])), encoding="utf-8")
    return page


def test_contents_of_a_page_that_comes_have_a_line_for_each_trace(tmp_path: Path) -> None:
    sections = gather.arriving(ingested(tmp_path, shared=True), ["job"], live=True)
    address = tmp_path / "page.html"
    address.write_text("".join(html.arriving("job", "made", sections, ["rank0"])), encoding="utf-8")
    with browser() as page:
        page.go(address.as_uri())
        lines = page.run(
            "[...document.querySelectorAll('#listed > *')].map((one) => [...one.children, one][0].textContent)"
        )
        assert lines == [gather.RANKS, "rank0:", "rank1:", "rank2:", gather.TOGETHER_DRAWN, "Full names:"]
        links = page.run(
            "[...document.querySelectorAll('#listed > div:first-of-type a')].map((one) => one.textContent)"
        )
        assert links[:2] == ["Why it takes so long", "Setup"]
        places = "[...document.querySelectorAll('#listed a')].map((one) => document.querySelector(one.hash)?.tagName)"
        assert set(page.run(places)) == {"SECTION"}


def test_a_collective_leads_to_itself_on_other_ranks(tmp_path: Path) -> None:
    with browser() as page:
        page.go(written(tmp_path, shared=True).as_uri())
        page.run(LATE)
        told = page.run(TOLD)
        assert ["collective", "allreduce of 1.049 MB Float of ranks 0, 1, 2"] in told
        (waited,) = (what for label, what in told if label == "waited")
        assert waited.startswith("400 µs for rank 1, which joined last; the transfer took 390 µs, ")
        assert ["began", "400 µs apart: rank 0 first, rank 1 last"] in told
        assert ["on rank 1", "began 400 µs after this, took 390 µs"] in told
        assert ["on rank 2", "began 0 ns after this, took 790 µs"] in told
        page.press("x")
        assert ["waited", waited.replace("400 µs for rank 1, which", "not at all: this rank")] in page.run(TOLD)
        page.press("x", "x")
        assert page.run(TOLD) == told, "round and round"
        page.run(f"(() => {{ const view = {VIEW}; view.choose({{lane: view.chosen.lane, i: 0}}); }})()")
        assert [what.split(";")[0] for label, what in page.run(TOLD) if label == "waited"] == ["no rank waited"]
        assert page.wrong == []


def test_the_table_of_waits_leads_to_the_longest_of_each_row(tmp_path: Path) -> None:
    with browser() as page:
        page.go(written(tmp_path, shared=True).as_uri())
        table = """document.querySelector('table[aria-label="Waits of each rank for another"]')"""
        column = f"[...{table}.tHead.rows[0].cells].map((one) => one.textContent)"
        titles = page.run(column)
        rows = page.run(f"[...{table}.tBodies[0].rows].map((row) => [...row.cells].map((one) => one.textContent))")
        for number, row in enumerate(rows):
            said = dict(zip(titles, row, strict=True))
            page.run(f"{table}.tBodies[0].rows[{number}].querySelector('button').click()")
            told = dict(page.run(TOLD))
            assert told["where"].endswith(f"rank{said['rank']}")
            assert told["waited"].startswith(f"{said['longest wait']} ")
            assert f"rank {said['waits for rank']}" in told["waited"]
        assert (len(rows), page.wrong) == (4, [])


def test_who_takes_least_and_began_first_is_not_called_the_last(tmp_path: Path) -> None:
    with browser() as page:
        page.go(written(tmp_path, shared=True).as_uri())
        page.run(LATE.replace("i: 2", "i: 3"))
        told = dict(page.run(TOLD))
        assert told["waited"].startswith("not at all: it took least here; the transfer took 590 µs")
        assert told["began"] == "100 µs apart: rank 0 first, rank 2 last"
        page.press("x")
        assert dict(page.run(TOLD))["waited"].startswith("200 µs longer than on rank 0, where it took least; ")


def test_times_of_clocks_that_are_not_shared_are_not_compared(tmp_path: Path) -> None:
    with browser() as page:
        page.go(written(tmp_path, shared=False).as_uri())
        page.run(LATE)
        told = page.run(TOLD)
        assert "began" not in dict(told)
        assert ["on rank 1", "took 390 µs"] in told


def test_lanes_are_filtered_and_pinned(tmp_path: Path) -> None:
    with browser() as page:
        page.go(written(tmp_path, shared=True).as_uri())
        whole = page.run(TITLES)
        page.run(f"{VIEW}.sought.focus()")
        page.press(*"stream 20, IDLE rank1")
        shown = [title for title in whole if "stream 20" in title or title.startswith("idle · GPU 0, rank1")]
        assert page.run(TITLES) == shown != whole
        assert page.run(f"{VIEW}.said.textContent") == f"{len(shown)} of {len(whole)} lanes"
        page.press("Escape", "ArrowDown", "ArrowDown", "p")
        assert page.run(TITLES) == [shown[1], shown[0], *shown[2:]]
        page.press("p")
        assert page.run(TITLES) == shown
        # What is chosen elsewhere is shown.
        page.run(f"(() => {{ const view = {VIEW}; view.choose({{lane: view.data.lanes[0], i: 0}}); }})()")
        assert (page.run(TITLES), page.run(f"{VIEW}.sought.value")) == (whole, "")
        assert page.wrong == []
