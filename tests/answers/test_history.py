"""The history of a program: planted changes are found, noise is not, and what the machine did is told apart."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from kerneldb.errors import GateError, UsageError
from kerneldb.schemas import loader
from kerneldb.warehouse import Warehouse, history
from tests.conftest import made_once

if importlib.util.find_spec("ruptures") is None:  # to import it takes every worker two seconds
    pytest.skip("finding changes takes ruptures: pip install 'kerneldb[history]'", allow_module_level=True)

import numpy as np

from kerneldb.history import search, steps
from kerneldb.history.model import Line, Run
from tests.answers.nightly import NIGHTS, Nightly, every_night

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerneldb.history.model import Change

RUNS = 120
CHANGED, TAKEN_BACK, DRIVER, CLOCKS = 40, 80, 60, 100
NAMES = Nightly(1).kernels()
PLANTED = "vectorized_elementwise_kernel<8, tanh_kernel_cuda>"


def planted() -> Nightly:
    """Nights with a change of 3 % that is taken back, one at a new driver, and one of all kernels."""
    nights = Nightly(RUNS, seed=7)
    nights.slow(NAMES[0], CHANGED, 1.03)
    nights.slow(NAMES[0], TAKEN_BACK, 1 / 1.03)
    nights.slow(NAMES[1], CHANGED, 1.03)
    nights.slow(NAMES[2], DRIVER, 1.04)
    for run in range(DRIVER, RUNS):
        nights.environment[run]["driver"] = "590.2"
    for name in NAMES:
        nights.slow(name, CLOCKS, 1.05)
    return nights


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(path: Path) -> None:
        warehouse = Warehouse.create_or_open(path)
        planted().store(warehouse)
        Nightly(12, seed=8).store(warehouse, "other", "NVIDIA H200")
        history.update(warehouse)

    return made_once(tmp_path_factory, "history.duckdb", make)


def of(nights: Nightly, places: int = 10_000) -> Sequence[Change]:
    return search.changes(*nights.searched(), places)


def test_thirty_real_nights_are_silent_and_two_percent_more_work_of_one_kernel_is_found() -> None:
    def found(last: int) -> set[tuple[str, str]]:
        runs = [Run(str(night), f"{night:040x}", {}) for night in range(last)]
        lines = [
            Line(subject, name, range(last), values[:last], [float(n)] * last)
            for (subject, name), (n, values) in every_night().items()
        ]
        told = search.changes(runs, lines, last)
        assert all(int(one.first_commit, 16) < NIGHTS <= int(one.last_commit, 16) for one in told)
        assert all(one.low_pct < 2 < one.high_pct for one in told if one.name == PLANTED)
        return {(one.subject, one.name) for one in told}

    assert found(NIGHTS) == set()
    # the cause of wall time that the kernel is a sixth of changes by no more than a board does by itself
    assert found(36) == {("kernel", PLANTED), ("operator", "aten::tanh")}


@pytest.mark.parametrize("seed", range(3))
def test_noise_of_400_nights_is_no_change_and_two_percent_of_one_kernel_are(seed: int) -> None:
    nights = Nightly(400, seed, ("kernel", "operator", "budget", "total"))
    assert of(nights) == []
    name, at = NAMES[seed * 3], 30 + 80 * seed
    nights.slow(name, at, 1.02)
    (found,) = of(nights)
    assert (found.name, found.cause) == (name, "code")
    assert 1.9 < found.change_pct < 2.1
    assert int(found.first_commit[:8], 16) <= at < int(found.last_commit[:8], 16)


@pytest.mark.parametrize("subject", ["operator", "module", "budget", "energy", "measured", "total"])
def test_every_kind_of_line_is_searched(subject: str) -> None:
    nights = Nightly(RUNS, seed=11)
    nights.values[subject, "its name"] = nights.values["kernel", NAMES[0]].copy()
    nights.values[subject, "its name"][CHANGED:] *= 1.02
    (found,) = of(nights)
    assert (found.subject, found.name, found.cause) == (subject, "its name", "code")
    assert int(found.first_commit[:8], 16) <= CHANGED < int(found.last_commit[:8], 16)
    assert (found.impact_ns is None) == (subject in {"energy", "measured"})


SERIES = 40


@pytest.mark.thorough
def test_one_false_alarm_in_a_thousand_series_and_95_percent_found() -> None:
    alarms, found = 0, 0
    for seed in range(100, 100 + SERIES):
        nights = Nightly(400, seed)
        alarms += len(of(nights))
        at, name = 20 + 36 * seed % 360, NAMES[seed % len(NAMES)]
        nights.slow(name, at, 1.02)
        found += any(one.name == name and abs(one.change_pct - 2) < 1 for one in of(nights))
    assert alarms <= len(NAMES) * SERIES / 1_000
    assert found >= 0.95 * SERIES


def test_a_kernel_that_does_not_follow_the_clocks_has_no_change_where_they_step() -> None:
    nights = Nightly(RUNS, seed=5)
    for name in NAMES[6:]:  # six are bound by memory
        nights.slow(name, CLOCKS - 20, 1.06)
    nights.slow(NAMES[0], CHANGED, 1.02)
    found = {(one.name, one.cause) for one in of(nights)}
    assert {(name, cause) for name, cause in found if cause == "code"} == {(NAMES[0], "code")}
    assert ("shift of all kernels", "clocks") in found


def test_what_came_back_within_ten_runs_is_no_change() -> None:
    nights = Nightly(RUNS, seed=6)
    nights.slow(NAMES[0], 50, 1.03)
    nights.slow(NAMES[0], 57, 1 / 1.03)
    assert of(nights) == []


@pytest.mark.parametrize(
    ("recorded", "nights", "seed", "name", "begin"),
    [
        ("nights.csv", 40, 43, "queue: between launches", 7200),
        ("nights-second-board.csv", 48, 21, "computation: MEMSET", 7800),
    ],
)
def test_one_stretch_drawn_three_times_among_ten_thousand_runs_is_no_change(
    root: Path, recorded: str, nights: int, seed: int, name: str, begin: int
) -> None:
    path = root / "results" / "2026-11-26-h200-nights" / recorded
    values = Nightly(10_000, seed, ("budget",), recorded=path, nights=nights).values["budget", name]
    line = np.log(values[begin : begin + 400])
    assert steps.find(line, 10_000, 49, least_pct=1.5) == []
    line[250:] += 2 * line.std()
    (found,) = steps.find(line, 10_000, 49, least_pct=1.5)
    assert abs(found.at - 250) <= 1


def test_each_change_has_its_cause_and_commits(stored: Path) -> None:
    names = NAMES
    rows = kerneldb.open(stored).history("nightly").changes.to_pylist()
    found = {(row["name"], row["cause"], round(row["change_pct"])): row for row in rows}
    assert set(found) >= {
        (names[0], "code", 3),
        (names[0], "code", -3),
        (names[1], "code", 3),
        (names[2], "driver", 4),
        ("shift of all kernels", "clocks", 5),
    }
    assert not [row for row in rows if row["cause"] == "code" and row["name"] not in names[:2]]
    driver = found[names[2], "driver", 4]
    assert driver["detail"] == "driver 580.1 -> 590.2"
    change = found[names[1], "code", 3]
    assert int(change["first_commit"][:8], 16) <= CHANGED < int(change["last_commit"][:8], 16)
    assert change["culprit"] in names[:2]
    assert abs(change["change_pct"] - 3) < 0.2
    assert change["low_pct"] < change["change_pct"] < change["high_pct"]


def test_the_example_of_the_view_has_an_answer(stored: Path) -> None:
    example = loader.headers()["kernel_history"].example
    assert example is not None
    assert kerneldb.open(stored).sql(example).rows()


def test_the_gate_passes_over_the_machine_and_what_was_taken_back(stored: Path) -> None:
    found = kerneldb.open(stored).history("nightly")
    names = NAMES
    with pytest.raises(GateError, match="slower by 2 % or more") as error:
        found.check(2)
    assert names[1] in str(error.value)
    assert names[2] not in str(error.value)
    assert str(error.value).count("kernel ") == 1
    found.check(3.6)
    gate = ["history", "--db", str(stored), "--workload", "nightly", "--fail-on", "2%", "--json"]
    assert CliRunner().invoke(cli, gate).exit_code == 5
    assert CliRunner().invoke(cli, [*gate[:-2], "3.6", "--json"]).exit_code == 0


def test_other_gpus_are_series_of_their_own(stored: Path) -> None:
    other = kerneldb.open(stored).history("other")
    assert [(row["device_name"], row["runs"], row["due"]) for row in other.series] == [("NVIDIA H200", 12, 0)]
    assert other.changes.num_rows == 0
    with pytest.raises(UsageError, match="no workload 'nightlyy'; near: nightly"):
        kerneldb.open(stored).history("nightlyy")
    since = kerneldb.open(stored).history("nightly", since=f"{CLOCKS - 3:08x}").changes.to_pylist()
    assert {row["cause"] for row in since} == {"clocks"}
    with pytest.raises(UsageError, match="neither a commit of the history"):
        kerneldb.open(stored).history(since="yesterday")


def test_one_more_run_of_a_long_history_leaves_older_changes_alone(tmp_path: Path) -> None:
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    nights = Nightly(900, seed=3)
    places = (60, 290, 450, 530, 800)  # in the windows of the search, and where these meet
    nights.values = {("kernel", name): nights.values["kernel", name] for name in NAMES[: len(places)]}
    for name, at in zip(NAMES, places, strict=False):
        nights.slow(name, at, 1.03)
    nights.store(warehouse)

    def found() -> list[int]:
        history.update(warehouse)
        changes = kerneldb.open(warehouse.path).history().changes
        return sorted(int(trace_id.partition(":")[2]) for trace_id in changes["trace_id"].to_pylist())

    every = found()
    assert [min(places, key=lambda at: abs(at - run)) for run in every] == list(places)
    newest = "UPDATE history_runs SET scanned = NULL WHERE trace_id = 'nightly:000899'"
    warehouse.query(newest, write=True)
    assert found() == every


@pytest.mark.thorough
def test_a_page_has_the_changes_and_a_chart_of_each_line(stored: Path, tmp_path: Path) -> None:
    page = tmp_path / "history.html"
    done = CliRunner().invoke(cli, ["history", "--db", str(stored), "--workload", "nightly", "--page", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert text.count('class="chart"') == len(NAMES)
    assert "580.1 -&gt; 590.2" in text


@pytest.mark.thorough
def test_traces_with_a_commit_enter_the_history_and_leave_it_with_it(root: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    trace = root / "examples" / "decoder-h200.json.gz"
    database.ingest(trace, tags={"commit": "a" * 40, "workload": "decode"})
    rows = database.sql("""
        SELECT h.subject, h.name, h.n, h.total_ns, r.units
        FROM history_rollups AS h INNER JOIN history_runs AS r USING (trace_id)
    """).rows()
    kernels = database.sql("""
        SELECT short_name, count(*) AS n, sum(duration_ns) AS ns FROM kernels
        WHERE kind = 'kernel' AND steady_state GROUP BY short_name
    """).rows()
    stored = {row["name"]: (row["n"], row["total_ns"]) for row in rows if row["subject"] == "kernel"}
    assert stored == {row["short_name"]: (row["n"], row["ns"]) for row in kernels}
    (total,) = (row for row in rows if row["subject"] == "total")
    (steady,) = database.sql("SELECT sum(duration_ns) AS ns FROM kernels WHERE steady_state").rows()
    assert (total["total_ns"], total["units"]) == (steady["ns"], 6)
    with pytest.raises(UsageError, match="nothing to check: it has no two runs"):
        database.history().check(1)
    database.tag("decoder-h200", {"workload": "decoding"})
    assert database.history().series == []
    database.update_history()
    assert [row["workload"] for row in database.history().series] == ["decoding"]
    database.remove("decoder-h200")
    assert database.sql("FROM history_rollups").rows() == database.sql("FROM history_runs").rows() == []
