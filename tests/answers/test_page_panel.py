"""The timeline of a page without a click: its keys, the list of what a search found, and what it tells of a launch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import pytest

import kerneldb
from kerneldb.report import changes, charts, dots, events, gather, html, live
from kerneldb.report.asking import asking
from kerneldb.report.model import shapes
from tests.browser import Page, browser, needs_browser, opened_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.api import Database

pytestmark = pytest.mark.again

TRACE = "stacks-memory-h200"
VIEW = "Object.values(window.views)[0]"


@pytest.fixture(scope="module")
def database(stacks: Database) -> Database:
    return stacks


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    with browser(1280, 900) as page:
        yield page


@pytest.fixture
def page(tab: Page, stacks_address: str) -> Iterator[Page]:
    """The report, just opened at the timeline as by its link; nothing was clicked."""
    with opened_at(tab, f"{stacks_address}#timeline"):
        yield tab


def span(page: Page) -> float:
    return float(page.run(f"{VIEW}.to - {VIEW}.from"))


def hits(page: Page) -> list[list[str]]:
    """Names, lanes and starts of the list of a search."""
    found: list[list[str]] = page.run(
        "[...document.querySelectorAll('.tl-hits tbody tr')].map((row) => [...row.cells].map((one) => one.textContent))"
    )
    return found


@needs_browser
def test_keys_need_no_click(page: Page) -> None:
    assert page.run("document.activeElement.tagName") == "BODY"
    whole = span(page)
    page.press("w", "w", "d")
    assert span(page) < whole
    page.press("0")
    assert span(page) == whole
    page.press("g")
    assert page.run(f"{VIEW}.chosen.lane.lane") == "idle"
    page.press("/", "w", "w")
    assert (page.run(f"{VIEW}.search.value"), page.run("document.activeElement.type")) == ("ww", "search")


@needs_browser
def test_keys_of_a_page_are_left_to_it(page: Page) -> None:
    """Arrows scroll; what is typed elsewhere is typed; a timeline that is out of sight is left as it is."""
    whole = span(page)
    page.press("ArrowLeft", "ArrowDown")
    assert (page.run(f"{VIEW}.from"), page.run(f"{VIEW}.chosen")) == (0, None)
    page.run("document.querySelector('.filter').focus()")
    page.press("w", "g")
    assert page.run("document.querySelector('.filter').value") == "wg"
    page.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.settled()
    page.press("w", "g")
    assert (span(page), page.run(f"{VIEW}.chosen")) == (whole, None)


@needs_browser
def test_the_mouse_over_it_gives_it_the_arrows_too(page: Page) -> None:
    page.press("w", "w")
    before = page.run(f"{VIEW}.from")
    at = page.run("(({x, y}) => ({x, y}))(document.querySelector('.tl canvas').getBoundingClientRect())")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=at["x"] + 400, y=at["y"] + 40)
    page.press("ArrowRight")
    assert page.run(f"{VIEW}.from") > before


def press(page: Page, text: str) -> None:
    """A button of the list of a search, whose text begins so."""
    page.run(
        f"[...document.querySelectorAll('.tl-hits button')].find((one) => one.textContent.startsWith('{text}')).click()"
    )


PRESSED = "[...document.querySelectorAll('.tl-hits [aria-pressed=true]')].map((one) => one.textContent)"


@needs_browser
def test_a_search_shows_one_kind_of_its_hits(page: Page, database: Database) -> None:
    counts = {
        kind: database.sql(f"SELECT count(*) AS n FROM {relation} WHERE {name} ILIKE '%mem%'").rows()[0]["n"]
        for kind, relation, name in (("launches", "kernels", "short_name"), ("API calls", "api_calls", "name"))
    }
    page.press("/", *"mem")
    assert page.run(PRESSED) == ["all", "time"]
    for kind, n in counts.items():
        press(page, f"{kind} ({n:,})")
        assert page.run(f"{VIEW}.hits.found.length") == n > 0
        assert page.run("document.activeElement.textContent") == f"{kind} ({n:,})"
    press(page, "duration")
    assert page.run(PRESSED) == [f"API calls ({counts['API calls']:,})", "duration"]
    page.run(f"{VIEW}.search.focus()")
    page.press("Enter")
    assert page.run(f"{VIEW}.chosen.lane.lane") == "API calls"
    press(page, "all")
    assert page.run(f"{VIEW}.hits.found.length") > sum(counts.values())


@needs_browser
def test_a_search_lists_events_before_what_is_derived_of_them(page: Page, database: Database) -> None:
    (row,) = database.sql(
        "SELECT count(*) AS n, min(start_ns) AS first_ns, max(duration_ns) AS most_ns FROM kernels "
        "WHERE short_name ILIKE '%gemm%'"
    ).rows()
    page.press("/", *"gemm")
    found = hits(page)
    assert [lane.split(" · ")[0] for _, lane, *_ in found] == ["stream 7"] * row["n"]
    assert page.run(f"{VIEW}.said.textContent") == f"{row['n']} events"
    page.press("Enter")
    assert page.run(f"{VIEW}.chosen.lane.start[{VIEW}.chosen.i] + {VIEW}.data.origin") == row["first_ns"]
    assert page.run("document.querySelector('.tl-hits [aria-current] button').textContent") == found[0][0]
    press(page, "duration")
    assert hits(page)[0][3] == page.run(f"Packed.time({row['most_ns']})"), "longest first"
    page.run("document.querySelectorAll('.tl-hits .tl-link')[1].click()")
    assert page.run(f"{VIEW}.title({VIEW}.chosen)") == hits(page)[1][0]
    page.run(f"{VIEW}.search.focus()")
    page.press("Escape", "n")
    assert page.run("document.activeElement.tagName") == "CANVAS"
    assert page.run(f"{VIEW}.title({VIEW}.chosen)") == hits(page)[2][0]
    page.press("Escape")
    assert (page.run(f"{VIEW}.chosen"), page.run(f"{VIEW}.search.value")) == (None, "gemm")
    page.press("Escape")
    assert (page.run("document.querySelector('.tl-hits').hidden"), page.run(f"{VIEW}.search.value")) == (True, "")
    page.press("/", *"aten", "Enter")
    lanes = page.run(f"{VIEW}.hits.found.map((hit) => hit.lane.lane)")
    (events_found,) = database.sql("SELECT count(*) AS n FROM ops WHERE name ILIKE '%aten%'").rows()
    assert lanes[: events_found["n"]] == ["operators"] * events_found["n"]
    assert set(lanes[events_found["n"] :]) == {"critical path", "idle"}
    words = f"{events_found['n']} events; {len(lanes) - events_found['n']} more on "
    assert page.run(f"{VIEW}.said.textContent").startswith(words)
    assert len(hits(page)) == 50 < len(lanes)


@needs_browser
def test_the_largest_gaps_are_listed_at_the_times_of_all_other_answers(page: Page, database: Database) -> None:
    rows = database.sql("SELECT gap_ns, at_ns FROM idle_gaps() ORDER BY gap_ns DESC, at_ns").rows()
    page.run("[...document.querySelectorAll('.tl-bar button')].find((one) => one.textContent === 'gaps').click()")
    found = hits(page)
    assert len(found) == len(rows)
    told = [[page.run(f"Packed.clock({row['at_ns']})"), page.run(f"Packed.time({row['gap_ns']})")] for row in rows[:3]]
    assert [one[1:3] for one in found[:3]] == told
    causes = database.sql("SELECT device, cause, next_op FROM idle_gaps() ORDER BY gap_ns DESC, at_ns").rows()
    for cells, row in zip(found[:5], causes, strict=False):
        assert [cells[0], *cells[3:5]] == [f"GPU {row['device']}", row["cause"], row["next_op"]]
    assert any(".py(" in cells[5] for cells in found[:5])
    page.press("n")
    assert page.run(f"{VIEW}.chosen.lane.length[{VIEW}.chosen.i]") == rows[0]["gap_ns"]
    page.press("Escape", "Escape")
    assert page.run("document.querySelector('.tl-hits').hidden")


def chosen(database: Database) -> dict[str, Any]:
    """The launch of which most is known."""
    (row,) = database.sql(
        "SELECT start_ns, duration_ns, grid_x, block_x, registers, op, input_dims, flops, tflops, pct_peak_flops, gbs "
        "FROM kernels WHERE pct_peak_flops IS NOT NULL AND flops > 0 ORDER BY duration_ns DESC, start_ns LIMIT 1"
    ).rows()
    return row


@needs_browser
def test_a_launch_tells_what_is_stored_of_it(page: Page, database: Database) -> None:
    """Shape, call, what of the peaks it reached by itself, and its dot in the roofline."""
    row = chosen(database)
    page.run(f"""(() => {{
        const view = {VIEW}, lane = view.data.lanes.find((one) => one.launches);
        view.choose({{lane, i: lane.start.indexOf({row["start_ns"]} - view.data.origin)}});
    }})()""")
    lines = page.run(f"[...{VIEW}.told.querySelectorAll('tr')].map((tr) => [...tr.cells].map((td) => td.textContent))")
    told = dict(line for line in lines if line[0])
    assert told["grid"].startswith(f"{row['grid_x']:,} × ")
    assert f" of {row['block_x']:,} × " in told["grid"]
    assert told["resources"].startswith(f"{row['registers']} registers a thread, ")
    assert told["shapes"].startswith(f"{row['op']} {shapes(row['input_dims'])}")
    first, _, second = told["reached"].partition("; ")
    rate, share = first.split(" TFLOP/s, ")
    assert float(rate) == pytest.approx(row["tflops"], rel=0.01)
    assert float(share.split(" %", maxsplit=1)[0]) == pytest.approx(row["pct_peak_flops"], rel=0.01)
    assert second.endswith("% of the peak")
    page.run(f"[...{VIEW}.told.querySelectorAll('button')].find((one) => one.textContent === 'show its point').click()")
    page.settled()
    ring = page.run("""(() => {
        const rings = [...document.querySelectorAll(".chart path[stroke='#D55E00']")], [ring] = rings;
        const at = ring?.getBoundingClientRect();
        return at && [at.top >= 0, at.bottom <= innerHeight];
    })()""")
    assert ring == [True, True]


def test_a_page_that_is_served_asks_for_the_same(database: Database) -> None:
    with asking(database) as ask:
        held = events.facts(ask.about(trace=TRACE))
    for signature, stored in held.items():
        with live.question(database, {"name": TRACE, "signature": signature}) as question:
            assert live.facts(question) == stored
    with live.question(database, {"name": TRACE, "signature": "none"}) as question:
        assert live.facts(question) is None


def test_copies_are_held_against_no_peak(database: Database) -> None:
    """The link to the host limits them, and the memory of the GPU does not."""
    with asking(database) as ask:
        copies = [stored for stored in events.facts(ask.about(trace=TRACE)).values() if "bytes" in stored]
    assert copies
    assert not any("peak_bytes_per_second" in stored for stored in copies)


def test_launches_of_unknown_facts_share_a_name(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a trace in which no two launches are alike the names would else be as many as launches."""
    with asking(database) as ask:
        found = events.gather(ask.about(trace=TRACE), events.MOST)
    one = next(iter(found.facts))
    known = found.frame.with_columns(events._known({one: {}}))["signature"].unique().to_list()
    assert sorted(known, key=str) == sorted([one, None], key=str)


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        ("[[1024], [1, 1024], [1024, 1024], [], []]", "[1024], [1, 1024], [1024, 1024]"),
        ("[[], [], []]", "scalars"),
        ("[[[2, 3], [4, 3]], []]", "[[2, 3], [4, 3]]"),
        ("[]", "scalars"),
        ("not JSON", "not JSON"),
    ],
)
def test_shapes_are_those_of_tensors(dims: str, said: str) -> None:
    assert shapes(dims) == said


