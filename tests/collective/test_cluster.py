"""One plan on a Ray cluster: portions of equal work, a lost node costs time only, and what cannot be used is told."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kerneldb
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.host import cluster, fleet
from kerneldb.replay.options import Options
from kerneldb.replay.wire import journal
from tests.collective.test_fleet import CPU, copy, exchange, planned

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")

DRIVER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
other = cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
if sys.stdin.readline().strip() == "remove":
    cluster.remove_node(other, allow_graceful=False)
    print("removed", flush=True)
    sys.stdin.readline()
cluster.shutdown()
"""


class Tasks:
    """As the package ray, with all tasks in this process; the first `broken` ones raise."""

    def __init__(self, resources: Mapping[str, float], broken: int = 0) -> None:
        self.resources = resources
        self.broken = broken
        self.asked: list[Mapping[str, Any]] = []
        self.exceptions = SimpleNamespace(RayError=OSError)

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": self.resources}, {"Alive": False, "Resources": {"CPU": 64}}]

    def remote(self, **needed: Any) -> Any:
        self.asked.append(needed)
        return lambda task: SimpleNamespace(remote=lambda *given: lambda: task(*given))

    def wait(self, tasks: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return tasks[:1], tasks[1:]

    def get(self, task: Any) -> Any:
        if self.broken:
            self.broken -= 1
            message = "no device here"
            raise OSError(message)
        return task()


def test_items_are_dealt_out_in_portions_of_equal_work() -> None:
    items = [copy(number) for number in range(20)]
    dealt = cluster.portions([*items, exchange("pair", ranks=2), exchange("four", ranks=4)], 2, 2, first=5)
    assert [one.number for one in dealt] == list(range(5, 12))
    assert [len(one.items) for one in dealt] == [4, 4, 4, 3, 3, 3, 1]
    assert [one.devices for one in dealt] == [1] * 6 + [2]
    assert sorted(item.id for one in dealt for item in one.items) == sorted(
        [*(one.id for one in items), "pair", "four"]
    )
    assert [item.id for item in dealt[0].items][:2] == ["copy0", "copy6"]


def test_a_task_that_fails_is_given_out_again(tmp_path: Path) -> None:
    heard: list[Mapping[str, Any]] = []
    plan_path, journal_path = planned(tmp_path, copy(0))
    ray = Tasks({"CPU": 1.0}, broken=1)
    found = cluster.run(ray, plan_path, journal_path, CPU, listen=heard.append)
    assert (found.finished, found.by_grade) == (True, {"L0": 1})
    assert ray.asked == [{"max_retries": cluster.RETRIES, "num_cpus": 1}] * 2
    assert [event["reason"] for event in heard if event["event"] == "worker"] == ["OSError: no device here"]
    assert {call.item for one in fleet.journals(journal_path) for call in journal.read(one).calls} == {"copy0"}
    again = cluster.run(ray, plan_path, journal_path, CPU, resume=True)
    assert (again.finished, again.by_grade) == (True, {})


def test_a_cluster_without_a_usable_device(tmp_path: Path) -> None:
    paths = planned(tmp_path, copy(0))
    with pytest.raises(ReplayError, match="the Ray cluster has no GPU"):
        cluster.run(Tasks({"CPU": 4.0}), *paths, Options())
    with pytest.raises(ReplayError, match="no device here"):
        cluster.run(Tasks({"CPU": 1.0}, broken=cluster.TRIES), *paths, CPU)


def test_what_no_node_has_room_for_any_more_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Shrinking(Tasks):
        """Has a node of two CPUs until tasks are given out, and then one of a single CPU."""

        cancelled = 0

        def nodes(self) -> list[dict[str, Any]]:
            return [{"Alive": True, "Resources": {"CPU": 1 if self.asked else 2}}]

        def wait(self, tasks: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
            return tasks[1:2], tasks[:1]

        def cancel(self, _: Any, *, force: bool) -> None:
            self.cancelled += force

    monkeypatch.setattr(cluster, "portions", lambda items, *_, **__: [
        cluster.Portion(0, (items[1],), devices=2), cluster.Portion(1, (items[0],)),
    ])  # fmt: skip
    monkeypatch.setattr(cluster, "ROOM_PATIENCE_S", 0.0)
    heard: list[Mapping[str, Any]] = []
    ray = Shrinking({})
    found = cluster.run(ray, *planned(tmp_path, copy(0), exchange("pair")), CPU, listen=heard.append)
    assert (found.finished, found.by_grade, ray.cancelled) == (False, {"L0": 1}, 1)
    assert "no node with 2 CPUs is left in the Ray cluster" in [event.get("reason") for event in heard]


@pytest.fixture
def two_nodes() -> Iterator[subprocess.Popen[str]]:
    """Two nodes of Ray on this machine, in a process that can take the second one away."""
    pytest.importorskip("ray", reason="Ray is not installed (pip install 'kerneldb[cluster]')")
    quiet = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", DRIVER], text=True, **quiet) as process:  # type: ignore[call-overload]
        yield process
        process.stdin.write("end\nend\n")
        process.stdin.close()


def test_a_cluster_that_loses_a_node(root: Path, tmp_path: Path, two_nodes: subprocess.Popen[str]) -> None:
    assert two_nodes.stdout is not None
    assert two_nodes.stdin is not None
    address = two_nodes.stdout.readline().strip()
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(root / "tests" / "fixtures" / "stacks-memory-h200.json.gz")
    command = [sys.executable, "-m", "kerneldb", "--db", str(database.path), "replay", "--device", "cpu", "--no-energy"]
    with subprocess.Popen(
        [*command, "--runs", "3", "--ray", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as replay:
        assert replay.stderr is not None
        assert "calls; eta_s" in next(line for line in replay.stderr if "calls; eta_s" in line)
        two_nodes.stdin.write("remove\n")
        two_nodes.stdin.flush()
        assert two_nodes.stdout.readline() == "removed\n"
        _, errors = replay.communicate(timeout=400)
    assert replay.returncode == 0, errors
    assert "done" in errors
    rows = database.sql(
        "SELECT item_id, count(*) AS n, any_value(status) AS status FROM replay_calls GROUP BY 1"
    ).rows()
    selected = database.sql("SELECT count(DISTINCT signature_id) AS n FROM kernels").rows()[0]["n"]
    assert {row["n"] for row in rows} == {1}
    assert {row["status"] for row in rows} == {"ok"}
    assert database.sql("SELECT count(DISTINCT signature_id) AS n FROM replays").rows() == [{"n": selected}]
