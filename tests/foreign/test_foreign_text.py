"""Two hundred hostile texts in every text column: nothing that commands, pages and plots show of them does anything."""

from __future__ import annotations

import csv
import html.parser
import io
import json
import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import kerneldb
from kerneldb.cli import cli
from kerneldb.cli.root import tree
from kerneldb.output import Output, write
from kerneldb.output.text import escape, harmless
from kerneldb.report import charts
from tests.answers.plain_traces import Recording
from tests.foreign.texts import OWNED, TEXTS, is_harmless

if TYPE_CHECKING:
    from pathlib import Path

FIRST: Final = "{first}"
SECOND: Final = "{second}"
ASKED: Final = [
    ["traces"], ["traces", FIRST, "--report"], ["traces", FIRST, "--tag", "a=\x1b[2J"],
    *(["top", "--by", by] for by in ("kernel", "op", "signature", "phase", "stream", "category", "trace")),
    ["top", "--trace", "\x1b[31m"], ["top", "--where", "op = '\x1b[2J'"], ["top", "--where", "nothing\x1b[2J = 1"],
    ["show", "void"], ["show", "\x1b]0;owned\x07"], ["diff", FIRST, SECOND], ["diff", FIRST, "\x9b2J"],
    ["db", "doctor"], ["db", "doctor", FIRST], ["db", "doctor", "\x1b[2J.json"], ["replay", "--dry-run"],
    ["report", FIRST, "--format", "md"], ["query", 'SELECT 1 AS "\x1b[2J"'], ["query", "FROM kernels\x1b[2J"],
    ["query", "FROM kernel_names"], ["query", "FROM trace_files"], ["query", "FROM ranges"], ["nothing\x1b[2J"],
    ["analyze", "compare", FIRST], ["analyze", "same-code", "\x1b[2J"], ["ncu", "bounds", "\x1b[2J"],
    ["db", "schema"], ["db", "lake", "push", "ducklake:sqlite:\x1b[2J"],
    ["db", "export", "--table", "no\x1b[2J", "--csv"],
]  # fmt: skip
"""What is asked of the database, beside every analysis."""
EXACT: Final = {"ncu command"}
"""Prints a line for a shell, which is exact in a pipe; on a terminal it is harmless as all is."""


@pytest.fixture(scope="module")
def names(hostile: Path) -> list[str]:
    with kerneldb.open(hostile, create=False) as database:
        return [row["trace"] for row in database.sql("SELECT name AS trace FROM traces ORDER BY rowid").rows()]


def run(hostile: Path, *words: str) -> Result:
    done = CliRunner().invoke(cli, ["--db", str(hostile), *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def named(words: list[str], names: list[str]) -> list[str]:
    return [{FIRST: names[0], SECOND: names[1]}.get(word, word) for word in words]


def test_there_are_two_hundred_texts_and_all_are_made_harmless() -> None:
    assert len(set(TEXTS)) >= 200
    for text in (*TEXTS, "\udc9b31m\udcff", "\ud800"):
        shown = escape(text)
        assert is_harmless(shown), repr(text)
        assert "\n" not in shown
        assert is_harmless(harmless(text))
    assert sum(is_harmless(text) for text in TEXTS) < 70
    assert escape("µs · 16×(64×64) – naïve 漢字 e\u0301") == "µs · 16×(64×64) – naïve 漢字 e\u0301"


@pytest.mark.thorough
def test_no_command_lets_a_text_through(hostile: Path, names: list[str]) -> None:
    analyses = [list(path) for path, command in tree(cli) if path[0] in {"analyze", "ncu"} and len(path) > 1]
    for words in [*ASKED, *analyses]:
        done = run(hostile, *named(words, names))
        found = done.stderr if " ".join(words) in EXACT else done.output
        assert is_harmless(found), words
        assert not any(line.startswith(("<script", "<h1>")) for line in found.split("\n")), words


def test_messages_name_files_harmlessly(tmp_path: Path) -> None:
    name = "evil\x1b[2J\n\x9b31m\u202e\udcff.json"
    (tmp_path / name).write_text("no trace")
    done = CliRunner().invoke(cli, ["--db", str(tmp_path / "k\x1b[2J.duckdb"), "ingest", str(tmp_path / name)])
    assert done.exit_code == 1
    assert is_harmless(done.output)
    assert "evil\\x1b[2J\\n\\x9b31m\\u202e\\udcff.json" in done.stderr


def test_shells_complete_harmlessly(hostile: Path) -> None:
    environment = {
        "_KERNELDB_COMPLETE": "bash_complete",
        "COMP_WORDS": f"kerneldb --db {hostile} traces ",
        "COMP_CWORD": "4",
    }
    with kerneldb.open(hostile, create=False):
        pass  # completion waits for nobody: whoever of the tests before still has it is waited for here
    done = CliRunner().invoke(cli, prog_name="kerneldb", env=environment)
    assert is_harmless(done.output)
    assert len(done.output.splitlines()) > 10


FORMATS: Final = ("csv", "json", "ndjson")


def test_data_are_exact_in_pipes(hostile: Path) -> None:
    asked = "SELECT name FROM kernel_names ORDER BY name"
    with kerneldb.open(hostile, create=False) as database:
        stored = [row["name"] for row in database.sql(asked).rows()]
    found = {
        layout: run(hostile, "query", asked, "--format", layout, "--limit", "0").stdout_bytes for layout in FORMATS
    }
    assert [row["name"] for row in json.loads(found["json"])] == stored
    assert [json.loads(line)["name"] for line in found["ndjson"].split(b"\n") if line] == stored
    assert cells(found["csv"])[1:] == [[name] for name in stored]
    assert sum(not is_harmless(name) for name in stored) > 30


def cells(content: bytes, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline=""), delimiter=delimiter, lineterminator="\n"))


