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
from tests.conftest import made_once
from tests.once import plain, samples
from tests.once.samples import Collection

BY_KIND = "SELECT timing, kind, count(*) AS n, coalesce(sum(duration_ns), 0)::BIGINT AS total_ns FROM {} GROUP BY ALL"
BY_TRACE = (
    "SELECT t.trace_id, l.timing, l.kind, count(*) AS n, coalesce(sum(l.duration_ns), 0)::BIGINT AS total_ns "
    "FROM {} AS l JOIN traces AS t ON t.name = l.trace GROUP BY ALL"
)
SUMMED = "summed"
Make = Callable[[str, Callable[[Database], object]], Database]


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A database to read, filled once for all tests."""

    def made(name: str, fill: Callable[[Database], object]) -> Database:
        file = re.sub(r"[^A-Za-z0-9.-]+", "_", f"once-{name}.duckdb")

        def filled(path: Path) -> None:
            fill(kerneldb.open(path))
            path.touch()  # nothing is made of files that are refused

        path = made_once(tmp_path_factory, file, filled)
        if not path.stat().st_size:
            pytest.skip("may be refused, and is")
        return kerneldb.open(path)

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
    categories = database.sql("SELECT timing, sum(n) AS n, sum(total_ns) AS total_ns FROM categories GROUP BY ALL")
    assert by_timing(categories.rows()) == expected
    of_devices = "SELECT coalesce(sum(n), 0) AS n, coalesce(sum(total_ns), 0) AS total_ns FROM gpu_time"
    (busy,) = database.sql(of_devices).rows()
    placed = "SELECT count(*) AS n, coalesce(sum(duration_ns), 0) AS total_ns FROM kernels WHERE end_ns IS NOT NULL"
    (placed_sum,) = database.sql(f"{placed} AND timing = '{plain.TIMELINE}'").rows()
    assert busy == placed_sum
    assert by_timing(database.top("timing").rows()) == expected


def by_timing(rows: Iterable[dict[str, Any]]) -> dict[str, plain.Sum]:
    """Without what a tool summed: those files hold no launches, so that nothing here is to equal them."""
    return {
        row["timing"]: plain.Sum(int(row["n"]), int(row["total_ns"] or 0)) for row in rows if row["timing"] != SUMMED
    }


# Each file alone


@pytest.fixture
def alone(collection: Collection, path: Path, make: Make) -> Database:
    return make(f"alone-{collection.label(path)}", lambda database: ingest(database, [[path]]))


@pytest.mark.parametrize(("collection", "path"), samples.each_file())
def test_a_file_alone(alone: Database, path: Path) -> None:
    expected = plain.sums(plain.ran(path))
    assert sums_of(alone) == expected
    (trace,) = files_of(alone)
    assert by_trace(alone, "kernels") == ({trace: expected} if expected else {})


@pytest.mark.parametrize(("collection", "path"), samples.each_file())
def test_built_in_sums_of_a_file_alone(alone: Database, path: Path) -> None:
    check_built_in_sums(alone, plain.timings(plain.sums(plain.ran(path))))


@pytest.mark.parametrize(("collection", "path"), samples.one_of_each_kind())
def test_views_are_their_macros_over_a_file_alone(alone: Database, path: Path) -> None:
    check_views(alone)


# Prints of one report


@pytest.mark.parametrize("collection", samples.each_collection())
def test_the_groups_are_what_the_files_say(collection: Collection) -> None:
    found = [group for group in plain.prints(collection.files()) if len(group) > 1]
    named = {
        frozenset(path for path in collection.group(name) if plain.knows(path) and plain.ran(path))
        for name in collection.groups
    }
    assert set(found) == named


def in_one_call(files: list[Path]) -> list[list[Path]]:
    return [files]


def one_by_one_backwards(files: list[Path]) -> list[list[Path]]:
    return [[file] for file in reversed(files)]


ORDERS = [in_one_call, one_by_one_backwards]


@pytest.fixture
def grouped(collection: Collection, group: str, make: Make) -> Callable[[Any], Database]:
    files = collection.group(group)
    return lambda order: make(f"{group}-{order.__name__}", lambda database: ingest(database, order(files)))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("collection", "group"), samples.each_group())
def test_prints_of_one_report_together(grouped: Callable[[Any], Database], order: Any) -> None:
    hold(grouped(order))


@pytest.mark.parametrize(("collection", "group"), samples.each_group())
def test_built_in_sums_of_prints_of_one_report(grouped: Callable[[Any], Database]) -> None:
    hold_built_in(grouped(in_one_call))


@pytest.mark.parametrize(("collection", "group"), samples.each_group())
def test_every_print_stays_within_reach(grouped: Callable[[Any], Database]) -> None:
    check_everything_read(grouped(one_by_one_backwards))


@pytest.mark.parametrize(("collection", "group"), samples.each_group())
def test_without_its_best_print_the_next_one_answers(grouped: Callable[[Any], Database], tmp_path: Path) -> None:
    database = kerneldb.open(shutil.copyfile(grouped(one_by_one_backwards).path, tmp_path / "removing.duckdb"))
    for _ in range(2):
        answering = database.sql("SELECT trace FROM kernels GROUP BY trace ORDER BY count(*) DESC, trace").rows()
        database.remove(answering[0]["trace"])
        expected = plain.sums(plain.answering(files_in(database)))
        assert sums_of(database) == expected
        if not expected:
            break


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
    return [path for path in collection.files() if path.name != samples.LOSSY]


def without_large_recordings(collection: Collection) -> list[Path]:
    """PyTorch writes one file per capture: no order makes a difference to the large ones, and they take long."""
    large = 150_000
    return [
        path
        for path in everything(collection)
        if not re.search(r"\.json(\.gz)?$", path.name) or path.stat().st_size < large
    ]


@pytest.fixture
def together(collection: Collection, make: Make) -> Database:
    return make(f"all-{collection.name}", lambda database: ingest(database, [everything(collection)]))


@pytest.mark.slow
@pytest.mark.parametrize("collection", samples.each_collection())
def test_everything_together(together: Database, collection: Collection) -> None:
    hold(together)


@pytest.mark.slow
@pytest.mark.parametrize("collection", samples.each_collection())
def test_built_in_sums_of_everything(together: Database, collection: Collection) -> None:
    hold_built_in(together)


@pytest.mark.slow
@pytest.mark.parametrize("collection", samples.each_collection())
def test_everything_together_stays_within_reach(together: Database, collection: Collection) -> None:
    check_everything_read(together)


@pytest.mark.slow
@pytest.mark.parametrize("collection", samples.each_collection())
def test_everything_together_in_another_order(collection: Collection, make: Make) -> None:
    files = without_large_recordings(collection)
    hold(make(f"backwards-{collection.name}", lambda database: ingest(database, [files[::-1]])))


@pytest.mark.slow
@pytest.mark.parametrize("collection", samples.each_collection())
def test_everything_a_second_time(together: Database, collection: Collection, tmp_path: Path) -> None:
    database = kerneldb.open(shutil.copyfile(together.path, tmp_path / "twice.duckdb"))
    states = ingest(database, [everything(collection)])
    assert set(states) <= {"unchanged", "failed"}
    assert sums_of(database) == sums_of(together)
    assert files_of(database) == files_of(together)


@pytest.mark.slow
@pytest.mark.parametrize("collection", samples.each_collection())
def test_views_are_their_macros_over_everything(together: Database, collection: Collection) -> None:
    check_views(together)


# Views and macros


PAIRS = """
SELECT DISTINCT v.view_name AS name FROM duckdb_views() AS v
JOIN duckdb_functions() AS f ON f.function_name = v.view_name
WHERE f.function_type = 'table_macro' AND NOT v.internal AND len(f.parameters) = 1 ORDER BY name
"""


def check_views(database: Database) -> None:
    """A view and the macro of its name give the same rows on the same launches."""
    names = [row["name"] for row in database.sql(PAIRS).rows()]
    assert {"categories", "gpu_time", "top_kernels"} <= set(names)
    assert [name for name in names if not same_columns(database, name)] == []
    assert [name for name in names if not same_rows(database, name)] == []


def same_columns(database: Database, name: str) -> bool:
    return database.sql(f'FROM "{name}" LIMIT 0').columns == database.sql(f"FROM \"{name}\"('kernels') LIMIT 0").columns


def same_rows(database: Database, name: str) -> bool:
    view, macro = f'FROM "{name}"', f"FROM \"{name}\"('kernels')"
    apart = f"({view} EXCEPT ALL {macro}) UNION ALL ({macro} EXCEPT ALL {view}) LIMIT 1"
    return not database.sql(apart).rows() or nearly(database.sql(view).rows(), database.sql(macro).rows())


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
