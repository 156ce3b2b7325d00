"""What is said beside an answer: where its figures are from, and nothing that says nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.cli.diff import LIST_CELLS, _cut
from tests.answers.plain_traces import Recording
from tests.conftest import made_once

A100 = "NVIDIA A100-SXM4-80GB"
POINTER = "--by category compares what they do"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """The same program on an H200, twice, and on an A100."""

    def make(path: Path) -> None:
        folder = tmp_path_factory.mktemp("two")
        for number, name in enumerate(("first", "again", "other")):
            recording = Recording(origin_us=10_000 * (number + 1))
            for place in range(8):
                recording.kernel("gemm", 10_000 * place, 1_000 + number, 10_000 * place - 5_000)
            file = recording.write(folder / f"{name}.json")
            if name == "other":
                file.write_text(file.read_text(encoding="utf-8").replace("NVIDIA H200", A100), encoding="utf-8")
        kerneldb.open(path).ingest(folder)

    return kerneldb.open(made_once(tmp_path_factory, "two.duckdb", make))


def ran(database: Database, *words: str) -> tuple[str, str]:
    done = CliRunner().invoke(cli, ["--db", str(database.path), *words])
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


@pytest.mark.parametrize("by", ["category", "op", "cause", "kernel", None])
def test_different_gpus_are_said_by_whatever_is_summed(two: Database, by: str | None) -> None:
    given = () if by is None else ("--by", by)
    said = ran(two, "diff", "first", "other", *given)[1]
    assert f"different GPUs (NVIDIA H200 -> {A100})" in said
    assert (POINTER in said) == (by in {None, "kernel"})  # names of kernels differ, what they do does not
    assert "different GPUs" not in ran(two, "diff", "first", "again", *given)[1]


def test_a_table_cuts_lists_of_names() -> None:
    names = ", ".join(f"elementwise_kernel_{number}" for number in range(80))
    table = pa.table({"before": [names, None], "after": ["mul", "add"], "places": [1, 2]})
    cut = _cut(table, "before", "after").to_pylist()
    assert [len(row["before"] or "") for row in cut] == [LIST_CELLS, 0]
    assert [row["after"] for row in cut] == ["mul", "add"]


def test_traces_list_no_columns_that_say_nothing(two: Database, tmp_path: Path) -> None:
    header = ran(two, "traces")[0].splitlines()[0].split()
    assert {"trace", "kind", "launches"} <= set(header)
    assert set(header).isdisjoint({"run", "is_primary", "label", "tags", "rank"})
    assert {"run", "is_primary", "tags"} <= set(ran(two, "traces", "--wide")[0].splitlines()[0].split())
    assert {"run", "is_primary", "tags"} <= set(ran(two, "traces", "--csv")[0].splitlines()[0].split(","))
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(Recording().write(tmp_path / "one.json"), run="night")
    assert "night" in ran(database, "traces")[0]


def test_links_that_are_read_another_way_are_no_loss(root: Path, tmp_path: Path) -> None:
    """Of the JSON of the fixture: arrows of launches, and names of threads for a viewer; no event that is not read."""
    words = ("ingest", str(root / "tests" / "fixtures" / "train-step-h200.json.gz"))
    done = CliRunner().invoke(cli, ["--db", str(tmp_path / "k.duckdb"), *words])
    assert "394 launches" in done.stderr
    assert "left out" not in done.stderr
    report = CliRunner().invoke(cli, ["--db", str(tmp_path / "k.duckdb"), "traces", "--report", "--csv"]).stdout
    assert "flow arrows ac2g" in report