def test_safe_cells_hold_no_formula(tmp_path: Path) -> None:
    table = pa.table({"=cmd": [*TEXTS, None], "n": [*range(-len(TEXTS), 0), None]})
    path = tmp_path / "out.csv"
    write(table.to_reader(), Output("csv", path))
    assert [row[0] for row in cells(path.read_bytes())[1:-1]] == list(TEXTS)
    write(table.to_reader(), Output("csv", path, safe_cells=True))
    for delimiter in ",;":
        found = cells(path.read_bytes(), delimiter)
        texts = [cell for row in found for cell in (row if delimiter == ";" else row[:1])]
        lead = re.compile(r"[\s\0]*[=+@\uff1d\uff0b\uff0d\uff20]|[\s\0]*-(?!\d+$)")
        assert [text for text in texts if lead.match(text)] == []
    rows = cells(path.read_bytes())
    assert rows[0] == ["'=cmd", "n"]
    assert all(row[0].removeprefix("'") == text.removeprefix("'") for row, text in zip(rows[1:], TEXTS, strict=False))
    assert rows[1][1] == str(-len(TEXTS))


def test_what_nobody_sees_does_not_hide_a_formula(tmp_path: Path) -> None:
    """A mark of byte order at the beginning of a file is no character to a spreadsheet."""
    unseen = ["\ufeff=1+1", "\u200b=1+1", "\u00a0=1+1", "\u2003@a", "\u061c+1", "\x1b=1", "\ufe63x", "\u2028-x"]
    path = tmp_path / "out.csv"
    write(pa.table({"a": unseen}).to_reader(), Output("csv", path, safe_cells=True, header=False))
    assert [row[0] for row in cells(path.read_bytes())] == [f"'{text}" for text in unseen]


def test_names_of_columns_are_as_safe_as_values(tmp_path: Path) -> None:
    names, path = ["a;=cmd", "b\t=cmd", "=cmd", 'c"d', "", "e"], tmp_path / "out.csv"
    table = pa.table([pa.array(["x"])] * len(names), names=names)
    for safe in (False, True):
        write(table.to_reader(), Output("csv", path, safe_cells=safe))
        assert cells(path.read_bytes())[0] == ["'=cmd" if safe and name == "=cmd" else name for name in names]
    assert path.read_text().splitlines()[0] == '"a;=cmd","b\t=cmd",\'=cmd,"c""d","",e'


def test_safe_cells_are_an_option_of_csv(hostile: Path) -> None:
    done = run(hostile, "query", "SELECT '=1+1' AS a, -5 AS b", "--csv", "--safe-cells")
    assert done.stdout == "a,b\n'=1+1,-5\n"
    assert "add --csv" in run(hostile, "query", "SELECT 1", "--safe-cells").stderr


class Page(html.parser.HTMLParser):
    """The elements of a page, its attributes that run something, and its text outside of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.running: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.running += [
            one for one in attrs if one[0].startswith("on") or (one[1] or "").startswith(("javascript:", "http"))
        ]

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1] not in {"script", "style"}:
            self.text += data


def test_a_report_is_a_page_without_markup_of_names(hostile: Path, names: list[str], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert run(hostile, "report", names[0], "-o", str(path)).exit_code == 0
    page = Page(path.read_text(encoding="utf-8"))
    assert page.elements.count("script") == 4 + page.elements.count("section") > 8  # of the page, and of each section
    assert {"img", "svg", "b"}.isdisjoint(page.elements)
    assert page.running == []
    assert is_harmless(page.text)
    assert OWNED in page.text


ROWS: Final = [{"trace": f"t{text}", "phase": text, "total_ns": 10, "n": 1} for text in TEXTS]


TAGS: Final = {"svg", "g", "path", "text", "rect", "line", "defs", "clipPath", "style", "title"}


@pytest.mark.thorough
def test_every_text_can_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "MANY", len(ROWS))
    charts.save("phases", ROWS, tmp_path / "plot.svg")
    picture = ET.fromstring((tmp_path / "plot.svg").read_text(encoding="utf-8"))  # noqa: S314 (ours)
    assert is_harmless("".join(picture.itertext()))
    assert {element.tag.rpartition("}")[2] for element in picture.iter()} <= TAGS
    charts.save("phases", ROWS[:3], tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_of_a_plot_has_no_markup_of_names(tmp_path: Path) -> None:
    markup = [row for row in ROWS if "<" in row["phase"]][: charts.MANY]
    charts.save("phases", markup, tmp_path / "plot.html")
    page = Page((tmp_path / "plot.html").read_text(encoding="utf-8"))
    assert set(page.elements) <= {"html", "head", "meta", "title", "style", "script", "body", "div"}
    assert page.elements.count("script") == 2


def test_what_a_prompt_of_python_shows_is_escaped(tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "a\x1b]0;owned\x07.duckdb")
    database.ingest(Recording().write(tmp_path / "made.json"), name="t\x1b[2J")
    shown = [
        repr(one) for one in (database, database.sql('SELECT 1 AS "\x1b]0;owned\x07"'), database.report("t\x1b[2J"))
    ]
    assert [text for text in shown if not text.isprintable()] == []
