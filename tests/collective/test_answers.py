"""What kerneldb says of the collectives of two ranks equals plain arithmetic on the JSON of their traces."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from tests.collective import jobs, plain

RECORDED = "KERNELDB_TEST_JOBS"
FIXTURES = Path(__file__).parents[1] / "fixtures"
CLOSE = 1e-9


def recordings() -> Iterator[Any]:
    """The made one, and each recorded one: a folder with rank0, rank1, … below."""
    yield pytest.param(None, id="made")
    places = [*FIXTURES.glob("*tp2*"), *map(Path, filter(None, os.environ.get(RECORDED, "").split(os.pathsep)))]
    if not places:
        reason = f"no recording of two GPUs here ({RECORDED} may name folders)"
        yield pytest.param(Path(), id="recorded", marks=pytest.mark.skip(reason=reason))
    for place in places:
        yield pytest.param(place, id=place.name)


@pytest.fixture(scope="module", params=recordings())
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    given: Path | None = request.param
    return jobs.make(tmp_path_factory.mktemp("job") / "tiny-tp2") if given is None else given


@pytest.fixture(scope="module")
def database(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> kerneldb.Database:
    opened = kerneldb.open(tmp_path_factory.mktemp("database") / "k.duckdb")
    opened.ingest([folder])
    return opened


def events(folder: Path) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Stage and rank → activities on the GPU."""
    return {
        (path.name.removesuffix(".pt.trace.json.gz"), int(path.parent.name.removeprefix("rank"))): plain.activities(
            path
        )
        for path in sorted(folder.glob("rank*/*.pt.trace.json.gz"))
    }


def traces(database: kerneldb.Database) -> dict[str, tuple[str, int]]:
    """Name → stage and rank."""
    rows = database.sql("SELECT name, default_phase, rank FROM traces").rows()
    return {row["name"]: (row["default_phase"], row["rank"]) for row in rows}


def test_ranks_of_a_stage_are_one_job(database: kerneldb.Database, folder: Path) -> None:
    rows = database.sql("SELECT name, run, job, rank, world_size FROM traces ORDER BY name").rows()
    assert len(rows) == len(events(folder))
    assert {row["world_size"] for row in rows} == {jobs.RANKS}
    by_job = collections.defaultdict(set)
    for row in rows:
        assert row["name"] == f"{row['job']}-rank{row['rank']}"
        by_job[row["job"]].add(row["rank"])
    assert all(ranks == set(range(jobs.RANKS)) for ranks in by_job.values())


def test_sizes_groups_times_and_bandwidths_of_collectives(database: kerneldb.Database, folder: Path) -> None:
    known = traces(database)
    for name, place in known.items():
        expected: dict[Any, list[plain.Collective]] = collections.defaultdict(list)
        for one in plain.collectives(events(folder)[place]):
            expected[one.operation, one.bytes, one.ranks].append(one)
        rows = database.answer("collectives", traces=[name]).rows()
        found = {(row["operation"], row["bytes"], row["group_size"]): row for row in rows if row["bytes"] is not None}
        assert found.keys() == expected.keys()
        for key, some in expected.items():
            assert found[key]["n"] == len(some)
            assert found[key]["total_ns"] == pytest.approx(sum(one.duration for one in some), abs=len(some))
            assert found[key]["max_bus_gbs"] == pytest.approx(max(one.bus_gbs for one in some), rel=1e-3)


def test_exposed_time_of_collectives(database: kerneldb.Database, folder: Path) -> None:
    known = traces(database)
    rows = database.answer("overlap").rows()
    assert {known[row["trace"]] for row in rows} == set(events(folder))
    for row in rows:
        activities = events(folder)[known[row["trace"]]]
        expected = plain.times(activities)
        for name, value in expected.items():
            column = {"exposed": "exposed_communication"}.get(name, name)
            assert row[f"{column}_ns"] == pytest.approx(value, abs=2 * len(activities) ** 0.5 + 2), (row["trace"], name)


def test_waits_apart_from_transfer_over_the_ranks(database: kerneldb.Database, folder: Path) -> None:
    known = traces(database)
    found: dict[Any, dict[str, float]] = collections.defaultdict(lambda: {"transfer": 0.0, "wait": 0.0, "n": 0.0})
    for row in database.answer("collective_waits").rows():
        assert row["traced_ranks"] == jobs.RANKS
        if row["operation"] not in plain.PAIRS:
            one = found[known[row["trace"]]]
            one["transfer"] += row["transfer_ns"]
            one["wait"] += row["wait_ns"]
            one["n"] += row["matched"]
    stages = {stage for stage, _ in known.values()}
    for stage in stages:
        by_rank = {rank: plain.collectives(some) for (one, rank), some in events(folder).items() if one == stage}
        for rank, expected in plain.waits(by_rank).items():
            assert found[stage, rank] == pytest.approx(expected, abs=expected["n"])


def test_the_books_of_a_job_cover_all_ranks(database: kerneldb.Database, folder: Path) -> None:
    """Both traces of a made stage are one iteration."""
    found = database.closure().jobs
    if not (folder / "rank0" / "bundle.json").exists() or not found:
        pytest.skip("nothing was measured whole in this recording")
    known = {(job["stage"], job["mode"]): job for job in found}
    assert all((job["ranks"], job["world_size"]) == (jobs.RANKS, jobs.RANKS) for job in found)
    for job in found:
        assert job["transfer_ns"] + job["wait_ns"] == pytest.approx(job["communication_ns"], rel=1e-6)
        assert job["computation_replayed_pct"] == 0
    if folder.name != "tiny-tp2":
        return
    for stage in jobs.STAGES:
        some = {rank: activities for (one, rank), activities in events(folder).items() if one == stage}
        waits = plain.waits({rank: plain.collectives(one) for rank, one in some.items()})
        times = {True: 0.0, False: 0.0}
        for event in (event for one in some.values() for event in one):
            times[plain.is_communication(event)] += 1000 * float(event["dur"])
        job = known[stage, "eager"]
        assert (job["wall_ns"], job["energy_mj"]) == (jobs.WALL_NS + 1, 2 * jobs.ENERGY_MJ)
        assert 2 * job["computation_ns"] == pytest.approx(times[False], abs=30)
        assert 2 * job["communication_ns"] == pytest.approx(times[True], abs=30)
        assert 2 * job["wait_ns"] == pytest.approx(sum(one["wait"] for one in waits.values()), abs=30)
        assert job["slowest_rank"] == min(waits, key=lambda rank: waits[rank]["wait"])
