"""The whole engine on the CPU: plan in, journal out, verified by the operators that ran."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kerneldb.replay.wire import journal
from kerneldb.replay.wire.plan import CallSpec, Item, OpCall
from kerneldb.replay.wire.results import CallResult
from tests.replay.specs import op_call, scalar, spec, tensor, tensors
from tests.replay_worker.plans import copy, item, write

pytest.importorskip("torch", reason="torch is not installed")

ROOT = Path(__file__).parents[2]
INDEX = tensor([5], "long int")
CALLS = {
    "mm": spec("aten::mm", tensor([64, 32]), tensor([32, 48], strides=[1, 32])),
    "add": spec("aten::add", tensor([64, 32]), tensor([32]), scalar(1)),
    "softmax": spec(
        "aten::softmax", tensor([8, 32]), scalar(-1), ([], [], "", ""),
        below=[op_call("aten::_softmax", tensor([8, 32]), scalar(-1), scalar("False"))],
    ),
    "cat": spec("aten::cat", tensors([2, 3], [4, 3]), scalar(0), near=[op_call("aten::relu", tensor([2, 3]))]),
    "mul_": spec("aten::mul_", tensor([128]), tensor([128])),
    "index_select": spec("aten::index_select", tensor([9, 4]), scalar(0), INDEX),
}  # fmt: skip


BREAKING = ("--import", "tests.replay_worker.breaking")


def breaking(name: str) -> Item:
    """An operator of breaking.py."""
    return item(name, "aten", spec(f"kerneldb_test::{name}", tensor([4])))


def replay(folder: Path, *items: Item, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    path = write(folder / "plan.jsonl", *items)
    given = ["--journal", str(folder / "journal.jsonl"), "--device", "cpu", "--runs", "6", "--no-energy", *options]
    command = [sys.executable, "-m", "kerneldb.replay", str(path), *given]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)


def results(folder: Path) -> dict[str, CallResult]:
    return {one.item: one for one in journal.read(folder / "journal.jsonl").calls}


def index_call() -> CallSpec:
    """`x[i]` as recorded: the index tensor leaves its shape in a child call only."""
    strided = op_call("aten::as_strided", tensor([9, 4]), ([], [], "ScalarList", "[5, 4]"),
                      ([], [], "ScalarList", "[0, 1]"), ([], [], "", ""))  # fmt: skip
    reshaped = op_call("aten::reshape", INDEX, ([], [], "ScalarList", "[5, 1]"))
    return spec("aten::index", tensor([9, 4]), ([], [], "", ""), below=[strided, reshaped])


@dataclasses.dataclass(frozen=True)
class Replayed:
    """One replay of many calls: to start one takes longer than all of them."""

    folder: Path
    done: subprocess.CompletedProcess[str]
    found: dict[str, CallResult]


FAILED = dict.fromkeys(("wrong", "none", "exhaust"), "L4")
EXPECTED = dict.fromkeys([*CALLS, "index", "copy"], "L0") | {"dims": "L1", "op": "L3"} | FAILED


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    folder = tmp_path_factory.mktemp("replayed")
    below = {"dims": op_call("aten::clamp_min", tensor([9]), scalar(0)), "op": op_call("aten::sigmoid", tensor([8]))}
    calls = {
        **CALLS,
        "index": index_call(),
        **{name: spec("aten::relu", tensor([8]), below=[call]) for name, call in below.items()},
        "wrong": spec("aten::mm", tensor([4, 3]), tensor([4, 3])),
        "none": CallSpec(OpCall("mine::op", "[]", "[]", "[]")),
    }
    items = [item(name, "aten", call) for name, call in calls.items()]
    items += [breaking("exhaust"), item("copy", "memory", None, copy(4096))]
    done = replay(folder, *items, options=BREAKING)
    assert done.returncode == 0, done.stderr
    return Replayed(folder, done, results(folder))


def test_calls_run_again_with_the_same_operators(replayed: Replayed) -> None:
    assert {name: one.grade for name, one in replayed.found.items()} == EXPECTED
    good = {name: one for name, one in replayed.found.items() if EXPECTED[name] == "L0"}
    assert len(good) == 8
    for one in good.values():
        assert one.time is not None
        assert one.time.n >= 6
        assert one.time.median_ns > 0
    assert good["mm"].overload == "aten::mm.default"


def test_progress_is_told(replayed: Replayed) -> None:
    events = [json.loads(line) for line in replayed.done.stderr.splitlines()]
    assert [event["event"] for event in events] == ["start", "ready", *["progress"] * len(EXPECTED), "end"]


def test_another_operator_is_not_the_same(replayed: Replayed) -> None:
    """Of other shapes, and another one altogether."""
    assert (replayed.found["dims"].grade, replayed.found["op"].grade) == ("L1", "L3")


def test_calls_that_cannot_run_have_their_reason(replayed: Replayed) -> None:
    found = replayed.found
    assert {name for name, one in found.items() if one.status == "failed"} == FAILED.keys()
    assert "mat1 and mat2 shapes cannot be multiplied" in str(found["wrong"].reason)
    assert found["none"].reason == "no such operator here: mine::op"
    assert found["exhaust"].reason == "MemoryError"


@pytest.mark.thorough
def test_operators_that_break_their_worker_cost_one_item_each(tmp_path: Path) -> None:
    broken = [breaking(name) for name in ("kill", "hang")]
    items = [item("before", "aten", CALLS["mm"]), *broken, item("after", "aten", CALLS["add"])]
    done = replay(tmp_path, *items, options=(*BREAKING, "--item-seconds", "6"))
    assert done.returncode == 0, done.stderr
    found = results(tmp_path)
    assert {name: (one.grade, one.reason) for name, one in found.items() if name not in {"before", "after"}} == {
        "kill": ("L4", "worker killed by SIGKILL"),
        "hang": ("L4", "hung: silent for 6 s, killed"),
    }
    assert (found["before"].grade, found["after"].grade) == ("L0", "L0")


def test_resume_begins_nothing_where_nothing_is_missing(replayed: Replayed, tmp_path: Path) -> None:
    shutil.copy(replayed.folder / "journal.jsonl", tmp_path)
    done = replay(tmp_path, item("mm", "aten", CALLS["mm"]), options=("--resume",))
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert (events[0]["items"], events[0]["settled"]) == (0, len(EXPECTED))
    assert "ready" not in {event["event"] for event in events}
    assert set(results(tmp_path)) == {*replayed.found}


@pytest.mark.thorough
def test_a_module_that_is_missing_is_named(tmp_path: Path) -> None:
    done = replay(tmp_path, item("mm", "aten", CALLS["mm"]), options=("--import", "no_such_module"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "cannot import no_such_module: No module named 'no_such_module'"


def test_a_machine_without_gpu_says_so_in_one_line(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    done = replay(tmp_path, item("mm", "aten", CALLS["mm"]), options=("--device", "cuda"))
    assert done.returncode == 1
    assert "(kerneldb replay --write-plan FILE writes the plan for it), or with --device cpu" in done.stderr
