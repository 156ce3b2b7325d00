"""`FROM kernels` is what ran, once: sums over it equal sums over the files, whatever else is in the database."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.api.ingestion import IngestOptions
from kerneldb.schemas import loader
from tests.conftest import made_once
from tests.once import plain, samples
from tests.once.samples import Collection

BY_KIND = "SELECT timing, kind, count(*) AS n, coalesce(sum(duration_ns), 0)::BIGINT AS total_ns FROM {} GROUP BY ALL"
BY_TRACE = (
    "SELECT t.trace_id, l.timing, l.kind, count(*) AS n, coalesce(sum(l.duration_ns), 0)::BIGINT AS total_ns "
    "FROM {} AS l JOIN traces AS t ON t.name = l.trace GROUP BY ALL"
)
SUMMED = "summed"
KERNELS = "'kernels'"
OVER_LAUNCHES = [("source", KERNELS)]
LARGE = 150_000
LONG = 8
"""Of a group of more prints, every second or third one is read: the others ask the same again."""
Make = Callable[[str, Callable[[Database], object]], Database]


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A database to read, filled once for all tests."""

    def made(name: str, fill: Callable[[Database], object]) -> Database:
        file = re.sub(r"[^A-Za-z0-9.-]+", "_", f"once-{name}.duckdb")
        return kerneldb.open(made_once(tmp_path_factory, file, lambda path: fill(kerneldb.open(path))))

    return made


def ingest(database: Database, calls: Iterable[Sequence[Path]]) -> list[str]:
    """Read files, a list of them a call. What is refused must be known to be."""
    options, states = IngestOptions(), []
    for paths in calls:
        for outcome in database.ingest_each(paths, options):
            states.append(outcome.status)
            known = any(str(outcome.path).endswith(label) for label in samples.NOT_READ_BY_0_1_0)
            assert outcome.error is None or known, outcome.error
    return states


def files_of(database: Database) -> dict[str, list[Path]]:
    """The files of each trace."""
    rows = database.sql("SELECT trace_id, list(path ORDER BY path) AS paths FROM trace_files GROUP BY ALL").rows()
    return {row["trace_id"]: [Path(path) for path in row["paths"]] for row in rows}


def files_in(database: Database) -> list[Path]:
    return sorted(path for paths in files_of(database).values() for path in paths if plain.knows(path))


def sums_of(database: Database, source: str = "kernels") -> plain.Sums:
    rows = database.sql(BY_KIND.format(source)).rows()
    return {(row["timing"], row["kind"]): plain.Sum(row["n"], row["total_ns"]) for row in rows}


def by_trace(database: Database, source: str) -> dict[str, plain.Sums]:
    found: dict[str, plain.Sums] = {}
    for row in database.sql(BY_TRACE.format(source)).rows():
        found.setdefault(row["trace_id"], {})[row["timing"], row["kind"]] = plain.Sum(row["n"], row["total_ns"])
    return found


def hold(database: Database) -> None:
    """`kernels` says of how much ran what the files say."""
    assert sums_of(database) == plain.sums(plain.answering(files_in(database)))


def hold_built_in(database: Database) -> None:
    """The sums that are made of `kernels` say it, too."""
    check_built_in_sums(database, plain.timings(plain.sums(plain.answering(files_in(database)))))


def check_built_in_sums(database: Database, expected: dict[str, plain.Sum]) -> None:
    categories = database.sql(
        "SELECT timing, sum(n) AS n, sum(total_ns) AS total_ns FROM time_by('category') GROUP BY ALL"
    )
    assert by_timing(categories.rows()) == expected
    of_devices = "SELECT coalesce(sum(n), 0) AS n, coalesce(sum(total_ns), 0) AS total_ns FROM gpu_time()"
    (busy,) = database.sql(of_devices).rows()
    placed = "SELECT count(*) AS n, coalesce(sum(duration_ns), 0) AS total_ns FROM kernels WHERE end_ns IS NOT NULL"
    (placed_sum,) = database.sql(f"{placed} AND timing = '{plain.TIMELINE}'").rows()
    assert busy == placed_sum
    assert unequal_budgets(database) == []
    assert by_timing(database.top("timing").rows()) == expected


