"""An answer in which nothing is told apart says what was not recorded, and how to record it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.cli.lacking import UNKNOWN
from kerneldb.cli.top import GROUPS
from kerneldb.report.wording import UNSPLIT
from tests.conftest import made_once

PRINTED = "r23_cuda_gpu_trace"
RECORDED = "stacks-memory-h200"
ALWAYS_KNOWN = {"kernel", "signature", "category", "kind", "trace"}


@pytest.fixture(scope="module")
def both(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """A print of nsys, which has kernels and nothing of the host, and a recording of all that PyTorch has."""

    def make(path: Path) -> None:
        fixtures = root / "tests" / "fixtures"
        kerneldb.open(path).ingest([fixtures / "nsys" / f"{PRINTED}.csv", fixtures / f"{RECORDED}.json.gz"])

    return kerneldb.open(made_once(tmp_path_factory, "print_and_recording.duckdb", make))


@pytest.fixture(scope="module")
def exchanging(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """One rank of two, and a program that exchanges nothing."""

    def make(path: Path) -> None:
        fixtures = root / "tests" / "fixtures"
        kerneldb.open(path).ingest(fixtures / "exchanges-tp2-h200" / "rank0" / "script.pt.trace.json.gz", name="step")
        kerneldb.open(path).ingest(fixtures / f"{RECORDED}.json.gz", name="alone")

    return kerneldb.open(made_once(tmp_path_factory, "exchanging.duckdb", make))


def said(database: Database, *arguments: str) -> str:
    done = CliRunner().invoke(cli, ["--db", str(database.path), *arguments])
    assert done.exit_code == 0, done.output
    return done.stderr


def test_every_way_to_sum_has_a_reason() -> None:
    assert {*GROUPS} - ALWAYS_KNOWN <= UNKNOWN.keys()


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ("top --by op", "op"),
        ("top --by module", "module"),
        ("top --by phase", "phase"),
        ("analyze modules", "module"),
        ("analyze phases", "phase"),
        ("analyze critical-path --by line", "line"),
        ("analyze critical-path --by module", "module"),
        ("why --budget --by phase", "phase"),
    ],
)
def test_what_was_not_recorded_is_said(both: Database, asked: str, key: str) -> None:
    named = [PRINTED] if asked.startswith("why") else ["--trace", PRINTED]
    assert UNKNOWN[key] in said(both, *asked.split(), *named)


@pytest.mark.parametrize("asked", ["top --by op", "top --by module", "analyze modules", "analyze memory --by module"])
def test_nothing_is_said_where_it_is_known(both: Database, asked: str) -> None:
    assert "is known" not in said(both, *asked.split(), "--trace", RECORDED)


def test_a_comparison_says_it(both: Database) -> None:
    assert UNKNOWN["module"] in said(both, "diff", PRINTED, PRINTED, "--by", "module")


def test_backward_launches_without_a_module_are_told_of_and_causes_have_no_counts(tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(Path(__file__).parents[1] / "fixtures" / "stacks-memory-h200.json.gz", name="step")
    of_this = ["--db", str(tmp_path / "k.duckdb")]
    run = CliRunner().invoke(cli, [*of_this, "top", "--by", "module"])
    assert "backward launches have none" in run.stderr
    run = CliRunner().invoke(cli, [*of_this, "diff", "step", "step", "--by", "cause", "--all"])
    assert run.exit_code == 0, run.output
    assert run.stdout.split("\n")[0].split() == ["cause", "total_before", "total_after", "delta"]


@pytest.mark.parametrize(
    ("asked", "explained"),
    [
        ("why --budget step", True),
        ("diff step step --by cause --all", True),
        ("diff step step --by category", False),
        ("why --budget alone", False),
    ],
)
def test_unsplit_communication_is_explained_where_it_is(exchanging: Database, asked: str, explained: bool) -> None:
    assert (f"unsplit: {UNSPLIT}" in said(exchanging, *asked.split())) == explained
