"""The arithmetic of the balance, without a database: every figure is made by hand, every reason has its case."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from kerneldb.reconciliation import Component, Reconciled, WorkloadBalance, reconcile
from kerneldb.reconciliation.kernels import groups, iterations, longest, tier
from kerneldb.reconciliation.model import Flow, Given, Launches, Replay, Run, Workload
from kerneldb.reconciliation.unknown import error_pct, formatted, mean, minus, over, plus, root_of_squares, times, total

GPU = "GPU"
WORKLOAD = Workload(
    trace="t", run="r", model="m", board="board 1", workload="decode", mode="eager", gpu=GPU, kernels_trace="t",
    wall_ns=1000.0, wall_low_ns=990.0, wall_high_ns=1010.0, wall_method="clock", energy_mj=0.2, energy_low_mj=0.19,
    energy_high_mj=0.21, energy_method="meter", energy_reason=None, busy_ns=900.0, launches=None, sm_mhz=None,
    gap_run_id="e", gap_ns=10.0, launch_loop_power_w=100.0, launch_loop_power_error_w=0.0, context_power_w=50.0,
    trace_id="id", kernels_trace_id="id", launches_trace_id="id",
)  # fmt: skip
PRODUCT = Launches(
    trace_id="id", workload="decode", signature_id="product", inferred_id=None, inferred_by=None, kernel="gemm",
    kind="kernel", category="GEMM", library="cuBLAS", unmatched=None, n=4, total_ns=1200.0, wait_ns=None,
)  # fmt: skip
SUM = dataclasses.replace(
    PRODUCT, signature_id="sum", kernel="add", category="ELEMENTWISE", library=None, n=2, total_ns=400.0
)
FLOW = Flow(
    trace_id="id", workload="decode", n=6, busy_ns=1200.0, duration_ns=1600.0, alone=3, queued_gaps=0,
    queued_gap_ns=None, queued_total_ns=None, flowing=6, exchanges=0, unmatched=0, waits_ns=None, devices=1,
    iterations=2,
)  # fmt: skip
"""Two iterations, each with two products of 300 ns and a sum of 200 ns; a quarter of the time has other work beside."""
REPLAY = Replay(
    signature_id="product", gpu=GPU, run_id="e", grade="L0", route="aten", cache="mixed", mean_ns=330.0, half_ns=3.0,
    clock_mhz=2000.0, reason=None, energy_run_id="e", dynamic_mj=0.02, above_half_mj=0.001, energy_mhz=1800.0,
    capped_mhz=None, capped_stretch=None, capped_energy=None, energy_reason=None,
)  # fmt: skip
OF_SUM = dataclasses.replace(REPLAY, signature_id="sum", mean_ns=180.0, half_ns=4.0, dynamic_mj=0.01)
RUN = Run("e", "board 1", 100.0, 0.0, 50.0, None)


def changed(one: Any, **changes: Any) -> Any:
    return dataclasses.replace(one, **changes)


def reconciled(
    workload: Workload = WORKLOAD,
    launches: tuple[Launches, ...] = (PRODUCT, SUM),
    flow: Flow = FLOW,
    replays: tuple[Replay, ...] = (REPLAY, OF_SUM),
    run: Run = RUN,
    selected: Flow | None = None,
) -> Reconciled:
    place = ("id", "decode")
    return reconcile(Given([workload], launches, {place: selected or flow}, {place: flow}, replays, {run.run_id: run}))


def balance(**given: Any) -> WorkloadBalance:
    (found,) = reconciled(**given).balances
    return found


def components(**given: Any) -> dict[tuple[str, str], Component]:
    return {(one.section, one.component): one for one in reconciled(**given).components}


KERNELS_NS = 2 * 330.0 + 180.0
PREDICTED_NS = KERNELS_NS * 0.75 + 3 * 0.5 * 10
"""Three quarters of the time, and a gap before half of the three launches."""


def test_what_is_made_of_an_unknown_is_unknown() -> None:
    assert [plus(1, None), minus(1, None), minus(None, 1), times(2, None), over(None, 2), over(2, None)] == [None] * 6
    assert (over(1, 0), error_pct(3, 2), error_pct(3, 0)) == (None, 50.0, None)
    assert (total([]), total([None]), total([0.1] * 10), mean([1, None, 3])) == (None, None, 1.0, 2.0)
    assert (root_of_squares(3, 4), root_of_squares(3, None), formatted("{:.1f} W", None)) == (5.0, None, None)


def test_time_of_a_workload() -> None:
    found = balance()
    assert (found.sums.n, found.sums.iterations, found.sums.signatures) == (3.0, 2, 2)
    assert (found.sums.recorded_ns, found.sums.kernels_ns) == (800.0, KERNELS_NS)
    assert found.sums.kernels_half_ns == math.hypot(2 * 3, 4)
    assert (found.time.overlap_ns, found.time.gap_launches, found.time.gaps_ns) == (KERNELS_NS / 4, 1.5, 15.0)
    assert (found.time.predicted_ns, found.time.rest_ns) == (PREDICTED_NS, 0.0)
    assert (found.time.status, found.time.waiting_ns, found.time.busy_share_pct) == ("GPU bound", None, 90.0)
    assert found.verdict.error_pct == pytest.approx(100 * (PREDICTED_NS / 1000 - 1))
    assert found.verdict.predicted_low_ns == PREDICTED_NS - math.hypot(6, 4)


def test_energy_of_a_workload() -> None:
    found, gap = balance(), 1e-6 * 100 * PREDICTED_NS
    assert (found.sums.dynamic_mj, found.energy.unpowered_mj) == (pytest.approx(0.05), 0)
    assert (found.energy.gap_mj, found.energy.waiting_mj) == (pytest.approx(gap), 0)
    assert found.energy.predicted_mj == pytest.approx(0.05 + gap)
    assert found.energy.dynamic_measured_mj == pytest.approx(0.2 - 1e-6 * 100 * 1000)
    assert found.verdict.dynamic_error_pct == pytest.approx(-50)
    assert found.energy.above_waiting_measured_mj is None


def test_waiting_for_the_host_costs_the_power_of_a_context() -> None:
    found = balance(workload=changed(WORKLOAD, busy_ns=799.0))
    waited = 1000 - PREDICTED_NS
    assert (found.time.status, found.time.waiting_ns) == ("host bound", waited)
    assert found.energy.waiting_mj == pytest.approx(1e-6 * 50 * waited)
    assert found.energy.above_waiting_measured_mj == pytest.approx(0.2 - 1e-4 * PREDICTED_NS - 5e-5 * waited)
    assert found.verdict.energy_error_pct is None
    without = changed(RUN, context_power_w=None)
    workload = changed(WORKLOAD, busy_ns=799.0, context_power_w=None)
    assert balance(workload=workload, run=without).energy.waiting_mj == pytest.approx(1e-6 * 100 * waited)
    unknown = components(
        workload=changed(workload, launch_loop_power_w=None), run=changed(without, launch_loop_power_w=None)
    )
    assert unknown["energy", "waiting for the host"].note == "no power is known"
    assert (unknown["energy", "gap"].status, unknown["energy", "waiting for the host"].value) == ("unknown", None)


def test_nothing_is_waited_for_where_more_was_predicted_than_measured() -> None:
    found = balance(workload=changed(WORKLOAD, wall_ns=600.0, busy_ns=400.0))
    assert (found.time.waiting_ns, found.time.paused_ns, found.energy.waiting_mj) == (600 - PREDICTED_NS, 0, 0)


FEW = dataclasses.replace(FLOW, n=7)
"""A trace with a launch that is not selected."""
RANK = dataclasses.replace(WORKLOAD, launches_world_size=2)
UNMATCHED = dataclasses.replace(FLOW, exchanges=2, unmatched=1)


@pytest.mark.parametrize(
    ("given", "status", "reason"),
    [
        ({"workload": changed(WORKLOAD, wall_ns=None)}, "unmeasured", "the wall time was not measured"),
        (
            {"flow": FEW, "selected": FLOW},
            "GPU bound",
            "only part of the launches is selected, but the measurement is of all",
        ),
        ({"replays": ()}, "GPU bound", "no kernel of this workload was replayed on this GPU"),
        (
            {"workload": changed(WORKLOAD, busy_ns=100.0)},
            "host bound",
            "the GPU waits for the host: the prediction is a lower bound",
        ),
        (
            {"workload": RANK, "flow": UNMATCHED},
            "unknown",
            "how long collectives waited for other ranks is unknown; ingest the traces of all ranks",
        ),
        (
            {"workload": changed(WORKLOAD, gap_ns=None)},
            "GPU bound",
            "launch gaps are unknown: too few with a full queue in the trace, and no replay measured them",
        ),
        ({}, "GPU bound", None),
    ],
)
def test_why_there_is_no_error_of_the_time(given: dict[str, Any], status: str, reason: str | None) -> None:
    found = balance(**given)
    assert (found.time.status, found.verdict.error_reason) == (status, reason)
    assert (found.verdict.error_pct is None, found.verdict.replayed_error_pct is None) == (reason is not None,) * 2
    listed = components(**given)
    assert listed["time", "error"].status == ("valid" if reason is None else "withheld")
    assert listed["time", "error"].note == reason
    assert (listed["time", "error"].low is None) == (reason is not None)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"workload": changed(WORKLOAD, energy_mj=None)}, "the energy was not measured"),
        ({"workload": changed(WORKLOAD, energy_mj=None, energy_reason="no meter")}, "no meter"),
        ({"flow": FEW, "selected": FLOW}, "only part of the launches is selected, but the measurement is of all"),
        (
            {"workload": changed(WORKLOAD, launch_loop_power_w=None), "run": changed(RUN, launch_loop_power_w=None)},
            "launch-loop power was not measured",
        ),
        (
            {"replays": (changed(REPLAY, dynamic_mj=None), changed(OF_SUM, dynamic_mj=None))},
            "no kernel of this workload has a measured energy",
        ),
        (
            {"replays": (changed(REPLAY, dynamic_mj=None), OF_SUM)},
            "the energy of only 21.4 % of the kernel time is known",
        ),
        ({}, None),
    ],
)
def test_why_there_is_no_error_of_the_energy(given: dict[str, Any], reason: str | None) -> None:
    found = balance(**given).verdict
    assert (found.energy_error_reason, found.dynamic_reason) == (reason, reason)
    assert (found.energy_error_pct is None, found.dynamic_error_pct is None) == (reason is not None,) * 2


def test_little_known_energy_has_no_interval() -> None:
    assert balance().verdict.predicted_low_mj == pytest.approx(0.05 + 1e-4 * PREDICTED_NS - math.hypot(0.002, 0.001))
    assert balance(replays=(changed(REPLAY, dynamic_mj=None), OF_SUM)).verdict.predicted_low_mj is None
    listed = components(replays=(changed(REPLAY, dynamic_mj=None), OF_SUM))
    assert [listed[section, "predicted"].low for section in ("energy", "dynamic energy")] == [None, None]
    assert [listed[section, "predicted"].status for section in ("energy", "dynamic energy")] == ["estimate", "estimate"]


def test_without_a_wall_time_the_energy_dynamic_is_not_known() -> None:
    found = balance(workload=changed(WORKLOAD, wall_ns=None))
    assert found.verdict.dynamic_reason == "the wall time was not measured"
    assert (found.energy.dynamic_measured_mj, found.verdict.dynamic_error_pct) == (None, None)


def test_what_is_mostly_recorded_has_no_interval() -> None:
    listed = components(replays=(OF_SUM,))
    error = listed["time", "error"]
    assert (error.status, error.note, error.low) == (
        "recorded", "only 25.0 % of the recorded time is replayed", None
    )  # fmt: skip
    assert listed["time", "unreplayed"].value == 600 * 0.75
    assert listed["time", "predicted, GPU bound"].low is None
    assert listed["energy", "predicted"].status == "estimate"
    assert listed["energy", "dynamic energy, unreplayed"].value == pytest.approx(0.01 / 180 * 600)


def test_drift_is_an_error_of_all_energies() -> None:
    alone = math.hypot(2 * 0.001, 0.001)
    assert balance().energy.dynamic_half_mj == pytest.approx(alone)
    assert balance(run=changed(RUN, energy_drift=0.1)).energy.dynamic_half_mj == pytest.approx(
        math.hypot(alone, 1.96 * 0.1 * 0.05)
    )


def test_powers_of_gaps_are_those_of_the_run_that_measured_the_kernels() -> None:
    workload = changed(WORKLOAD, launch_loop_power_w=80.0, launch_loop_power_error_w=4.0, context_power_w=40.0)
    for run, powers in (
        (changed(RUN, launch_loop_power_error_w=2.0), (100.0, 2.0, 50.0)),
        (changed(RUN, launch_loop_power_error_w=None, context_power_w=None), (100.0, 0.0, 40.0)),
        (changed(RUN, launch_loop_power_w=None, launch_loop_power_error_w=2.0), (80.0, 4.0, 40.0)),
        (changed(RUN, run_id="another"), (80.0, 4.0, 40.0)),
    ):
        energy = balance(workload=workload, run=run).energy
        assert (energy.launch_loop_power_w, energy.launch_loop_power_error_w, energy.context_power_w) == powers


def test_another_board_is_told() -> None:
    assert components(run=changed(RUN, uuid="board 2"))["energy", "error"].note == (
        "replays on another board: board 2, not board 1"
    )
    assert components(run=changed(RUN, uuid=None))["energy", "error"].note is None


GRAPH = dataclasses.replace(WORKLOAD, mode="cuda_graph")
FULL = dataclasses.replace(
    FLOW, n=40, alone=30, queued_gaps=20, queued_gap_ns=5.0, queued_total_ns=200.0, flowing=32, iterations=2
)
MANY = (changed(PRODUCT, n=38), SUM)


def test_gaps_of_a_full_queue_are_those_of_the_trace() -> None:
    time = balance(flow=FULL, launches=MANY).time
    assert (time.gap_ns, time.gap_source, time.idle_ns) == (5.0, "median of 20 gaps with a full queue, trace t", None)
    for few in (changed(FULL, queued_gaps=19), changed(FULL, n=401)):
        time = balance(flow=few, launches=MANY).time
        assert (time.gap_ns, time.gap_source) == (
            10.0, f"replay run e (trace: {few.queued_gaps} gaps with a full queue)"
        )  # fmt: skip
    assert balance(workload=changed(WORKLOAD, gap_ns=None)).time.gap_source is None


def test_a_graph_waits_beyond_its_gaps() -> None:
    """Per iteration 100 ns of gaps: 32 launches flow, three quarters of them alone, with 5 ns each."""
    assert balance(workload=GRAPH, flow=FULL, launches=MANY).time.idle_ns == (200 - 32 * 0.75 * 5) / 2
    assert balance(workload=GRAPH, flow=changed(FULL, queued_total_ns=None), launches=MANY).time.idle_ns == 0
    assert balance(workload=changed(GRAPH, trace_id=None), flow=FULL, launches=MANY).time.idle_ns is None
    assert balance(workload=GRAPH).time.idle_ns is None
    assert components(workload=GRAPH)["time", "idle"].note == "no gaps with a full queue in a trace of the graph"
    assert components(workload=GRAPH, flow=FULL, launches=MANY)["time", "idle"].source == "trace t"
    assert components()["time", "idle"].status == "left out"


def test_waits_of_ranks_are_no_part_of_the_balance() -> None:
    known = changed(FLOW, exchanges=2, waits_ns=300.0)
    time = balance(workload=RANK, flow=known).time
    assert (time.exchanging, time.measured_busy_ns, time.collective_waits_ns) == (True, 600.0, 150.0)
    assert components(workload=RANK, flow=changed(known, waits_ns=5000.0))["time", "waiting in collectives"].note == (
        "2.5 µs under the profiler, which slows ranks unequally: they are not those of the run"
    )
    unknown = components(workload=RANK, flow=UNMATCHED)
    assert unknown["time", "waiting in collectives"].note == "how long collectives waited for other ranks is unknown"
    assert unknown["time", "busy share"].status == "unknown"
    assert balance(flow=known).time.exchanging is False, "one rank alone exchanges nothing"
    assert ("time", "waiting in collectives") not in components(flow=known)


def test_several_devices_are_told() -> None:
    assert balance(flow=changed(FLOW, devices=2)).time.time_reason == "several devices: their times are summed"


def test_launches_without_length_overlap_nothing_that_is_known() -> None:
    flow = changed(FLOW, busy_ns=0.0, duration_ns=0.0)
    found = balance(flow=flow, launches=(changed(PRODUCT, total_ns=0.0),), replays=())
    assert (found.time.overlap_ns, found.time.predicted_ns, found.sums.replayed_time_pct) == (None, None, None)


@pytest.mark.parametrize(
    ("launches", "flow", "count"),
    [
        (None, FLOW, 2),
        (3.0, changed(FLOW, iterations=None), 2),
        (2.97, changed(FLOW, iterations=None), 2),
        (2.8, changed(FLOW, iterations=None), 1),
        (12.0, changed(FLOW, iterations=None), 1),
        (None, changed(FLOW, iterations=None), 1),
        (0.0, changed(FLOW, iterations=None), 1),
    ],
)
def test_iterations_are_marked_or_told_by_the_launches_of_one(launches: float | None, flow: Flow, count: int) -> None:
    assert iterations(changed(WORKLOAD, launches=launches), flow) == count


@pytest.mark.parametrize(
    ("launches", "number"),
    [
        (changed(PRODUCT, kind="memcpy"), 1),
        (changed(PRODUCT, kind="memset", category="MEMSET"), 1),
        (PRODUCT, 2),
        (changed(PRODUCT, library="cuDNN"), 3),
        (changed(PRODUCT, category=None), 3),
    ],
)
def test_tiers(launches: Launches, number: int) -> None:
    assert tier(launches) == number


ELSEWHERE = dataclasses.replace(REPLAY, gpu="B")
UNTIMED = dataclasses.replace(REPLAY, mean_ns=None, dynamic_mj=None, reason="L4: lost", energy_reason="not asked for")


@pytest.mark.parametrize(
    ("launches", "replays", "reason", "energy_reason"),
    [
        (PRODUCT, (REPLAY,), None, None),
        (PRODUCT, (UNTIMED,), "L4: lost", "not asked for"),
        (changed(PRODUCT, unmatched="other work"), (UNTIMED,), "under CUDA graphs: other work", "not asked for"),
        (PRODUCT, (ELSEWHERE, changed(REPLAY, gpu="A")), "replayed on another GPU only: A, B", "not replayed"),
        (PRODUCT, (changed(UNTIMED, gpu="B"),), "not replayed", "not replayed"),
        (PRODUCT, (), "not replayed", "not replayed"),
    ],
)
def test_why_a_kernel_has_no_replay(
    launches: Launches, replays: tuple[Replay, ...], reason: str | None, energy_reason: str | None
) -> None:
    (found,) = reconciled(launches=(launches,), replays=replays).kernels
    assert (found.reason, found.energy_reason) == (reason, energy_reason)
    assert (found.replayed_ns is None, found.replayed_half_ns is None) == (reason is not None,) * 2


def test_a_gpu_without_a_name_takes_replays_of_any() -> None:
    nameless = changed(REPLAY, gpu=None, mean_ns=500.0)
    for workload, replays, mean_ns in (
        (changed(WORKLOAD, gpu=None), (ELSEWHERE, changed(REPLAY, gpu="A", mean_ns=400.0)), 400.0),
        (WORKLOAD, (nameless,), 500.0),
        (WORKLOAD, (nameless, REPLAY), 330.0),
        (WORKLOAD, (nameless, UNTIMED), 500.0),
    ):
        (found,) = reconciled(workload=workload, launches=(PRODUCT,), replays=replays).kernels
        assert found.replayed_ns == 2 * mean_ns


def test_launches_count_as_the_call_that_was_found_for_them() -> None:
    inferred = changed(SUM, signature_id="bare", inferred_id="sum", inferred_by="inferred", n=4, total_ns=500.0)
    unknown = changed(inferred, inferred_id="never replayed", inferred_by="inherited", n=2, total_ns=100.0)
    rows = reconciled(launches=(SUM, inferred, unknown)).kernels
    assert [(one.signature_id, one.route, one.recorded_ns) for one in rows] == [
        ("sum", "inferred", 250.0),
        ("sum", "aten", 200.0),
        ("bare", "none", 50.0),
    ]
    sums = balance(launches=(SUM, inferred)).sums
    assert (sums.inferred_ns, sums.inherited_ns, sums.kernels_ns) == (2 * 180.0, 0.0, 3 * 180.0)
    listed = components(launches=(SUM, inferred))
    assert listed["time", "kernels, inferred calls"].value == 360
    assert ("time", "kernels, inherited calls") not in listed
    only = components(launches=(inferred,))["time", "kernels"]
    assert (only.value, only.low, only.high) == (0, None, None)


def test_a_recorded_call_is_not_guessed_whoever_replayed_it() -> None:
    (found,) = reconciled(launches=(PRODUCT,), replays=(changed(REPLAY, route="inferred"),)).kernels
    assert found.route == "aten"


CAPPED = dataclasses.replace(REPLAY, energy_mhz=2000.0, capped_mhz=1400.0, capped_stretch=1.5, capped_energy=0.8)


@pytest.mark.parametrize(
    ("model_mhz", "longer", "cheaper"),
    [
        (1600.0, 0.5 * (1 / 1600 - 1 / 2000) / (1 / 1400 - 1 / 2000), -0.2 * 400 / 600),
        (1200.0, 0.5, -0.2),
        (2000.0, 0.0, 0.0),
        (2100.0, 0.0, 0.0),
        (None, 0.0, 0.0),
    ],
)
def test_the_clock_of_the_model(model_mhz: float | None, longer: float, cheaper: float) -> None:
    (found,) = reconciled(workload=changed(WORKLOAD, sm_mhz=model_mhz), launches=(PRODUCT,), replays=(CAPPED,)).kernels
    assert (found.clock_ns, found.clock_mj) == (pytest.approx(660 * longer), pytest.approx(0.04 * cheaper))


def test_a_kernel_that_the_cap_does_not_slow_down_is_not_corrected() -> None:
    workload = changed(WORKLOAD, sm_mhz=1600.0)
    for replay in (REPLAY, changed(CAPPED, capped_mhz=2000.0)):
        (found,) = reconciled(workload=workload, launches=(PRODUCT,), replays=(replay,)).kernels
        assert (found.clock_ns, found.clock_mj) == (0.0, 0.0)
    (found,) = reconciled(workload=workload, launches=(PRODUCT,), replays=(UNTIMED,)).kernels
    assert (found.clock_ns, found.clock_mj) == (None, None)


@pytest.mark.parametrize(
    ("model_mhz", "replays", "note"),
    [
        (None, (REPLAY,), None),
        (1990.0, (REPLAY,), None),
        (1600.0, (REPLAY,), "+25.0 % of that of the model: not corrected"),
        (1600.0, (changed(CAPPED, clock_mhz=1500.0),), "-6.2 % of that of the model: see lower clock"),
        (1600.0, (changed(REPLAY, clock_mhz=None),), "no replay recorded it"),
    ],
)
def test_clocks_are_told(model_mhz: float | None, replays: tuple[Replay, ...], note: str | None) -> None:
    listed = components(workload=changed(WORKLOAD, sm_mhz=model_mhz), launches=(PRODUCT,), replays=replays)
    assert listed["time", "clock, replay"].note == note
    assert listed["time", "clock, model"].note == (None if model_mhz else "no clock was measured")


@pytest.mark.parametrize("busy_ns", [900.0, 500.0])
def test_terms_add_up_exactly(busy_ns: float) -> None:
    inherited = changed(SUM, signature_id="bare", inferred_id="sum", inferred_by="inherited")
    listed = reconciled(
        workload=changed(WORKLOAD, busy_ns=busy_ns, sm_mhz=1600.0),
        launches=(PRODUCT, SUM, inherited, changed(SUM, signature_id="lost")),
        replays=(CAPPED, OF_SUM),
    ).components
    for section, whole in (("time", "predicted, GPU bound"), ("energy", "predicted")):
        rows = [one for one in listed if one.section == section]
        values = {one.component: one.value for one in rows}
        addends = [one.value for one in rows if one.role == "addend" and one.value is not None]
        rest = [one.value for one in rows if one.role == "addend, not replayed" and one.value is not None]
        assert math.fsum(addends) == pytest.approx(values["predicted, replayed only"], rel=1e-12)
        assert math.fsum(addends + rest) == pytest.approx(values[whole], rel=1e-12)
        assert min(addends) < 0 < max(rest)


def test_groups_hold_everything_once() -> None:
    found = groups(reconciled(replays=(REPLAY,)).kernels)
    by_tier = {one.part: one for one in found if one.grouped_by == "tier"}
    assert list(by_tier) == ["2 BLAS matrix products", "3 other kernels"]
    product, other = by_tier.values()
    assert (product.n, product.share_pct, product.error_pct) == (2.0, 75.0, pytest.approx(10))
    assert product.dynamic_error_mj == pytest.approx(0.002)
    assert (other.replayed_ns, other.error_pct, other.replayed_launches_pct) == (None, None, 0.0)
    assert [one.part for one in found if one.grouped_by == "route"] == ["aten", "none"]
    assert [one.kernel for one in longest(reconciled().kernels, 1)] == ["gemm"]


RANKS = tuple(
    dataclasses.replace(
        WORKLOAD, trace=f"rank {rank}", trace_id=f"id {rank}", launches_trace_id=f"id {rank}", job="j", rank=rank,
        world_size=2, launches_world_size=2, wall_ns=1000.0 + rank,
    )
    for rank in range(2)
)  # fmt: skip


def of_ranks(workloads: tuple[Workload, ...] = RANKS) -> Reconciled:
    """Each rank: two products and an exchange of 100 ns an iteration, before which rank 1 waits for 40 ns more."""
    launches = [
        changed(one, trace_id=workload.launches_trace_id, **more)
        for workload in workloads
        for one, more in (
            (PRODUCT, {}),
            (
                SUM,
                {
                    "signature_id": "exchange", "category": "COMMUNICATION", "total_ns": 200.0,
                    "wait_ns": 20.0 + 80.0 * (workload.rank or 0),
                },
            ),
        )
    ]  # fmt: skip
    flows = {
        (workload.launches_trace_id, "decode"): changed(FLOW, trace_id=workload.launches_trace_id, exchanges=2)
        for workload in workloads
    }
    replays = (REPLAY, changed(REPLAY, signature_id="exchange", mean_ns=110.0))
    return reconcile(Given(workloads, launches, flows, flows, replays, {"e": RUN}))


def test_jobs_of_several_ranks() -> None:
    (job,) = of_ranks().jobs
    assert (job.job, job.ranks, job.world_size, job.wall_ns, job.energy_mj) == ("j", 2, 2, 1001.0, 0.4)
    assert (job.computation_ns, job.computation_replayed_ns, job.computation_replayed_pct) == (600.0, 660.0, 100.0)
    assert job.computation_error_pct == pytest.approx(10)
    assert (job.communication_ns, job.transfer_ns, job.wait_ns, job.longest_wait_ns) == (130.0, 100.0, 30.0, 50.0)
    assert (job.slowest_rank, job.transfer_error_pct) == (0, pytest.approx(10))


def test_a_job_without_the_energy_of_a_rank_has_none() -> None:
    (job,) = of_ranks((RANKS[0], changed(RANKS[1], energy_mj=None))).jobs
    assert job.energy_mj is None


def test_ranks_of_no_job_and_traces_that_are_gone_make_none() -> None:
    assert of_ranks((RANKS[0],)).jobs == []
    assert of_ranks((RANKS[0], changed(RANKS[1], rank=0))).jobs == []
    assert of_ranks((RANKS[0], changed(RANKS[1], has_trace=False))).jobs == []
    assert of_ranks(tuple(changed(one, job=None) for one in RANKS)).jobs == []


def test_a_workload_without_launches_has_no_rows() -> None:
    found = reconcile(Given([WORKLOAD], [], {}, {}, [], {}))
    assert (list(found.kernels), list(found.balances), list(found.components), list(found.jobs)) == ([], [], [], [])


def test_balances_and_kernels_come_in_the_order_of_their_names() -> None:
    workloads = (changed(WORKLOAD, mode=None), changed(WORKLOAD, mode="eager"), changed(WORKLOAD, trace="a"))
    place = ("id", "decode")
    found = reconcile(Given(workloads, (SUM, PRODUCT), {place: FLOW}, {place: FLOW}, (), {}))
    keys = [("a", "eager"), ("t", "eager"), ("t", None)]
    assert [(one.workload.trace, one.workload.mode) for one in found.balances] == keys
    assert [(one.trace, one.mode, one.kernel) for one in found.kernels] == [
        (*key, kernel) for key in keys for kernel in ("gemm", "add")
    ]
