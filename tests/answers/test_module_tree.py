"""The tree of modules: every launch once, backward beside its forward, and sums that add up from the leaves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.api import Database


@pytest.fixture(scope="module")
def stacked(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = kerneldb.open(tmp_path_factory.mktemp("modules") / "k.duckdb")
    database.ingest(root / "tests/fixtures/stacks-memory-h200.json.gz")
    return database


def test_totals_are_own_time_and_that_below(stacked: Database) -> None:
    rows = {row["path"]: row for row in stacked.sql("FROM module_tree()").rows()}
    (known,) = stacked.sql("SELECT sum(duration_ns)::BIGINT AS ns, count(*) AS n FROM kernels").rows()
    assert sum(row["self_ns"] for row in rows.values()) == known["ns"]
    assert sum(row["n"] for row in rows.values() if not row["depth"]) == known["n"]
    for path, row in rows.items():
        below = [one for one in rows.values() if one["path"].rpartition(".")[0] == path]
        assert row["total_ns"] == row["self_ns"] + sum(one["total_ns"] for one in below)
        directed = row["forward_ns"] + row["backward_ns"] + row["optimizer_ns"]
        assert row["total_ns"] >= directed
        assert row["total_ns"] == directed or row["module"] == "(outside of modules)"
        assert row["depth"] == path.count(".")


def test_backward_belongs_to_the_module_of_its_forward_call(stacked: Database) -> None:
    rows = {row["path"]: row for row in stacked.sql("FROM module_tree()").rows()}
    layers = [row for row in rows.values() if row["module"].startswith("Linear")]
    assert layers
    assert all(row["backward_ns"] > 0 for row in layers)
    assert rows["(outside of modules)"]["optimizer_ns"] > 0


def test_a_direction_that_nothing_tells_is_unknown(root: Path, tmp_path: Path, stacked: Database) -> None:
    """Operators without a module and without a backward call: all of an inference, of a training step two copies and a
    fill. The others are those of the loss in the file, forward and backward, and the optimizer's."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(root / "examples/decoder-h200.json.gz")
    (row,) = database.sql("FROM module_tree()").rows()
    assert (row["forward_ns"], row["backward_ns"], row["optimizer_ns"]) == (None, None, None)
    (row,) = stacked.sql("FROM module_tree() WHERE module = '(outside of modules)'").rows()
    assert row["total_ns"] == row["forward_ns"] + row["backward_ns"] + row["optimizer_ns"] + 5216 + 864 + 736
    assert (row["forward_ns"], row["backward_ns"], row["optimizer_ns"]) == (1152 + 2272, 1440 + 1024 + 640, 9248)


def test_the_command_prints_the_tree(stacked: Database) -> None:
    asked = ["--db", str(stacked.path), "analyze", "modules"]
    shown = CliRunner().invoke(cli, asked)
    assert shown.exit_code == 0, shown.output
    assert any(line.startswith("  Linear") for line in shown.stdout.splitlines())
    flat = CliRunner().invoke(cli, [*asked, "--depth", "0", "--json"])
    assert all(row["depth"] == 0 for row in json.loads(flat.stdout))
