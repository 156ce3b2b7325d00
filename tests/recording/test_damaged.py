"""Recordings from strangers: damaged, or made to lead out of their folder. One line each, and nothing is stored."""

from __future__ import annotations

import copy
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kerneldb
from kerneldb import codec, recordings
from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.errors import UnreadableTraceError
from kerneldb.recordings import Measurement, Part, Reading, Recording, Traced
from kerneldb.replay.recording.__main__ import main
from tests.recording import damage

BATCH = 15
USUAL, ALL = 45, 90
BATCHES = [
    0,
    *(pytest.param(first, marks=pytest.mark.thorough) for first in range(BATCH, USUAL, BATCH)),
    *(pytest.param(first, marks=pytest.mark.volume) for first in range(USUAL, ALL, BATCH)),
]
TABLES = ("traces", "launches", "measurements", "power_samples", "trace_files", "trace_tags")
Sound = tuple[Path, dict[str, Any]]
COUNTS = ", ".join(f"(SELECT count(*) FROM {table})" for table in TABLES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mine"


@pytest.fixture
def content(root: Path, folder: Path) -> dict[str, Any]:
    """What bundle.json in `folder` holds."""
    return damage.recording(root, folder)


@pytest.fixture(scope="module")
def sound(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Sound:
    """A recording that the database beside its folder has read, and what its bundle.json held then."""
    folder = tmp_path_factory.mktemp("strangers") / "mine"
    content = damage.recording(root, folder)
    assert ingest(folder).exit_code == 0
    return folder, content


def ingest(folder: Path) -> Result:
    """The command over the database `k.duckdb` beside the folder."""
    database = folder.parent / "k.duckdb"
    return CliRunner().invoke(cli, ["ingest", str(folder), "--db", str(database), "--replace", "--json"])


def counts(folder: Path) -> dict[str, Any]:
    (row,) = kerneldb.open(folder.parent / "k.duckdb").sql(f"SELECT {COUNTS}").rows()
    return dict(row)


def refusal(folder: Path) -> str:
    """The one line that the command says; what a sound recording left in the database is there as before."""
    damaged = (folder / "bundle.json").read_bytes()
    before = counts(folder)
    done = ingest(folder)
    assert isinstance(done.exception, SystemExit), repr(done.exception)
    assert (done.exit_code, counts(folder)) == (1, before)
    assert (folder / "bundle.json").read_bytes() == damaged
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    return line


def write(folder: Path, content: Any) -> None:
    (folder / "bundle.json").write_text(json.dumps(content))


def put(content: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with another value at `parts.0.workload`."""
    made = copy.deepcopy(content)
    *around, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    inside: Any = made
    for step in around:
        inside = inside[step]
    inside[last] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        ("parts", 5, "parts: expected a list, found 5"),
        ("parts.1", [], "parts[1]: expected an object, found []"),
        ("parts.0.workload", None, "parts[0].workload: expected a text, found null"),
        ("parts.0.measurements.2.value", "much", 'parts[0].measurements[2].value: expected a number, found "much"'),
        ("parts.0.measurements.2.value", float("inf"), "Infinity is not a JSON number"),
        ("parts.0.measurements.2.n", 2**70, "has more than 64 bits"),
        ("parts.0.measurements.0.repetition", 2**31, "parts[0].measurements[0].repetition: expected a number from 0"),
        ("parts.0.tags.batch", 8, "parts[0].tags.batch: expected a text, found 8"),
        ("parts.0.trace", {"file": "x"}, "parts[0].trace: no 'sha256'"),
        ("software.device", "first", 'software.device: expected a whole number, found "first"'),
        ("software.device", -1, "software.device: expected a number from 0"),
        ("power_bytes", -1, "power_bytes: expected a number from 0"),
        ("rank", 0, "one of 'rank' and 'world_size' is missing"),
        ("label", "\ud800", "half a surrogate pair"),
        ("version", 0, "version: expected 1, found 0"),
        ("version", "1", 'version: expected 1, found "1"'),
    ],
    ids=lambda one: str(one)[:30],
)
def test_a_wrong_value_is_told_with_its_place(sound: Sound, path: str, value: Any, place: str) -> None:
    folder, content = sound
    write(folder, put(content, path, value))
    line = refusal(folder)
    assert f"{folder / 'bundle.json'}: cannot be read (" in line
    assert place in line
    assert line.endswith(". Copy or record it again.")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not JSON"),
        (b'{"format": "kerneldb recording", "par', "not JSON"),
        (b"[]", "expected an object, found []"),
        (b'{"format": "kerneldb recording", "version": 1}', "no 'name'"),
        (b'{"format": "kerneldb recording", "name": "\xff"}', "utf-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"format": "kerneldb recording", "version": 1, "name": "x", "parts": ' + b"[" * 990, "not JSON"),
        (b'{"format": "kerneldb recording", "name": "x", "parts": [{"workload":"","mode":"","tags":{"a\\nb":1}}]}',
         r"parts[0].tags.a\nb: expected a text"),
    ],
    ids=("empty", "cut", "list", "short", "bytes", "deep", "deep-inside", "newline"),
)  # fmt: skip
def test_a_damaged_text_is_told(sound: Sound, text: bytes, reason: str) -> None:
    folder, _ = sound
    (folder / "bundle.json").write_bytes(text)
    line = refusal(folder)
    assert line.startswith(f"Error: {folder / 'bundle.json'}: cannot be read (")
    assert reason in line or "nested too deeply" in line


OUTSIDE = ("/etc/passwd", "..", "../other/x", "a/../../x", "sub/x", "sub\\x", "", ".", "a\0b", "x" * 256)


@pytest.mark.parametrize("name", OUTSIDE, ids=lambda name: repr(name)[:20])
@pytest.mark.parametrize("field", ["file", "execution_trace"])
def test_names_are_plain(folder: Path, content: dict[str, Any], field: str, name: str) -> None:
    given = put(content, f"parts.0.trace.{field}", name)
    write(folder, given)
    if field == "execution_trace" and not name:
        assert recordings.load(folder).traced
        return
    with pytest.raises(UnreadableTraceError, match=rf"parts\[0\]\.trace\.{field}: expected the name of a file"):
        recordings.load(folder)


@pytest.mark.parametrize("name", ["/etc/passwd", "..", "triton/../../x", "triton\\..\\x", "triton//x", ""])
def test_paths_of_sources_stay_in_the_folder(folder: Path, content: dict[str, Any], name: str) -> None:
    write(folder, {**content, "sources": ["triton/inductor/ab/cab.py", name]})
    with pytest.raises(UnreadableTraceError, match=r"bundle\.json: cannot be read \(sources: expected the name of a f"):
        recordings.load(folder)
    write(folder, {**content, "sources": ["triton/inductor/ab/cab.py"]})
    assert recordings.load(folder).sources == ("triton/inductor/ab/cab.py",)


@pytest.mark.parametrize("name", [damage.TRACE, "prefill.et.json.gz", "power.ndjson", "triton/x.py"])
def test_links_out_of_the_folder_are_refused(folder: Path, content: dict[str, Any], name: str) -> None:
    write(folder, {**content, "sources": ["triton/x.py"]})
    (folder / "triton").mkdir()
    (folder / "triton" / "x.py").touch()
    assert ingest(folder).exit_code == 0
    (folder / name).rename(folder.parent / "outside")
    (folder / name).symlink_to(folder.parent / "outside")
    assert f"bundle.json: cannot be read ({name} is a link out of the folder). Copy" in refusal(folder)
    (folder / name).unlink()
    (folder / name).symlink_to(name if "/" not in name else "x.py")
    assert recordings.load(folder).sources, "a link to itself leads nowhere"


def test_a_folder_may_be_a_link_and_links_may_stay_inside(folder: Path, content: dict[str, Any]) -> None:
    (folder / damage.TRACE).rename(folder / "moved")
    (folder / damage.TRACE).symlink_to("moved")
    (folder.parent / "elsewhere").symlink_to(folder)
    assert ingest(folder.parent / "elsewhere").exit_code == 0


def test_a_damaged_bundle_json_leaves_the_traces_beside_it_readable(folder: Path, content: dict[str, Any]) -> None:
    (folder / "bundle.json").write_text("[]")
    done = CliRunner().invoke(
        cli, ["ingest", str(folder / damage.TRACE), "--db", str(folder.parent / "k.duckdb"), "--quiet"]
    )
    assert done.exit_code == 0
    (trace,) = kerneldb.open(folder.parent / "k.duckdb").traces().rows()
    assert (trace["trace"], trace["launches"]) == ("prefill", 1)


def test_damaged_readings_are_counted_and_the_others_kept(folder: Path, content: dict[str, Any]) -> None:
    path = folder / "power.ndjson"
    assert ingest(folder).exit_code == 0
    database = kerneldb.open(folder.parent / "k.duckdb")
    sound = readings(database)
    lines = path.read_bytes().splitlines()
    bad = [b"{", b"5", b"[]", b"\xff", b'{"workload": "prefill"}', b"[" * 10_000, b'{"workload": 5, "epoch_ns": 1}']
    bad += [b'{"workload": "idle", "epoch_ns": 1, "power_w": NaN}', b'{"workload": "idle", "epoch_ns": 1e5}']
    lines[1:1] = bad
    path.write_bytes(b"\n".join(lines) + b"\n")
    write(folder, {**content, "power_bytes": path.stat().st_size})
    assert ingest(folder).exit_code == 0
    assert readings(database) == sound > 0
    assert lost(database) == {"damaged lines of power.ndjson": len(bad)}


def test_readings_at_times_that_no_clock_shows_are_refused(folder: Path, content: dict[str, Any]) -> None:
    lines = [{"workload": "idle", "epoch_ns": number, "power_w": 1.0} for number in (2**63 - 1, -(2**63), 10**18)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "power.ndjson").write_text(text)
    write(folder, {**content, "power_bytes": 2**31 - 1})
    assert ingest(folder).exit_code == 0
    database = kerneldb.open(folder.parent / "k.duckdb")
    assert readings(database) == 3
    found = database.sql("SELECT reason, n FROM ingest_reports WHERE outcome = 'refused'").rows()
    assert [(row["reason"], row["n"]) for row in found] == [("power reading with a time that no clock shows", 2)]


def readings(database: Database) -> int:
    (row,) = database.sql("SELECT count(*) AS n FROM power_samples").rows()
    return int(row["n"])


def lost(database: Database) -> dict[str, int]:
    rows = database.sql("SELECT reason, n FROM ingest_reports WHERE outcome = 'lost' AND reason LIKE 'damaged%'").rows()
    return {row["reason"]: row["n"] for row in rows}


def test_what_is_written_is_read(folder: Path) -> None:
    folder.mkdir()
    row = Measurement("wall_ns", 5.0, 4.5, 5.5, "ns", 3, "clock", None, 1, "2026-11-21 14:00:00")
    trace = Traced("a.pt.trace.json.gz", "abc", 5, 2, 0.0, None, "a.et.json.gz")
    parts = (Part("a", "eager", {"batch": "1"}, (row,), trace, (row,)), Part("a", "cuda_graph", reason="it waits"))
    made = Recording("mine", parts=parts, rank=1, world_size=2, software={"device": 0, "torch": "2"}, power_bytes=7)
    (folder / "bundle.json").write_text(made.text())
    assert recordings.load(folder) == made
    reading = Reading("idle", 5, power_w=0.0, throttle="")
    assert codec.load(Reading, codec.dump(reading)) == reading


def test_readers_of_before_find_what_they_ask_for() -> None:
    """They ask for these without a default, and take a rank that is there for one."""
    written = json.loads(Recording("mine", parts=[Part("a", "eager")]).text())
    assert (written["format"], written["version"], written["name"]) == ("kerneldb recording", 1, "mine")
    assert written["powers"] == []
    assert written["finished"] is None
    assert written["parts"] == [{"workload": "a", "mode": "eager"}]
    assert {"rank", "world_size"}.isdisjoint(written)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"settings": {"model": 5}, "folder": "x", "resume": false}', '{"place": NaN}']
)
def test_a_damaged_job_is_told_to_the_parent(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    reading, writing = os.pipe()
    assert main(["--events", str(writing)]) == 2
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as events:
        (event,) = [json.loads(line) for line in events]
    assert (event["what"], event["exit_code"]) == ("error", 2)
    assert event["message"].startswith("standard input: no job of a recording (")


@pytest.mark.parametrize("first", BATCHES)
def test_whatever_happened_to_bundle_json_takes_one_line(sound: Sound, first: int) -> None:
    folder, content = sound
    held = counts(folder)
    for seed in range(first, first + BATCH):
        (folder / "bundle.json").write_bytes(damage.damaged(content, seed))
        done = ingest(folder)
        errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        assert isinstance(done.exception, SystemExit | None), (seed, done.exception)
        assert done.exit_code == bool(errors), seed
        if not errors or any("`traceEvents`" in line for line in errors):
            held = counts(folder)  # taken, or the files one by one as any others
            continue
        assert done.stderr.splitlines() == errors, seed
        assert len(errors) == 1, seed
        assert str(folder) in errors[0], seed
        assert counts(folder) == held, seed
