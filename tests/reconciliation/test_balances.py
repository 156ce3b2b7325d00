"""The numbers of reconciliation against sums made by hand (see conftest: a step of 1000 ns with four launches)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from kerneldb.reconciliation import Reconciled
from kerneldb.schemas.loader import statement
from kerneldb.selection import Selection
from kerneldb.warehouse import Warehouse, reconciliation
from tests.reconciliation.conftest import GPU, insert, measurement, replay, settle

Row = dict[str, Any]
Unchanged = tuple[Row, dict[tuple[str, str], Row]]

SUM_NS, UNION_NS = 510.0, 460.0
"""Per step: 200 + 100 + 200 + 10; the addition runs 50 ns beside the first product."""
KERNELS_NS = 2 * 210.0 + 90.0
SHARE = 1 - UNION_NS / SUM_NS
REST_NS = 10.0 * UNION_NS / SUM_NS
GAPS_NS = 3 * 8.0
"""The addition begins beside a product: three of four launches have a gap before them."""
PREDICTED_NS = KERNELS_NS * (1 - SHARE) + REST_NS + GAPS_NS
REST_MJ = 0.05 / KERNELS_NS * 10
GPU_BOUND = "UPDATE measurements SET value = 900 WHERE quantity = 'busy_ns'"


def rows(warehouse: Warehouse, sql: str) -> list[Row]:
    return list(warehouse.query(sql).to_pylist())


def balance(warehouse: Warehouse, where: str = "mode = 'eager'") -> Row:
    (row,) = rows(warehouse, f"FROM reconciliation WHERE {where}")
    return row


def components(warehouse: Warehouse, where: str = "mode = 'eager'") -> dict[tuple[str, str], Row]:
    found = rows(warehouse, f"FROM reconciliation_components WHERE {where}")
    named = {(one["section"], one["component"]): one for one in found}
    assert len(named) == len(found)
    return named


@pytest.fixture(scope="module")
def unchanged(closed_file: Path) -> Unchanged:
    """The balance and the components of the workload as measured: asked once for all tests that only look at them."""
    warehouse = Warehouse(closed_file)
    return balance(warehouse), components(warehouse)


def test_time_components(unchanged: Unchanged) -> None:
    row, _ = unchanged
    assert (row["iterations"], row["n"], row["signatures"]) == (2, 4.0, 3)
    assert row["kernels_ns"] == KERNELS_NS
    assert row["kernels_half_ns"] == pytest.approx(math.hypot(2 * 5, 3))
    assert row["overlap_ns"] == pytest.approx(KERNELS_NS * SHARE)
    assert (row["gap_launches"], row["gaps_ns"], row["idle_ns"]) == (3.0, GAPS_NS, None)
    assert row["rest_ns"] == pytest.approx(REST_NS)
    assert row["predicted_ns"] == pytest.approx(PREDICTED_NS)
    assert row["predicted_replayed_ns"] == pytest.approx(PREDICTED_NS - REST_NS)
    assert (row["wall_ns"], row["wall_low_ns"], row["busy_share_pct"]) == (1000.0, 990.0, 45.0)
    assert row["kernels_error_pct"] == pytest.approx(100 * (KERNELS_NS / 500 - 1))
    assert (row["replayed_launches_pct"], row["replayed_time_pct"]) == (75.0, pytest.approx(100 * 500 / 510))


@pytest.mark.again
def test_host_bound_time_is_observed_not_predicted(unchanged: Unchanged) -> None:
    row, found = unchanged
    assert (row["status"], row["error_pct"]) == ("host bound", None)
    assert row["waiting_ns"] == pytest.approx(1000 - PREDICTED_NS)
    assert found["time", "waiting for the host"]["status"] == "observed"
    assert found["time", "predicted, GPU bound"]["status"] == "lower bound"
    assert (found["time", "error"]["status"], found["time", "error"]["low"]) == ("withheld", None)
    assert "waits for the host" in found["time", "error"]["note"]
    assert found["energy", "error"]["status"] == "withheld"
    addends = [one["value"] for (part, _), one in found.items() if part == "time" and one["role"].startswith("addend")]
    assert math.fsum(value for value in addends if value is not None) == pytest.approx(1000, rel=1e-12)


@pytest.mark.again
def test_gpu_bound_error(closed: Warehouse) -> None:
    closed.query(GPU_BOUND, write=True)
    row, found = balance(closed), components(closed)
    assert (row["status"], row["waiting_ns"]) == ("GPU bound", None)
    assert row["error_pct"] == pytest.approx(100 * (PREDICTED_NS / 1000 - 1))
    assert row["replayed_error_pct"] == pytest.approx(100 * ((PREDICTED_NS - REST_NS) / 1000 - 1))
    assert found["time", "error"]["status"] == "valid"
    assert found["time", "error"]["low"] < row["error_pct"] < found["time", "error"]["high"]
    assert found["time", "waiting for the host"]["status"] == "left out"
    assert ("dynamic energy", "measured, waiting at context power") not in found
    gap = 1e-6 * 100 * PREDICTED_NS
    assert (row["gap_mj"], row["waiting_mj"]) == (pytest.approx(gap), 0)
    assert row["energy_error_pct"] == pytest.approx(100 * ((0.05 + REST_MJ + gap) / 0.14 - 1))


def test_energy_components(unchanged: Unchanged) -> None:
    row, _ = unchanged
    above, gap, wait = 0.05, 1e-6 * 100 * PREDICTED_NS, 1e-6 * 60 * (1000 - PREDICTED_NS)
    assert row["dynamic_mj"] == pytest.approx(above)
    assert row["dynamic_half_mj"] == pytest.approx(math.hypot(0.004, 0.001))
    assert (row["gap_mj"], row["waiting_mj"]) == (pytest.approx(gap), pytest.approx(wait))
    assert row["unpowered_mj"] == pytest.approx(REST_MJ)
    assert row["predicted_mj"] == pytest.approx(above + gap + wait + REST_MJ)
    assert row["predicted_replayed_mj"] == pytest.approx(above + gap + wait)
    half = math.hypot(math.hypot(0.004, 0.001), 1e-6 * 2 * PREDICTED_NS)
    assert row["predicted_high_mj"] - row["predicted_mj"] == pytest.approx(half)


def test_energy_dynamic(unchanged: Unchanged) -> None:
    row, _ = unchanged
    measured = 0.14 - 1e-6 * 100 * 1000
    assert row["dynamic_measured_mj"] == pytest.approx(measured)
    assert row["dynamic_measured_half_mj"] == pytest.approx(math.hypot(0.01, 0.002))
    assert row["dynamic_error_pct"] == pytest.approx(100 * ((0.05 + REST_MJ) / measured - 1))
    waiting = 0.14 - row["gap_mj"] - row["waiting_mj"]
    assert row["above_waiting_measured_mj"] == pytest.approx(waiting)
    assert row["above_waiting_error_pct"] == pytest.approx(100 * ((0.05 + REST_MJ) / waiting - 1))


@pytest.mark.again
def test_drift_is_an_error_of_all_energies(closed: Warehouse) -> None:
    closed.query("UPDATE replay_runs SET energy_drift = 0.1", write=True)
    assert balance(closed)["dynamic_half_mj"] == pytest.approx(math.hypot(0.004, 0.001, 1.96 * 0.1 * 0.05))


@pytest.mark.again
def test_little_known_energy_gives_no_error(closed: Warehouse) -> None:
    closed.query("UPDATE replays SET dynamic_mj = NULL WHERE signature_id LIKE 's:gemm%'", write=True)
    row, found = balance(closed), components(closed)
    assert row["powered_time_pct"] == pytest.approx(100 * 90 / 520)
    assert (row["dynamic_error_pct"], row["energy_error_pct"]) == (None, None)
    assert row["dynamic_reason"] == "the energy of only 17.3 % of the kernel time is known"
    assert found["energy", "predicted"]["status"] == "estimate"
    assert (found["energy", "predicted"]["low"], found["energy", "dynamic energy, unreplayed"]["status"]) == (
        None,
        "estimate",
    )


def test_clocks(closed: Warehouse) -> None:
    insert(closed, "measurements", [measurement("sm_mhz", 1800.0)])
    calls = (("s:gemm:1:aten::mm", 2000, 1500.0), ("s:add:1:aten::add", 1600, 1800.0))
    insert(
        closed,
        "replay_calls",
        (
            {
                "run_id": "run1", "item_id": item, "op": "x", "route": "aten", "grade": "L0", "clock_mhz": clock,
                "energy_sm_mhz": energy,
            }
            for item, clock, energy in calls
        ),
    )  # fmt: skip
    settle(closed)
    found = components(closed)
    clock = (420 * 2000 + 90 * 1600) / 510
    assert found["time", "clock, model"]["value"] == 1800
    assert found["time", "clock, replay"]["value"] == pytest.approx(clock)
    assert found["time", "clock, replay"]["note"] == "+7.2 % of that of the model: not corrected"
    assert found["energy", "clock, replay"]["value"] == pytest.approx((400 * 1500 + 100 * 1800) / 500)
    assert found["time", "kernels"]["value"] == KERNELS_NS


@pytest.mark.again
def test_kernels_that_the_power_cap_slows_down_are_taken_at_the_clock_of_the_model(closed: Warehouse) -> None:
    """The products: at 1400 MHz half as long again and a fifth cheaper than at 2000; the model ran at 1600."""
    insert(closed, "measurements", [measurement("sm_mhz", 1600.0)])
    told = {
        "run_id": "run1",
        "item_id": "s:gemm:1:aten::mm",
        "op": "x",
        "route": "aten",
        "grade": "L0",
        "clock_mhz": 2000.0,
    }
    capped = {"capped_mhz": 1400.0, "capped_stretch": 1.5, "capped_dynamic_mj": 0.016}
    settle(closed, "replay_calls", [{**told, "energy_sm_mhz": 2000.0, "dynamic_mj": 0.02, **capped}])
    row = balance(closed)
    longer = 420 * 0.5 * (1 / 1600 - 1 / 2000) / (1 / 1400 - 1 / 2000)
    cheaper = 0.04 * -0.2 * (2000 - 1600) / (2000 - 1400)
    assert (row["clock_ns"], row["clock_mj"]) == (pytest.approx(longer), pytest.approx(cheaper))
    assert row["kernels_ns"] == KERNELS_NS
    assert row["predicted_busy_ns"] == pytest.approx((KERNELS_NS + longer) * (1 - SHARE) + REST_NS)
    assert row["dynamic_all_mj"] == pytest.approx((0.05 + cheaper) * (1 + 10 / KERNELS_NS))
    note = "+25.0 % of that of the model: see lower clock"
    found_terms = components(closed)
    assert [found_terms[part, "clock, replay"]["note"] for part in ("time", "energy")] == [note, note]
    found = rows(closed, "FROM reconciliation_kernels WHERE mode = 'eager' AND kernel LIKE '%add%'")
    assert [(one["clock_ns"], one["clock_mj"]) for one in found] == [(0, 0)]
    closed.query("UPDATE measurements SET value = 1200 WHERE quantity = 'sm_mhz'", write=True)
    assert balance(closed)["clock_ns"] == pytest.approx(420 * 0.5)


@pytest.mark.again
@pytest.mark.parametrize("section", ["time", "energy"])
def test_terms_add_up_exactly(unchanged: Unchanged, section: str) -> None:
    found = [row for (part, _), row in unchanged[1].items() if part == section]
    values = {row["component"].removesuffix(", GPU bound"): row["value"] for row in found}
    addends = [row["value"] for row in found if row["role"] == "addend" and row["value"] is not None]
    rest = [row["value"] for row in found if row["role"] == "addend, not replayed"]
    assert len(addends) >= 3
    assert math.fsum(addends) == pytest.approx(values["predicted, replayed only"], rel=1e-12)
    assert math.fsum(addends + rest) == pytest.approx(values["predicted"], rel=1e-12)
    assert all(row["low"] <= row["value"] <= row["high"] for row in found if row["low"] is not None)


@pytest.mark.again
def test_components_repeat_the_balance(unchanged: Unchanged) -> None:
    row, found = unchanged
    assert found["time", "predicted, GPU bound"]["value"] == row["predicted_ns"]
    assert found["time", "launch gaps"]["source"] == "replay run run1 (trace: 0 gaps with a full queue)"
    assert (found["time", "idle"]["value"], found["time", "idle"]["status"]) == (None, "left out")
    assert found["energy", "measured"]["low"] == 0.13
    assert found["dynamic energy", "error"]["value"] == row["dynamic_error_pct"]
    assert {one["status"] for one in found.values() if one["value"] is None} <= {"left out", "withheld", "unknown"}


def test_kernels_have_tier_route_and_reason(closed: Warehouse) -> None:
    found = {row["kernel"]: row for row in rows(closed, "FROM reconciliation_kernels WHERE mode = 'eager'")}
    gemm, add, fill = found["gemm"], found["add"], found["Memset"]
    assert (gemm["tier"], add["tier"], fill["tier"]) == (2, 3, 1)
    assert (gemm["n"], gemm["recorded_ns"], gemm["replayed_ns"], gemm["ratio"]) == (2.0, 400.0, 420.0, 1.05)
    assert gemm["dynamic_mj"] == 0.04
    assert (fill["replayed_ns"], fill["reason"]) == (None, "L4: no device")
    assert add["grade"] == "L0"


@pytest.mark.again
def test_graph_mode_takes_what_kernels_are_from_the_eager_trace(closed: Warehouse) -> None:
    closed.query("UPDATE launches SET end_ns = end_ns - 100, duration_ns = 190 WHERE trace_id = 't:graph'", write=True)
    closed.query("UPDATE signatures SET grid_x = 1 WHERE signature_id = 's:gemm:9:'", write=True)
    figures = (("wall_ns", 520.0), ("launches", 2.0))
    settle(closed, "measurements", [measurement(*one, mode="cuda_graph", trace_id="t:graph") for one in figures])
    row = balance(closed, "mode = 'cuda_graph'")
    assert (row["trace"], row["kernels_trace"], row["n"], row["iterations"]) == ("graph", "eager", 2.0, 2)
    assert (row["kernels_ns"], row["recorded_ns"]) == (2 * 210, 2 * 190)
    assert row["energy_error_reason"] == "the energy was not measured"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("SELECT 1", "the trace without graphs has no such launch"),
        (
            "UPDATE launches SET end_ns = end_ns + 600, duration_ns = 890 WHERE trace_id = 't:graph'",
            "takes 4.45 times as long as without a graph: other work",
        ),
    ],
)
def test_other_kernels_of_a_graph_keep_their_recorded_time(closed: Warehouse, change: str, reason: str) -> None:
    if change != "SELECT 1":
        closed.query("UPDATE signatures SET grid_x = 1 WHERE signature_id = 's:gemm:9:'", write=True)
        closed.query(change, write=True)
    settle(closed, "measurements", [measurement("wall_ns", 520.0, mode="cuda_graph", trace_id="t:graph")])
    (row,) = rows(closed, "FROM reconciliation_kernels WHERE mode = 'cuda_graph'")
    assert (row["signature_id"], row["replayed_ns"]) == ("s:gemm:9:", None)
    assert row["reason"] == f"under CUDA graphs: {reason}"


@pytest.mark.thorough
def test_alike_launches_are_told_by_their_order(closed: Warehouse) -> None:
    copied = """
        INSERT INTO signatures
        SELECT * REPLACE ('s:other' AS signature_id) FROM signatures WHERE signature_id = 's:gemm:1:aten::mm'
    """
    closed.query(copied, write=True)
    closed.query(
        "UPDATE launches SET signature_id = 's:other' WHERE trace_id = 't:eager' AND start_ns % 1000 = 360", write=True
    )
    closed.query("UPDATE signatures SET grid_x = 1 WHERE signature_id = 's:gemm:9:'", write=True)
    closed.query("UPDATE launches SET end_ns = end_ns - 100, duration_ns = 190 WHERE trace_id = 't:graph'", write=True)
    steps = [
        {
            "trace_id": "t:graph",
            "range_id": n,
            "kind": "user_annotation",
            "name": f"ProfilerStep#{n}",
            "start_ns": 600 * n,
            "duration_ns": 600,
        }
        for n in range(2)
    ]
    insert(closed, "ranges", steps)
    settle(closed, "measurements", [measurement("wall_ns", 520.0, mode="cuda_graph", trace_id="t:graph")])
    found = rows(closed, "FROM reconciliation_kernels WHERE mode = 'cuda_graph'")
    assert {row["signature_id"]: row["n"] for row in found} == {"s:gemm:1:aten::mm": 1.0, "s:other": 1.0}


@pytest.mark.again
@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"measured_at": "2026-11-21 10:03:30"}, "other"),
        ({"measured_at": "2026-11-21 10:03:30", "uuid": "GPU-2"}, "eager"),
    ],
    ids=["nearer", "other board"],
)
def test_of_recordings_with_one_name_the_eager_trace_is_that_of_the_same(
    closed: Warehouse, other: Row, told: str
) -> None:
    closed.query("UPDATE measurements SET measured_at = '2026-11-21 10:00:00', uuid = 'GPU-1'", write=True)
    for table in ("traces", "launches", "rollups", "devices"):
        naming = ", 'other' AS name" if table == "traces" else ""
        closed.query(
            f"INSERT INTO {table} SELECT * REPLACE ('t:a' AS trace_id{naming}) FROM {table} WHERE trace_id = 't:eager'",
            write=True,
        )
    insert(closed, "measurements", [measurement("wall_ns", 999.0, trace_id="t:a", **{"uuid": "GPU-1", **other})])
    graph = {"mode": "cuda_graph", "trace_id": "t:graph", "uuid": "GPU-1", "measured_at": "2026-11-21 10:04:00"}
    settle(closed, "measurements", [measurement("wall_ns", 520.0, **graph)])
    assert balance(closed, "mode = 'cuda_graph'")["kernels_trace"] == told


@pytest.mark.again
def test_graph_mode_without_eager_trace_keeps_its_own(closed: Warehouse) -> None:
    closed.query("DELETE FROM measurements", write=True)
    settle(closed, "measurements", [measurement("wall_ns", 1200.0, mode="cuda_graph", trace_id="t:graph")])
    row = balance(closed, "true")
    assert (row["kernels_trace"], row["n"], row["replayed_launches_pct"]) == ("graph", 4.0, 0.0)
    assert row["error_reason"] == "no kernel of this workload was replayed on this GPU"
    assert row["predicted_ns"] == pytest.approx(4 * 290 + 4 * 8)


QUEUED = """
    INSERT INTO launches BY NAME
    SELECT l.* REPLACE (
        100 + range AS launch_index, 5000 + 100 * range AS start_ns,
        5090 + 100 * range - 20 * (range % 4 = 0)::INTEGER AS end_ns,
        0 AS launch_start_ns, 0 AS launch_duration_ns, 'graph' AS launch_status
    )
    FROM launches AS l, range(80)
    WHERE l.trace_id = 't:graph' AND l.launch_index = 0
