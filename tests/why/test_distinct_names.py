"""A trace in which no two kernels have the same name: the engine keeps what has a row for each of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import kerneldb
from kerneldb.report import asking, why

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.api import Database

KERNELS = 3_000


def recorded(path: Path, lasts: int) -> None:
    """One launch call and one kernel after the other, 10 µs apart, each of a name of its own."""
    events: list[dict[str, Any]] = []
    for at in range(KERNELS):
        linked = {"correlation": at + 1, "device": 0, "stream": 7, "grid": [1, 1, 1], "block": [32, 1, 1]}
        call = {"name": "cudaLaunchKernel", "cat": "cuda_runtime", "pid": 1, "tid": 1, "ts": 10 * at, "dur": 1}
        kernel = {"name": f"kernel_{at:x}", "cat": "kernel", "pid": 0, "tid": 7, "ts": 10 * at + 2, "dur": lasts}
        events += [{"ph": "X", "args": linked, **one} for one in (call, kernel)]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), encoding="utf-8")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    folder = tmp_path_factory.mktemp("distinct")
    database = kerneldb.open(folder / "k.duckdb")
    for name, lasts in (("short", 3), ("long", 6)):
        recorded(folder / f"{name}.json", lasts)
        database.ingest(folder / f"{name}.json")
    return database


def test_a_verdict_takes_few_rows_out_of_the_engine(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    ask = asking.rows_of

    def counted(*args: Any) -> list[dict[str, Any]]:
        rows = ask(*args)
        taken.append(len(rows))
        return rows

    monkeypatch.setattr(asking, "rows_of", counted)
    (found,) = why.verdicts(database, ["short"])
    assert found.parts["computation"] == 3_000 * KERNELS
    assert found.parts["host"] + found.parts["queue"] == 7_000 * (KERNELS - 1)
    assert len(taken) > 5
    assert max(taken) < 100


def test_what_is_kept_is_that_of_the_trace_that_is_asked_about(database: Database) -> None:
    with asking.asking(database) as ask:
        short, long = (ask.about(trace=name) for name in ("short", "long"))
        query = "SELECT sum(wall_ns)::BIGINT AS ns FROM found_places WHERE part = 'computation'"
        found = [one._run(query) for one in (short, long, short)]
        long._run("FROM found_wall LIMIT 1")
        found.append(short._run(query))
    assert [rows[0]["ns"] // KERNELS for rows in found] == [3_000, 6_000, 3_000, 3_000]
