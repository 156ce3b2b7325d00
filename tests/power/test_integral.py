"""Energy of windows from power samples, against integrals that are known."""

from __future__ import annotations

import itertools
import math
import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kerneldb import api
from kerneldb.warehouse import Warehouse
from tests.warehouse.conftest import Launch, Traces

Row = dict[str, Any]
MS = 10**6
BASE = 1_795_000_000 * 10**9
PERIOD = 100 * MS


def watts(t_ns: float) -> float:
    """A smooth power: 300 W ± 100 W over 2 s."""
    return 300 + 100 * math.sin(math.pi * t_ns / 1e9)


def joules(from_ns: float, to_ns: float) -> float:
    return 300 * (to_ns - from_ns) / 1e9 + 100 / math.pi * (
        math.cos(math.pi * from_ns / 1e9) - math.cos(math.pi * to_ns / 1e9)
    )


def insert(warehouse: Warehouse, table: str, rows: Iterable[Row]) -> None:
    """Add rows, all with the same columns."""
    import pyarrow as pa

    with warehouse.connection(read_only=False) as con:
        con.register("given", pa.Table.from_pylist(list(rows)))
        con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM given")


def sample(number: int, **more: Any) -> Row:
    """A sample of the log each 100 ms, from half a second before the trace on."""
    t_ns = (number - 5) * PERIOD
    common = {"trace_id": "t:log", "source": "log", "device": 0, "gpu": None, "epoch_ns": BASE + t_ns}
    return {**common, "power_w": watts(t_ns), "energy_mj": None, **more}


@pytest.fixture(scope="session")
def logged_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("logged")
    made = Warehouse.create_or_open(tmp_path / "kernels.duckdb")
    launches = (
        Launch("gemm", 0, 400 * MS, phase="prefill"),
        Launch("gemm", 400 * MS, 600 * MS, phase="prefill"),
        Launch("add", 1000 * MS, 10 * MS, phase="decode"),
        Launch("gemm", 9_000 * MS, 1_000 * MS, phase="decode"),
    )
    window = {"clock": "epoch", "base_ns": BASE, "window_start_ns": 0, "window_end_ns": 10_000 * MS}
    made.commit(Traces(tmp_path)("model", launches, **window))
    insert(
        made,
        "traces",
        [{"trace_id": "t:log", "name": "log", "kind": "power", "source": "nvidia-smi", "clock": "epoch"}],
    )
    made.set_run("log", None)
    insert(made, "power_samples", [sample(number) for number in range(120)])
    return made.path


@pytest.fixture
def warehouse(logged_file: Path, tmp_path: Path) -> Warehouse:
    """A trace of ten seconds, two phases, and its log."""
    return Warehouse(shutil.copy(logged_file, tmp_path), lock_timeout=0.5)


def rows(warehouse: Warehouse, sql: str, **options: Any) -> list[Row]:
    return list(warehouse.query(sql, **options).to_pylist())


def window(warehouse: Warehouse, start: int, end: int) -> Row:
    """The energy from `start` to `end`, by a range of the trace."""
    row = {"trace_id": "t:model", "range_id": 1, "kind": "user_annotation", "name": "w", "start_ns": start}
    insert(warehouse, "ranges", [{**row, "duration_ns": end - start}])
    (found,) = rows(warehouse, f"FROM window_power() WHERE kind = 'range' AND start_ns = {start} AND end_ns = {end}")
    return found


def test_trace_phases_and_ranges_have_their_energy(warehouse: Warehouse) -> None:
    found = {(row["kind"], row["name"]): row for row in rows(warehouse, "FROM window_power()")}
    for key, (start, end) in {
        ("trace", "model"): (0, 10_000 * MS),
        ("phase", "prefill"): (0, 1000 * MS),
        ("phase", "decode"): (1000 * MS, 10_000 * MS),
    }.items():
        row = found[key]
        assert (row["start_ns"], row["end_ns"], row["log"], row["reason"]) == (start, end, "log", None)
        assert row["energy_mj"] == pytest.approx(1000 * joules(start, end), rel=2e-3)
        assert row["mean_power_w"] == pytest.approx(row["energy_mj"] * 1e6 / (end - start))
        assert (row["coverage_pct"], row["method"], row["period_ns"]) == (100, "power", PERIOD)


