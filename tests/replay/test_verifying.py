"""What a patch gains in the program beside what was promised: changes that make it slower are taken back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kerneldb.replay.recording.measuring import Interval
from kerneldb.replay.wire.improvements import Improvement, Times
from kerneldb.replay.worker import improving
from kerneldb.replay.worker.verifying import SLOWER, Verified, promise, prove

FRAME = {"path": "model.py", "line": 3, "function": "forward", "module": "Model"}


def improvement(rewrite: str, kind: str, status: str = "accepted", gain: float = 0.2) -> Improvement:
    change = {"changes": [{"kind": kind, "frame": FRAME, "values": {}, "text": ""}]}
    busy = Times(10.0, 10.0 * (1 - gain), gain, gain, gain)
    return Improvement("s", 1, rewrite, status, busy=busy, wall=busy, change=change)  # type: ignore[arg-type]


def measuring(gains: dict[str, float]) -> object:
    """A program in which rewrites gain so much; several gain what they gain together."""

    def measure(some: Sequence[Improvement]) -> list[Verified]:
        gain = sum(gains[one.rewrite] for one in some)
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
        kept, _ = prove(found, measuring({"compile": 0.2, "cuda_graph": gain}))  # type: ignore[arg-type]
        assert [one.status for one in kept[:2]] == ["accepted", status]


def test_advice_is_not_measured() -> None:
    found = [improvement("merged_products", "advice")]
    assert prove(found, measuring({})) == (found, [])  # type: ignore[arg-type]


def test_wall_time_is_promised_only_where_the_device_holds_the_step_back() -> None:
    one = improvement("compile", "compile")
    assert promise(one, "wall") == one.wall
    waits = dataclasses.replace(one, wall=Times(30, 15, 0.5, 0.5, 0.5))
    assert promise(waits, "wall") is None
    assert promise(waits, "busy") == one.busy


def test_a_function_that_is_compiled_and_graphed_is_changed_once() -> None:
    (one,) = improving.changes([improvement("compile", "compile"), improvement("cuda_graph", "cuda_graph")])
    assert one["values"] == {"mode": "reduce-overhead"}
    assert [one["kind"] for one in improving.changes([improvement("cuda_graph", "cuda_graph")])] == ["cuda_graph"]
