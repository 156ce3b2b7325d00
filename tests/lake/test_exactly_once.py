"""Many committers at once, some of them killed: every trace is there once, whole, or not at all."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kerneldb.errors import WarehouseLockedError
from kerneldb.warehouse import Warehouse, lakes, transfer, upkeep
from kerneldb.warehouse.place import Place

SOME = 48
"""So many of the traces are committed by everybody: several transactions of each."""
SUMS = """
    SELECT trace_id, count(*) AS n, sum(duration_ns)::BIGINT AS total_ns, count(DISTINCT launch_index) AS indexes
    FROM launches GROUP BY trace_id ORDER BY trace_id
"""
DUPLICATES = """
    SELECT 'traces' AS place, trace_id AS id FROM traces GROUP BY ALL HAVING count(*) > 1
    UNION ALL SELECT 'names', name FROM traces GROUP BY ALL HAVING count(*) > 1
    UNION ALL SELECT 'kernel_names', name_id FROM kernel_names GROUP BY ALL HAVING count(*) > 1
    UNION ALL SELECT 'signatures', signature_id FROM signatures GROUP BY ALL HAVING count(*) > 1
"""
HOUR = 3600


def committer(source: Path, place: Place, names: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kerneldb", "--db", str(source), "db", "lake", "push", *names, "--to", place.uri]
    return subprocess.Popen([*command, "--lock-timeout", "300"], stderr=subprocess.PIPE, text=True)


def rows(place: Place | Path, sql: str) -> list[dict[str, Any]]:
    return list(Warehouse(place).query(sql).to_pylist())


def files(place: Place) -> set[Path]:
    with lakes.reading(place) as con:
        return set(Path(lakes.data_path(con)).rglob("*.parquet"))


def wait_for_first(place: Place) -> None:
    deadline = time.monotonic() + 180
    while not rows(place, "SELECT 1 AS n FROM traces LIMIT 1"):
        assert time.monotonic() < deadline
        time.sleep(0.2)  # to ask takes a processor from those that are waited for


def test_five_committers_four_of_them_killed(many_traces: Path, postgres_lake: Place) -> None:
    chance = random.Random(7)
    names = [f"t{number}" for number in range(SOME)]
    orders = [chance.sample(names, SOME) for _ in range(5)]
    started = [committer(many_traces, postgres_lake, order) for order in orders]
    wait_for_first(postgres_lake)
    for victim in started[1:]:
        time.sleep(chance.uniform(0.1, 0.6))
        victim.send_signal(signal.SIGKILL)
    wanted = {f"trace-{number}" for number in range(SOME)}
    whole = [row for row in rows(many_traces, SUMS) if row["trace_id"] in wanted]
    assert len(whole) == SOME
    assert all(row in whole for row in rows(postgres_lake, SUMS))
    _, errors = started[0].communicate(timeout=400)
    assert started[0].returncode == 0, errors
    for victim in started[1:]:
        assert victim.wait() == -signal.SIGKILL
        victim.communicate()
    assert rows(postgres_lake, SUMS) == whole
    assert rows(postgres_lake, DUPLICATES) == []
    assert rows(postgres_lake, "SELECT count(*) AS n FROM rollups") == [{"n": 300 * SOME}]
    assert transfer.publish(postgres_lake, 30, many_traces, ["trace-1", "trace-2"]) == []


def test_orphans_of_killed_committers_go_and_nothing_else(many_traces: Path, postgres_lake: Place) -> None:
    warehouse = Warehouse(postgres_lake)
    transfer.publish(postgres_lake, 30, many_traces, ["trace-1", "trace-2"])
    folders = [many_traces.parent]
    with lakes.writing(postgres_lake, folders) as con, transfer.source(con, many_traces):
        old, young = (transfer.prepare(con, [key], lakes.data_path(con)).files for key in ("trace-3", "trace-4"))
    (abandoned,), (under_way,) = old.values(), young.values()
    os.utime(abandoned, (time.time() - 30 * HOUR,) * 2)
    before = warehouse.query(SUMS).to_pylist()
    assert upkeep.compact(postgres_lake, 24, 24, 30).orphans == 1
    assert not Path(abandoned).exists()
    assert Path(under_way).exists()
    assert warehouse.query(SUMS).to_pylist() == before


def test_a_commit_under_way_survives_a_compaction(many_traces: Path, postgres_lake: Place) -> None:
    lake = postgres_lake
    with lakes.writing(lake, [many_traces.parent]) as con, transfer.source(con, many_traces):
        parts = transfer.prepare(con, ["trace-5"], lakes.data_path(con))
        upkeep.compact(lake, 0, 24, 30)
        assert lakes.retried(con, lake, 30, lambda con: transfer.add(con, parts, replace=False, tags={}))
    assert [row["n"] for row in rows(lake, SUMS)] == [600]


def test_the_later_of_two_commits_sees_the_first(many_traces: Path, postgres_lake: Place) -> None:
    """Without its turn at the server, the second transaction starts from what the first one has not committed yet."""
    place, calls = postgres_lake, []
    with (
        lakes.writing(place, [many_traces.parent]) as first,
        transfer.source(first, many_traces),
    ):
        parts = transfer.prepare(first, ["trace-6"], lakes.data_path(first))

        def work(con: Any) -> list[str]:
            calls.append(1)
            added = transfer.add(con, parts, replace=False, tags={})
            if len(calls) == 1:
                with lakes.writing(place) as other, lakes.transaction(other):
                    other.execute("UPDATE commit_lock SET commits = commits + 1")
            return added

        assert lakes.retried(first, place, 30, work) == ["trace-6"]
    assert len(calls) == 2
    assert [row["n"] for row in rows(place, SUMS)] == [600]


@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_a_committer_that_stands_still_is_named(kind: str, request: pytest.FixtureRequest) -> None:
    place: Place = request.getfixturevalue(f"{kind}_lake")
    said = r"process \d+ .*has been committing for more than 0 s"
    with (
        lakes.writing(place) as con,
        lakes._turn(place, con, 30),
        pytest.raises(WarehouseLockedError, match=said),
    ):
        Warehouse(place, 0).write(lambda con: con.execute("DELETE FROM annotations"))
    Warehouse(place, 0).write(lambda con: con.execute("DELETE FROM annotations"))
    assert rows(place, "SELECT commits FROM commit_lock") == [{"commits": 1}]


def test_a_queue_that_moves_is_waited_for(sqlite_lake: Place) -> None:
    tries = iter([False] * 5 + [True])
    lakes._wait_for(sqlite_lake, 0, lambda: next(tries), map(str, range(5)).__next__)
    assert list(tries) == []


def test_compaction_leaves_few_files_and_all_rows(many_traces: Path, s3_lake: Place) -> None:
    lake = s3_lake
    ids = [f"trace-{number}" for number in range(2)]
    for trace_id in ids:
        transfer.publish(lake, 30, many_traces, [trace_id])
    Warehouse(lake).remove("t0")
    before = rows(lake, SUMS)
    done = upkeep.compact(lake, 24, 24, 30)
    with lakes.reading(lake) as con:
        sql = "SELECT file_count, delete_file_count FROM ducklake_table_info('warehouse') WHERE table_name = 'launches'"
        assert con.execute(sql).fetchall() == [(1, 0)]
    assert done.orphans == 0
    assert rows(lake, SUMS) == before
    assert len(before) == 1


@pytest.mark.parametrize("hours", [0, 23])
def test_young_orphans_are_nobodys_to_remove(sqlite_lake: Place, hours: int) -> None:
    from kerneldb.errors import UsageError

    with pytest.raises(UsageError, match="under way"):
        upkeep.compact(sqlite_lake, 24, hours, 30)


def test_same_name_gets_a_number(many_traces: Path, sqlite_lake: Place, tmp_path: Path) -> None:
    lake = sqlite_lake
    other = tmp_path / "other.duckdb"
    other.write_bytes(many_traces.read_bytes())
    Warehouse(other).query("UPDATE traces SET trace_id = 'other' WHERE name = 't1'", write=True)
    for table in ("launches", "rollups"):
        Warehouse(other).query(f"UPDATE {table} SET trace_id = 'other' WHERE trace_id = 'trace-1'", write=True)
    transfer.publish(lake, 30, many_traces, ["trace-1"])
    transfer.publish(lake, 30, other, ["other"])
    names = rows(lake, "SELECT name, run FROM traces ORDER BY name")
    assert names == [{"name": "t1", "run": "job-0"}, {"name": "t1 (2)", "run": "job-0"}]
