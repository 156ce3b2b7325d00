"""What a patch gains in the program beside what was promised: changes that make it slower are taken back."""

from __future__ import annotations

import dataclasses
import runpy
from collections.abc import Sequence
from pathlib import Path

import pytest

from kerneldb import codec

torch = pytest.importorskip("torch", reason="torch is not installed (pip install torch==2.13.0)")
from kerneldb.replay.errors import ReplayError  # noqa: E402
from kerneldb.replay.recording.measuring import Interval  # noqa: E402
from kerneldb.replay.recording.settings import Settings, resolved  # noqa: E402
from kerneldb.replay.rewrites import patching, trial  # noqa: E402
from kerneldb.replay.rewrites.flow import Frame, Frames  # noqa: E402
from kerneldb.replay.rewrites.norms import RmsNorm  # noqa: E402
from kerneldb.replay.rewrites.search import Search  # noqa: E402
from kerneldb.replay.wire.improvements import Improvement, Times  # noqa: E402
from kerneldb.replay.worker import improving, proving, verifying, windows  # noqa: E402
from kerneldb.replay.worker.proving import (  # noqa: E402
    KEPT,
    NO_GAIN,
    SLOWER,
    UNDECIDED,
    Verified,
    compared,
    judged,
    median,
    promise,
    prove,
)  # fmt: skip
from kerneldb.replay.worker.verifying import Job, Timed  # noqa: E402
from tests.recording.meters import open_fake  # noqa: E402
from tests.replay.taped import flow_of  # noqa: E402

FRAME = {"path": "model.py", "line": 3, "function": "forward", "module": "Model"}


def improvement(rewrite: str, kind: str, status: str = "accepted", gain: float = 0.2) -> Improvement:
    change = {"changes": [{"kind": kind, "frame": FRAME, "values": {}, "text": ""}]}
    busy = Times(10.0, 10.0 * (1 - gain), gain, gain, gain)
    return Improvement("s", 1, rewrite, status, busy=busy, wall=busy, change=change)  # type: ignore[arg-type]


def measuring(gains: dict[str, float]) -> object:
    """A program in which rewrites gain so much; several gain what they gain together."""

    def measure(some: Sequence[Improvement], beside: Sequence[Improvement]) -> list[Verified]:
        gain = sum(gains[one.rewrite] for one in some) - sum(gains[one.rewrite] for one in beside)
        after = 10 * (1 - gain)
        return [Verified(name, 10, after, Interval(gain, gain - 0.01, gain + 0.01)) for name in ("busy", "wall")]

    return measure


def test_a_change_that_makes_the_program_slower_is_taken_back_and_all_the_others_are_measured_without_it() -> None:
    found = [improvement("rms_norm", "rms_norm"), improvement("foreach", "optimizer"), improvement("", "", "together")]
    kept, rows = prove(found, measuring({"rms_norm": 0.1, "foreach": -0.3}))  # type: ignore[arg-type]
    assert [(one.status, one.reason) for one in kept[:2]] == [("accepted", None), ("rejected", SLOWER)]
    assert kept[2].status == "rejected"  # nobody may read it as the gain of what is left
    assert [(row["change"].split(":")[0], round(row["measured_pct"])) for row in rows[::2]] == [
        ("rms_norm", 10), ("foreach", -30), ("all accepted", 10),
    ]  # fmt: skip
    assert rows[-1]["promised_pct"] is None  # that was of both


def test_a_graph_must_gain_beside_the_other_changes() -> None:
    found = [
        improvement("compile", "compile"),
        improvement("cuda_graph", "cuda_graph"),
        improvement("", "", "together"),
    ]
    for gain, status in ((0.1, "accepted"), (-0.05, "rejected")):
        kept, rows = prove(found, measuring({"compile": 0.2, "cuda_graph": gain}))  # type: ignore[arg-type]
        assert [one.status for one in kept[:2]] == ["accepted", status]
        assert [round(row["measured_pct"]) for row in rows[::2]] == [20, round(100 * gain), 30][: 2 + (gain > 0)]


