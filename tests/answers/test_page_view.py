"""The timeline of a page in its window: its ruler and what is told of an event stay in sight, the address in mind."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode

import pytest

import kerneldb
from kerneldb.report import gather, html
from tests.browser import Page, browser, needs_browser, opened_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.api import Database

pytestmark = [pytest.mark.again, needs_browser]

TRACE = "stacks-memory-h200"
VIEW = "Object.values(window.views)[0]"
LINES = f"[...{VIEW}.told.querySelectorAll('tr')].map((tr) => [...tr.cells].map((td) => td.textContent))"


@pytest.fixture(scope="module")
def database(stacks: Database) -> Database:
    return stacks


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    with browser(1280, 700) as page:
        yield page


@pytest.fixture
def page(tab: Page, stacks_address: str) -> Iterator[Page]:
    """The report, just opened at the timeline as by its link."""
    with opened_at(tab, f"{stacks_address}#timeline"):
        yield tab


def inks(page: Page, y: float) -> int:
    """How many colours a line of the drawing has, right of the names of lanes, `y` below what is scrolled away."""
    page.settled()
    found: int = page.run(f"""(() => {{
        const view = {VIEW}, copy = document.createElement("canvas");
        Object.assign(copy, {{width: view.canvas.width, height: 1}});
        const pen = copy.getContext("2d", {{willReadFrequently: true}}), found = new Set();
        pen.drawImage(view.canvas, 0, -Math.round((view.scroll.scrollTop + {y}) * view.ratio));
        const {{data}} = pen.getImageData(view.left, 0, view.wide, 1);
        for (let i = 0; i < data.length; i += 4) found.add(data.slice(i, i + 3).join());
        return found.size;
    }})()""")
    return found


def test_the_ruler_stays_where_lanes_are_scrolled(page: Page) -> None:
    numbers = inks(page, 11)
    assert numbers > 5, "grey letters have edges"
    page.run(f"{VIEW}.scroll.scrollTop = 150")
    assert page.run(f"{VIEW}.over()") == 150
    assert inks(page, 11) == numbers
    at = page.run(f"(({{x, y}}) => [x, y])({VIEW}.scroll.getBoundingClientRect())")
    page.drag(at[0] + 400, at[1] + 10, at[0] + 600)
    assert page.run(f"{VIEW}.range?.length") == 2, "a drag along it chooses a range there, too"


@pytest.mark.parametrize("size", [(1400, 900), (1280, 700), (400, 860)])
def test_what_is_chosen_is_told_in_sight(page: Page, size: tuple[int, int]) -> None:
    """Whatever part of the timeline was in the window: the event and what is told of it are."""
    page.size(*size)
    try:
        page.run("scrollTo(0, document.querySelector('.tl').getBoundingClientRect().top + scrollY - innerHeight / 2)")
        page.settled()
        for key in ("g", "f"):
            page.press(key)
            page.settled()
            told, drawn = page.run(f"""(() => {{
                const view = {VIEW}, row = view.rows.find((one) => one.lane === view.chosen.lane);
                const parts = [view.told, view.canvas, view.scroll];
                const [panel, canvas, shown] = parts.map((one) => one.getBoundingClientRect());
                const top = canvas.top + row.y, bottom = Math.min(shown.bottom, panel.top);
                const told = [panel.top > 0, panel.bottom <= innerHeight + 1, panel.height > 60];
                return [told, [top >= shown.top + Drawing.TOP, top + row.high <= bottom]];
            }})()""")
            assert (told, drawn) == ([True] * 3, [True] * 2), key
    finally:
        page.size(1280, 700)


def test_an_operator_that_has_ended_holds_no_call(tmp_path: Path, tab: Page) -> None:
    """It ended in the microsecond in which the call began, in another operator that began then."""
    host, made = {"ph": "X", "pid": 1, "tid": 1}, []
    for name, start, took in (("aten::mm", 100, 12), ("record_param_comms", 112, 40), ("aten::add", 152, 9)):
        made.append({**host, "cat": "cpu_op", "name": name, "ts": start, "dur": took, "args": {"External id": start}})
    launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 112, "dur": 4, "args": {"correlation": 5}}
    kernel = {"cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 130, "dur": 10}
    made += [{**host, **launch}, {**host, **kernel, "args": {"device": 0, "stream": 7, "correlation": 5}}]
    (tmp_path / "plain.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": made}))
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(tmp_path / "plain.json", name="plain")
    (tmp_path / "page.html").write_text(html.page(gather.single(database, ["plain"])), encoding="utf-8")
    tab.go((tmp_path / "page.html").as_uri())
    tab.run(f"{VIEW}.choose({{lane: {VIEW}.data.lanes.find((one) => one.launches), i: 0}})")
    assert [line for line in tab.run(LINES) if line[0] == "in operator"] == [
        ["in operator", "record_param_comms, 40 µs"]
    ]


SEEN = f"[{VIEW}.from, {VIEW}.to, {VIEW}.range, {VIEW}.chosen && {VIEW}.title({VIEW}.chosen)]"


def kept(page: Page) -> str:
    """The fragment of the address, as soon as it says what is seen."""
    page.run(f"""new Promise((done) => {{
        const {{address}} = {VIEW}, look = () => address.kept === address.words() ? done() : setTimeout(look, 20);
        look();
    }})""")
    return str(page.run("location.hash"))


def test_the_address_keeps_what_is_seen(page: Page, stacks_address: str) -> None:
    """View, event and range, for who opens it, or puts it into the bar of an open page; a whole trace needs none."""
    assert kept(page) == "#timeline"
    page.press("g", "f", "w")
    chosen, saw = kept(page), page.run(SEEN)
    start = page.run(f"{VIEW}.chosen.lane.start[{VIEW}.chosen.i] - {VIEW}.data.zero")
    assert f"trace={TRACE}&" in chosen
    assert f"&start={start}&" in chosen
    page.press("a", "r")
    ranged, then = kept(page), page.run(SEEN)
    assert "&range=" in ranged
    page.press("0", "Escape")
    assert kept(page) == ""
    for fragment, seen in ((chosen, saw), (ranged, then)):
        page.go("about:blank", "null")
        page.go(stacks_address + fragment)
        found = page.run(SEEN)
        assert found[:2] == pytest.approx(seen[:2], abs=1)
        assert found[3] == seen[3]
        assert (found[2] is None) == (seen[2] is None)
        assert kept(page) == fragment
        assert page.run(f"{VIEW}.box.getBoundingClientRect().top < innerHeight")
    page.run(f"location.hash = {json.dumps(chosen)}")
    page.run(f"new Promise((done) => {{ const look = () => {VIEW}.chosen ? done() : setTimeout(look, 20); look(); }})")
    assert page.run(SEEN)[3] == saw[3]


def test_the_address_keeps_what_is_typed(page: Page, stacks_address: str) -> None:
    """A search and the lanes that are asked for, beside the view and the event; an address without them ends both."""
    typed = {"search": "aten::mm, <b>&lanes=x#", "lanes": "operators"}
    for box, text in (("search", "aten::mm"), ("sought", typed["lanes"])):
        page.run(f"{VIEW}.{box}.value = {json.dumps(text)}; {VIEW}.{box}.dispatchEvent(new Event('input'))")
    page.press("n")
    found = f"[{VIEW}.search.value, {VIEW}.sought.value, {VIEW}.hits.words(), {VIEW}.hits.at, {VIEW}.arranged().length]"
    saw, fragment, chosen = page.run(found), kept(page), page.run(SEEN)[3]
    assert (saw[:2], saw[3], chosen) == (["aten::mm", "operators"], 0, "aten::mm")
    for address in (fragment, f"#trace={TRACE}&from=1000&to=9000&{urlencode(typed)}"):
        page.go("about:blank", "null")
        page.go(stacks_address + address)
        if address == fragment:
            assert (page.run(found), page.run(SEEN)[3]) == (saw, chosen)
        else:
            assert page.run(found)[:3] == [typed["search"], typed["lanes"], "0 events"]
        assert parse_qs(kept(page)) == parse_qs(address)
    changed = "new Promise((done) => addEventListener('hashchange', () => done(), {once: true}))"
    page.run(f"(location.hash = 'trace={TRACE}&from=1000&to=9000', {changed})")
    assert page.run(found)[:3] == ["", "", ""]


@pytest.mark.parametrize("said", ["trace=another&from=1&to=9", f"trace={TRACE}&from=x&to=9", "from=5&to=9"])
def test_an_address_of_something_else_changes_nothing(page: Page, stacks_address: str, said: str) -> None:
    page.go("about:blank", "null")
    page.go(f"{stacks_address}#{said}")
    assert page.run(f"[{VIEW}.from, {VIEW}.to === {VIEW}.end]") == [0, True]


def test_the_first_tab_leads_to_the_timeline(page: Page, stacks_address: str) -> None:
    page.go("about:blank", "null")
    page.go(stacks_address)
    page.press("Tab")
    assert page.run("document.activeElement.textContent") == "Skip to the timeline"
    page.press("Enter")
    assert page.run("document.activeElement === document.querySelector('.tl canvas')")
    assert page.run(f"[{VIEW}.box.getBoundingClientRect().top < 50, {VIEW}.visible() > 100]") == [True, True]
    page.press("ArrowRight", "w")
    assert page.run(f"{VIEW}.from") > 0


def test_parts_of_a_gpu_make_up_the_range(page: Page, database: Database) -> None:
    """Busy, idle and what is before the first and after the last launch, in a range that is wider than the trace."""
    (row,) = database.sql(
        "SELECT max(end_ns) - min(start_ns) AS span_ns, (SELECT sum(gap_ns) FROM idle_gaps())::BIGINT AS idle_ns "
        "FROM kernels"
    ).rows()
    rows = page.run(f"Sums.rows({VIEW}, -1000, {VIEW}.end + 1000)")
    told = {kind: ns for kind, name, n, ns in rows if name.startswith("GPU 0") and not n}
    end = page.run(f"{VIEW}.end")
    assert told["idle"] == row["idle_ns"]
    assert told["busy"] == row["span_ns"] - row["idle_ns"]
    assert told["outside"] == end + 2000 - row["span_ns"]
    assert {kind: ns for kind, *_, ns in page.run(f"Sums.rows({VIEW}, -900, 0)")}["outside"] == 900


def test_sums_have_the_lanes_that_are_open(tmp_path: Path, tab: Page) -> None:
    """Of Python the time in each line of the program without that of the lines within it."""
    made, host = [], {"ph": "X", "pid": 1, "tid": 1}
    frames = [("train.py(5): main", 0, 100), ("torch/nn/module.py(9): call", 10, 50), ("model.py(7): forward", 20, 30)]
    for number, (name, start, took) in enumerate([*frames, ("data.py(3): load", 70, 20)]):
        marked = {"Python id": number, "Python parent id": None}
        made.append({**host, "cat": "python_function", "name": name, "ts": start, "dur": took, "args": marked})
    made.append({**host, "cat": "user_annotation", "name": "step", "ts": 0, "dur": 60})
    placed = {"device": 0, "stream": 7, "correlation": 5}
    made.append({**host, "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 30, "dur": 10, "args": placed})
    (tmp_path / "plain.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": made}))
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(tmp_path / "plain.json", name="plain")
    (tmp_path / "page.html").write_text(html.page(gather.single(database, ["plain"])), encoding="utf-8")
    tab.go((tmp_path / "page.html").as_uri())
    sums = f"Sums.rows({VIEW}, 0, {VIEW}.end)"
    assert "Python" not in {kind.split(",")[0] for kind, *_ in tab.run(sums)}, "closed"
    tab.run(f"{VIEW}.closed.clear()")
    rows = [(kind.split(",")[0], name, ns) for kind, name, n, ns in tab.run(sums)]
    assert [row for row in rows if row[0] in {"annotations", "Python"}] == [
        ("annotations", "step", 60_000),
        ("Python", "train.py(5): main", 50_000),
        ("Python", "model.py(7): forward", 30_000),
        ("Python", "data.py(3): load", 20_000),
    ]


def titles(page: Page) -> str:
    """The picture of the column with the titles of lanes."""
    page.settled()
    return str(
        page.run(f"""(() => {{
        const view = {VIEW}, copy = document.createElement("canvas");
        Object.assign(copy, {{width: view.left - 2, height: view.canvas.height}});
        copy.getContext("2d").drawImage(view.canvas, 0, 0);
        return copy.toDataURL();
    }})()""")
    )


def test_what_leads_out_of_the_view_is_not_drawn_over_titles(page: Page) -> None:
    """The call of a launch is left of the view: neither its box nor the line to it is beside the lanes."""
    page.run(f"""(() => {{
        const view = {VIEW}, lane = view.data.lanes.find((one) => one.launches && one.link[0]);
        view.choose({{lane, i: 0}});
        const [call] = view.linked(view.chosen), after = call.lane.start[call.i] + call.lane.length[call.i];
        view.show(after, lane.start[0] + lane.length[0]);
        view.resize();
    }})()""")
    chosen = titles(page)
    page.run(f"({VIEW}.chosen = null, {VIEW}.resize())")
    assert titles(page) == chosen


@pytest.mark.parametrize("width", [1280, 390])
def test_titles_of_lanes_are_whole(page: Page, width: int) -> None:
    page.size(width, 700)
    try:
        drawn = page.run(f"""(() => {{
            const view = {VIEW}, texts = [], {{pen}} = view;
            for (const lane of view.data.lanes) lane.place += ", exchanges-script-rank0";
            for (const counter of view.data.counters) counter.name += ", exchanges-script-rank0";
            view.arrange(); view.resize();
            pen.fillText = (text) => texts.push(text);
            view.paint();
            delete pen.fillText;
            const heads = view.rows.filter((row) => row.head).map((row) => Drawing.titled(row.head));
            return {{texts, heads, counters: view.data.counters.map((one) => one.name)}};
        }})()""")
        shown = [text.lstrip("▾▸ ") for text in drawn["texts"]]
        assert {title for title in drawn["heads"] if title not in shown} == set()
        told = " ".join(shown)
        assert drawn["counters"]
        assert all(name in told for name in drawn["counters"])
    finally:
        page.size(1280, 700)


def test_a_launch_without_a_call_says_so(page: Page) -> None:
    page.run(f"""(() => {{
        const view = {VIEW}, lane = view.data.lanes.find((one) => one.launches);
        lane.link[0] = 0;
        view.choose({{lane, i: 0}});
    }})()""")
    assert ["launched by", "a call that was not recorded"] in page.run(LINES)
    page.press("f")
    said = [name for role, name in page.heard() if role == "StaticText"]
    assert "its call was not recorded" in said
    page.press("]")
    assert page.run(f"{VIEW}.said.textContent") == ""


UNITS = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9}


def as_ns(text: str) -> Fraction:
    """A time as it is written on the ruler."""
    number, unit = text.replace(",", "").replace("−", "-").split()
    return Fraction(number) * UNITS[unit]


@pytest.mark.parametrize("width", [1280, 390])
def test_times_of_the_ruler_differ_as_they_do(page: Page, width: int) -> None:
    """However far it is zoomed in, at seconds after the first launch: each label is the time of its tick, to the ns."""
    page.size(width, 700)
    try:
        page.run(f"({VIEW}.data.zero -= 3_541_002_000, {VIEW}.resize())")
        for _ in range(30):
            page.settled()
            ticks = page.run(f"{VIEW}.ticks().map((t) => [Math.round({VIEW}.x(t)), t - {VIEW}.data.zero])")
            labels = page.run(f"{VIEW}.labels().map(([x, text]) => [Math.round(x), text])")
            assert len(labels) >= (3 if width > 1000 else 1)
            assert [[x, as_ns(text)] for x, text in labels] == [tick for tick in ticks if tick[0] in dict(labels)]
            page.press("w")
        assert page.run(f"{VIEW}.to - {VIEW}.from") < 100
    finally:
        page.size(1280, 700)


def test_the_start_of_an_event_is_told_to_the_nanosecond(page: Page) -> None:
    page.run(f"({VIEW}.data.zero -= 708_000_000_000, {VIEW}.show(0, {VIEW}.end))")
    page.press("g")
    start = page.run(f"{VIEW}.chosen.lane.start[{VIEW}.chosen.i] - {VIEW}.data.zero")
    (told,) = [value for label, value in page.run(LINES) if label == "start, duration"]
    assert as_ns(told.rsplit(", ", 1)[0]) == start
    assert page.run("[-1500, 0, 999, 1000, 708209960, 12e12].map((ns) => Packed.clock(ns))") == [
        "−1.500 µs", "0 ns", "999 ns", "1.000 µs", "708.209960 ms", "12,000.000000000 s",
    ]  # fmt: skip
