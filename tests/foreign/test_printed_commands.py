"""Commands that are printed to be copied: a name in them is one word, and no option, whatever a stranger called it."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api.ingestion import IngestOptions, Linked, Outcome, ReportEntry
from kerneldb.api.reconciliation import Reconciliation, WorkloadReconciliation
from kerneldb.cli import cli
from kerneldb.cli.ingest import summary, warnings
from kerneldb.cli.root import NAMES
from kerneldb.cli.why import command_of
from kerneldb.errors import WarehouseError, no_such
from kerneldb.ingest.nsys.text import print_again
from kerneldb.replay.options import Options
from kerneldb.report.model import Advice
from kerneldb.shell import command_line
from kerneldb.shell import kerneldb as line_of
from kerneldb.tui.empty_messages import no_traces
from kerneldb.tui.model import Choice
from kerneldb.warehouse import migrate, strangers
from kerneldb.warehouse.place import Place
from tests.conftest import made_once
from tests.foreign.test_ways_out import dotted, trees

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

HOSTILE: Final = ("x;touch owned;", "$(touch owned)", "it's", "--output=owned", "-h")


@pytest.fixture(params=HOSTILE)
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A name, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return str(request.param)


@pytest.fixture(scope="module")
def stored(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one trace. Read only."""

    def make(path: Path) -> None:
        trace = root / "tests" / "fixtures" / "train-step-h200.json.gz"
        kerneldb.open(path).ingest(trace, name="step")

    return made_once(tmp_path_factory, "printed-commands.duckdb", make)


def said(*words: str) -> str:
    done = CliRunner().invoke(cli, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), words
    return done.output


def command(message: str, before: str, after: str = "\n") -> list[str]:
    """The words of what stands in a message between two texts."""
    _, found, rest = message.rpartition(before)
    assert found, message
    return shlex.split(rest.partition(after)[0])


def names_it(words: list[str], name: str) -> bool:
    """Whether words hold the name whole, nowhere in the place of an option."""
    places = [place for place, word in enumerate(words) if name in word and word != "--help"]
    of_option = re.compile(rf"--[a-z-]+={re.escape(name)}")
    return places != [] and all(
        not words[place].startswith("-") or "--" in words[:place] or of_option.fullmatch(words[place])
        for place in places
    )


def test_what_is_sought_can_be_missed() -> None:
    assert names_it(["kerneldb", "why", "--", "-h"], "-h")
    assert names_it(["kerneldb", "top", "--trace=-h"], "-h")
    assert names_it(["kerneldb", "ingest", "./-h.json"], "-h")
    assert not names_it(["kerneldb", "why", "-h"], "-h")
    assert not names_it(["kerneldb", "why", "--output=owned"], "--output=owned")
    assert not names_it(["kerneldb", "why", "x"], "x;touch owned;")


def test_files_that_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    files = {
        f"{name}.nsys-rep": (bytes(range(256)) * 20, "Export it: `", "`"),
        f"{name}.ncu-rep": (b"NVR\x00", "print the report: `", "`"),
        f"{name}_cuda_gpu_trace.csv": (b"", "Export it: `", "`"),
        f"{name}.csv": (b"2026/11/21 10:20:30.123, 35, 45\n", "for example: ", "\n"),
        f"{name}-dmon.csv": (b"20261121, 10:20:30, 0, 71, 33\n", "for example: ", "\n"),
    }
    for path, (content, before, after) in files.items():
        Path(path).write_bytes(content)
        words = command(said("ingest", "--", path), before, after)
        assert names_it(words, name), words
    assert names_it(command(print_again(name), "Print it again: `", "`"), name)


def test_traces_that_are_read(name: str) -> None:
    path = Path(f"{name}.json")
    linked = tuple(Linked(one, rank, "job", "as many ranks", "r", False) for rank, one in enumerate((name, f"{name}2")))
    entry = ReportEntry("skipped", "unknown", 3)
    outcome = Outcome(path, "ingested", name, "1", 1, 0, report=(entry,), linked=linked)
    same_rank = Outcome(path, "ingested", name, "1", 1, linked=(linked[0], linked[0]))
    (none,) = warnings(Outcome(path, "ingested", name, "1", 0), IngestOptions())
    assert names_it(command(none, "see: "), name)
    for one in (outcome, same_rank):
        (told,) = warnings(one, IngestOptions())
        assert names_it(command(told, "if it is: "), name)
    assert names_it(command(summary(outcome)[:-1], "unknown ("), name)


