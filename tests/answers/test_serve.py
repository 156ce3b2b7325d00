"""The pages of `kerneldb serve`: what they answer, to whom, and that nothing can be changed or reached through them."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.errors import QueryError
from tests.answers.test_report import EVIL
from tests.browser import CHROMIUM, Page, browser, needs_browser

pytest.importorskip("starlette")
from kerneldb.report import contents, events, gather, html, live, serve
from kerneldb.report.asking import asking
from kerneldb.report.model import Section

pytestmark = pytest.mark.again

TOKEN = "a-token"  # noqa: S105 (of this test)
FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    found = kerneldb.open(tmp_path_factory.mktemp("serve") / "k.duckdb")
    found.ingest(FIXTURES / "stacks-memory-h200.json.gz", name="first")
    found.ingest(FIXTURES / "graph-replays-h100.json.gz", name=EVIL[:40])
    return found


@pytest.fixture(scope="module")
def port(database: Database) -> Iterator[int]:
    with serve.listening(0) as sock:
        sock.listen()
        threading.Thread(target=serve.run, args=(database, sock, TOKEN), daemon=True).start()
        yield sock.getsockname()[1]


class Answer:
    """Of one request."""

    def __init__(self, port: int, path: str, body: Any = None, **headers: str) -> None:
        link = http.client.HTTPConnection(serve.HOST, port, timeout=120)
        text = body if body is None or isinstance(body, bytes) else json.dumps(body)
        link.request(
            "GET" if body is None else "POST",
            path,
            text,
            {key.replace("_", "-"): value for key, value in headers.items()},
        )
        got = link.getresponse()
        self.status, self.headers, self.text = got.status, got.headers, got.read().decode()
        link.close()


def known(port: int, path: str, body: Any = None, **headers: str) -> Answer:
    """The answer to somebody who has the token."""
    return Answer(port, path, body, Cookie=f"kerneldb-{port}={TOKEN}", **headers)


@pytest.mark.parametrize(
    "path",
    [
        "/", "/trace?name=first", "/timeline?name=first", "/api/schema", "/?token=", "/?token=a-tokem",
        "/trace?token=%00", *(f"/api/timeline/{name}?name=first&from=0&to=9" for name in serve.LIVE),
    ],
)  # fmt: skip
def test_no_answer_without_the_token(port: int, path: str) -> None:
    for found in (Answer(port, path), Answer(port, path, Cookie=f"kerneldb-{port}=another")):
        assert (found.status, "first" in found.text) == (403, False)
    assert Answer(port, "/api/query", {"sql": "SELECT 1"}).status == 403


def test_the_token_leaves_the_address(port: int) -> None:
    found = Answer(port, f"/trace?name=first&token={TOKEN}")
    assert (found.status, 'content="0;url=/trace?name=first"' in found.text) == (200, True)
    assert TOKEN not in found.text
    assert "<script" not in Answer(port, f"/%22%3E%3Cscript%3E?token={TOKEN}").text
    assert {"HttpOnly", "SameSite=strict"} <= set(found.headers["set-cookie"].split("; "))
    assert found.headers["referrer-policy"] == "no-referrer"


def test_other_names_of_this_machine_get_no_answer(port: int) -> None:
    """A page of another host that has its name point to 127.0.0.1 (DNS rebinding)."""
    for name in ("evil.example", f"127.0.0.1.evil.example:{port}", f"127.0.0.1:{port}@evil", f"localhost.:{port}", ""):
        assert known(port, "/", Host=name).status == 400
    assert known(port, "/", Host=f"localhost:{port}").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "null"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors"},
    ],
)  # fmt: skip
def test_pages_of_other_origins_get_no_answer(port: int, headers: dict[str, str]) -> None:
    """Not even one on another port of this machine, to which a browser sends the cookie."""
    assert known(port, "/api/query", {"sql": "SELECT 1"}, **headers).status == 403
    assert known(port, "/api/schema", **headers).status == 403
    assert known(port, "/api/query", {"sql": "SELECT 1"}, Origin=f"http://{serve.HOST}:{port}").status == 200
    assert known(port, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200


def test_half_open_connections_hold_nobody_up(port: int) -> None:
    with ExitStack() as held:
        for _ in range(200):
            held.enter_context(socket.create_connection((serve.HOST, port))).sendall(b"GET / HTTP/1.1\r\nX-")
        assert known(port, "/").status == 200


def test_an_answer_has_an_end(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "MOST_BYTES", 100_000)
    found = known(port, "/api/query", {"sql": "FROM range(1000000000000)"})
    assert (found.status, "takes more than 100 KB: add LIMIT" in found.text) == (400, True)


def test_nothing_is_asked_once_nobody_waits() -> None:
    ended = threading.Event()

    def pieces() -> Iterator[str]:
        try:
            while True:
                time.sleep(0.01)
                yield "a section"
        finally:
            ended.set()

    answer = serve._worked_off(pieces())
    next(answer)
    answer.close()
    assert ended.wait(30)


def test_what_fails_at_some_row_is_said(port: int) -> None:
    late = "SELECT CASE WHEN range = 50000 THEN ('x' || range)::INT ELSE 1 END FROM range(100000)"
    found = known(port, "/api/query", {"sql": late})
    assert (found.status, "Could not convert string 'x50000'" in found.text) == (400, True)
    wide = "SELECT repeat('x', 3000000) FROM range(1000)"
    found = known(port, "/api/query", {"sql": wide})
    assert (found.status, "more than 2 GB within few rows" in found.text) == (400, True)


def test_a_report_comes_section_by_section(database: Database) -> None:
    """What is there is shown while the rest is asked for, also where that fails."""

    def sections() -> Iterator[Section]:
        yield Section("One & all")
        raise QueryError("<broken>")

    come = list(serve._worked_off(html.arriving("Title", "made", sections(), ["a/b"])))
    assert [("<h1>Title</h1>" in come[0]), ("/timeline?name=a/b" in come[0]), len(come)] == [True, True, 4]
    assert ("<h2>One &amp; all</h2>" in come[1], come[2]) == (True, '<p role="alert">&lt;broken&gt;</p>')


def test_what_is_soon_answered_comes_first(database: Database) -> None:
    """Of a large trace why it takes so long is the last answer that is there; no answer is missing."""
    titles = [section.title for section in gather.arriving(database, ["first"], live=True)]
    whole = [section.title for section in gather.single(database, ["first"]).sections]
    assert (titles[0], whole[0], sorted(titles)) == ("Timeline", contents.WHY, sorted(whole))


PLACED = """<script>window.drawn.then(() => {
  const out = document.createElement("pre"), said = (all) => [...all].map((one) => one.textContent);
  out.id = "told";
  const found = [said(document.querySelectorAll("h2")), said(document.querySelectorAll("#listed a"))];
  out.textContent = JSON.stringify([...found, !document.getElementById("coming")]);
  document.body.append(out);
});</script>"""


@needs_browser
def test_sections_stand_where_the_report_has_them(port: int, database: Database, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(known(port, "/trace?name=first").text.replace("</body>\n</html>", PLACED))
    titles = [section.title for section in gather.single(database, ["first"]).sections]
    assert json.loads(unescape(said_at(page.as_uri(), tmp_path))) == [titles, titles, True]


def test_pages(port: int) -> None:
    found = known(port, "/")
    assert (found.status, ">first</a>" in found.text, "<img" in found.text) == (200, True, False)
    assert "default-src 'none'" in found.headers["content-security-policy"]
    evil = urllib.parse.quote(EVIL[:40])
    for path in ("/trace?name=first", f"/trace?name={evil}", f"/compare?before=first&after={evil}"):
        found = known(port, path)
        assert (found.status, found.text.startswith("<!doctype html>"), "window.evil = 1</script>" in found.text) == (
            200,
            True,
            False,
        )
    assert known(port, "/trace?name=nothing").status == 400
    for path in ("/etc/passwd", "/../../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/static/x", "/trace/"):
        assert known(port, path).status in (404, 405, 307)


def test_sql_gives_exact_values(port: int, database: Database) -> None:
    sql = "SELECT category, sum(duration_ns) AS total_ns FROM kernels GROUP BY ALL ORDER BY ALL"
    found = json.loads(known(port, "/api/query", {"sql": sql}).text)
    rows = database.sql(sql).rows()
    assert found["rows"] == [list(row.values()) for row in rows]
    assert ([one["name"] for one in found["columns"]], found["n"]) == (["category", "total_ns"], len(rows))
    sql = "SELECT 9007199254740993 AS a, NULL AS b, 'inf'::DOUBLE AS c, [9007199254740993] AS d, {'e': true} AS e"
    odd = json.loads(known(port, "/api/query", {"sql": sql}).text)
    assert odd["rows"] == [["9007199254740993", None, None, ["9007199254740993"], {"e": True}]]
    assert known(port, "/api/query", {"sql": "SELECT '=1+1' AS a", "format": "csv"}).text == "a\n'=1+1\n"
    cut = "… (the first 10,000 of {} characters)"
    long = "SELECT repeat('x', 50000000) AS a, [repeat('y', 20000)] AS b"
    (row,) = json.loads(known(port, "/api/query", {"sql": long}).text)["rows"]
    assert row == ["x" * 10_000 + cut.format("50,000,000"), '["' + "y" * 9_998 + cut.format("20,004")]
    many = json.loads(known(port, "/api/query", {"sql": "FROM range(20000)"}).text)
    assert (len(many["rows"]), many["n"]) == (serve.ROWS, 20000)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM traces", "DROP TABLE launches", "CREATE TABLE warehouse.t AS SELECT 1",
        "COPY traces TO '/tmp/x.csv'",
        "SELECT * FROM read_text('/etc/passwd')", "ATTACH '/tmp/x.duckdb'", "SET enable_external_access = true",
        "ATTACH ':memory:' AS z", "CREATE TABLE memory.t AS SELECT 1", "SET VARIABLE a = 1", "USE memory", "BEGIN",
        "EXPLAIN ANALYZE CREATE TABLE memory.t AS SELECT 1",
        "/* a */ EXPLAIN ANALYZE CREATE TABLE memory.t AS SELECT 1",
        "EXPLAIN /* a */ ANALYZE CREATE TABLE memory.t AS SELECT 1",
        "EXPLAIN -- a\nANALYZE CREATE TABLE memory.t (i INT)",
        "EXPLAIN EXPLAIN ANALYZE CREATE TABLE memory.t AS SELECT 1",
        "EXPLAIN (ANALYZE) CREATE TABLE memory.t AS SELECT 1", "PRAGMA database_list", "CHECKPOINT",
        "INSTALL httpfs", "SELECT 1; DROP TABLE traces", "EXPORT DATABASE '/tmp/x'", "SELEC 1", "  ",
    ],
)  # fmt: skip
def test_nothing_is_changed_and_no_file_reached(port: int, database: Database, sql: str) -> None:
    found = known(port, "/api/query", {"sql": sql})
    assert (found.status, "Traceback" in found.text) == (400, False)
    assert len(database.traces()) == 2


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW TABLES", "DESCRIBE traces", "SUMMARIZE traces", "EXPLAIN ANALYZE FROM traces",
        "explain (format json) FROM traces", "WITH a AS (FROM traces) FROM a", "VALUES (1)", "-- a\nFROM traces;",
        "PIVOT traces ON kind USING count(*)",
    ],
)  # fmt: skip
def test_statements_that_read_are_answered(port: int, sql: str) -> None:
    assert known(port, "/api/query", {"sql": sql}).status == 200


def test_a_text_that_a_column_never_has_gets_near_ones(port: int) -> None:
    found = json.loads(known(port, "/api/query", {"sql": "SELECT count(*) FROM kernels WHERE kind = 'Kernel'"}).text)
    assert (found["rows"], found["hints"]) == ([[0]], ["kind has no value 'Kernel'; near: 'kernel'"])
    assert json.loads(known(port, "/api/query", {"sql": "SELECT 1"}).text)["hints"] == []


def test_a_sum_over_several_gpus_says_so(port: int) -> None:
    (hint,) = json.loads(known(port, "/api/query", {"sql": "SELECT sum(duration_ns) FROM kernels"}).text)["hints"]
    assert "NVIDIA" in hint


@pytest.mark.parametrize("body", [[], 1, {"sql": 1}, {"sql": None}, {}])
def test_other_bodies_are_refused(port: int, body: Any) -> None:
    assert known(port, "/api/query", body).status == 400
    assert known(port, "/", {"sql": "SELECT 1"}).status == 405


def test_a_trace_without_times_has_an_empty_timeline(tmp_path: Path) -> None:
    found = kerneldb.open(tmp_path / "k.duckdb")
    found.ingest(FIXTURES / "nsys" / "r23_cuda_gpu_kern_sum.tsv", name="sums")
    asked = {
        "name": "sums",
        "from": "0",
        "to": "9",
        "bins": "3",
        "at": "0",
        "text": "a",
        "kind": "operators",
        "id": "1",
    }
    with live.question(found, asked) as question:
        assert live.window(question)
        told = [answer(question) for answer in serve.LIVE.values()]
    assert told == [{"least": 1, "gaps": []}, [], None, [], None, None]


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe{", b"[" * 100_000, rb'{"sql":"\ud800"}', rb'{"\udfff":1}'])
def test_what_is_no_json_is_refused(port: int, body: bytes) -> None:
    found = known(port, "/api/query", body)
    assert (found.status, found.text.startswith("not JSON: ")) == (400, True)


def test_rows_of_a_statement_are_shown_harmlessly(port: int) -> None:
    found = known(
        port, "/api/query", json.dumps({"sql": "SELECT 'a\u202eb\x1b[2Jé' AS \"c\u202e\", 'x\ny' AS d"}).encode()
    )
    answer = json.loads(found.text)
    assert [one["name"] for one in answer["columns"]] == ["c\\u202e", "d"]
    assert answer["rows"] == [["a\\u202eb\\x1b[2Jé", "x\ny"]]


def test_numbers_beyond_64_bits_name_nothing(port: int) -> None:
    found = known(port, "/api/timeline/launched?name=first&kind=operators&id=1e300")
    assert (found.status, found.text) == (200, "null")


def said_by(port: int, path: str, folder: Path) -> str:
    """What a page says in the element `told`, in a browser that has the token."""
    return said_at(f"http://{serve.HOST}:{port}{path}{'&' if '?' in path else '?'}token={TOKEN}", folder)


def said_at(url: str, folder: Path) -> str:
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=15000", "--dump-dom"]
    line = [str(CHROMIUM), *flags, f"--user-data-dir={folder}", url]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
    (told,) = re.findall(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    return str(told)


@contextmanager
def box(port: int, *size: int) -> Iterator[Page]:
    """The first page, in a browser that has the token, with the box for SQL."""
    url = f"http://{serve.HOST}:{port}/"
    with browser(*size) as page:
        page.call("Network.setCookie", name=serve.COOKIE.format(port=port), value=TOKEN, url=url)
        page.go(url, "window.ready")
        yield page
        assert page.wrong == []


def wait(page: Page, condition: str) -> None:
    look = f"() => {condition} ? done() : requestAnimationFrame(look)"
    page.run(f"new Promise((done) => {{ const look = {look}; look(); }})")


def begin(page: Page, text: str) -> None:
    page.run(f"closed(), sql.focus(), sql.value = {json.dumps(text)}, sql.setSelectionRange(999, 999)")


def tab(page: Page, text: str) -> None:
    """Write a text and press Tab behind it; wait until words are offered or one was taken."""
    begin(page, text)
    page.press("Tab")
    wait(page, f"!offer.hidden || sql.value !== {json.dumps(text)} || leaves")


OFFERED = "[...offer.children].map((line) => line.dataset.word)"


@needs_browser
def test_the_box_completes_and_shows(port: int, database: Database) -> None:
    (row,) = database.sql("SELECT max(duration_ns) AS m FROM kernels").rows()
    with box(port) as page:
        tab(page, "FROM kernels SELECT max(duration_n")
        assert page.run("sql.value") == "FROM kernels SELECT max(duration_ns"
        page.run("sql.setRangeText(') AS m', sql.selectionStart, sql.selectionStart, 'end')")
        page.run("run()")
        assert page.run("[$('rows').textContent, $('before').length]") == [f"m{row['m']:,}", 2]
        page.run("document.querySelector('#rows th button').click()")
        assert page.run("document.activeElement.textContent") == "m ▲"
        tab(page, "FROM kernels SELECT d")
        shown = "[sql.getAttribute('aria-activedescendant'), document.getElementById('chosen')?.textContent[0]]"
        assert page.run(shown) == [None, None]
        page.press("ArrowDown")
        assert page.run(shown) == ["chosen", "d"]
        page.press("Escape")
        assert page.run("[offer.hidden, sql.hasAttribute('aria-activedescendant')]") == [True, False]
        page.press("Tab")
        assert page.run("document.activeElement.id") == "run", "Escape, then Tab leaves"


@needs_browser
def test_what_is_typed_replaces_the_example(port: int) -> None:
    """Once: what somebody wrote stays, however the box is come to again."""
    for is_click in (False, True):
        with box(port) as page:
            page.call("Emulation.setFocusEmulationEnabled", enabled=True)
            if is_click:
                at = page.run("(({x, y}) => [x + 40, y + 12])(sql.getBoundingClientRect())")
                page.drag(*at, at[0])
            else:
                page.run("sql.focus()")
            assert page.run("[sql.selectionStart, sql.selectionEnd === sql.value.length]") == [0, True]
            page.run("sql.setRangeText('SELECT 1', 0, sql.value.length, 'end'), sql.blur(), sql.focus(), sql.click()")
            assert page.run("[sql.value, sql.selectionStart]") == ["SELECT 1", 8]


@needs_browser
def test_the_box_completes_values_within_quotes(port: int) -> None:
    with box(port) as page:
        tab(page, "FROM kernels WHERE category = 'GE")
        assert page.run("sql.value") == "FROM kernels WHERE category = 'GEMM'"
        tab(page, "FROM kernels WHERE trace = '<")
        assert page.run("sql.value") == f"FROM kernels WHERE trace = '{EVIL[:40].replace(chr(39), chr(39) * 2)}'"
        tab(page, "FROM kernels WHERE category = '")
        assert "'GEMM'" in page.run(OFFERED)
        page.press("G", "E", "Tab")
        wait(page, "sql.value.includes('GEMM')")
        assert page.run("sql.value") == "FROM kernels WHERE category = 'GEMM'"
        begin(page, "FROM kernels WHERE category = 'GE'")
        page.run("sql.setSelectionRange(33, 33)")
        page.press("Tab")
        wait(page, "sql.value.includes('GEMM')")
        assert page.run("sql.value") == "FROM kernels WHERE category = 'GEMM'"
        tab(page, "FROM kernels WHERE category = 'nosuch")
        page.press("Tab")
        assert page.run("document.activeElement.id") == "run", "nothing is offered: Tab leaves"


@needs_browser
def test_words_are_offered_below_the_one_that_is_begun(port: int) -> None:
    corner = "(({left, top}) => [left, top])(offer.getBoundingClientRect())"
    with box(port) as page:
        places: list[list[float]] = []
        for text in ("FROM kernels SELECT d", "FROM kernels\nSELECT d", "FROM kernels\nSELECT\nd"):
            tab(page, text)
            places.append(page.run(corner))
        (first, top), *others = places
        letter = (first - others[0][0]) / len("FROM kernels ")
        assert [*itertools.chain(*others)] == pytest.approx(
            [first - 13 * letter, top + 19.5, first - 20 * letter, top + 39], abs=2
        )
        assert 7 < letter < 9
        tab(page, "FROM kernels\n" * 40 + "SELECT d")
        assert page.run(corner)[1] <= page.run("sql.getBoundingClientRect().bottom + 2")
        tab(page, "SELECT 1 AS " + "n" * 100 + ", d")
        assert page.run("offer.getBoundingClientRect().right <= sql.getBoundingClientRect().right")


@needs_browser
def test_the_box_offers_words_while_somebody_types(port: int) -> None:
    """From the second letter on; Enter takes what an arrow chose, else it is a new line; the buttons stay in sight."""
    with box(port) as page:
        begin(page, "FROM k")
        page.press("e")
        wait(page, "!offer.hidden")
        assert "kernels" in page.run(OFFERED)
        assert page.run(
            "document.elementFromPoint(...(({x, y}) => [x + 5, y + 5])($('run').getBoundingClientRect())).id"
        ) == ("run")
        page.press("Enter")
        assert page.run("[sql.value, offer.hidden]") == ["FROM ke\n", True]
        begin(page, "FROM k")
        page.press("e")
        wait(page, "!offer.hidden")
        page.press("Escape", "r")
        assert page.run("[sql.value, offer.hidden, typed]") == ["FROM ker", True, False]
        begin(page, "FROM kernels WHERE category = '")
        page.press("G", "E")
        wait(page, '!offer.hidden && offer.dataset.before.endsWith("\'GE")')
        page.press("ArrowDown", "Enter")
        assert page.run("sql.value") == "FROM kernels WHERE category = 'GEMM'"


def test_completion_is_that_of_the_editor(port: int, database: Database) -> None:
    def words(before: Any, after: str = "") -> list[str]:
        found = json.loads(known(port, "/api/complete", {"before": before, "after": after}).text)
        return [one["word"] for one in found["found"]]

    assert words("FROM kernels WHERE category = 'ge")[0] == "'GEMM'"
    assert "idle_gaps()" in words("FROM idle_"), "macros are asked of all launches"
    assert not any("selection" in word for word in words("FROM "))
    database.sql("FROM idle_gaps() LIMIT 1").rows()
    assert known(port, "/api/complete", {"before": 1, "after": ""}).status == 400
    assert known(port, "/api/complete", []).status == 400
    assert Answer(port, "/api/complete", {"before": "", "after": ""}).status == 403


def test_completion_knows_what_was_read_meanwhile(tmp_path: Path) -> None:
    found = kerneldb.open(tmp_path / "k.duckdb")
    found.ingest(FIXTURES / "stacks-memory-h200.json.gz", name="early")

    def traces() -> list[str]:
        answer = serve._complete(found, {"before": "FROM kernels WHERE trace = '", "after": ""})
        return [one["word"] for one in json.loads(bytes(answer.body))["found"]]

    assert traces() == ["'early'"]
    found.ingest(FIXTURES / "graph-replays-h100.json.gz", name="late")
    assert set(traces()) == {"'early'", "'late'"}


@needs_browser
def test_the_first_page_fits_a_phone(port: int) -> None:
    """Also where a trace has a long name; and it asks nobody else."""
    with box(port, 390, 844) as page:
        assert page.run("[document.documentElement.scrollWidth, window.innerWidth]") == [390, 390]
        page.run("sql.focus()")
        page.press("Escape", "Tab", "Enter")
        done = "() => $('said').textContent.includes('rows') ? done() : requestAnimationFrame(look)"
        page.run(f"new Promise((done) => {{ const look = {done}; look(); }})")
        assert page.run("$('rows').querySelectorAll('tbody tr').length") > 1
        assert {urllib.parse.urlsplit(url).netloc for url in page.asked} == {f"{serve.HOST}:{port}"}
        assert page.wrong == []
        columns = "[{name: 'sum(duration_ns) FILTER '.repeat(9), type: 'int64'}, {name: 'b', type: 'string'}]"
        page.run(f"show({columns}, [[1, '']])")
        assert page.run("$('rows').querySelector('th').offsetWidth") < 340
        assert page.run("[...$('rows').querySelectorAll('th')].map((th) => th.className)") == ["right", ""]
        assert page.run("$('rows').querySelector('th button').title.length") > 200
        assert page.run("[1e-9, -2.5e-4, 0, 1234567.5].map(cell)") == ["1e-9", "-0.00025", "0", "1,234,567.5"]


def test_a_run_of_several_traces_has_a_page_of_them_all() -> None:
    traces = [{"trace": "one", "run": run, "source": "pytorch"} for run in ("a b", "a b", "c", None)]
    page = bytes(serve._page("serve.html.j2", database="k.duckdb", traces=traces).body).decode()
    assert page.count('<a href="/trace?run=a%20b">a b, all 2</a>') == 2
    assert "<td>c</td>" in page


def test_a_page_of_a_pattern_leads_to_the_timelines_of_its_traces(port: int) -> None:
    page = known(port, "/trace?name=fir*").text
    assert re.findall(r'href="/timeline\?name=([^"]*)"', page) == ["first"]


ZOOMED = """<script>window.drawn.then(async () => {
  const view = Object.values(window.views)[0], said = {};
  const held = view.whole.lanes.filter((lane) => !["idle", "phase", "module"].includes(lane.lane));
  const events = (lane) => [...lane.start].reduce((sum, _, i) => sum + (lane.many?.[i] ?? 1), 0);
  said.all = held.map(events).reduce((sum, one) => sum + one, 0);
  said.rows = held.map((lane) => lane.n).reduce((sum, one) => sum + one, 0);
  await view.gap(0);
  await view.rested();
  said.gap = view.told.textContent;
  await view.go(0, view.end, () => false);
  view.search.value = "gemm"; view.show(0, view.end); view.chosen = null;
  await view.next(1);
  said.found = view.told.textContent; said.start = view.chosen.lane.start[view.chosen.i];
  await view.follow();
  said.call = view.told.textContent; said.lane = view.chosen.lane.lane;
  await view.follow();
  said.back = view.chosen.lane.start[view.chosen.i];
  view.range = [0, view.end]; await view.tell_range();
  said.sums = view.told.textContent;
  await view.rested(); view.want = () => {}; view.take(view.whole);  // sums alone, as of a trace that is much larger
  const among = ({lane, i}) => lane.many?.[i] > 1;
  const within = (lane) => lane.key.findIndex((key, i) => key && view.linked({lane, i}).some(among));
  const lane = view.data.lanes.find((one) => one.launches && within(one) >= 0), i = within(lane);
  view.choose({lane, i});
  said.clicked = view.data.origin + lane.start[i];
  const told = (words) => words.test(view.told.textContent), later = () => new Promise((done) => setTimeout(done, 20));
  while (!told(/in operator/) || !told(/registers a thread|size[0-9.]+ /)) await later();
  said.click = view.told.textContent;
  const out = document.createElement("pre");
  out.id = "told"; out.textContent = JSON.stringify(said); document.body.append(out);
});</script>"""


@pytest.mark.thorough
@needs_browser
def test_a_timeline_of_many_events_asks_for_what_it_shows(
    port: int, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that begins with sums: to the largest gap and its Python line, to a name, to its call and back."""
    monkeypatch.setattr(events, "MOST", 100)
    monkeypatch.setattr(events, "BINS", 50)
    page = html.page
    monkeypatch.setattr(html, "page", lambda report: page(report).replace("</body>", ZOOMED + "</body>"))
    said = json.loads(unescape(said_by(port, "/timeline?name=first", tmp_path)))
    with asking(database) as ask:
        assert said["all"] == events.extent(ask.about(trace="first")).events > said["rows"]
    (gap,) = database.sql("SELECT next_op FROM idle_gaps() WHERE trace = 'first' ORDER BY gap_ns DESC LIMIT 1").rows()
    assert gap["next_op"] in said["gap"]
    assert re.search(r"\.py\(\d+\)", said["gap"]), "a Python line"
    (first,) = database.sql(
        "SELECT min(start_ns) FILTER (name ILIKE '%gemm%') - least(min(start_ns), min(launch_start_ns)) AS at_ns "
        "FROM kernels WHERE trace = 'first'"
    ).rows()
    assert said["start"] >= first["at_ns"] > 0
    assert (said["lane"], "Launch" in said["call"], said["back"]) == ("API calls", True, said["start"])
    (top,) = database.sql("SELECT short_name FROM top_kernels() WHERE trace = 'first' LIMIT 1").rows()
    assert top["short_name"] in said["sums"]
    (clicked,) = database.sql(
        "SELECT api_call, op, python_line, registers FROM kernels WHERE trace = 'first' AND start_ns = "
        f"{said['clicked']}"
    ).rows()
    assert f"launched by{clicked['api_call']}, " in said["click"]
    assert all(part in said["click"] for part in (clicked["op"], clicked["python_line"]))
    assert ("registers a thread" in said["click"]) == (clicked["registers"] is not None), "asked of the server, too"