def test_interval_holds_the_truth_for_jumps(warehouse: Warehouse) -> None:
    """Jumps that are farther apart than the readings: closer ones cannot be seen."""
    generator = random.Random(4)
    jumps = [(number * 300 + generator.uniform(0, 150)) * MS for number in range(36)]
    levels = [generator.uniform(100, 700) for _ in range(37)]

    def power(t_ns: float) -> float:
        return levels[sum(jump <= t_ns for jump in jumps)]

    def truth(start: int, end: int) -> float:
        edges = [start, *(jump for jump in jumps if start < jump < end), end]
        return sum(power((a + b) / 2) * (b - a) / 1e6 for a, b in itertools.pairwise(edges))

    warehouse.query("DELETE FROM power_samples", write=True)
    insert(warehouse, "power_samples", [sample(n, power_w=power((n - 5) * PERIOD) + n % 2 * 1e-6) for n in range(120)])
    spans = [(start, start + generator.randrange(150, 900) * MS) for start in range(100 * MS, 9_000 * MS, 37 * MS)]
    common = {"trace_id": "t:model", "kind": "user_annotation", "name": "w"}
    ranges = ({**common, "range_id": n, "start_ns": a, "duration_ns": b - a} for n, (a, b) in enumerate(spans))
    insert(warehouse, "ranges", ranges)
    found = rows(warehouse, "FROM window_power() WHERE kind = 'range'")
    assert len(found) == len(spans)
    held = [abs(row["energy_mj"] - truth(row["start_ns"], row["end_ns"])) <= row["error_mj"] + 1e-6 for row in found]
    assert sum(held) / len(held) >= 0.9


def test_constant_power_is_exact_at_any_ends(warehouse: Warehouse) -> None:
    warehouse.query("UPDATE power_samples SET power_w = 250", write=True)
    row = window(warehouse, 123_456_789, 987_654_321)
    assert row["energy_mj"] == pytest.approx(250e-6 * (987_654_321 - 123_456_789), rel=1e-12)
    assert (row["error_mj"], row["readings"]) == (0, 8)