def test_the_largest_dots_of_a_roofline_have_names() -> None:
    """Not over each other, and within the drawing."""
    point = {"category": "GEMM", "flops_per_second": 1e12, "input_dims": "[[8, 8], [], []]", "point": "p"}
    points = [
        {**point, "kernel": "largest", "intensity": 1.0, "total_ns": 100},
        {**point, "kernel": "covered", "intensity": 1.01, "total_ns": 50},
        {**point, "kernel": "at the side", "intensity": 900.0, "total_ns": 40, "flops_per_second": 1e9},
    ]
    roof = [{"name": "r", "intensity": at, "flops_per_second": 1e13} for at in (0.1, 1000.0)]
    spec = charts.roofline(points, roof)
    layers = [layer for layer in spec["layer"] if layer.get("name", "").startswith("labels")]
    told = {row["text"]: layer["mark"]["align"] for layer in layers for row in layer["data"]["values"]}
    assert told == {"largest": "left", "at the side": "right"}
    assert json.dumps(spec["layer"][-1]["data"]).count('"[8, 8]"') == 3


def named(points: list[tuple[float, float]], peak: float) -> list[dict[str, Any]]:
    """The names of dots at `points` below a roof at `peak`, the first with most time."""
    rows = [
        {"kernel": f"kernel {place}", "intensity": at, "flops_per_second": rate, "total_ns": 100 - place}
        for place, (at, rate) in enumerate(points)
    ]
    roof = [{"name": "r", "intensity": at, "flops_per_second": peak} for at in (1.0, 1e4)]
    extent = [(math.log(1.0), math.log(1e4)), (math.log(1e9), math.log(1e13))]
    return dots.told_apart(rows, roof, extent)