def test_what_only_loses_in_company_is_taken_back_the_least_first() -> None:
    found = [improvement(name, "setting") for name in ("one", "two", "three")]

    def measure(some: Sequence[Improvement], _: Sequence[Improvement]) -> list[Verified]:
        gain = {1: {"one": 0.3, "two": 0.1, "three": 0.2}[some[0].rewrite], 2: 0.4, 3: -0.1}[len(some)]
        return [Verified(name, 10, 10, Interval(gain, gain, gain)) for name in ("busy", "wall")]

    kept, _ = prove(found, measure)
    assert [(one.status, one.reason) for one in kept] == [("accepted", None), ("rejected", SLOWER), ("accepted", None)]


@pytest.mark.parametrize(
    ("busy", "wall", "outcome"),
    [
        ((0.08, 0.10), (0.03, 0.05), KEPT), ((-0.002, 0.002), (0.2, 0.3), KEPT),
        ((0.06, 0.12), (-0.4, 0.3), UNDECIDED), ((-0.12, -0.06), (0.03, 0.05), SLOWER),
        ((0.03, 0.05), (-0.12, -0.06), SLOWER),
        ((-0.011, -0.009), (0.25, 0.30), KEPT), ((-0.04, -0.03), (0.25, 0.30), SLOWER),
        ((0.3, 0.4), (-0.02, 0.1), KEPT), ((-0.005, 0.01), (-0.005, 0.01), NO_GAIN),
    ],
)  # fmt: skip
def test_a_gain_in_one_time_is_kept_only_where_a_loss_in_the_other_is_ruled_out(
    busy: tuple[float, float], wall: tuple[float, float], outcome: str
) -> None:
    sides = [Verified("busy", 1, 1, Interval(sum(one) / 2, *one)) for one in (busy, wall)]
    assert judged(sides) == outcome


def test_the_interval_of_a_median_is_that_of_order_statistics_and_as_wide_as_processes_disagree() -> None:
    values = [float(one) for one in range(12)]
    assert (median(values).low, median(values).high) == (2, 9)  # of 12 the third and the tenth: 96.1 %
    assert (median(values[:5]).low, median(values[:5]).high) == (0, 4)
    steady, other = (Timed([one] * 12, [one] * 12) for one in (100.0, 90.0))
    assert compared([(steady, other)] * 2)[0].gain == Interval(pytest.approx(0.1), *[pytest.approx(0.1)] * 2)
    disturbed = Timed([100.0] * 11 + [900.0], [100.0] * 12)
    assert compared([(steady, disturbed)])[1].gain.low == 0  # one run that something else held up
    apart = compared([(steady, other), (other, steady)])[0].gain
    assert (apart.low, apart.high) == (pytest.approx(-1 / 9), pytest.approx(0.1))


def test_energy_is_told_beside_what_was_promised_and_does_not_judge() -> None:
    before, after = (Timed([one] * 12, [one] * 12, [energy] * 2) for one, energy in ((100.0, 40.0), (90.0, 50.0)))
    busy, wall, energy = measured = compared([(before, after)] * 2)
    assert judged(measured) == judged([busy, wall]) == KEPT
    promised = dataclasses.replace(improvement("compile", "compile"), energy=Times(8.0, 10.0, -0.2, -0.3, -0.1))
    row = energy.row("compile", promised)
    assert (row["quantity"], row["before"], row["after"]) == ("energy_mj", 40.0, 50.0)
    assert (row["measured_pct"], row["promised_pct"], row["promised_low_pct"]) == (-25.0, -20.0, -30.0)


def test_without_a_meter_the_reason_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    proving._tell.cache_clear()
    side = Timed([1.0] * 12, [1.0] * 12, energy_reason="no meter in this test")
    for _ in range(2):
        assert [one.quantity for one in compared([(side, side)])] == ["busy", "wall"]
    assert capfd.readouterr().err == "energy of the program: no meter in this test\n"


LONG = """
import time
from torch.profiler import record_function
for number in range(1500):
    with record_function(f"step {number}"):
        time.sleep(0.002)
"""


