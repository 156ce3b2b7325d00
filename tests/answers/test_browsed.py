"""A report as a person uses it in a browser: with a mouse, with keys alone, by ear, on a phone, on paper; offline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kerneldb
from kerneldb.report import gather, html
from kerneldb.report.model import Chart, Table, shown
from tests.browser import Page, PageError, browser, needs_browser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.api import Database
    from kerneldb.report.model import Report

pytestmark = [pytest.mark.again, pytest.mark.thorough, needs_browser]

TRACE = "stacks-memory-h200"
VIEW = "Object.values(window.views)[0]"
CANVAS = "document.querySelector('.tl canvas')"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    found = kerneldb.open(tmp_path_factory.mktemp("browsed") / "k.duckdb")
    found.ingest(Path(__file__).parents[1] / "fixtures" / f"{TRACE}.json.gz")
    return found


@pytest.fixture(scope="module")
def report(database: Database) -> Report:
    return gather.single(database, [TRACE])


@pytest.fixture(scope="module")
def address(report: Report, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html.page(report), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    with browser() as page:
        yield page


@pytest.fixture
def page(tab: Page, address: str) -> Page:
    """The report, just opened; the timeline is in view."""
    tab.asked.clear()
    tab.wrong.clear()
    tab.size(1280, 900)
    tab.looks()
    tab.go(address)
    tab.run("document.querySelector('.tl-scroll').scrollIntoView({block: 'center'})")
    return tab


def place(page: Page) -> dict[str, float]:
    """Where the drawing is in the window."""
    found: dict[str, float] = page.run(
        f"(() => {{ const at = {CANVAS}.getBoundingClientRect(); return {{x: at.x, y: at.y, wide: at.width}}; }})()"
    )
    return found


def view(page: Page) -> dict[str, float]:
    """What the timeline shows: from when to when, and how wide its drawing and its labels are."""
    found: dict[str, float] = page.run(f"(({{from, to, end, left, wide}}) => ({{from, to, end, left, wide}}))({VIEW})")
    return found


def said(page: Page) -> str:
    return str(page.run(f"{VIEW}.told.textContent"))


def chart_count(report: Report) -> int:
    return sum(isinstance(block, Chart) for section in report.sections for block in section.blocks)


def test_a_browser_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.browser.LONGEST_S", 0)
    (take, into), (out, give) = os.pipe(), os.pipe()
    try:
        with pytest.raises(PageError, match="said nothing"):
            Page(into, out)
    finally:
        for end in (take, into, out, give):
            os.close(end)


def test_an_address_that_does_not_open_is_told(tab: Page, tmp_path: Path) -> None:
    with pytest.raises(PageError, match="ERR_FILE_NOT_FOUND"):
        tab.go((tmp_path / "missing.html").as_uri())


def test_it_is_painted_without_a_network(page: Page, report: Report) -> None:
    painted = page.run("performance.getEntriesByType('paint').map((one) => one.name)")
    assert "first-contentful-paint" in painted
    assert page.run("document.querySelectorAll('.chart svg, .chart canvas').length") >= chart_count(report) > 2
    assert [url for url in page.asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert page.wrong == []


@pytest.mark.parametrize("width", [390, 1024, 1440, 2560])
def test_no_page_is_wider_than_its_window(page: Page, width: int) -> None:
    """Also where a sentence holds a name of a kernel that is wider than a phone."""
    name = "const one = document.createElement('span'); one.id = 'long'; one.textContent = 'Cijk_Ailk'.repeat(20);"
    page.run(f"(() => {{ {name} document.querySelector('.piece div').append(one); }})()")
    page.size(width, 844)
    page.settled()
    assert page.run("[document.documentElement.scrollWidth, window.innerWidth]") == [width, width]
    page.run("document.getElementById('long').remove()")


def test_a_table_sorts_and_filters_by_keys(page: Page, report: Report) -> None:
    """To the title of a column by Tab, Enter sorts; a word in the box above leaves the rows that have it."""
    (top,) = (b for s in report.sections for b in s.blocks if isinstance(b, Table) and b.caption == "Top kernels")
    page.run(
        "window.top_kernels = [...document.querySelectorAll('h3')]"
        ".filter((one) => one.textContent === 'Top kernels').at(-1).parentElement;"
        "top_kernels.querySelector('.filter').focus()"
    )
    names = [column.name for column in top.columns]
    page.press(*["Tab"] * (1 + names.index("mean_ns")), "Enter")
    number = (
        f"[...top_kernels.querySelectorAll('tbody tr')].map((row) => +row.cells[{names.index('mean_ns')}].dataset.v)"
    )
    assert page.run(number) == sorted((row["mean_ns"] for row in top.rows), reverse=True)
    assert page.run("document.activeElement.parentElement.getAttribute('aria-sort')") == "descending"
    page.press("Enter")
    assert page.run(number) == sorted(row["mean_ns"] for row in top.rows)
    assert page.run("document.activeElement.parentElement.getAttribute('aria-sort')") == "ascending"
    page.run("top_kernels.querySelector('.filter').focus()")
    page.press(*"gemm")
    left = page.run("[...top_kernels.querySelectorAll('tbody tr')].filter((row) => !row.hidden).length")
    texts = [" ".join(shown(column, row[column.name]) for column in top.columns) for row in top.rows]
    assert left == sum("gemm" in text.lower() for text in texts) not in {0, len(texts)}


def test_the_wheel_zooms_around_the_mouse_and_a_drag_moves(page: Page) -> None:
    at, whole = place(page), view(page)
    x = at["x"] + whole["left"] + whole["wide"] / 4
    page.wheel(x, at["y"] + 60, -400)
    near = view(page)
    assert near["to"] - near["from"] < (whole["to"] - whole["from"]) * 0.8
    before, after = (one["from"] + (one["to"] - one["from"]) / 4 for one in (whole, near))
    assert after == pytest.approx(before, abs=0.01 * whole["end"])
    page.drag(x, at["y"] + 60, x - 100)
    moved = view(page)
    assert moved["to"] - moved["from"] == pytest.approx(near["to"] - near["from"])
    assert moved["from"] - near["from"] == pytest.approx(100 / near["wide"] * (near["to"] - near["from"]))


def test_a_range_is_summed_up(page: Page, database: Database) -> None:
    """Shift and drag over all there is: the time of each stream, of idle and of each kernel is that of the database."""
    at, whole = place(page), view(page)
    page.drag(at["x"] + whole["left"] + 1, at["y"] + 60, at["x"] + whole["left"] + whole["wide"] - 1, shift=True)
    rows = page.run(
        f"[...{VIEW}.told.querySelectorAll('tr')].map((row) => [...row.cells].map((one) => one.textContent))"
    )
    lanes = {(kind, name): spent for kind, name, n, spent, _ in rows[1:] if not n and kind not in {"busy", "outside"}}
    sums = database.sql(
        "SELECT 'stream ' || stream AS lane, device, sum(duration_ns)::BIGINT AS ns FROM kernels GROUP BY ALL "
        "UNION ALL SELECT 'idle', device, sum(gap_ns)::BIGINT FROM idle_gaps() GROUP BY ALL"
    ).rows()
    assert lanes == {(row["lane"], f"GPU {row['device']}"): page.run(f"Packed.time({row['ns']})") for row in sums}
    kernels = database.sql(
        "SELECT short_name AS name, count(*) AS n, sum(duration_ns)::BIGINT AS ns FROM kernels WHERE kind = 'kernel' "
        "GROUP BY ALL ORDER BY ns DESC LIMIT 5"
    ).rows()
    told = {name: (n, spent) for kind, name, n, spent, _ in rows[1:] if kind == "GPU"}
    for row in kernels:
        assert told[row["name"]] == (f"{row['n']:,}", page.run(f"Packed.time({row['ns']})"))


def test_a_counter_says_its_value_under_the_mouse(page: Page, database: Database) -> None:
    """Also where it is clicked; bytes in their larger units."""
    (held,) = database.sql(
        "SELECT ts_ns, total_allocated_bytes AS bytes FROM memory_events WHERE device_type = 'cuda' "
        "AND total_allocated_bytes >= 1e6 ORDER BY ts_ns DESC LIMIT 1"
    ).rows()
    told = page.run(f"""(() => {{
        const view = {VIEW}, row = view.rows.find((one) => one.counter?.name.startsWith("allocated, cuda"));
        view.show(0, view.end); view.paint();
        const x = view.x(view.end), y = row.y + 9;
        view.hover(x, y); view.click(x, y);
        return [view.canvas.title, view.told.textContent];
    }})()""")
    assert told[0] == told[1]
    value = page.run(f"Packed.amount({held['bytes']}, 'bytes')")
    assert value.endswith(" MB")
    assert told[0].startswith(f"allocated, cuda 0: {value} at ")


def test_a_colour_is_one_category(page: Page, database: Database) -> None:
    """Most time first; what launches have no colour of is no colour of a category."""
    sql = (
        "SELECT if(kind = 'kernel', category, upper(kind)) AS c FROM kernels GROUP BY 1 ORDER BY sum(duration_ns) DESC"
    )
    names = [row["c"] for row in database.sql(sql).rows()]
    legend = page.run(
        "[...document.querySelectorAll('.tl-legend > span')]"
        ".map((one) => [one.textContent, one.firstChild.style.background])"
    )
    shown = [name for name, _ in legend if not name.startswith(("idle: ", "critical path: "))]
    assert shown == names[:7] + ([f"{len(names) - 7} other categories"] if len(names) > 7 else [])
    assert len({colour for name, colour in legend if name in names}) == len(shown[:7])
    of = "filter({}).flatMap((one) => [...one.name].map((name) => view.colours[name]))"
    wanted = ("(one) => !one.gpu", "(one) => one.launches", "(one) => one.lane === 'critical path'")
    host, launches, path = (page.run(f"((view) => view.data.lanes.{of.format(lanes)})({VIEW})") for lanes in wanted)
    assert set(host) & set(launches) == set()
    assert len(set(host)) > 3
    parts = sorted(name for name, _ in legend if name.startswith("critical path: "))
    steps = database.critical_path().rows()
    assert parts == sorted({f"critical path: {row['part']}" for row in steps})
    assert len(set(path)) == len(parts) > 1


def seen_launch(page: Page) -> dict[str, Any]:
    """A launch that has a call, in the middle of the view: where to click, and where its arrow passes."""
    found: dict[str, Any] = page.run(f"""(() => {{
        const view = {VIEW}, lane = view.data.lanes.find((one) => one.launches && one.n);
        const i = lane.link.findIndex((one) => one > 0), call = view.event(lane.link[i] - 1);
        view.closed.clear(); view.arrange(); view.resize();
        view.show(call.lane.start[call.i] - 20000, lane.start[i] + lane.length[i] + 20000); view.paint();
        const y = (lane) => view.rows.find((row) => row.lane === lane).y + 7;
        const begin = [lane, call.lane].map(y), x = [view.x(lane.start[i]), view.x(call.lane.start[call.i])];
        view.scroll.style.maxHeight = "none"; {CANVAS}.scrollIntoView({{block: "start"}});
        const name = view.data.names[call.lane.name[call.i]];
        return {{x: view.x(lane.start[i] + lane.length[i] / 2), y: begin[0], name,
            across: [(x[0] + x[1]) / 2, (begin[0] + begin[1]) / 2 - 5]}};
    }})()""")
    return found


def ink(page: Page, x: float, y: float) -> list[int]:
    """The pixels of the drawing around a place."""
    found: list[int] = page.run(
        f"[...{VIEW}.pen.getImageData({x - 2} * {VIEW}.canvas.width / ({VIEW}.wide + {VIEW}.left), {y - 2}, 5, 5).data]"
    )
    return found


def test_an_arrow_leads_from_a_kernel_to_its_call(page: Page) -> None:
    launch, at = seen_launch(page), place(page)
    before = ink(page, *launch["across"])
    page.drag(at["x"] + launch["x"], at["y"] + launch["y"], at["x"] + launch["x"])
    assert f"launched by{launch['name']}" in said(page)
    assert ink(page, *launch["across"]) != before, "no arrow"
    page.press("Escape")
    assert ink(page, *launch["across"]) == before


def test_keys_alone_lead_from_the_largest_gap_to_what_the_host_did(page: Page, database: Database) -> None:
    (gap,) = database.sql("SELECT next_op FROM idle_gaps() ORDER BY gap_ns DESC LIMIT 1").rows()
    page.run("document.querySelector('.tl input').focus()")
    for _ in range(12):
        page.press("Tab")
        if page.run(f"document.activeElement === {CANVAS}"):
            break
    page.press("g")
    assert gap["next_op"] in said(page)
    page.press("Tab")
    link = page.run("document.activeElement.textContent")
    assert page.run("document.activeElement.className") == "tl-link"
    page.press("Enter")
    assert said(page).startswith(f"name{link.split(',')[0]}")


def test_a_search_is_walked_by_keys(page: Page, database: Database) -> None:
    (row,) = database.sql("SELECT min(start_ns) AS first_ns FROM kernels WHERE name ILIKE '%gemm%'").rows()
    page.run(f"{CANVAS}.focus()")
    page.press("/", *"gemm", "Enter")
    chosen = f"(({{lane, i}}) => lane.start[i] + {VIEW}.data.origin)({VIEW}.chosen)"
    assert page.run(chosen) == row["first_ns"]
    page.run(f"{CANVAS}.focus()")
    page.press("n")
    assert page.run(chosen) > row["first_ns"]
    page.press("shift+N")
    assert page.run(chosen) == row["first_ns"]


def test_what_is_drawn_can_be_heard(page: Page, report: Report) -> None:
    heard = page.heard()
    images = [name for role, name in heard if role in {"image", "graphics-document"}]
    drawn = [b for s in report.sections for b in s.blocks if isinstance(b, Chart) and not b.events]
    assert {html.words(chart) for chart in drawn} <= set(images)
    (timeline,) = (name for role, name in heard if role == "application")
    assert timeline.startswith("Timeline of ")
    assert "largest gap" in timeline
    unnamed = {role for role, name in heard if role in {"button", "link", "searchbox", "textbox"} and not name}
    assert unnamed == set()
    assert sum(role == "columnheader" for role, _ in heard) > 20
    assert [name for role, name in heard if role == "table" and not name] == []
    assert page.run(f"{VIEW}.told.getAttribute('aria-live')") == "polite"


def test_paper_is_white_in_a_dark_browser_too(page: Page, address: str, tmp_path: Path) -> None:
    page.looks("dark")
    page.go(address)
    corner = f"[...{VIEW}.pen.getImageData(2, 2, 1, 1).data]"
    assert page.run(corner) == [20, 24, 29, 255]
    page.run(f"window.addEventListener('beforeprint', () => {{ window.printed = {corner}; }})")
    page.paper(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert page.run("window.printed") == [255] * 4
    assert page.run(corner) == [20, 24, 29, 255]
    page.looks("dark", "print")
    assert page.run("getComputedStyle(document.querySelector('.chart svg text')).fill") == "rgb(27, 31, 36)"
    seen = "((what) => document.querySelector(what).offsetHeight > 0)"
    assert page.run(f"['.tl-legend', '.tl-told', '.tl input'].map({seen})") == [True, False, False]


PIXELS = """(() => {
    const column = (...values) => Float64Array.of(...values), box = document.createElement("div");
    document.querySelector("main").append(box);
    const lane = {lane: "stream 7", place: "GPU 0", row: 0, n: 3, base: 0, gpu: true, launches: true,
        start: column(1e8, 1.00001e8, 9e8), length: column(1000, 5e8, 1000), name: Uint32Array.of(0, 1, 0),
        link: new Uint32Array(3)};
    const view = new Timeline.View(box, {lanes: [lane], names: ["short", "a name that is long"], end: 1e9, origin: 0,
        ranked: ["COPY", "GEMM"], categories: ["GEMM", "COPY"], counters: [], events: 3});
    view.paint();
    const y = (view.rows.find((row) => row.lane).y + 3) * view.ratio;
    const found = [1.5e8, 5.5e8, 7.5e8].map((t) => [...view.pen.getImageData(view.x(t), y, 1, 1).data].slice(0, 3));
    box.remove();
    return found;
})()"""


def test_a_long_event_is_drawn_behind_one_that_is_narrower_than_a_pixel(page: Page) -> None:
    """It begins within the pixel of the short one."""
    inside, late, after = page.run(PIXELS)
    assert inside == late == [0, 114, 178], "not the colour of the category with most time"
    assert after == [255, 255, 255]