def unequal_budgets(database: Database) -> list[dict[str, Any]]:
    """Devices whose causes of wall time are more or less than the time from the first start to the last end."""
    return database.sql(
        "WITH budgets AS (SELECT trace, device, sum(wall_ns) AS wall_ns FROM wall_time_budget() GROUP BY ALL) "
        "SELECT g.trace, g.device, g.span_ns, b.wall_ns FROM gpu_time() AS g LEFT JOIN budgets AS b "
        "ON g.trace = b.trace AND g.device IS NOT DISTINCT FROM b.device "
        "WHERE coalesce(b.wall_ns, 0) IS DISTINCT FROM g.span_ns"
    ).rows()


def by_timing(rows: Iterable[dict[str, Any]]) -> dict[str, plain.Sum]:
    """Without what a tool summed: those files hold no launches, so that nothing here is to equal them."""
    return {
        row["timing"]: plain.Sum(int(row["n"]), int(row["total_ns"] or 0)) for row in rows if row["timing"] != SUMMED
    }


# A file alone


@pytest.fixture
def alone(label: str, make: Make) -> Database:
    path = samples.REPOSITORY.home / label
    return make(f"alone-{label}", lambda database: ingest(database, [[path]]))


@pytest.mark.parametrize("label", samples.TELLING)
def test_a_file_alone(alone: Database) -> None:
    """The others are held to what they say where they are together."""
    hold(alone)
    hold_built_in(alone)
    check_alone_in_their_runs(alone)


@pytest.mark.parametrize("label", [samples.TELLING[2], pytest.param(samples.TELLING[3], marks=pytest.mark.volume)])
def test_macros_over_a_file_alone_and_over_its_launches(alone: Database) -> None:
    check_macros(alone)


# Prints of one report


@pytest.mark.parametrize("collection", samples.each_collection())
def test_the_groups_are_what_the_files_say(collection: Collection) -> None:
    found = [group for group in plain.prints(everything(collection)) if len(group) > 1]
    named = {
        frozenset(path for path in collection.group(name) if plain.knows(path) and plain.ran(path))
        for name in collection.groups
    }
    assert set(found) == named


