"""The timeline of a page: all events of the trace are in it, and keys and clicks lead from a gap to the host's line."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.report import changes, contents, events, gather, html, markdown
from kerneldb.report.asking import asking
from kerneldb.report.model import Chart, Table
from tests.answers.plain_traces import Recording
from tests.answers.test_report import browse
from tests.browser import needs_browser

pytestmark = [pytest.mark.again, pytest.mark.thorough]

TRACE = "stacks-memory-h200"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    found = kerneldb.open(tmp_path_factory.mktemp("page") / "k.duckdb")
    found.ingest(Path(__file__).parents[1] / "fixtures" / f"{TRACE}.json.gz")
    return found


@pytest.fixture(scope="module")
def held(database: Database) -> events.Events:
    with asking(database) as ask:
        return events.gather(ask.about(trace=TRACE), events.MOST)


def unpacked(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header and the rows, read by plain arithmetic."""
    raw = gzip.decompress(data)
    (size,) = struct.unpack_from("<I", raw)
    header, at, lanes = json.loads(raw[4 : 4 + size]), 4 + size, []
    for lane in header["lanes"]:
        columns = []
        for _ in range(4 + 2 * lane["summed"] + bool(header["live"])):
            count, at = raw[at], at + 1
            planes = [raw[at + plane * lane["n"] : at + (plane + 1) * lane["n"]] for plane in range(count)]
            empty = [0] * lane["n"]
            columns.append([int.from_bytes(one, "little") for one in zip(*planes, strict=True)] if planes else empty)
            at += count * lane["n"]
        starts, here = [], header["origin"]
        for step in columns[0]:
            here += step
            starts.append(here)
        found = {"start": starts, "duration": columns[1], "name": columns[2], "link": columns[3]}
        many = {"many": columns[4], "busy": columns[5]} if lane["summed"] else {}
        lanes.append({**lane, **found, **many})
    assert at == len(raw)
    return header, lanes


def test_every_event_of_the_trace_is_packed(database: Database, held: events.Events) -> None:
    header, lanes = unpacked(events.packed(held))
    assert held.note() == ""
    (launches,) = database.sql(
        "SELECT count(*) AS n, sum(duration_ns) AS total_ns, min(start_ns) AS first_ns FROM kernels"
    ).rows()
    streams = [one for one in lanes if one["lane"].startswith("stream")]
    assert sum(one["n"] for one in streams) == launches["n"]
    assert sum(sum(one["duration"]) for one in streams) == launches["total_ns"]
    assert min(one["start"][0] for one in streams) == launches["first_ns"] == header["origin"] + header["zero"]
    for lane, relation in (("operators", "ops"), ("API calls", "api_calls")):
        (row,) = database.sql(f"SELECT count(*) AS n, sum(duration_ns) AS total_ns FROM {relation}").rows()
        found = [one for one in lanes if one["lane"] == lane]
        assert (sum(one["n"] for one in found), sum(sum(one["duration"]) for one in found)) == (
            row["n"],
            row["total_ns"],
        )
    idle = sum(sum(one["duration"]) for one in lanes if one["lane"] == "idle")
    assert idle == database.sql("SELECT sum(gap_ns) AS gap_ns FROM idle_gaps()").rows()[0]["gap_ns"]
    counters = database.sql(
        """SELECT counter || coalesce(', GPU ' || device, '') AS name FROM samples UNION
        SELECT 'allocated, ' || coalesce(device_type || ' ', '') || coalesce(device::VARCHAR, '')
        FROM memory_events WHERE total_allocated_bytes IS NOT NULL"""
    ).rows()
    assert {one["name"] for one in header["counters"]} == {row["name"] for row in counters} != set()