"""


@pytest.mark.again
def test_gaps_of_a_full_queue_and_longer_waits_of_a_graph(closed: Warehouse) -> None:
    """Of 80 launches queued at time 0, all but the first wait: 59 for 10 ns, 20 for 30 ns (behind each fourth)."""
    closed.query(QUEUED, write=True)
    closed.query("DELETE FROM launches WHERE trace_id = 't:graph' AND launch_index < 100", write=True)
    settle(closed, "measurements", [measurement("wall_ns", 8000.0, mode="cuda_graph", trace_id="t:graph")])
    row = balance(closed, "mode = 'cuda_graph'")
    assert (row["gap_ns"], row["gap_source"]) == (10.0, "median of 79 gaps with a full queue, trace graph")
    assert (row["gaps_ns"], row["idle_ns"]) == (80 * 10, 59 * 10 + 20 * 30 - 80 * 10)


AGAIN = """
    INSERT INTO launches BY NAME
    SELECT * REPLACE (
        launch_index + 100 AS launch_index, 1000000 AS launch_start_ns,
        start_ns + 1000000 + 50000 * (launch_index >= 140)::INTEGER AS start_ns,
        end_ns + 1000000 + 50000 * (launch_index >= 140)::INTEGER AS end_ns
    )
    FROM launches WHERE trace_id = 't:graph' AND launch_index >= 100