@pytest.fixture
def one_by_one_backwards(collection: Collection, group: str, make: Make) -> Database:
    files = collection.group(group)
    files = files[:: 1 + len(files) // LONG]
    return make(group, lambda database: ingest(database, [[file] for file in reversed(files)]))


@pytest.mark.thorough
@pytest.mark.parametrize(("collection", "group"), samples.each_group())
def test_prints_of_one_report_one_by_one(one_by_one_backwards: Database, tmp_path: Path) -> None:
    hold(one_by_one_backwards)
    check_everything_read(one_by_one_backwards)
    apart = kerneldb.open(shutil.copyfile(one_by_one_backwards.path, tmp_path / "apart.duckdb"))
    for number, row in enumerate(apart.sql("SELECT name FROM traces").rows()):
        apart.set_run([row["name"]], f"own {number}")
    check_alone_in_their_runs(apart)


def check_alone_in_their_runs(database: Database) -> None:
    """A trace that shares its run with none answers with all that its files say."""
    found, files = by_trace(database, "kernels"), files_of(database)
    rows = database.sql("SELECT any_value(trace_id) AS trace_id FROM traces GROUP BY run HAVING count(*) = 1").rows()
    assert rows
    for trace in (row["trace_id"] for row in rows):
        expected = plain.sums(plain.answering([file for file in files.get(trace, ()) if plain.knows(file)]))
        assert found.get(trace, {}) == expected


def check_everything_read(database: Database) -> None:
    """Per trace, `all_launches` holds what its files say, and `kernels` is its primary rows."""
    expected = {
        trace: plain.sums(plain.once([file for file in files if plain.knows(file)]))
        for trace, files in files_of(database).items()
    }
    assert by_trace(database, "all_launches") == {trace: found for trace, found in expected.items() if found}
    assert sums_of(database, "all_launches WHERE is_primary") == sums_of(database)


# All together


def everything(collection: Collection) -> list[Path]:
    """But for large recordings of PyTorch, one file per capture, whose sums other tests hold to their figures."""
    return [path for path in collection.files() if path.name != samples.LOSSY and not is_large_recording(path)]


def is_large_recording(path: Path) -> bool:
    return path.name.endswith((".json", ".json.gz")) and path.stat().st_size > LARGE


@pytest.fixture
def together(collection: Collection, make: Make) -> Database:
    return make(f"all-{collection.name}", lambda database: ingest(database, [everything(collection)]))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("collection", samples.each_collection())
def test_everything_together(together: Database) -> None:
    hold(together)
    hold_built_in(together)
    check_everything_read(together)
    check_alone_in_their_runs(together)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("collection", samples.each_collection())
def test_without_its_best_print_the_next_one_answers(together: Database, tmp_path: Path) -> None:
    """Of each report at the same time, twice."""
    database = kerneldb.open(shutil.copyfile(together.path, tmp_path / "removing.duckdb"))
    for _ in range(2):
        database.remove(best_prints(database))
        hold(database)


def best_prints(database: Database) -> list[str]:
    """Of each run with several traces, the one with most launches that answer."""
    rows = database.sql(
        "WITH answers AS (SELECT run, trace, count(*) AS n FROM kernels GROUP BY ALL), "
        "several AS (SELECT run FROM traces GROUP BY run HAVING count(*) > 1) "
        "SELECT run, arg_min(trace, (-n, trace)) AS best FROM answers WHERE run IN (FROM several) GROUP BY run"
    ).rows()
    assert rows
    return [row["best"] for row in rows]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("collection", samples.each_collection())
def test_everything_a_second_time(together: Database, collection: Collection, tmp_path: Path) -> None:
    database = kerneldb.open(shutil.copyfile(together.path, tmp_path / "twice.duckdb"))
    states = ingest(database, [everything(collection)])
    assert set(states) <= {"unchanged", "failed"}
    assert sums_of(database) == sums_of(together)
    assert files_of(database) == files_of(together)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("collection", samples.each_collection())
def test_macros_over_everything_and_over_its_launches(together: Database) -> None:
    check_macros(together)


# Macros


def check_macros(database: Database) -> None:
    """A macro over everything gives the same rows as over the same launches one by one."""
    calls = ["time_by('category', {})", *(f"{name}({{}})" for name in macros())]
    assert {"gpu_time({})", "top_kernels({})"} <= set(calls)
    assert [call for call in calls if not same_rows(database, call)] == []


def macros() -> list[str]:
    """The macros over launches that need no other argument."""
    headers = (header for header in loader.headers().values() if header.kind == "macro" and not header.is_internal)
    return [one.name for one in headers if [(given.name, given.default) for given in one.arguments] == OVER_LAUNCHES]


def same_rows(database: Database, call: str) -> bool:
    """Sums that a tool printed are part of everything, and no launches."""
    everything = database.sql("FROM " + call.format(KERNELS)).rows()
    of_launches = database.sql("FROM " + call.format("'selection'"), where="true").rows()
    return nearly([row for row in everything if row.get("timing") != SUMMED], of_launches)


def nearly(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    """Sums of floats depend on the order in which threads add them."""
    return len(one) == len(other) and all(
        mine.keys() == theirs.keys() and all(close(mine[name], theirs[name]) for name in mine)
        for mine, theirs in zip(sorted(one, key=by_exact), sorted(other, key=by_exact), strict=True)
    )


def by_exact(row: dict[str, Any]) -> tuple[str, str]:
    """First by what has to be equal, then by floats in few digits, so that equal rows stand at the same place."""
    exact = repr([value for value in row.values() if not isinstance(value, float)])
    return exact, repr([f"{value:.6g}" for value in row.values() if isinstance(value, float)])


def close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)
