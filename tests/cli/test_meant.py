"""What commands make of names that are patterns, of words for columns, and of conditions on what was not measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

import kerneldb
from kerneldb.cli import cli
from tests.conftest import made_once

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def database(root: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two traces of a model and one of another program, with 4, 4 and more launches."""

    def make(path: Path) -> None:
        folder = tmp_path_factory.mktemp("files")
        opened = kerneldb.open(path)
        for number, name in enumerate(("rank0", "rank1", "other")):
            kernels = [
                {
                    "ph": "X", "cat": "kernel", "name": f"{name}_kernel", "pid": 0, "tid": 7, "ts": 100.0 * at + number,
                    "dur": 10.0, "args": {"device": 0, "stream": 7, "correlation": at},
                }
                for at in range(1, 4 + number)
            ]  # fmt: skip
            (folder / f"{name}.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": kernels}))
            opened.ingest(folder / f"{name}.json", run=name)

    return str(made_once(tmp_path_factory, "meant.duckdb", make))


def asked(database: str, *words: str) -> Result:
    return CliRunner().invoke(cli, ["--db", database, *words])


@pytest.mark.parametrize(
    ("traces", "n"), [(["rank*"], 7), (["rank[1]"], 4), (["*"], 12), (["rank0", "o?her"], 8), (["rank0", "rank*"], 7)]
)
def test_a_pattern_stands_for_the_traces_that_fit_it(database: str, traces: list[str], n: int) -> None:
    options = [word for name in traces for word in ("--trace", name)]
    shown = asked(database, "top", "--by", "kind", *options, "--json")
    assert [row["n"] for row in json.loads(shown.stdout)] == [n]
    (row,) = json.loads(asked(database, "db", "export", *options, "--format", "json").stdout)[:1]
    assert row["kind"] == "kernel"


def test_a_replay_takes_patterns(database: str) -> None:
    shown = asked(database, "replay", "--dry-run", "--trace", "rank*", "--format", "json")
    rows = json.loads(shown.stdout)
    assert sum(row["launches"] for row in rows) == 7
    assert not any(row["category"].startswith("TOTAL") for row in rows)
    assert "TOTAL" in asked(database, "replay", "--dry-run", "--trace", "rank*").stdout


def test_an_analysis_takes_traces_by_name_and_pattern(database: str) -> None:
    named = asked(database, "analyze", "phases", "rank*", "--csv").stdout
    assert "rank" in named
    assert named == asked(database, "analyze", "phases", "--trace", "rank*", "--csv").stdout


def test_a_pattern_that_fits_nothing_is_told(database: str) -> None:
    shown = asked(database, "top", "--trace", "zz*")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert "there is no trace 'zz*'" in shown.stderr


@pytest.mark.parametrize(("word", "meant"), [("operator", "op"), ("layer", "module"), ("kernels", "kernel")])
def test_a_word_for_a_column_is_told_its_name(database: str, word: str, meant: str) -> None:
    shown = asked(database, "top", "--by", word)
    assert shown.exit_code == 2
    assert f"Did you mean {meant}?" in shown.stderr


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("energy_mj > 5", "no energy of a selected launch has been measured: kerneldb replay does, on a GPU"),
        ("replay_grade = 'L0'", "no selected launch has been replayed: kerneldb replay does, on a GPU"),
    ],
)
def test_what_was_never_measured_is_told(database: str, where: str, said: str) -> None:
    lines = asked(database, "top", "--where", where).stderr.splitlines()
    assert f"no launch meets the condition {where}" in lines
    assert said in lines
    assert said not in asked(database, "top", "--where", "duration_ns < 0").stderr