def test_databases_that_are_not_there(name: str) -> None:
    assert names_it(command(said(f"--db={name}", "top"), "create it with: "), name)
    assert names_it(command(said(f"--db={name}"), "no command; `", "` shows"), name)
    Path(f"{name}.json").write_text("{}", encoding="utf-8")
    assert names_it(command(said(f"--db={name}", "report", "--", f"{name}.json"), "there is none: "), name)
    assert names_it(command(str(no_such("trace", f"{name}.json", [])), "of the database: ", " puts it"), name)
    lake = Place.of(f"ducklake:sqlite:{name}.ducklake")
    with pytest.raises(WarehouseError) as caught:
        migrate.require_finished(migrate.State(0, None), lake)
    assert names_it(command(str(caught.value), "finish it with: "), name)
    assert names_it(command(str(strangers.not_genuine(lake)), "writes to it: "), name)


def test_traces_of_a_database(name: str, stored: Path, tmp_path: Path) -> None:
    path = shutil.copyfile(stored, tmp_path / "k.duckdb")
    kerneldb.open(path).rename("step", name)
    why, top = said("--db", str(path), "show", "--", name).rpartition("a kernel: ")[2].split(", ")
    assert names_it(shlex.split(why), name)
    assert names_it(shlex.split(top), name)
    assert "Error" not in said("--db", str(path), *shlex.split(top)[1:])
    counting = shlex.split(said("--db", str(path), "ncu", "command", f"--log-file={name}").splitlines()[0])
    assert names_it(counting, name)


def test_the_lines_below_an_overview_are_taken(stored: Path, tmp_path: Path) -> None:
    path = shutil.copyfile(stored, tmp_path / "k.duckdb")
    kerneldb.open(path).rename("step", "--output=owned")
    (shown,) = [line for line in said(str(path)).splitlines() if "report.html" in line]
    assert names_it(shlex.split(shown), "--output=owned")


def test_lines_of_rules_and_screens(name: str) -> None:
    for words in (("why", "--budget"), ("analyze", "idle", "--gaps"), ("show", name)):
        assert names_it(shlex.split(line_of(*command_of(Advice("r", 1, "", "", None, "", words), name))), name)
    assert names_it(shlex.split(line_of("top", *Choice("", (name,)).arguments())), name)
    assert names_it(shlex.split(command_line(["replay", *Options(device=name).arguments()])), name)
    for line in no_traces(name).splitlines():
        if "kerneldb" in line:
            assert names_it(shlex.split(line), name)
    facts = {"gpu": None, "kernels_trace": name}
    none: list[dict[str, object]] = []
    table: pa.Table = None
    (told,) = Reconciliation([WorkloadReconciliation("t", "w", None, facts, none, none, none)], table).remarks()
    assert names_it(command(told, "replay them with: "), name)


BARE: Final = re.compile(
    rf"\b(?:kerneldb (?:--db|{'|'.join(NAMES)})(?: (?:doctor|init|migrate|export|schema|command))?"
    rf"|nsys (?:export|stats|profile)|ncu|sed)(?: --?[\w-]+| '[^']*'| [A-Z_]+)*[ =]'?\{{"
)
"""A command with a place for a value: what stands there is quoted by `kerneldb.shell`, with the whole command."""


def bare_commands(tree: ast.Module) -> Iterator[str]:
    """Texts in which values are put into a command, and quoting by other means."""
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(one.value) if isinstance(one, ast.Constant) else "{" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        if found := BARE.search(text):
            yield found[0]
        if isinstance(node, ast.Attribute) and dotted(node) in {"shlex.quote", "shlex.join"}:
            yield dotted(node)


@pytest.mark.parametrize(
    "source",
    [
        'f"see: kerneldb db doctor {path}"',
        'f"kerneldb --db {path} ingest TRACE"',
        "f\"kerneldb --db '{path}' db init\"",
        '"kerneldb replay --trace {trace}"',
        "f\"sed -i '1i a, b' {path}\"",
        'f"`ncu --import {path}`"',
        'f"kerneldb top {shlex.quote(name)}"',
    ],
)
def test_a_command_put_together_is_found(source: str) -> None:
    assert list(bare_commands(ast.parse(source))) != []


def test_prose_is_none() -> None:
    assert list(bare_commands(ast.parse('f"this kerneldb reads up to {n}"; f"{n}: kerneldb serve shows each"'))) == []


def test_no_command_is_put_together() -> None:
    found = {f"{name}: {one}" for name, tree in trees() for one in bare_commands(tree) if name != "kerneldb/shell.py"}
    assert found == set()