def test_the_critical_path_is_a_lane_where_a_trace_is_small_enough(
    database: Database, held: events.Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = held.frame.filter(pl.col("lane") == events.PATH)
    (total,) = database.sql("SELECT max(end_ns) AS last_ns FROM kernels").rows()
    assert (lane["start_ns"] + lane["duration_ns"]).max() == total["last_ns"]
    path = database.critical_path("cause").rows()
    assert lane["duration_ns"].sum() == sum(row["path_ns"] for row in path)
    monkeypatch.setattr(events, "MOST_ON_PATH", 1)
    with asking(database) as ask:
        without = events.gather(ask.about(trace=TRACE), events.MOST)
    assert without.frame.height == held.frame.height - lane.height
    (launches,) = database.sql("SELECT count(*) AS n FROM kernels").rows()
    command = f"kerneldb analyze critical-path {TRACE} shows it."
    said = f"The critical path is not drawn for so many launches ({launches['n']:,}): {command}"
    assert (held.without_path(), without.without_path()) == ("", said)
    (section,) = [one for one in gather.single(database, [TRACE]).sections if one.title == gather.DRAWN]
    assert section.text == said


def test_what_the_critical_path_does_not_know_is_on_it(tmp_path: Path) -> None:
    """Launches of two streams without calls: nothing says what the second of them waited for."""
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "dur": 10}
    made = [
        kernel | {"tid": stream, "ts": start, "args": {"device": 0, "stream": stream, "correlation": stream}}
        for stream, start in ((7, 5), (8, 100))
    ]
    (tmp_path / "plain.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": made}))
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(tmp_path / "plain.json", name="plain")
    with asking(database) as ask:
        frame = events.gather(ask.about(trace="plain"), events.MOST).frame
    lane = frame.filter(pl.col("lane") == events.PATH)
    (whole,) = database.sql("SELECT min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM kernels").rows()
    ends = lane["start_ns"] + lane["duration_ns"]
    assert [lane["start_ns"].min(), ends.max()] == [whole["first_ns"], whole["last_ns"]]
    assert lane["duration_ns"].sum() == whole["last_ns"] - whole["first_ns"]
    assert "unattributed: nothing known before" in lane["name"].to_list()


def test_launches_are_linked_with_their_calls(database: Database, held: events.Events) -> None:
    header, lanes = unpacked(events.packed(held))
    flat = [(one["start"][i], header["names"][one["name"][i]]) for one in lanes for i in range(one["n"])]
    linked = sorted(
        (one["start"][i], *flat[one["link"][i] - 1])
        for one in lanes
        if one["lane"].startswith("stream")
        for i in range(one["n"])
        if one["link"][i]
    )
    rows = database.sql(
        "SELECT k.start_ns, a.start_ns AS called_ns, a.name "
        "FROM kernels AS k JOIN api_calls AS a USING (trace_id, api_index)"
    ).rows()
    assert linked == sorted((row["start_ns"], row["called_ns"], row["name"]) for row in rows) != []


def test_rows_do_not_overlap(held: events.Events) -> None:
    over = ("place", "lane", "row")
    ends = pl.col("start_ns") + pl.col("duration_ns")
    late = held.frame.filter((pl.col("start_ns") < ends.shift(1).over(over)) & (pl.col("lane") != "idle"))
    assert late.is_empty()


def test_launches_that_overlap_take_turns_in_few_rows() -> None:
    """A stair of launches, each begun before the one before it ends, is two rows; nested events go deeper."""
    stair = pl.DataFrame({"start_ns": [0, 8, 16, 24], "duration_ns": 10, "n": 1})
    assert events._open_at(stair).to_list() == [0, 1, 0, 1]
    nested = pl.DataFrame({"start_ns": [0, 1, 2, 6, 20], "duration_ns": [10, 4, 2, 3, 5], "n": 1})
    assert events._open_at(nested).to_list() == [0, 1, 2, 1, 0]


def test_of_many_events_the_longest_are_whole_and_the_others_summed(database: Database, held: events.Events) -> None:
    most = held.found.events // 3
    with asking(database) as ask:
        fewer = events.gather(ask.about(trace=TRACE), most)
    step = fewer.window.step_ns
    key = ["place", "lane", "start_ns", "duration_ns", "name"]
    of_lanes = ~pl.col("lane").is_in(events.DERIVED)
    whole, part = held.frame.filter(of_lanes), fewer.frame.filter(of_lanes)
    long, alone = (frame.filter(pl.col("duration_ns") >= step).select(key) for frame in (whole, part.filter(n=1)))
    assert long.sort(key).equals(alone.sort(key))
    assert 0 < part.filter(pl.col("n") > 1).height < part.height <= most
    assert by_lane(whole).equals(by_lane(part))
    assert f"of {held.found.events:,} events one by one" in fewer.note()


def by_lane(frame: pl.DataFrame) -> pl.DataFrame:
    """The number of events of each lane, and their time."""
    return frame.group_by("place", "lane").agg(pl.col("n", "busy_ns").sum()).sort("place", "lane")