def test_energy_of_a_step_is_that_of_windows_of_runs_while_the_program_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The meter always draws 50 W: a run of 2 ms at least takes 100 mJ at least."""
    script, turns = tmp_path / "long.py", list[int]()
    script.write_text(LONG, encoding="utf-8")
    for holder in (torch.profiler, torch.autograd.profiler):
        monkeypatch.setattr(holder, "record_function", holder.record_function)  # put back afterwards
    monkeypatch.setattr(windows, "WINDOW_S", 0.5)
    monkeypatch.setattr(windows, "open_meter", open_fake)
    settings = resolved(Settings("", device="cpu", script=(str(script),), trace_only=True))

    def turn() -> bool:
        turns.append(1)
        return True

    found = verifying.run(Job(settings, "step 1"), turn)
    assert found.energy_reason is None
    assert len(found.energy_mj) == windows.WINDOWS
    assert all(energy > 60 for energy in found.energy_mj)  # between two steps of a counter that moves every 10 ms
    assert len(turns) == 2 * verifying.RUNS + windows.WINDOWS
    assert codec.load(Timed, codec.dump(found)).energy_mj == pytest.approx(found.energy_mj)


SLEEPS = """
import time
from torch.profiler import record_function

def rest(seconds):
    time.sleep(seconds)

def spin(seconds):
    until = time.perf_counter() + seconds / 10
    while time.perf_counter() < until:
        pass

if __name__ == "__main__":
    import sleeps
    for number in range(10):
        with record_function(f"step {number}"):
            sleeps.rest(0.05)
    raise SystemExit(0)
"""


@pytest.mark.thorough
def test_a_change_that_is_faster_by_the_clock_but_has_more_done_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes of a program in turns, one of which computes where the other rests, for a tenth of the time."""
    (tmp_path / "sleeps.py").write_text(SLEEPS, encoding="utf-8")
    settings = resolved(Settings("", device="cpu", script=(str(tmp_path / "sleeps.py"),), trace_only=True))
    one = improvement("spinning", "setting")
    change = {"kind": "setting", "frame": None, "values": {}, "text": "import sleeps; sleeps.rest = sleeps.spin"}
    monkeypatch.setattr(proving, "REPEATS", 1)
    (kept,), rows = proving.in_program([dataclasses.replace(one, change={"changes": [change]})], settings, "step 1")
    assert (kept.status, kept.reason) == ("rejected", SLOWER)
    busy, wall = rows[:2]  # energy, too, where the machine lets it be read
    assert busy["measured_high_pct"] < 0 < wall["measured_pct"]
    assert busy["outcome"] == SLOWER


def test_a_program_that_does_not_run_says_why(tmp_path: Path) -> None:
    settings = resolved(Settings("", device="cpu", script=("none.py",), trace_only=True))
    with pytest.raises(ReplayError, match="not a patch of kerneldb improve"):
        proving.in_turns([Job(settings, "step 1", str(tmp_path / "none.py"))])


STEPS = """
from torch.profiler import record_function
import works
for number in range(12):
    with record_function(f"step {number}"):
        works.check()
"""


@pytest.mark.thorough
def test_a_change_with_which_the_program_does_not_run_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "steps.py").write_text(STEPS, encoding="utf-8")
    (tmp_path / "works.py").write_text("def check(): pass", encoding="utf-8")
    settings = resolved(Settings("", device="cpu", script=(str(tmp_path / "steps.py"),), trace_only=True))
    change = {"kind": "setting", "frame": None, "values": {}, "text": "import works; works.check = None"}
    found = [dataclasses.replace(improvement("breaking", "setting"), change={"changes": [change]})]
    monkeypatch.setattr(proving, "REPEATS", 1)
    (kept,), rows = proving.in_program(found, settings, "step 1")
    assert (kept.status, rows) == ("rejected", [])
    assert "does not run with it" in str(kept.reason)
    assert "'NoneType' object is not callable" in str(kept.reason)