def test_counter_is_exact_between_its_steps(warehouse: Warehouse) -> None:
    # Read every 20 ms, the counter steps each 100 ms by what was used since its last step.
    counted = [
        sample(0, epoch_ns=BASE + n * 20 * MS, energy_mj=1000 * joules(0, n // 5 * PERIOD), power_w=1.0)
        for n in range(-50, 600)
    ]
    warehouse.query("DELETE FROM power_samples", write=True)
    insert(warehouse, "power_samples", counted)
    row = window(warehouse, 300 * MS, 2300 * MS)
    assert (row["method"], row["period_ns"]) == ("energy counter", PERIOD)
    assert row["energy_mj"] == pytest.approx(1000 * joules(300 * MS, 2300 * MS), rel=1e-6)
    between = window(warehouse, 350 * MS, 2341 * MS)
    assert abs(between["energy_mj"] - 1000 * joules(350 * MS, 2341 * MS)) <= between["error_mj"]
    assert 0 < between["error_mj"] < 0.02 * between["energy_mj"]


def test_counter_that_starts_anew_leaves_a_hole(warehouse: Warehouse) -> None:
    warehouse.query("DELETE FROM power_samples", write=True)
    counted = [sample(n, energy_mj=30_000.0 * (n if n < 60 else n - 60)) for n in range(120)]
    insert(warehouse, "power_samples", counted)
    row = window(warehouse, 5_000 * MS, 6_000 * MS)
    assert row["coverage_pct"] == pytest.approx(90)
    assert row["energy_mj"] == pytest.approx(9 * 30_000)


def test_short_windows_have_a_reason_and_no_energy(warehouse: Warehouse) -> None:
    found = rows(warehouse, "FROM window_power('selection')", where="category = 'ELEMENTWISE'")
    assert [(row["kind"], row["energy_mj"], row["error_mj"]) for row in found] == [("kernel", None, None)]
    assert found[0]["reason"] == "a window of 10.000 ms is shorter than the 100.0 ms between readings"


def test_long_kernels_are_windows_too(warehouse: Warehouse) -> None:
    found = rows(warehouse, "FROM window_power('selection')", where="duration_ns = 600000000")
    assert found[0]["energy_mj"] == pytest.approx(1000 * joules(400 * MS, 1000 * MS), rel=2e-3)


def test_a_meter_asked_faster_than_it_moves_resolves_no_more(warehouse: Warehouse) -> None:
    warehouse.query("DELETE FROM power_samples", write=True)
    quick = [sample(0, epoch_ns=BASE + n * 10 * MS, power_w=watts(n // 10 * PERIOD)) for n in range(1000)]
    insert(warehouse, "power_samples", quick)
    (series,) = rows(warehouse, "FROM _power_series")
    assert (series["sample_step_ns"], series["period_ns"]) == (10 * MS, PERIOD)
    assert window(warehouse, 0, 50 * MS)["energy_mj"] is None


def test_holes_are_left_out_and_told(warehouse: Warehouse) -> None:
    warehouse.query(
        f"DELETE FROM power_samples WHERE epoch_ns BETWEEN {BASE + 3_001 * MS} AND {BASE + 4_999 * MS}", write=True
    )
    row = window(warehouse, 2_000 * MS, 6_000 * MS)
    assert row["coverage_pct"] == pytest.approx(50)
    assert row["energy_mj"] == pytest.approx(1000 * (joules(2e9, 3e9) + joules(5e9, 6e9)), rel=1e-2)
    assert row["reason"] == "readings cover 50.0 % of the window, and the energy is that of this part"


def test_window_before_all_readings(warehouse: Warehouse) -> None:
    warehouse.query(f"DELETE FROM power_samples WHERE epoch_ns < {BASE + 2000 * MS}", write=True)
    row = window(warehouse, 100 * MS, 1_100 * MS)
    assert (row["energy_mj"], row["reason"]) == (None, "no readings during the window")
    partly = window(warehouse, 1_500 * MS, 2_500 * MS)
    assert partly["energy_mj"] == pytest.approx(1000 * joules(2e9, 2.5e9), rel=1e-2)


def logs(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    found = rows(warehouse, "FROM power_logs WHERE trace = 'model' ORDER BY log, log_device")
    return [(row["log"], row["log_device"], row["matched_by"], row["reason"]) for row in found]


def test_log_and_trace_by_number(warehouse: Warehouse) -> None:
    insert(warehouse, "power_samples", [sample(number, device=1) for number in range(120)])
    assert logs(warehouse) == [("log", 0, "device number", None)]


def test_log_and_trace_by_uuid(warehouse: Warehouse) -> None:
    warehouse.query("DELETE FROM power_samples", write=True)
    for device, uuid in ((3, "GPU-b"), (0, "GPU-c")):
        insert(warehouse, "power_samples", [sample(number, device=device, gpu=uuid) for number in range(120)])
    warehouse.query("""UPDATE devices SET properties = '{"uuid": "gpu-B"}' WHERE trace_id = 't:model'""", write=True)
    assert logs(warehouse) == [("log", 3, "uuid", None)]


def test_only_gpu_of_each(warehouse: Warehouse) -> None:
    warehouse.query("UPDATE power_samples SET device = 5", write=True)
    assert logs(warehouse) == [("log", 5, "only GPU", None)]


def test_another_model_of_gpu_is_another_gpu(warehouse: Warehouse) -> None:
    insert(warehouse, "devices", [{"trace_id": "t:log", "device": 0, "name": "NVIDIA T4"}])
    assert logs(warehouse) == [(None, None, None, "no power samples of its time and GPU")]


def test_runs_that_are_both_stated_stay_apart(warehouse: Warehouse) -> None:
    assert rows(warehouse, "SELECT run FROM _power_series") == [{"run": "log"}]
    assert logs(warehouse) == [("log", 0, "device number", None)]
    warehouse.set_run("model", "a")
    assert logs(warehouse) == [("log", 0, "device number", None)]
    warehouse.set_run("log", "b")
    assert logs(warehouse)[0][0] is None
    warehouse.set_run("log", "a")
    assert logs(warehouse) == [("log", 0, "device number", None)]


def test_clock_that_is_no_wall_clock(warehouse: Warehouse) -> None:
    warehouse.query("UPDATE traces SET clock = 'boottime' WHERE name = 'model'", write=True)
    reason = "its clock (boottime) is not the wall clock, so no log can be aligned"
    assert logs(warehouse) == [(None, None, None, reason)]
    found = rows(warehouse, "FROM window_power()")
    assert {(row["energy_mj"], row["reason"]) for row in found} == {(None, reason)}


def test_samples_of_the_trace_itself_need_no_wall_clock(warehouse: Warehouse) -> None:
    warehouse.query("UPDATE traces SET clock = 'boottime' WHERE name = 'model'", write=True)
    own = [
        {"trace_id": "t:model", "source": "trace", "device": 0, "ts_ns": n * PERIOD, "power_w": 200.0}
        for n in range(101)
    ]
    insert(warehouse, "power_samples", own)
    (row,) = rows(warehouse, "FROM window_power() WHERE kind = 'trace'")
    assert (row["matched_by"], row["energy_mj"]) == ("own", pytest.approx(200 * 10 * 1000))


@pytest.mark.thorough
def test_many_samples_and_windows_stay_cheap(warehouse: Warehouse) -> None:
    warehouse.query("DELETE FROM power_samples", write=True)
    sql = f"""
        INSERT INTO power_samples BY NAME
        SELECT
            't:log' AS trace_id, 'log' AS source, 0 AS device, {BASE} + range * 100000 AS epoch_ns,
            200 + range % 50 AS power_w
        FROM range(100000)
    """
    warehouse.query(sql, write=True)
    sql = """
        INSERT INTO ranges BY NAME
        SELECT 't:model' AS trace_id, range AS range_id, 'user_annotation' AS kind, 'w' AS name,
            range * 900000 AS start_ns,
            50000000 AS duration_ns
        FROM range(10000)
    """
    warehouse.query(sql, write=True)
    sql = "SELECT count(*) AS n, count(energy_mj) AS known FROM window_power() WHERE kind = 'range'"
    found = list(warehouse.query(sql, timeout=120.0).to_pylist())
    assert found == [{"n": 10_000, "known": 10_000}]


def test_ingested_log_meets_its_trace(tmp_path: Path, warehouse: Warehouse) -> None:
    warehouse.query("DELETE FROM power_samples", write=True)
    log = tmp_path / "power.csv"
    # BASE is 2026-11-18 11:06:40 UTC.
    rows_ = (f"2026/11/18 12:06:{40 + second}.000, 0, 200.00 W\n" for second in range(12))
    log.write_text("timestamp, index, power.draw [W]\n" + "".join(rows_))
    database = api.open(warehouse.path)
    database.ingest(log, time_zone="Europe/Berlin")
    (row,) = database.sql("FROM window_power() WHERE kind = 'trace'").rows()
    assert (row["log"], row["energy_mj"]) == ("power", pytest.approx(2000 * 1000))


@pytest.mark.thorough
def test_views_read_only_the_launches_of_their_trace(warehouse: Warehouse) -> None:
    from tests.warehouse.test_views import rows_read

    sql = """
        INSERT INTO launches BY NAME
        SELECT 't:other' AS trace_id, range AS launch_index, 'kernel' AS kind, 'timeline' AS timing,
            's' AS signature_id,
            'no_op' AS launch_status, range AS start_ns, range + 1 AS end_ns
        FROM range(300000)
    """
    warehouse.query(sql, write=True)
    (plan,) = rows(warehouse, "EXPLAIN (ANALYZE, FORMAT json) FROM window_power() WHERE trace = 'model'")
    read = rows_read(plan["explain_value"], "launches")
    assert read
    assert max(read) < 200_000