"""


@pytest.mark.thorough
def test_a_graph_that_was_held_up_once_does_not_wait(closed: Warehouse) -> None:
    """The same launches in a second step, where the 41st comes 50 µs late, and with it all behind it."""
    closed.query(QUEUED, write=True)
    closed.query("DELETE FROM launches WHERE trace_id = 't:graph' AND launch_index < 100", write=True)
    closed.query(AGAIN, write=True)
    steps = [{"name": f"ProfilerStep#{number}", "start_ns": 1_000_000 * number} for number in range(2)]
    common = {"trace_id": "t:graph", "kind": "user_annotation", "duration_ns": 1_000_000}
    insert(closed, "ranges", [{**common, "range_id": 900 + place, **step} for place, step in enumerate(steps)])
    settle(closed, "measurements", [measurement("wall_ns", 8000.0, mode="cuda_graph", trace_id="t:graph")])
    row = balance(closed, "mode = 'cuda_graph'")
    assert (row["iterations"], row["gap_ns"], row["gaps_ns"]) == (2, 10.0, 80 * 10)
    assert row["idle_ns"] == 59 * 10 + 20 * 30 - 80 * 10  # as in the first step: neither the wait nor its launch counts


@pytest.mark.again
def test_launches_per_iteration_tell_how_many_there_are(closed: Warehouse) -> None:
    closed.query("DELETE FROM ranges", write=True)
    settle(closed, "measurements", [measurement("launches", 3.0)])
    row = balance(closed)
    assert (row["iterations"], row["n"]) == (3, 3.0)


@pytest.mark.again
def test_ranges_called_as_the_workload_mark_iterations(closed: Warehouse) -> None:
    closed.query("UPDATE ranges SET name = 'decode'", write=True)
    assert balance(closed)["predicted_ns"] == pytest.approx(PREDICTED_NS)


@pytest.mark.again
def test_latest_good_replay_counts(closed: Warehouse) -> None:
    later = {"run_id": "run2", "started": "2026-11-22 10:00:00", "gpu": GPU}
    insert(closed, "replay_runs", [later])
    insert(closed, "replays", [replay("s:gemm:1:aten::mm", 220.0, 4.0, run_id="run2")])
    settle(closed, "replays", [replay("s:add:1:aten::add", None, run_id="run2", reason="out of memory")])
    row = balance(closed)
    assert row["kernels_ns"] == 2 * 220 + 90
    assert row["dynamic_mj"] == pytest.approx(0.05), "the energy stays that of the run which measured it"


@pytest.mark.again
def test_calls_of_one_signature_weigh_by_their_launches(closed: Warehouse) -> None:
    settle(closed, "replays", [replay("s:gemm:1:aten::mm", 250.0, 5.0, launches=3, item_id="other call")])
    assert balance(closed)["kernels_ns"] == 2 * (210 + 3 * 250) / 4 + 90


@pytest.mark.again
def test_replays_of_another_gpu_do_not_count(closed: Warehouse) -> None:
    closed.query("UPDATE replay_runs SET gpu = 'GPU of somebody else'", write=True)
    row = balance(closed)
    assert (row["kernels_ns"], row["replayed_launches_pct"]) == (0.0, 0.0)
    found = rows(closed, "FROM reconciliation_kernels WHERE kernel = 'gemm'")
    assert found[0]["reason"] == "replayed on another GPU only: GPU of somebody else"


@pytest.mark.again
@pytest.mark.parametrize(
    ("change", "component", "note"),
    [
        pytest.param(
            "UPDATE replay_runs SET launch_loop_power_w = NULL",
            ("energy", "gap"),
            "launch-loop power was not measured",
            marks=pytest.mark.thorough,
        ),
        (
            "UPDATE replays SET dynamic_mj = NULL",
            ("energy", "predicted"),
            "no kernel of this workload has a measured energy",
        ),
        pytest.param(
            "DELETE FROM measurements WHERE quantity = 'energy_mj'",
            ("energy", "measured"),
            "the energy was not measured",
            marks=pytest.mark.thorough,
        ),
        ("DELETE FROM measurements WHERE quantity = 'wall_ns'", ("time", "measured"), "the wall time was not measured"),
    ],
)
def test_unknown_terms_say_why(closed: Warehouse, change: str, component: tuple[str, str], note: str) -> None:
    closed.query(change, write=True)
    sql = f"FROM reconciliation_components WHERE section = '{component[0]}' AND component = '{component[1]}'"
    settle(closed)
    (row,) = rows(closed, sql)
    assert (row["value"], row["note"]) == (None, note)


@pytest.mark.again
def test_unknown_gap(closed: Warehouse) -> None:
    closed.query("UPDATE replay_runs SET gap_ns = NULL", write=True)
    closed.query(GPU_BOUND, write=True)
    row, found = balance(closed), components(closed)
    assert (row["gap_ns"], row["gaps_ns"], row["error_pct"]) == (None, None, None)
    assert found["time", "launch gaps"]["status"] == "unknown"
    assert found["time", "error"]["note"].startswith("launch gaps are unknown")


@pytest.mark.again
def test_several_devices_are_told(closed: Warehouse) -> None:
    closed.query("UPDATE launches SET device = 1 WHERE stream = 8", write=True)
    assert balance(closed)["time_reason"] == "several devices: their times are summed"


def of_selection(warehouse: Warehouse, where: str) -> Reconciled:
    """The balance over the launches that meet a condition."""
    with warehouse.connection() as con:
        Selection(where).bind(con)
        return reconciliation.selected(con)


def test_a_selection_closes_its_own_kernels(closed: Warehouse) -> None:
    found = of_selection(closed, "category = 'GEMM'").balances
    assert [(one.sums.n, one.sums.kernels_ns) for one in found] == [(2.0, 420.0)]


@pytest.mark.thorough
def test_one_trace_reads_few_launches(closed: Warehouse) -> None:
    closed.query(
        "INSERT INTO traces BY NAME SELECT 't:o' AS trace_id, 'o' AS name, 'timeline' AS kind, 'x' AS source",
        write=True,
    )
    sql = """
        INSERT INTO launches BY NAME
        SELECT
            't:o' AS trace_id, range AS launch_index, 'kernel' AS kind, 'timeline' AS timing, 's' AS signature_id,
            'no_op' AS launch_status
        FROM range(300000)
    """
    closed.query(sql, write=True)
    from tests.warehouse.test_views import rows_read

    with closed.connection() as con:
        con.execute(statement("reconciliation", "list_workloads"))
        sql = "EXPLAIN (ANALYZE, FORMAT json) FROM _reconciliation_launches('_kernels', 'reconciliation_workloads')"
        ((_, plan),) = con.execute(sql).fetchall()
    read = rows_read(plan, "launches")
    assert read
    assert max(read) < 200_000, "the launches of a trace that was not measured are passed by"


@pytest.mark.again
def test_the_error_dynamic_has_the_errors_of_both_sides(unchanged: Unchanged) -> None:
    row, found = unchanged
    error = found["dynamic energy", "error"]
    predicted, measured = row["dynamic_all_mj"], row["dynamic_measured_mj"]
    half, measured_half = math.hypot(0.004, 0.001), math.hypot(0.01, 0.002)
    assert error["low"] == pytest.approx(100 * ((predicted - half) / (measured + measured_half) - 1))
    assert error["high"] == pytest.approx(100 * ((predicted + half) / (measured - measured_half) - 1))


@pytest.mark.again
def test_a_measurement_that_may_be_nothing_bounds_no_error(closed: Warehouse) -> None:
    closed.query(GPU_BOUND, write=True)
    closed.query("UPDATE measurements SET low = -1 WHERE quantity IN ('wall_ns', 'energy_mj')", write=True)
    found = components(closed)
    for section in ("time", "energy"):
        error = found[section, "error"]
        assert (error["value"] is None, error["low"] is None, error["high"]) == (False, False, None)


@pytest.mark.parametrize(
    "busy", [pytest.param(450, id="host bound"), pytest.param(900, id="GPU bound", marks=pytest.mark.volume)]
)
def test_a_selection_has_no_error_against_the_whole(closed: Warehouse, busy: int) -> None:
    closed.query(f"UPDATE measurements SET value = {busy} WHERE quantity = 'busy_ns'", write=True)
    found = of_selection(closed, "category = 'GEMM'").components
    reason = "only part of the launches is selected, but the measurement is of all"
    errors = [row for row in found if row.role == "error"]
    assert len(errors) >= 5
    assert {(row.value, row.low, row.status, row.note) for row in errors} == {(None, None, "withheld", reason)}
    assert {row.value for row in found if row.component.startswith("waiting for the host")} == {None}
    whole = of_selection(closed, "category IS NOT NULL").balances
    assert whole[0].verdict.dynamic_error_pct is not None


@pytest.mark.again
def test_what_is_mostly_recorded_has_no_interval(closed: Warehouse) -> None:
    closed.query(GPU_BOUND, write=True)
    closed.query("UPDATE replays SET mean_ns = NULL WHERE signature_id LIKE 's:gemm%'", write=True)
    found = components(closed)
    for component in ("predicted, GPU bound", "error"):
        assert (found["time", component]["value"] is None, found["time", component]["low"]) == (False, None)
    error = found["time", "error"]
    assert (error["status"], error["note"]) == ("recorded", "only 19.6 % of the recorded time is replayed")
    closed.query("DELETE FROM replays", write=True)
    kernels = components(closed)["time", "kernels"]
    assert (kernels["value"], kernels["low"], kernels["high"]) == (0, None, None)
