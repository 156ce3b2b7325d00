"""`kerneldb PATH`: what a trace or a database says at first sight."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kerneldb.cli import cli
from kerneldb.report.contents import WHY


def call(*arguments: str, exit_code: int = 0) -> Result:
    done = CliRunner(env={"KERNELDB_DB": None}).invoke(cli, arguments)
    assert done.exit_code == exit_code, done.output
    return done


def commands(text: str) -> list[list[str]]:
    """The kerneldb lines of a page, in words."""
    return [shlex.split(line)[1:] for line in re.findall(r"^ +(kerneldb .*)$", text, re.MULTILINE)]


def test_a_database_says_where_its_time_goes(shared_database: Path) -> None:
    text = call(str(shared_database)).stdout
    assert text.startswith("1 trace on NVIDIA H200\n")
    titles = re.findall(r"^([A-Z][A-Za-z ]+?)(?: \(first.*|, most.*)?$", text, re.MULTILINE)
    assert titles == [WHY, "GPU time", "Time by category", "Kernels with most time", "Ask next"]
    assert "waiting for the host" in text
    assert len(text.splitlines()) < 70


def test_every_command_that_it_names_works(
    shared_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = commands(call(str(shared_database)).stdout)
    assert len(found) >= 5
    assert ["--db", str(shared_database), "analyze", "idle", "--gaps"] in found
    for words in found:
        if words[-1] != "tui":
            call(*words)


def test_the_database_of_the_folder_needs_no_option(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.move(database, database.with_name("kernels.duckdb"))
    monkeypatch.chdir(database.parent)
    assert ["tui"] in commands(call("kernels.duckdb").stdout)
    assert "kerneldb kernels.duckdb shows" in call(exit_code=2).stderr


def test_a_trace_is_read_and_not_kept(small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    shutil.copy(small_trace, tmp_path / "my trace.json.gz")
    done = call("my trace.json.gz")
    assert ["ingest", "my trace.json.gz"] in commands(done.stdout)
    assert "394 launches" in done.stderr
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["my trace.json.gz", "temporary"]


@pytest.mark.thorough
def test_a_folder_and_several_files(small_trace: Path, root: Path, tmp_path: Path) -> None:
    shutil.copy(small_trace, tmp_path)
    (tmp_path / "empty.json").touch()
    done = call(str(tmp_path), str(root / "examples" / "decoder-h200.json.gz"), exit_code=1)
    assert done.stdout.startswith("2 traces on NVIDIA H200\n")
    assert "this is an empty file" in done.stderr
    assert "decoder-h200: 60.8 ms from the first launch to the last: 80.8 % waiting for the host" in done.stdout


@pytest.mark.parametrize("text", ["", "<html>"])
def test_what_is_no_trace_gives_the_error_of_ingest(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    done = call(str(tmp_path / "x.json"), exit_code=1)
    assert done.stdout == ""
    assert (
        done.stderr in call("--db", str(tmp_path / "k.duckdb"), "ingest", str(tmp_path / "x.json"), exit_code=1).stderr
    )


def test_a_database_of_others_is_left_alone(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "other.duckdb")) as con:
        con.execute("CREATE TABLE a (i INTEGER)")
    before = (tmp_path / "other.duckdb").read_bytes()
    assert "other.duckdb" in call(str(tmp_path / "other.duckdb"), exit_code=3).stderr
    assert (tmp_path / "other.duckdb").read_bytes() == before
