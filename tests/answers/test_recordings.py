"""Recordings made again: what differs from one to the next is noise to `diff`, and a run of several is one side."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.errors import UsageError
from kerneldb.warehouse import Warehouse
from tests.answers.conftest import Event, changed
from tests.conftest import made_once

pytestmark = pytest.mark.again

CHANGED = {"slower", "faster"}
AGAIN = range(2)


def recorded_again(seed: int, slowed: str | None = None) -> Callable[[Event], float]:
    """Factors as another recording has them: the clock, 1 % and 60 ns of each kernel, 1.5 % of each launch."""
    rng = random.Random(seed)
    clock = rng.gauss(1.0, 0.01)
    own: dict[str, tuple[float, float]] = {}

    def factor(event: Event) -> float:
        kernel = f"{event['name']} {event['args'].get('grid')}"
        share, ns = own.setdefault(kernel, (rng.gauss(0, 0.01), rng.gauss(0, 60)))
        regression = 1.15 if event["name"] == slowed else 1.0
        return max(0.1, clock * regression * (1 + share + rng.gauss(0, 0.015) + ns / (1000 * event["dur"])))

    return factor


@pytest.fixture(scope="module")
def recordings(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Two recordings as the run `old`, two as `new`, and `worse` with one of the longest kernels 15 % slower."""

    def make(path: Path) -> None:
        folder, database = tmp_path_factory.mktemp("recordings"), kerneldb.open(path)
        for run, first in (("old", 0), ("new", 10)):
            for number in AGAIN:
                changed(example, folder / f"{run}-{number}.json", recorded_again(first + number))
                database.ingest(folder / f"{run}-{number}.json", run=run, label=f"{run} build")
        changed(example, folder / "worse.json", recorded_again(20, slowed_kernel(database)))
        database.ingest(folder / "worse.json")

    database = kerneldb.open(made_once(tmp_path_factory, "recordings.duckdb", make))
    with Warehouse(database.path).connection():
        yield database


def slowed_kernel(database: Database) -> str:
    """The kernel with the longest launches of those with fifty or more."""
    rows = database.sql(
        """
        SELECT name FROM kernels WHERE trace = 'old-0' AND kind = 'kernel' GROUP BY name
        HAVING count(*) >= 50 ORDER BY avg(duration_ns) DESC LIMIT 1
        """
    ).rows()
    return str(rows[0]["name"])


@pytest.mark.parametrize("number", AGAIN)
def test_another_recording_is_no_regression(recordings: Database, number: int) -> None:
    """Means of short kernels are over the threshold and their launches beyond doubt, and still it is noise."""
    found = recordings.diff(f"old-{number}", f"new-{number}")
    rows = found.table.to_pylist()
    assert not CHANGED & set(found.by_verdict)
    certain = [row for row in rows if row["verdict"] == "noise" and row["effect"] is not None and row["effect"] > 0.99]
    assert certain
    assert all(row["spread_pct"] > 0.5 for row in rows)


def test_a_slower_kernel_stands_out(recordings: Database) -> None:
    found = recordings.diff("old-0", "worse")
    rows = [row for row in found.table.to_pylist() if row["verdict"] in CHANGED]
    slowed = slowed_kernel(recordings)
    names = recordings.sql(
        "SELECT DISTINCT name FROM kernels WHERE list_contains($ids, signature_id)",
        {"ids": [row["signature_after"] for row in rows]},
    )
    assert [row["name"] for row in names] == [slowed]


@pytest.mark.parametrize(("before", "after"), [("old", "new"), ("old build", "new-?")])
def test_runs_labels_and_patterns_are_sets_of_traces(recordings: Database, before: str, after: str) -> None:
    found = recordings.diff(before, after)
    sql = "SELECT run, sum(total_ns)::BIGINT AS ns FROM kernel_rollups GROUP BY run"
    totals = {row["run"]: row["ns"] for row in recordings.sql(sql)}
    assert (found.before_ns, found.after_ns) == (totals["old"], totals["new"])
    assert not CHANGED & set(found.by_verdict)
    single = recordings.diff("old-0", "new-0").table
    assert sum(found.table["n_before"].to_pylist()) == len(AGAIN) * sum(single["n_before"].to_pylist())


def test_sides_of_unequal_length_are_weighed_per_iteration(recordings: Database) -> None:
    found = recordings.diff("old-0", "new")
    assert found.steady_state is not None
    assert found.steady_state[1].n == len(AGAIN) * found.steady_state[0].n
    assert found.delta_pct is not None
    assert found.delta_pct > 75
    assert found.iteration_delta_pct == pytest.approx(0, abs=4)
    found.check(5)


def test_a_condition_holds_for_all_traces_of_a_side(recordings: Database) -> None:
    where = "steady_state AND category = 'GEMM'"
    found = recordings.diff("old", "new-*", where=where)
    sql = "SELECT run, sum(duration_ns)::BIGINT AS ns FROM selection GROUP BY run"
    totals = {row["run"]: row["ns"] for row in recordings.sql(sql, where=where)}
    assert (found.before_ns, found.after_ns) == (totals["old"], totals["new"])


def test_a_name_goes_before_a_run_and_a_pattern(recordings: Database) -> None:
    traces = recordings.sql("SELECT trace FROM _traces_named('old-1')").rows()
    assert traces == [{"trace": "old-1"}]
    with pytest.raises(UsageError, match="no trace 'older-\\*'"):
        recordings.diff("older-*", "new")


def test_the_command_tells_of_iterations(recordings: Database) -> None:
    arguments = ["--db", str(recordings.path), "diff", "old", "new-*", "--csv", "--fail-on", "5%"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.stderr
    assert "a steady-state iteration" in done.stderr