@pytest.mark.parametrize("bins", [1, 7, 500, 10**6])
def test_a_stretch_has_what_is_in_it(database: Database, held: events.Events, bins: int) -> None:
    """Whatever the steps: the events of a lane and their time are the same."""
    whole = held.found.whole
    first, last = (whole.first_ns + (whole.last_ns - whole.first_ns) * part // 100 for part in (40, 47))
    with asking(database) as ask:
        found = events.window(ask.about(trace=TRACE), held.found, first, last, bins)
    inside = held.frame.filter(
        pl.col("start_ns") < last,
        pl.col("start_ns") + pl.col("duration_ns") >= first,
        ~pl.col("lane").is_in(events.DERIVED),
    )
    seen = found.frame.filter(~pl.col("lane").is_in(events.DERIVED))
    for total in ("n", "busy_ns"):
        counted = [
            frame.group_by("place", "lane").agg(pl.col(total).sum()).sort("place", "lane") for frame in (inside, seen)
        ]
        assert counted[0].equals(counted[1])
    rows = seen.group_by("place", "lane", "row").len()["len"]
    assert rows.max() <= 2 * bins + 2
    if bins == 10**6:  # held to `MOST_BINS`, finer than all that is there
        assert seen.filter(pl.col("n") > 1).is_empty()
        same = ["place", "lane", "row", "name", "start_ns", "duration_ns"]
        assert seen.select(same).sort(same).equals(inside.select(same).sort(same))
    header, lanes = unpacked(events.packed(found))
    assert (header["live"], sum(one["n"] for one in lanes)) == (TRACE, found.frame.height)


STEPS = """<script>window.drawn.then(() => {
  const view = Object.values(window.views)[0], said = [], names = view.data.names;
  const tell = (what) => said.push(what + ": " + view.told.textContent);
  const press = (key) => view.canvas.dispatchEvent(new KeyboardEvent("keydown", {key}));
  press("g"); tell("gap");
  const lines = [...view.told.querySelectorAll("tr")].map((tr) => [...tr.cells].map((cell) => cell.textContent));
  said.push("panel: " + JSON.stringify(lines));
  press("f"); said.push("followed: " + view.chosen.lane.lane); press("g");
  const lane = view.data.lanes.find((one) => one.launches && one.n), i = lane.link.findIndex((one) => one > 0);
  view.show(0, view.end); view.choose({lane, i}); view.fit(); view.paint();
  const row = view.rows.find((one) => one.lane === lane);
  press("Escape");
  const at = {offsetX: view.x(lane.start[i] + lane.length[i] / 2), offsetY: row.y + 5};
  view.click(at.offsetX, at.offsetY); tell("click");
  press("f"); tell("call");
  const table = [...document.querySelectorAll("section table")].find((one) => one.rows.length > 12);
  const column = [...table.tHead.rows[0].cells].findIndex((th) => th.className === "right");
  const values = () => [...table.tBodies[0].rows].map((row) => +(row.cells[column].dataset.v ?? "nan"));
  const cells = () => values().filter((one) => !isNaN(one));
  const click = () => table.tHead.rows[0].cells[column].firstChild.click();
  click(); said.push("down: " + JSON.stringify(cells())); click(); said.push("up: " + JSON.stringify(cells()));
  const box = table.parentElement.previousElementSibling;
  box.value = "no such row"; box.dispatchEvent(new Event("input"));
  said.push("left: " + [...table.tBodies[0].rows].filter((row) => !row.hidden).length);
  view.find("GEMM"); press("n"); tell("found");
  press("0"); press("r"); tell("range");
  press("Escape"); press("ArrowDown"); said.push("first: " + view.chosen.lane.lane);
  press("ArrowUp"); said.push("still: " + view.chosen.lane.lane);
  press("ArrowDown"); const second = view.chosen.lane, rows = view.rows.length; said.push("second: " + second.lane);
  press("o"); said.push("closed: " + !view.rows.some((one) => one.lane === second));
  press("o"); press("Escape"); said.push("opened: " + (view.rows.length > rows));
  press("ArrowUp"); const last = view.rows.filter((one) => one.lane?.n).at(-1).lane === view.chosen.lane;
  said.push("last: " + (last && view.scroll.scrollTop > 0));
  const out = document.createElement("pre");
  out.id = "said"; out.textContent = JSON.stringify(said); document.body.append(out);
});</script>"""


def told_of_a_gap(panel: list[list[str]], operator: str) -> None:
    """Operators from the innermost, then a line of the program, then frames from the innermost; nothing twice."""
    assert len({what for _, what in panel}) == len(panel)
    operators = [what for label, what in panel if label == "in operator"]
    assert operators[0].startswith(operator)
    python = [(place, what) for place, (label, what) in enumerate(panel) if label == "in Python"]
    assert re.match(r"(?!torch/)[\w/]+\.py\(\d+\)", python[0][1])
    assert python[0][0] < 9, "in sight"
    units = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
    lengths = [
        float(number.replace(",", "")) * units[unit] for number, unit in (what.split()[-2:] for _, what in python)
    ]
    assert lengths[1:] == sorted(lengths[1:])


GAP_STEPS = """<script>window.drawn.then(() => {
  const view = Object.values(window.views)[0], pen = view.pen, said = [], wide = [];
  view.canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "g"}));
  said.push(view.told.textContent);
  const lane = view.data.lanes[0], long = "a trace with a name as long as those of ranks ".repeat(9) + "rank 7";
  lane.place = long; view.arrange();
  pen.fillText = (text, x) => { if (x === 4) wide.push([text, pen.measureText(text).width]); };
  view.paint();
  const head = view.rows.find((row) => row.head === lane);
  view.hover(10, head.y + 5);
  said.push(view.canvas.title, String(Math.max(...wide.map((one) => one[1])) < view.left + view.wide));
  said.push(wide.find(([text]) => text.endsWith("rank 7"))?.[0]);
  const out = document.createElement("pre");
  out.id = "said"; out.textContent = JSON.stringify(said); document.body.append(out);
});</script>"""


@needs_browser
def test_a_gap_without_a_call_says_so_and_titles_are_no_wider_than_the_drawing(tmp_path: Path) -> None:
    recording = Recording()
    recording.kernel("first", 0, 100_000, call=-5_000)
    recording.waits("cudaStreamSynchronize", 10_000, 60_000)
    recording.kernel("second", 180_000, 10_000, call=170_000)
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(recording.write(tmp_path / "made.json"))
    before, end, after = html.page(gather.single(database, ["made"])).rpartition("</body>")
    (tmp_path / "page.html").write_text(before + GAP_STEPS + end + after, encoding="utf-8")
    dom, log, _ = browse(tmp_path / "page.html", tmp_path)
    assert "CONSOLE" not in log
    (found,) = re.findall(r'<pre id="said">(.*?)</pre>', dom, re.DOTALL)
    gap, title, fits, short = json.loads(unescape(found))
    assert (
        "no API call for 70 µs (Python or other work on the host), after cudaStreamSynchronize, before cudaLaunchKernel"
        in gap
    )
    assert "synchronisation, after cudaStreamSynchronize had ended" in gap
    assert title.endswith("rank 7")
    assert (fits, "…" in short) == ("true", True)


@needs_browser
def test_keys_and_clicks(database: Database, tmp_path: Path) -> None:
    """From the largest gap to operator and Python line: one key. From a kernel to its call: one click."""
    report = gather.single(database, [TRACE])
    before, end, after = html.page(report).rpartition("</body>")
    page = tmp_path / "page.html"
    page.write_text(before + STEPS + end + after, encoding="utf-8")
    dom, log, urls = browse(page, tmp_path)
    assert ("CONSOLE" in log, urls) == (False, [])
    (found,) = re.findall(r'<pre id="said">(.*?)</pre>', dom, re.DOTALL)
    said = dict(one.split(": ", 1) for one in json.loads(unescape(found)))
    (gap,) = database.sql("SELECT gap_ns, next_op FROM idle_gaps() ORDER BY gap_ns DESC LIMIT 1").rows()
    assert gap["next_op"] in said["gap"]
    told_of_a_gap(json.loads(said["panel"]), gap["next_op"])
    assert said["followed"] == "API calls"
    assert re.search(r"\.py\(\d+\)", said["gap"]), "a Python line"
    assert re.search(r"launched by\w*(Launch|Memcpy|Memset)", said["click"])
    assert "launched1 launch" in said["call"]
    assert "time in the range" in said["range"]
    lanes = ("critical path", "critical path", "module")
    assert (said["first"], said["still"], said["second"]) == lanes
    assert [said[one] for one in ("closed", "opened", "last")] == ["true"] * 3
    down = json.loads(said["down"])
    assert down == sorted(down, reverse=True) == json.loads(said["up"])[::-1] != []
    assert said["left"] == "0"


def test_ranks_are_on_one_timeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock that they share; each event is there once, and linked with the call of its own rank."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(Path(__file__).parents[1] / "fixtures" / "exchanges-tp2-h200")
    names = [row["trace"] for row in database.traces().rows()]
    report = gather.single(database, names)
    titles = [section.title for section in report.sections]
    assert titles[0] == gather.RANKS
    assert titles[1:4] == [f"{names[0]}: {contents.WHY}", f"{names[1]}: {contents.WHY}", gather.TOGETHER_DRAWN]
    assert not [title for title in titles if title.endswith(gather.DRAWN)]
    (drawn,) = report.sections[3].blocks
    assert report.sections[3].text == gather.ALIGNED
    lanes = re.findall(r"^- (.+), GPU \d, stream \d+: `(.+)`$", markdown.page(report), re.MULTILINE)
    assert {name for name, _ in lanes} == set(names)
    assert isinstance(drawn, Chart)
    header, lanes = unpacked(base64.b64decode(drawn.events))
    rows = database.sql(
        "SELECT trace, k.start_ns, a.start_ns AS called_ns FROM kernels AS k "
        "LEFT JOIN api_calls AS a USING (trace_id, api_index)"
    ).rows()
    least = min(row["start_ns"] for row in rows)
    assert header["origin"] + header["zero"] == 0 == min(min(one["start"]) for one in lanes if "stream" in one["lane"])
    flat = [(one, start) for one in lanes for start in one["start"]]
    found = [
        (
            one["place"].split(", ")[1],
            one["start"][i],
            *((flat[link - 1][1], flat[link - 1][0]["place"]) if link else ()),
        )
        for one in lanes
        if one["lane"].startswith("stream")
        for i, link in enumerate(one["link"])
    ]
    assert sorted((trace, start + least, call + least) for trace, start, call, _ in found) == sorted(
        (row["trace"], row["start_ns"], row["called_ns"]) for row in rows
    )
    assert all(place.endswith(f", {trace}") for trace, _, _, place in found)
    assert header["events"] == sum(one["n"] for one in lanes if one["lane"] not in events.DERIVED)
    (served,) = (one for one in gather.single(database, names, live=True).sections if one.title == titles[3])
    assert [block.caption for block in served.blocks] == [drawn.caption]
    monkeypatch.setattr(events, "MOST", header["events"] - 1)
    (served,) = (one for one in gather.single(database, names, live=True).sections if one.title == titles[3])
    assert (served.blocks, f"{header['events']:,} events" in served.text) == ((), True)


def test_a_trace_of_the_host_alone_has_a_timeline(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 3, "args": {}}
    (tmp_path / "host.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(tmp_path / "host.json", name="host")
    for live in (False, True):
        sections = {one.title: one for one in gather.single(database, ["host"], live=live).sections}
        (drawn,) = sections[gather.DRAWN].blocks
        assert isinstance(drawn, Chart)
        assert drawn.caption == "Host over time"
        (lane,) = unpacked(base64.b64decode(drawn.events))[1]
        assert (lane["lane"], lane["duration"]) == ("operators", [3000])
    assert "## Timeline" not in markdown.page(gather.single(database, ["host"])), "nothing to draw there"


def test_a_comparison_has_the_tree_of_modules_and_operators(tmp_path: Path) -> None:
    """Every kernel of a copy of the trace takes twice as long."""
    trace = json.loads(gzip.decompress((Path(__file__).parents[1] / "fixtures" / f"{TRACE}.json.gz").read_bytes()))
    database = kerneldb.open(tmp_path / "k.duckdb")
    for name, factor in (("fast", 1), ("slow", 2)):
        for event in trace["traceEvents"]:
            if event.get("cat") == "kernel":
                event["dur"] *= factor
        (tmp_path / f"{name}.json").write_text(json.dumps(trace))
        database.ingest(tmp_path / f"{name}.json", run=name)
    report = changes.comparison(database, "fast", "slow")
    (section,) = (one for one in report.sections if one.title == "Where in the network")
    modules, operators = section.blocks
    assert isinstance(modules, Table)
    assert isinstance(operators, Table)
    tree = database.sql("FROM module_tree('kernels') WHERE trace = 'fast'").rows()
    assert sorted(row["total_before_ns"] for row in modules.rows) == sorted(row["total_ns"] for row in tree)
    assert any(row["module"].startswith("· Linear") for row in modules.rows), "below Sequential"
    for row in modules.rows:
        if row["module"].startswith("· "):  # little but kernels
            assert row["delta_ns"] == pytest.approx(row["total_before_ns"], rel=0.05)
    assert {row["name"]: row["delta_ns"] for row in operators.rows}["aten::addmm"] > 0
    text = html.page(report)
    assert "Modules, as a tree" in text
    assert "· Linear_0" in text