def sides(points: list[tuple[float, float]], peak: float) -> dict[str, str]:
    """The sides of these names."""
    return {row["text"]: row["side"] for row in named(points, peak)}


def test_names_in_a_roofline_are_over_no_dot_and_no_roof() -> None:
    """A decade is 195 pixels wide and 95 high; a name about 50 wide."""
    assert sides([(100, 1e11)], 1e12) == {"kernel 0": "right"}
    assert sides([(100, 1e11), (140, 1e11)], 1e12) == {"kernel 0": "left", "kernel 1": "right"}
    assert sides([(100, 1e11), (140, 1e11), (70, 1e11)], 1e12)["kernel 0"] == "below"
    assert sides([(100, 1e11)], 1.02e11) == {"kernel 0": "below"}, "the roof is right and left of it"
    assert sides([(100, 1e11), (101, 1e11)], 1e12) == {"kernel 0": "right"}, "one dot, as it looks"


def test_a_dot_without_room_beside_it_has_its_name_at_the_end_of_a_line() -> None:
    """Others are right, left, below and above of the largest."""
    points = [(100, 1e11), (140, 1e11), (70, 1e11), (100, 6e10), (100, 1.66e11)]
    found = named(points, 1e12)
    assert (found[0]["text"], found[0]["side"]) == ("kernel 0", dots.FAR)
    assert (found[0]["from_intensity"], found[0]["from_flops_per_second"]) == points[0]
    up, across = (math.log10(found[0][name] / at) for name, at in zip(dots.ROOFED[::-1], points[0][::-1], strict=True))
    assert 30 < math.hypot(195 * across, 95 * up) < 230, "pixels between the dot and its name"
    x, y = alt.X("intensity:Q"), alt.Y("flops_per_second:Q")
    layers = [layer.to_dict() for layer in dots.texts(found[:1], x, y)]
    assert [layer["mark"]["type"] for layer in layers] == ["rule", "text"]
    assert layers[0]["encoding"]["x2"]["field"] == "from_intensity"


