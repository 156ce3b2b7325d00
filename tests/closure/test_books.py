"""The numbers of closure against sums made by hand (see conftest: a step of 1000 ns with four launches)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kerneldb.warehouse import Warehouse
from tests.closure.conftest import GPU, insert, measurement, replay

Row = dict[str, Any]

SUM_NS, UNION_NS = 510.0, 460.0
"""Per step: 200 + 100 + 200 + 10; the addition runs 50 ns beside the first product."""
KERNELS_NS = 2 * 210.0 + 90.0
SHARE = 1 - UNION_NS / SUM_NS
REST_NS = 10.0 * UNION_NS / SUM_NS
IDLE_NS = (100 - 8) + (10 - 8) + 430
"""What the device waits beyond a gap: before the first launch, before the second product, and for the step to end."""


def rows(warehouse: Warehouse, sql: str, **options: Any) -> list[Row]:
    return list(warehouse.query(sql, **options).to_pylist())


def book(warehouse: Warehouse, where: str = "mode = 'eager'") -> Row:
    (row,) = rows(warehouse, f"FROM closure WHERE {where}")
    return row


def test_time_terms(closed: Warehouse) -> None:
    row = book(closed)
    assert (row["iterations"], row["n"], row["signatures"]) == (2, 4.0, 3)
    assert row["kernels_ns"] == KERNELS_NS
    assert row["kernels_half_ns"] == pytest.approx(math.hypot(2 * 5, 3))
    assert row["overlap_ns"] == pytest.approx(KERNELS_NS * SHARE)
    assert row["gaps_ns"] == 4 * 8
    assert row["idle_ns"] == IDLE_NS
    assert row["rest_ns"] == pytest.approx(REST_NS)
    expected = KERNELS_NS * (1 - SHARE) + REST_NS + 4 * 8 + IDLE_NS
    assert row["predicted_ns"] == pytest.approx(expected)
    assert row["predicted_replayed_ns"] == pytest.approx(expected - REST_NS)
    assert row["gpu_bound_ns"] == pytest.approx(expected - IDLE_NS)
    assert (row["wall_ns"], row["wall_low_ns"], row["busy_share_pct"]) == (1000.0, 990.0, 45.0)
    assert row["error_pct"] == pytest.approx(100 * (expected / 1000 - 1))
    assert row["kernels_error_pct"] == pytest.approx(100 * (KERNELS_NS / 500 - 1))
    assert (row["replayed_launches_pct"], row["replayed_time_pct"]) == (75.0, pytest.approx(100 * 500 / 510))


def test_energy_terms(closed: Warehouse) -> None:
    row = book(closed)
    idle_ns = 1000 - row["gpu_bound_ns"]
    above, gap, idle = 0.05, 1e-6 * 100 * (1000 - idle_ns), 1e-6 * 60 * idle_ns
    rest = 0.05 / KERNELS_NS * 10
    assert row["above_gap_mj"] == pytest.approx(above)
    assert row["above_gap_half_mj"] == pytest.approx(math.hypot(0.004, 0.001))
    assert (row["gap_mj"], row["idle_mj"]) == (pytest.approx(gap), pytest.approx(idle))
    assert row["unpowered_mj"] == pytest.approx(rest)
    assert row["predicted_mj"] == pytest.approx(above + gap + idle + rest)
    assert row["predicted_replayed_mj"] == pytest.approx(above + gap + idle)
    half = math.hypot(math.hypot(0.004, 0.001), 1e-6 * 2 * (1000 - idle_ns))
    assert row["predicted_high_mj"] - row["predicted_mj"] == pytest.approx(half)
    assert row["energy_error_pct"] == pytest.approx(100 * ((above + gap + idle + rest) / 0.14 - 1))
    assert row["above_gap_measured_mj"] == pytest.approx(0.14 - gap - idle)
    assert row["above_gap_error_pct"] == pytest.approx(100 * ((above + rest) / (0.14 - gap - idle) - 1))


@pytest.mark.parametrize("section", ["time", "energy"])
def test_terms_add_up_exactly(closed: Warehouse, section: str) -> None:
    found = rows(closed, f"FROM closure_terms WHERE mode = 'eager' AND section = '{section}'")
    terms = {row["term"]: row["value"] for row in found}
    addends = [row["value"] for row in found if row["role"] == "addend"]
    rest = [row["value"] for row in found if row["role"] == "addend, not replayed"]
    assert len(addends) >= 3
    assert math.fsum(addends) == pytest.approx(terms["predicted, replayed only"], rel=1e-12)
    assert math.fsum(addends + rest) == pytest.approx(terms["predicted"], rel=1e-12)
    assert all(row["low"] <= row["value"] <= row["high"] for row in found if row["low"] is not None)


def test_terms_repeat_the_books(closed: Warehouse) -> None:
    row = book(closed)
    found = {(one["section"], one["term"]): one for one in rows(closed, "FROM closure_terms WHERE mode = 'eager'")}
    assert found["time", "predicted"]["value"] == row["predicted_ns"]
    assert found["time", "launch gaps"]["source"] == "replay run run1"
    assert found["time", "idle"]["note"].startswith("bound")
    assert found["energy", "measured"]["low"] == 0.13
    assert found["above gap", "error"]["value"] == row["above_gap_error_pct"]


def test_kernels_have_tier_route_and_reason(closed: Warehouse) -> None:
    found = {row["kernel"]: row for row in rows(closed, "FROM closure_kernels WHERE mode = 'eager'")}
    gemm, add, fill = found["gemm"], found["add"], found["Memset"]
    assert (gemm["tier"], add["tier"], fill["tier"]) == (2, 3, 1)
    assert (gemm["n"], gemm["recorded_ns"], gemm["replayed_ns"], gemm["ratio"]) == (2.0, 400.0, 420.0, 1.05)
    assert gemm["above_gap_mj"] == 0.04
    assert (fill["replayed_ns"], fill["reason"]) == (None, "L4: no device")
    assert add["grade"] == "L0"


def test_graph_mode_takes_the_kernels_of_the_eager_trace(closed: Warehouse) -> None:
    insert(closed, "measurements", [measurement("wall_ns", 520.0, mode="cuda_graph", trace_id="t:graph")])
    row = book(closed, "mode = 'cuda_graph'")
    assert (row["trace"], row["kernels_trace"], row["n"]) == ("graph", "eager", 4.0)
    assert row["kernels_ns"] == KERNELS_NS
    # Gaps of the graph trace: three of 10 ns, 8 of which are launch gaps; nothing marks steps, so all are of one.
    assert row["idle_ns"] == pytest.approx(3 * 2 / 2)
    assert row["idle_reason"].startswith("bound: iterations are not marked")
    assert row["energy_reason"] == "the energy was not measured"


def test_graph_mode_without_eager_trace_keeps_its_own(closed: Warehouse) -> None:
    closed.query("DELETE FROM measurements", write=True)
    insert(closed, "measurements", [measurement("wall_ns", 1200.0, mode="cuda_graph", trace_id="t:graph")])
    row = book(closed, "true")
    assert (row["kernels_trace"], row["n"], row["replayed_launches_pct"]) == ("graph", 4.0, 0.0)
    assert row["time_reason"] == "no kernel of this stage was replayed on this GPU"
    assert row["predicted_ns"] == pytest.approx(4 * 290 + 4 * 8 + 3 * 2)


def test_launches_per_iteration_tell_how_many_there_are(closed: Warehouse) -> None:
    closed.query("DELETE FROM ranges", write=True)
    insert(closed, "measurements", [measurement("launches", 3.0)])
    row = book(closed)
    assert (row["iterations"], row["n"]) == (3, 3.0)


def test_ranges_called_as_the_stage_mark_iterations(closed: Warehouse) -> None:
    closed.query("UPDATE ranges SET name = 'decode'", write=True)
    assert book(closed)["predicted_ns"] == pytest.approx(KERNELS_NS * (1 - SHARE) + REST_NS + 32 + IDLE_NS)


def test_latest_good_replay_counts(closed: Warehouse) -> None:
    later = {"run_id": "run2", "started": "2026-11-22 10:00:00", "gpu": GPU}
    insert(closed, "replay_runs", [later])
    insert(closed, "replays", [replay("s:gemm:1:aten::mm", 220.0, 4.0, run_id="run2")])
    insert(closed, "replays", [replay("s:add:1:aten::add", None, run_id="run2", reason="out of memory")])
    row = book(closed)
    assert row["kernels_ns"] == 2 * 220 + 90
    assert row["above_gap_mj"] == pytest.approx(0.05), "the energy stays that of the run which measured it"


def test_calls_of_one_signature_weigh_by_their_launches(closed: Warehouse) -> None:
    insert(closed, "replays", [replay("s:gemm:1:aten::mm", 250.0, 5.0, launches=3, item_id="other call")])
    assert book(closed)["kernels_ns"] == 2 * (210 + 3 * 250) / 4 + 90


def test_replays_of_another_gpu_do_not_count(closed: Warehouse) -> None:
    closed.query("UPDATE replay_runs SET gpu = 'GPU of somebody else'", write=True)
    row = book(closed)
    assert (row["kernels_ns"], row["replayed_launches_pct"]) == (0.0, 0.0)
    found = rows(closed, "FROM closure_kernels WHERE kernel = 'gemm'")
    assert found[0]["reason"] == "replayed on another GPU only: GPU of somebody else"


@pytest.mark.parametrize(
    ("change", "term", "note"),
    [
        ("UPDATE replay_runs SET gap_power_w = NULL", ("energy", "gap"), "unknown: the power of gaps was not measured"),
        ("UPDATE replays SET above_gap_mj = NULL", ("energy", "predicted"), "no kernel of this stage has an energy"),
        (
            "DELETE FROM measurements WHERE quantity = 'energy_mj'",
            ("energy", "measured"),
            "the energy was not measured",
        ),
        ("DELETE FROM measurements WHERE quantity = 'wall_ns'", ("time", "measured"), "the wall time was not measured"),
    ],
)
def test_unknown_terms_say_why(closed: Warehouse, change: str, term: tuple[str, str], note: str) -> None:
    closed.query(change, write=True)
    sql = f"FROM closure_terms WHERE section = '{term[0]}' AND term = '{term[1]}'"
    (row,) = rows(closed, sql)
    assert (row["value"], row["note"]) == (None, note)


def test_gap_without_replays_comes_from_the_trace(closed: Warehouse) -> None:
    closed.query("UPDATE replay_runs SET gap_ns = NULL", write=True)
    row = book(closed)
    assert (row["gap_ns"], row["gap_source"]) == (55.0, "median short gap of the trace")


def test_several_devices_are_told(closed: Warehouse) -> None:
    closed.query("UPDATE launches SET device = 1 WHERE stream = 8", write=True)
    assert book(closed)["time_reason"] == "several devices: their times are summed"


def test_a_selection_closes_its_own_kernels(closed: Warehouse) -> None:
    found = rows(closed, "FROM closure_of('selection')", where="category = 'GEMM'")
    assert [(row["n"], row["kernels_ns"]) for row in found] == [(2.0, 420.0)]


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
    (plan,) = rows(closed, "EXPLAIN (ANALYZE, FORMAT json) FROM closure WHERE trace = 'eager'")
    from tests.warehouse.test_views import rows_read

    read = rows_read(plan["explain_value"], "launches")
    assert read
    assert max(read) < 200_000, "the launches of a trace that was not measured are passed by"
