"""What kerneldb says of the collectives of two ranks equals plain arithmetic on the JSON of their traces."""

from __future__ import annotations

import collections
import functools
import os
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.replay.recording import recorder
from kerneldb.warehouse import Warehouse
from tests.collective import jobs, plain

RECORDED = "KERNELDB_TEST_JOBS"
FIXTURES = Path(__file__).parents[1] / "fixtures"
CLOSE = 1e-12
REPLAYED_NS = 20_000
WAITING = "waiting in collectives"


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
def database(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kerneldb.Database]:
    opened = kerneldb.open(tmp_path_factory.mktemp("database") / "k.duckdb")
    opened.ingest([folder])
    with Warehouse(opened.path).connection():
        yield opened


@functools.cache
def events(folder: Path) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Workload and rank → activities on the GPU."""
    return {
        (path.name.removesuffix(".pt.trace.json.gz"), int(path.parent.name.removeprefix("rank"))): plain.activities(
            path
        )
        for path in sorted(folder.glob("rank*/*.pt.trace.json.gz"))
    }


def traces(database: kerneldb.Database) -> dict[str, tuple[str, int]]:
    """Name → workload and rank."""
    rows = database.sql("SELECT name, default_phase, rank FROM traces").rows()
    return {row["name"]: (row["default_phase"], row["rank"]) for row in rows}


def test_ranks_of_a_workload_are_one_job(database: kerneldb.Database, folder: Path) -> None:
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
            expected[one.operation, one.dtype, one.bytes, one.ranks].append(one)
        rows = [row for row in database.analyze("collectives", traces=[name]).rows() if row["bytes"] is not None]
        keys = [(row["operation"], row["dtype"], row["bytes"], row["group_size"]) for row in rows]
        assert sorted(keys) == sorted(expected)
        for row, key in zip(rows, keys, strict=True):
            durations = [one.duration for one in expected[key]]
            found = (row["n"], row["total_ns"], row["min_ns"], row["median_ns"], row["max_ns"])
            median = statistics.median(durations)
            assert found == (len(durations), sum(durations), min(durations), median, max(durations)), key
            widths = [one.bus_gbs for one in expected[key]]
            assert row["max_bus_gbs"] == pytest.approx(max(widths), rel=CLOSE)
            assert row["median_bus_gbs"] == pytest.approx(statistics.median(widths), rel=CLOSE)


def test_exposed_time_of_collectives(database: kerneldb.Database, folder: Path) -> None:
    known = traces(database)
    rows = database.analyze("overlap").rows()
    assert {known[row["trace"]] for row in rows} == set(events(folder))
    for row in rows:
        expected = plain.times(events(folder)[known[row["trace"]]])
        assert expected == {
            "computation": row["computation_ns"],
            "communication": row["communication_ns"],
            "exposed": row["exposed_communication_ns"],
        }, row["trace"]


def test_waits_apart_from_transfer_over_the_ranks(database: kerneldb.Database, folder: Path) -> None:
    known = traces(database)
    found: dict[Any, dict[str, int]] = collections.defaultdict(lambda: {"transfer": 0, "wait": 0, "n": 0})
    for row in database.analyze("collective_waits").rows():
        assert row["traced_ranks"] == jobs.RANKS
        assert row["matched"] == row["n"]
        assert row["operation"] not in plain.PAIRS
        one = found[known[row["trace"]]]
        one["transfer"] += row["transfer_ns"]
        one["wait"] += row["wait_ns"]
        one["n"] += row["matched"]
    for workload in {workload for workload, _ in known.values()}:
        by_rank = {rank: plain.collectives(some) for (one, rank), some in events(folder).items() if one == workload}
        assert {rank: found[workload, rank] for rank in by_rank} == plain.waits(by_rank)


def test_nobody_is_busy_for_longer_than_it_takes(database: kerneldb.Database, folder: Path) -> None:
    """What the recorder says of a rank, with the waits left out, is what the balances say."""
    if not database.sql("SELECT 1 FROM measurements WHERE quantity = 'wall_ns'").rows():
        pytest.skip("nothing was measured whole in this recording")
    known = traces(database)
    for row in database.sql("FROM reconciliation").rows():
        workload, rank = known[row["trace"]]
        ran = {one: recorder.activities(events(folder)[workload, one]) for one in range(jobs.RANKS)}
        transfers = recorder.transfers([one.collectives() for one in ran.values()])
        iterations = row["iterations"]
        expected = ran[rank].busy_ns(transfers) / iterations
        assert row["measured_busy_ns"] == pytest.approx(expected, abs=ran[rank].count)
        assert row["busy_share_pct"] == pytest.approx(100 * expected / row["wall_ns"], rel=1e-3)
        assert 0 < row["busy_share_pct"] < 100
        waits = plain.waits({one: plain.collectives(events(folder)[workload, one]) for one in ran})
        assert row["collective_waits_ns"] * iterations == waits[rank]["wait"]


def test_without_the_other_ranks_nobody_knows_how_busy_one_was(folder: Path, tmp_path: Path) -> None:
    if "wall_ns" not in (folder / "rank0" / "bundle.json").read_text(encoding="utf-8"):
        pytest.skip("nothing was measured whole in this recording")
    alone = kerneldb.open(tmp_path / "k.duckdb")
    alone.ingest([folder / "rank0"])
    components = alone.sql("FROM reconciliation_components WHERE section = 'time'").rows()
    found = {row["component"]: (row["status"], row["value"], row["note"]) for row in components}
    assert found["busy share"] == ("unknown", None, "unknown")
    assert found["waiting for the host"][:2] == ("left out", None)
    assert found[WAITING] == ("left out", None, "how long collectives waited for other ranks is unknown")
    assert found["error"][:2] == ("withheld", None)


def test_recorded_transfers_against_replayed_ones(database: kerneldb.Database, folder: Path, tmp_path: Path) -> None:
    """All sums are replayed, in the same time; nothing else is."""
    file = tmp_path / "k.duckdb"
    shutil.copy(database.path, file)
    copied = kerneldb.open(file)
    expected = {workload: _transfers(folder, workload) for workload, _ in events(folder)}
    for row in _with_replays(copied):
        workload = row["job"].rpartition("-")[2]
        shortest, longer = expected[workload][row["operation"], row["dtype"], row["bytes"]]
        n = jobs.RANKS * len(shortest)
        assert (row["n"], row["matched"], row["group_size"]) == (n, n, jobs.RANKS)
        assert (row["transfer_ns"], row["wait_ns"]) == (jobs.RANKS * sum(shortest), sum(longer))
        assert row["mean_transfer_ns"] == pytest.approx(statistics.mean(shortest))
        one = plain.Collective(row["operation"], row["bytes"], jobs.RANKS, row["dtype"], 0, 1)
        assert row["transfer_bus_gbs"] == pytest.approx(one.bus_gbs / statistics.mean(shortest))
        if row["operation"].startswith("allreduce"):
            assert (row["replay_grade"], row["reason"]) == ("L0", None)
            assert row["mean_replayed_ns"] == REPLAYED_NS
            assert row["replayed_bus_gbs"] == pytest.approx(one.bus_gbs / REPLAYED_NS)
            assert row["error_pct"] == pytest.approx(100 * (REPLAYED_NS / statistics.mean(shortest) - 1))
        else:
            assert (row["replay_grade"], row["error_pct"], row["reason"]) == (None, None, "not replayed")


def test_times_with_waiting_are_compared_with_nothing(database: kerneldb.Database, tmp_path: Path) -> None:
    file = tmp_path / "k.duckdb"
    shutil.copy(database.path, file)
    copied = kerneldb.open(file)
    _with_replays(copied)
    copied.sql(
        """INSERT INTO replays BY NAME SELECT 'made up' AS run_id, any_value(signature_id) AS item_id, 0 AS ordinal,
        signature_id, 'warm' AS cache, 'aten' AS route, 'L0' AS grade, 90 AS mean_ns, 10 AS launches,
        1000 AS recorded_total_ns FROM launches JOIN signatures USING (signature_id) JOIN kernel_names USING (name_id)
        WHERE signatures.category <> 'COMMUNICATION' GROUP BY signature_id LIMIT 1""",
        write=True,
    )
    copied.sql("UPDATE replays SET launches = 2, recorded_total_ns = 1e9 WHERE route = 'collective'", write=True)
    copied.sql("INSERT INTO replay_routes VALUES ('collective', '', true)", write=True)
    found = {row["route"] or row["category"]: row for row in copied.replay_results("made up").rows()}
    exchanged = found["collective"]
    assert exchanged["predicted_ns"] == 2 * REPLAYED_NS * exchanged["signatures"]
    assert (exchanged["compared_ns"], exchanged["error_pct"]) == (None, None)
    assert "kerneldb analyze collectives --replays" in exchanged["reasons"]
    assert found["TOTAL"]["recorded_ns"] == 1000 + 1e9 * exchanged["signatures"]
    assert (found["TOTAL"]["compared_ns"], found["TOTAL"]["predicted_ns"]) == (1000, 900)
    assert found["TOTAL"]["error_pct"] == pytest.approx(-10)


def test_exchanges_without_sizes_are_listed_with_the_reason(database: kerneldb.Database, folder: Path) -> None:
    """Sends and receives, which torch 2.11 notes without sizes."""
    from kerneldb.api.planning import Request, feasibility

    launched = sum(plain.is_communication(event) for some in events(folder).values() for event in some)
    known = sum(len(plain.collectives(some)) for some in events(folder).values())
    planned = database.plan_replay(Request(where="category = 'COMMUNICATION'"))
    lines = feasibility(planned.routes)
    rows = {row["route"]: row for row in lines if not row["category"].startswith("TOTAL")}
    assert sum(row["launches"] for row in rows.values()) == lines[-1]["launches"] == launched
    assert rows.get("none", {"launches": 0})["launches"] == launched - known
    assert all(row["reason"] == "what the collective exchanges is not recorded" for row in [rows.get("none")] if row)


def _transfers(folder: Path, workload: str) -> dict[Any, tuple[list[int], list[int]]]:
    """Operation, type and bytes → transfer of each instance, and wait of each launch."""
    ranks = [plain.collectives(some) for (one, _), some in sorted(events(folder).items()) if one == workload]
    found: dict[Any, tuple[list[int], list[int]]] = collections.defaultdict(lambda: ([], []))
    for same in zip(*ranks, strict=True):
        shortest = min(one.duration for one in same)
        transfers, waits = found[same[0].operation, same[0].dtype, same[0].bytes]
        transfers.append(shortest)
        waits += [one.duration - shortest for one in same]
    return found


def _with_replays(database: kerneldb.Database) -> list[dict[str, Any]]:
    for statement in (
        "INSERT INTO replay_runs BY NAME SELECT 'made up' AS run_id, 'NVIDIA H200' AS gpu",
        f"""INSERT INTO replays BY NAME SELECT DISTINCT 'made up' AS run_id, signature_id AS item_id, 0 AS ordinal,
            signature_id, 'warm' AS cache, 'collective' AS route, 'L0' AS grade, {REPLAYED_NS} AS mean_ns
            FROM collective_launches('kernels') WHERE operation LIKE 'allreduce%'""",
    ):
        database.sql(statement, write=True)
    return database.analyze("collective_replays").rows()


def test_the_balance_of_a_job_cover_all_ranks(database: kerneldb.Database, folder: Path) -> None:
    """Both traces of a made workload are one iteration."""
    if not database.sql("SELECT 1 FROM measurements WHERE quantity = 'wall_ns'").rows():
        pytest.skip("nothing was measured whole in this recording")
    found = database.reconciliation().jobs
    known = {(job["workload"], job["mode"]): job for job in found}
    assert all((job["ranks"], job["world_size"]) == (jobs.RANKS, jobs.RANKS) for job in found)
    for job in found:
        assert job["transfer_ns"] + job["wait_ns"] == pytest.approx(job["communication_ns"], rel=1e-6)
        assert job["computation_replayed_pct"] == 0
    if folder.name != "tiny-tp2":
        return
    for workload in jobs.WORKLOADS:
        some = {rank: activities for (one, rank), activities in events(folder).items() if one == workload}
        waits = plain.waits({rank: plain.collectives(one) for rank, one in some.items()})
        times = {True: 0.0, False: 0.0}
        for event in (event for one in some.values() for event in one):
            times[plain.is_communication(event)] += 1000 * float(event["dur"])
        job = known[workload, "eager"]
        assert (job["wall_ns"], job["energy_mj"]) == (jobs.WALL_NS + 1, 2 * jobs.ENERGY_MJ)
        assert 2 * job["computation_ns"] == pytest.approx(times[False], abs=30)
        assert 2 * job["communication_ns"] == pytest.approx(times[True], abs=30)
        assert 2 * job["wait_ns"] == pytest.approx(sum(one["wait"] for one in waits.values()), abs=30)
        assert job["slowest_rank"] == min(waits, key=lambda rank: waits[rank]["wait"])


@pytest.mark.parametrize(
    ("collective", "factor"), [("gather", 7 / 8), ("scatter", 7 / 8), ("broadcast", 1), ("barrier", None)]
)
def test_bus_bandwidth_of_what_no_recording_holds(
    database: kerneldb.Database, collective: str, factor: float | None
) -> None:
    """By nccl-tests (src/gather.cu, src/scatter.cu): the part of a rank itself goes over no link."""
    made = f"""
        SELECT * REPLACE (
            'timeline' AS timing, 'COMMUNICATION' AS category, 'kernel' AS kind, 'ncclDevKernel_SendRecv' AS name,
            '{collective}' AS collective, 'Half' AS collective_dtype, 1000 AS collective_in_elements,
            8000 AS collective_out_elements, 8 AS group_size, 4000 AS duration_ns
        )
        FROM (SELECT unnest([1])) LEFT JOIN kernels ON false
    """
    (row,) = database.sql(f"WITH made AS ({made}) FROM collective_launches('made')").rows()
    assert (row["bytes"], row["algorithm_gbs"]) == (16_000, 4.0)
    assert row["bus_gbs"] == (None if factor is None else pytest.approx(4 * factor))


@pytest.mark.thorough
def test_a_replay_of_several_sizes_is_held_to_none_of_them(database: kerneldb.Database, tmp_path: Path) -> None:
    """Without recorded shapes, launches of all sizes have one signature, and its replays one mean."""
    file = tmp_path / "k.duckdb"
    shutil.copy(database.path, file)
    copied = kerneldb.open(file)
    whole = "SELECT min(signature_id) FROM collective_launches('kernels') WHERE operation LIKE 'allreduce%'"
    (row,) = copied.sql(f"SELECT ({whole}) AS one").rows()
    same = "SELECT DISTINCT signature_id FROM collective_launches('kernels') WHERE operation LIKE 'allreduce%'"
    copied.sql(f"UPDATE launches SET signature_id = '{row['one']}' WHERE signature_id IN ({same})", write=True)
    rows = [row for row in _with_replays(copied) if row["operation"].startswith("allreduce")]
    assert len({row["bytes"] for row in rows}) > 1
    for row in rows:
        assert (row["mean_replayed_ns"], row["error_pct"]) == (None, None)
        assert "several sizes" in row["reason"]
        assert row["transfer_ns"] > 0