@pytest.fixture(scope="module")
def compared(database: Database, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("compared") / "report.html"
    path.write_text(html.page(changes.comparison(database, TRACE, TRACE)), encoding="utf-8")
    return path.as_uri()


CUT = """[...document.querySelectorAll(".chart svg")].flatMap((svg) => {
    const {left, right} = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll("text")];
    const boxes = texts.map((one) => [one.textContent, one.getBoundingClientRect()]).filter(([, {width}]) => width);
    return boxes.filter(([, box]) => box.left < left - 1 || box.right > right + 1).map(([text]) => text);
})"""


TICKS = """(() => {
    const axes = [...document.querySelectorAll(".chart svg .role-axis")];
    const axis = axes.filter((one) => one.textContent.includes("FLOP/byte"));
    const labels = axis.flatMap((one) => [...one.querySelectorAll(".role-axis-label text")]);
    const seen = labels.filter((one) => one.textContent && Number(getComputedStyle(one).opacity));
    const boxes = seen.map((one) => one.getBoundingClientRect());
    const row = boxes.sort((one, other) => one.left - other.left);
    return row.slice(1).map(({left}, i) => left - row[i].right);
})()"""
"""Pixels between numbers below a roofline."""


@needs_browser
def test_charts_fit_a_window_that_becomes_narrow(tab: Page, stacks_address: str) -> None:
    """As where a tablet is turned: titles and labels are within their charts, ticks of a roofline apart."""
    tab.go(stacks_address)
    tab.size(400, 860)
    try:
        tab.settled()
        tab.run("window.drawn.then(() => 0)")
        tab.settled()
        assert tab.run(CUT) == []
        assert min(tab.run(TICKS)) > 5
    finally:
        tab.size(1280, 900)


@needs_browser
def test_tables_are_read_on_a_phone(tab: Page, stacks_address: str, compared: str) -> None:
    """Titles that are in sight need one line, names no more than half of the window, and the mark of a level stays."""
    tab.size(400, 860)
    try:
        for place in (stacks_address, compared):
            tab.go(place)
            titles = tab.run("""[...document.querySelectorAll("thead")].map((head) => {
                const seen = [...head.rows[0].cells].filter((one) => one.getBoundingClientRect().right <= innerWidth);
                return [head.offsetHeight, ...seen.map((one) => one.textContent)];
            }).filter(([high, ...titles]) => high > 30 && !titles.some((one) => one.length > 20))""")
            assert [one for one in titles if one[0] > 48] == []
            wide = "[...document.querySelectorAll('th')].filter((one) => one.textContent === 'kernel')"
            assert max(tab.run(f"{wide}.map((one) => one.offsetWidth)")) <= 230
            assert tab.run("[document.documentElement.scrollWidth, innerWidth]") == [400, 400]
            assert tab.run(CUT) == []
        levels = tab.run("[...document.querySelectorAll('td.tree')].map((one) => [one.textContent, one.offsetHeight])")
        assert any(text.startswith("· Linear") for text, _ in levels)
        assert max(high for _, high in levels) < 30
    finally:
        tab.size(1280, 900)


@needs_browser
def test_small_charts_shrink_with_their_window(tab: Page, shared_data: Path, tmp_path: Path) -> None:
    """Side by side in a wide window, one below the other in a narrow one."""
    counted = kerneldb.open(tmp_path / "k.duckdb")
    counted.ingest(shared_data / "ncu" / "h200-decoder-raw.csv.gz")
    (tmp_path / "page.html").write_text(html.page(gather.single(counted, ["h200-decoder-raw"])), encoding="utf-8")
    tab.go((tmp_path / "page.html").as_uri())
    assert tab.run("document.querySelectorAll('.grid .chart').length") > 3
    tab.size(400, 860)
    try:
        tab.settled()
        assert tab.run("[document.documentElement.scrollWidth, innerWidth]") == [400, 400]
    finally:
        tab.size(1280, 900)