COLOURED = """(async () => {
  const view = Object.values(window.views)[0], found = [];
  const shade = (shown) => shown.match(/[0-9]+/g).join();
  const painted = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)).join();
  const look = async () => {
    await view.rested(); await view.explained;
    const drawn = new Map(), told = [];
    for (const lane of view.data.lanes) for (let i = 0; i < lane.n; i++) {
      const category = view.data.categories[lane.name[i]];
      if (category && (lane.launches || lane.lane === "idle")) drawn.set(category, painted(view.colours[lane.name[i]]));
    }
    for (const {textContent: title, firstChild: dot} of view.colours_told.children) {
      const idle = title.startsWith("idle: "), names = idle ? title.slice(6).split(", ") : [title];
      for (const name of names) told.push([idle ? `idle: ${name}` : name, shade(dot.style.background)]);
    }
    const lanes = [...new Set(view.data.lanes.map(({place, lane}) => `${place} ${lane}`))];
    found.push({drawn: [...drawn], told, lanes});
  };
  await look();
  await view.gap(0); await look();
  return found;
})()"""


@needs_browser
def test_a_category_has_one_colour_however_it_is_shown(
    port: int, database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a file, in a page that is served, whole and zoomed; the legend says which, and idle times are by their GPU."""
    file = tmp_path / "page.html"
    file.write_text(html.page(gather.single(database, ["first"])), encoding="utf-8")
    monkeypatch.setattr(events, "MOST", 100)
    monkeypatch.setattr(events, "BINS", 50)
    with browser() as page:
        page.go(f"http://{serve.HOST}:{port}/timeline?name=first&token={TOKEN}", "0")
        wait(page, "!location.search.includes('token') && window.views?.chart0")
        whole = "Object.values(window.views)[0].whole"
        idle = f"{whole}.lanes.find(({{lane}}) => lane === 'idle')"
        at_first = page.run(f"[{idle}.lane, {whole}.categories[{idle}.name[0]]]")
        seen = page.run(COLOURED)
        page.go(file.as_uri())
        seen += page.run(COLOURED)
        assert page.wrong == []
    first = database.sql(
        "SELECT category FROM kernels WHERE trace = 'first' GROUP BY ALL ORDER BY sum(duration_ns) DESC LIMIT 1"
    ).rows()[0]["category"]
    for one in seen:
        told = dict(one["told"])
        assert next(iter(told)) == first
        grey = next((colour for name, colour in told.items() if "other categor" in name), None)
        assert {name: told.get(name, grey) for name, _ in one["drawn"]} == dict(one["drawn"])
        gpu = [lane for lane in one["lanes"] if lane.startswith("GPU 0")]
        assert gpu[-1] == "GPU 0 idle"
        assert [lane for lane in one["lanes"] if lane in gpu] == gpu
        at = [one["lanes"].index(lane) for lane in gpu]
        assert at == list(range(at[0], at[0] + len(at)))
    whole, zoomed, *_ = seen
    assert at_first == ["idle", "idle: zoom in for the cause"]
    assert any(name.startswith("idle: ") for name, _ in zoomed["told"])
    for other in seen[1:]:
        of_launches = {name: colour for name, colour in other["told"] if ":" not in name}
        assert of_launches.items() == {name: colour for name, colour in whole["told"] if ":" not in name}.items()


def test_idle_times_of_a_stretch_are_whole_or_summed(database: Database) -> None:
    """However short they are: all of the idle time is there, and what is long is as `idle_gaps` says."""
    rows = database.sql("SELECT gap_start_ns, gap_ns FROM idle_gaps() WHERE trace = 'first'").rows()
    with asking(database) as ask:
        one = ask.about(trace="first")
        whole = events.extent(one).whole
        for bins in (10, 500, 10**9):
            step = max(1, (whole.last_ns - whole.first_ns) // bins)
            asked = {"first_ns": whole.first_ns, "last_ns": whole.last_ns, "step_ns": step}
            found = one.also(asked).rows("events_idle")
            assert sum(row["busy_ns"] for row in found) == sum(row["gap_ns"] for row in rows)
            assert sum(row["n"] for row in found) == len(rows)
            long = {(row["gap_start_ns"], row["gap_ns"]) for row in rows if row["gap_ns"] >= step}
            assert {(row["start_ns"], row["duration_ns"]) for row in found if row["n"] == 1} >= long


@needs_browser
def test_the_address_of_a_view_has_no_token(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who came by the address with the token passes on one that shows the same, to who has a token of their own."""
    monkeypatch.setattr(events, "MOST", 100)
    monkeypatch.setattr(events, "BINS", 50)
    view = "Object.values(window.views)[0]"
    seen = f"[{view}.from, {view}.to, {view}.chosen.lane.start[{view}.chosen.i]]"
    rest = f"{view}.rested().then(() => 0)"
    with browser() as page:
        page.go(f"http://{serve.HOST}:{port}/timeline?name=first&token={TOKEN}", "0")
        wait(page, "!location.search.includes('token') && window.views?.chart0")
        page.run(f"{view}.gap(0)")
        page.run(rest)
        wait(page, f"{view}.address.kept && {view}.address.kept === {view}.address.words()")
        address, before = page.run("location.href"), page.run(seen)
        assert TOKEN not in address
        assert "?name=first#trace=first&from=" in address
        page.go("about:blank", "null")
        page.go(address)
        page.run(rest)
        after = page.run(seen)
    assert after == pytest.approx(before, abs=1)


@pytest.mark.parametrize(
    "words",
    [
        "from=0&to=1&bins=10",
        "name=nothing&from=0&to=1&bins=10",
        "name=first",
        "name=first&from=x&to=1&bins=1",
    ],
)
def test_a_stretch_of_nothing_is_refused(port: int, words: str) -> None:
    found = known(port, f"/api/timeline?{words}")
    assert (found.status, "Traceback" in found.text) == (400, False)
    assert Answer(port, f"/api/timeline?{words}").status == 403


@contextmanager
def served(database: Database, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "kerneldb", "--db", str(database.path), "serve", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_command_prints_the_address_and_ends_by_ctrl_c(database: Database) -> None:
    with served(database) as process:
        assert process.stdout is not None
        url = urllib.parse.urlsplit(process.stdout.readline().strip())
        assert (url.hostname, len(url.query) > 30) == ("127.0.0.1", True)
        assert url.port is not None
        assert Answer(url.port, f"/?{url.query}").status == 200
        with served(database, "--port", str(url.port)) as other:
            assert "choose another one with --port" in other.communicate(timeout=60)[1]
            assert other.returncode == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
