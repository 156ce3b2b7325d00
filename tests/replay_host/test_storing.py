"""Results go into the database as they come: what is stored is not read, sent or written again."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api.planning import Planned, Request
from kerneldb.api.replaying import Store
from kerneldb.api.resuming import Files
from kerneldb.cli import cli
from kerneldb.errors import UsageError, WarehouseError
from kerneldb.recordings import Reading
from kerneldb.replay.errors import JournalError, ReplayError
from kerneldb.replay.host import run as host
from kerneldb.replay.options import Options
from kerneldb.replay.wire import plan
from kerneldb.replay.wire.energy import CallEnergy
from kerneldb.replay.wire.journal import Writer
from kerneldb.replay.wire.plan import Item
from kerneldb.replay.wire.results import CallResult, Grade, RunFacts, failure

SMALL = Path(__file__).parents[2] / "tests" / "fixtures" / "stacks-memory-h200.json.gz"
RUN = RunFacts("r1", "2026-01-01T00:00:00+00:00", "mixed", "cpu", arguments={"energy": True})


@pytest.fixture
def database(tmp_path: Path) -> kerneldb.Database:
    opened = kerneldb.open(tmp_path / "k.duckdb")
    opened.ingest(SMALL)
    return opened


@pytest.fixture
def planned(database: kerneldb.Database) -> Planned:
    return database.plan_replay(Request())


def ran(item: Item, **more: Any) -> CallResult:
    return dataclasses.replace(failure(item, "mixed", "tried"), status="ok", grade=Grade.L3, **more)


def test_each_result_is_written_once(
    database: kerneldb.Database, planned: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[int, int]] = []
    warehouse, items = database.warehouse, planned.plan.items
    real = type(warehouse).store_replay

    def counted(self: Any, run_id: str, ids: Any, rows: Any, **more: Any) -> None:
        written.append((len(rows["replay_calls"]), len(rows["power_samples"])))
        real(self, run_id, ids, rows, **more)

    monkeypatch.setattr(type(warehouse), "store_replay", counted)
    with Writer(tmp_path / "journal") as writer:
        writer.run(RUN)
        store = Store(warehouse, planned.plan, tmp_path / "journal")
        for number, item in enumerate(items[:3]):
            writer.call(ran(item))
            writer.power([Reading("gap", number, energy_mj=2.0)])
            store.advance()
        store.advance()
        writer.call(ran(items[0], energy=CallEnergy(reason="no meter")))
        store.advance()
    assert written == [(1, 1), (1, 1), (1, 1), (1, 0)]
    calls = database.sql("SELECT item_id, energy_reason FROM replay_calls ORDER BY item_id").rows()
    reasons = {items[0].id: "no meter", items[1].id: "not measured yet", items[2].id: "not measured yet"}
    assert {row["item_id"]: row["energy_reason"] for row in calls} == reasons
    assert database.sql("SELECT count(*) AS n FROM power_samples").rows() == [{"n": 3}]


def test_what_could_not_be_stored_is_stored_the_next_time(
    database: kerneldb.Database, planned: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        message = "the disk is full"
        raise WarehouseError(message)

    warehouse = database.warehouse
    with Writer(tmp_path / "journal") as writer:
        writer.run(RUN)
        writer.call(ran(planned.plan.items[0]))
        writer.power([Reading("gap", 1, energy_mj=2.0)])
        store = Store(warehouse, planned.plan, tmp_path / "journal", planned.routes)
        with monkeypatch.context() as patched:
            patched.setattr(type(warehouse), "store_replay", full)
            with pytest.raises(WarehouseError):
                store.advance()
        writer.call(ran(planned.plan.items[1]))
        store.advance()
    stored = database.sql("SELECT count(*) AS n FROM replay_calls").rows()
    assert (stored, database.sql("SELECT count(*) AS n FROM power_samples").rows()) == ([{"n": 2}], [{"n": 1}])


def test_results_in_another_state_of_the_cache_stay(
    database: kerneldb.Database, planned: Planned, tmp_path: Path
) -> None:
    item = planned.plan.items[0]
    store = Store(database.warehouse, planned.plan, tmp_path / "journal")
    with Writer(tmp_path / "journal") as writer:
        writer.run(RUN)
        for cache in ("cold", "warm"):
            writer.call(dataclasses.replace(ran(item), cache=cache))
            store.advance()
    caches = database.sql("SELECT cache FROM replay_calls ORDER BY cache").rows()
    assert caches == [{"cache": "cold"}, {"cache": "warm"}]


def test_a_plan_of_other_items_takes_nothing_away(
    database: kerneldb.Database, planned: Planned, tmp_path: Path
) -> None:
    with Writer(tmp_path / "journal") as writer:
        writer.run(RUN)
        writer.call(ran(planned.plan.items[0]))
    Store(database.warehouse, planned.plan, tmp_path / "journal").advance()
    others = dataclasses.replace(planned.plan, items=planned.plan.items[1:])
    Store(database.warehouse, others, tmp_path / "journal").advance()
    assert database.sql("SELECT item_id FROM replay_calls").rows() == [{"item_id": planned.plan.items[0].id}]


def test_a_line_that_is_still_being_written_is_left_for_later(
    database: kerneldb.Database, planned: Planned, tmp_path: Path
) -> None:
    path, item = tmp_path / "journal", planned.plan.items[0]
    with Writer(path) as writer:
        writer.run(RUN)
        writer.call(ran(item))
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    store = Store(database.warehouse, planned.plan, path)
    store.advance()
    assert database.sql("SELECT count(*) AS n FROM replay_calls").rows() == [{"n": 0}]
    path.write_bytes(whole)
    store.advance()
    assert database.sql("SELECT item_id FROM replay_calls").rows() == [{"item_id": item.id}]


def test_a_damaged_journal_is_refused_whole(database: kerneldb.Database, planned: Planned, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Writer(path) as writer:
        writer.run(RUN)
        writer.call(ran(planned.plan.items[0]))
        writer.call(ran(planned.plan.items[1]))
    path.write_text(path.read_text().replace('"L3"', '"L9"'))
    with pytest.raises(JournalError, match=r"line 2: call\.grade: expected \"L0\" or .*, found \"L9\"; copy the"):
        Store(database.warehouse, planned.plan, path).advance()
    assert database.sql("SELECT count(*) AS n FROM replay_runs").rows() == [{"n": 0}]


def test_a_journal_of_another_plan_is_refused(database: kerneldb.Database, planned: Planned, tmp_path: Path) -> None:
    with Writer(tmp_path / "journal") as writer:
        writer.run(RUN)
        writer.call(ran(planned.plan.items[0]))
        writer.call(ran(planned.plan.items[1]))
    plan.write(dataclasses.replace(planned.plan, items=planned.plan.items[1:]), tmp_path / "plan")
    with pytest.raises(UsageError, match=r"journal: 1 of its 2 calls are of another plan than .*plan; give the plan"):
        database.read_journal(tmp_path / "plan", tmp_path / "journal")
    assert database.sql("SELECT count(*) AS n FROM replay_runs").rows() == [{"n": 0}]


def test_a_plan_of_a_route_that_is_not_known_does_not_run(
    database: kerneldb.Database, planned: Planned, tmp_path: Path
) -> None:
    item = dataclasses.replace(planned.plan.items[0], route="toy")
    foreign = dataclasses.replace(planned, plan=plan.Plan((item,)))
    with pytest.raises(ReplayError, match=r"route 'toy', which is not known here: .* --import"):
        database.replay(foreign, Options(device="cpu"))
    assert not Files.beside(database.path).resumable


def test_resume_shows_the_code_that_it_would_run_before_it_runs(
    database: kerneldb.Database, planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"language": "triton", "name": "triton_poi_fused_0", "text": "def triton_poi_fused_0(): pass", "file": ""}
    launched = plan.OpCall("triton_poi_fused_0", "[[8]]", "[[1]]", '["float"]', extra='{"kernel_backend": "triton"}')
    item = dataclasses.replace(planned.plan.items[0], route="triton", spec=plan.CallSpec(launched))
    plan.write(plan.Plan((item,), sources={"x": source}), Files.beside(database.path).plan)

    def unusable(*_: Any, **__: Any) -> None:
        message = "no device"
        raise ReplayError(message)

    monkeypatch.setattr(host, "run", unusable)
    for allow, said in (("--allow-code", "--allow-code runs 1 source"), (None, "are not run without --allow-code")):
        command = ["--db", str(database.path), "replay", "--resume", *([allow] if allow else [])]
        lines = CliRunner().invoke(cli, command).stderr.splitlines()
        assert said in lines[0]
        assert ("triton_poi_fused_0  inductor" in lines[1]) == (allow is not None)
        assert lines[-1] == "Error: no device"