def test_a_patch_runs_a_script_that_has_to_be_changed_by_hand_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The sentence names a function of the script, which stays as it is."""
    script, patch = tmp_path / "model.py", tmp_path / "patch.py"
    script.write_text("\n\ndef forward(): return 3\nresult = forward()\n", encoding="utf-8")
    frame = FRAME | {"path": script.name}
    advice = {"kind": "advice", "frame": frame, "values": {}, "text": "merge them", "rewrite": "merged_products"}
    patch.write_text(patching.text([advice], "test"), encoding="utf-8")
    assert patching.load(patch).run([str(script)])["result"] == 3
    assert capfd.readouterr().err == "patch: to do by hand: merge them (model.py:3)\n"


def test_advice_is_not_measured() -> None:
    found = [improvement("merged_products", "advice")]
    assert prove(found, measuring({})) == (found, [])  # type: ignore[arg-type]
    trained = improvement("cuda_graph", "cuda_graph")
    trained.change["changes"][0]["values"]["training"] = True
    assert prove([trained], measuring({})) == ([trained], [])  # type: ignore[arg-type]
    found = [improvement("compile", "compile"), trained, improvement("", "", "together")]
    kept, rows = prove(found, measuring({"compile": 0.2, "cuda_graph": 0.1}))  # type: ignore[arg-type]
    assert [one.status for one in kept[:2]] == ["accepted", "accepted"]  # a mode of its compiler
    busy, wall = (row["promised_pct"] for row in rows[-2:])
    assert (busy, wall) == (pytest.approx(20), None)  # it makes graphs of parts of the step


def test_wall_time_is_promised_only_where_the_device_holds_the_step_back() -> None:
    one = improvement("compile", "compile")
    assert promise(one, "wall") == one.wall
    waits = dataclasses.replace(one, wall=Times(30, 15, 0.5, 0.5, 0.5))
    assert promise(waits, "wall") is None
    assert promise(waits, "busy") == one.busy
    assert one.wall is not None
    disturbed = dataclasses.replace(one, wall=dataclasses.replace(one.wall, low=one.wall.gain - 0.1))
    assert promise(disturbed, "wall") is None


def test_a_function_that_is_compiled_and_graphed_is_changed_once() -> None:
    (one,) = improving.changes([improvement("compile", "compile"), improvement("cuda_graph", "cuda_graph")])
    assert one["values"] == {"mode": "reduce-overhead"}
    graph = improvement("cuda_graph", "cuda_graph")
    assert [one["kind"] for one in improving.changes([graph])] == ["cuda_graph"]
    training = dataclasses.replace(
        graph, change={"changes": [graph.change["changes"][0] | {"values": {"training": True}}]}
    )
    assert [one["kind"] for one in improving.changes([training])] == ["advice"]
    (one,) = improving.changes([improvement("compile", "compile"), training])
    assert one["values"] == {"mode": "reduce-overhead"}


PROGRAM = """
import torch
from torch.profiler import record_function

def norm(value, weight):
    high = torch.ops.aten.add.Scalar(value.pow(2).mean(-1, keepdim=True), 1e-6)
    return torch.mul(weight, torch.mul(value, high.rsqrt()))

if __name__ == "__main__":
    torch.manual_seed(0)
    value, weight = torch.randn(64, 256), torch.ones(256)
    for number in range(12):
        with record_function(f"step {number}"):
            result = norm(value, weight)
    assert torch.allclose(result, norm(value, weight), atol=1e-5)
"""


def test_a_rewrite_is_tried_in_a_step_written_as_a_patch_and_verified_on_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The whole way on a CPU, in this process; what it gains is not judged, since other work may hide it."""
    script, patch = tmp_path / "program.py", tmp_path / "patch.py"
    script.write_text(PROGRAM, encoding="utf-8")
    names = runpy.run_path(str(script))
    monkeypatch.setattr(trial, "LEAST_SECONDS", 0.001)
    flow = flow_of(names["norm"], torch.randn(64, 256), torch.ones(256))
    flow.frames = Frames((Frame("program.py", 5, "norm"),), tuple((0,) for _ in flow.nodes))
    sent: list[Improvement] = []
    bench = trial.Bench(flow.player, on_cpu=True, seconds=0.01, meter=lambda *_: (None, "no meter"))
    Search(flow, bench, sent.append, 60.0).run([RmsNorm()], frozenset())
    assert sent[0].busy is not None
    found = [dataclasses.replace(sent[0], status="accepted")]
    for holder in (torch.profiler, torch.autograd.profiler):
        monkeypatch.setattr(holder, "record_function", holder.record_function)  # put back afterwards
    settings = resolved(Settings("", device="cpu", script=(str(script),), trace_only=True))
    before = verifying.run(Job(settings, "step 1"))

    def measure(some: Sequence[Improvement], _: Sequence[Improvement]) -> list[Verified]:
        patch.write_text(patching.text(improving.changes(some), "test"), encoding="utf-8")
        return compared([(before, verifying.run(Job(settings, "step 1", str(patch))))])

    _, rows = prove(found, measure)
    assert [row["quantity"] for row in rows[:2]] == ["busy_ns", "wall_ns"]
    assert all(row["before"] > 0 < row["after"] for row in rows)
    assert rows[0]["promised_pct"] is None  # no row of all together was made
    assert "program.py:5 norm: rms_norm" in capfd.readouterr().err
