"""Ingest by many processes: shards, and tasks of a Ray cluster that loses a worker and a node."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from kerneldb.api import clustering
from kerneldb.api.clustering import is_address
from kerneldb.api.ingestion import IngestOptions, plan_units
from kerneldb.cli import cli
from kerneldb.errors import UsageError, WarehouseError
from kerneldb.warehouse import Warehouse
from kerneldb.warehouse.place import Place

TRACES = 6
WHOLE = """
    SELECT name
    FROM traces
    INNER JOIN (SELECT trace_id, count(*) AS n FROM launches GROUP BY trace_id) USING (trace_id)
    WHERE n = launches
"""
DRIVER = """
import os, sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
other = cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
for line in sys.stdin:
    if line.strip() == "remove":
        cluster.remove_node(other, allow_graceful=False)
        print("removed", flush=True)
    else:
        break
cluster.shutdown()
"""


@pytest.fixture(scope="module")
def traces(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of traces that differ in one name each."""
    text = gzip.decompress((root / "tests" / "fixtures" / "compiled-graph-h200.json.gz").read_bytes())
    folder = tmp_path_factory.mktemp("traces")
    for number in range(TRACES):
        changed = text.replace(b'"traceName"', b'"copy": %d, "traceName"' % number, 1)
        assert changed != text
        (folder / f"rank{number}.json").write_bytes(changed)
    return folder


def names(place: Place) -> list[str]:
    """The traces that are there with all their launches, each as often as it is there."""
    return sorted(row["name"] for row in Warehouse(place).query(WHOLE).to_pylist())


def test_shards_cover_everything_once(traces: Path) -> None:
    shares = [plan_units([traces], IngestOptions(shard=(number, 5)))[0] for number in range(5)]
    files = [file for share in shares for unit in share for file in unit.files]
    assert sorted(files) == sorted(traces.iterdir())
    assert max(map(len, shares)) < TRACES


@pytest.mark.parametrize("text", ["8/8", "1", "-1/2", "a/b"])
def test_shard_is_checked(text: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["--db", str(tmp_path / "k.duckdb"), "ingest", "--shard", text, str(tmp_path)])
    assert done.exit_code == 2
    assert "I/N" in done.stderr


def test_address_or_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert all(map(is_address, ("10.0.0.1:6379", "ray://head:10001", "auto", "[::1]:6379", "head-1.site:6379")))
    assert not any(map(is_address, ("trace.json", "ranks/", "a/b:c")))
    (tmp_path / "x:1").touch()
    assert not is_address("x:1")


def test_ray_needs_a_lake(tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    trace.touch()
    done = CliRunner().invoke(cli, ["--db", str(tmp_path / "k.duckdb"), "ingest", "--ray", str(trace)])
    assert done.exit_code == 2
    assert "needs a lake" in done.stderr


class RayError(Exception):
    """As in ray.exceptions."""


class TaskError(RayError):
    """As RayTaskError: its own text begins with where the task ran."""

    cause = WarehouseError("lake password=hidden: no space left\non the device")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TaskError("ray::ingest_unit() (pid=7, ip=10.0.0.2)\nTraceback"), "a.json: lake password=*** no space left"),
        (RayError("The worker died.\nmore"), "a.json: no worker lived long enough to ingest it: The worker died."),
    ],
)
def test_a_task_that_failed_says_why(error: RayError, told: str) -> None:
    def get(_done: object) -> None:
        raise error

    ray = SimpleNamespace(get=get, exceptions=SimpleNamespace(RayError=RayError))
    (outcome,) = clustering._result(ray, object(), Path("a.json"))
    assert (outcome.status, str(outcome.error)) == ("failed", told)


def test_ray_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_given: object) -> None:
        message = "The current node timed out during startup."
        raise Exception(message)  # noqa: TRY002 (as Ray does)

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init, is_initialized=lambda: False))
    with pytest.raises(UsageError, match=r"no Ray cluster at this machine: The current node timed out"):
        clustering.connected(None)


def test_shards_side_by_side(traces: Path, sqlite_lake: Place, tmp_path: Path) -> None:
    """As the tasks of an array: two processes, and one of them twice."""
    few = [Path(shutil.copy(file, tmp_path)) for file in sorted(traces.iterdir())[:3]]
    while len({zlib.crc32(os.fsencode(file)) % 2 for file in few}) == 1:  # each share has a file
        few[0] = few[0].rename(few[0].with_stem(f"{few[0].stem}x"))
    shares = ("0/2", "1/2", "1/2")
    command = [
        sys.executable,
        "-m",
        "kerneldb",
        "--db",
        sqlite_lake.uri,
        "ingest",
        *map(str, few),
        "--lock-timeout",
        "900",
    ]
    started = [
        subprocess.Popen([*command, "--shard", share], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for share in shares
    ]
    for process in started:
        assert process.wait(900) == 0, process.communicate()[1]
        process.communicate()
    assert names(sqlite_lake) == sorted(file.stem for file in few)


@pytest.fixture
def cluster() -> Any:
    """Two nodes of Ray on this machine, in a process that can take the second one away."""
    pytest.importorskip("ray", reason="Ray is not installed (pip install 'kerneldb[cluster]')")
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process
        process.stdin.write("end\n")
        process.stdin.close()


def ray_workers() -> list[int]:
    """The processes that run a task right now."""
    import psutil

    found = []
    for process in psutil.process_iter(["name", "cmdline"]):
        title = " ".join(process.info["cmdline"] or [process.info["name"] or ""])
        if title.startswith("ray::ingest_unit"):  # Ray names a worker by its task
            found.append(process.pid)
    return found


def wait_for(what: str, ready: Any, pause_s: float = 0.1) -> Any:
    deadline = time.monotonic() + 600  # a busy machine starts the workers of Ray one after the other
    while not (found := ready()):
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(pause_s)
    return found


def test_ray_cluster_that_loses_a_worker_and_a_node(traces: Path, postgres_lake: Place, cluster: Any) -> None:
    address = cluster.stdout.readline().strip()
    command = [
        sys.executable,
        "-m",
        "kerneldb",
        "--db",
        postgres_lake.uri,
        "ingest",
        "--ray",
        address,
        str(traces),
        "-q",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as ingest:
        # To ask a lake takes as much of a processor as to read one of these traces, which waits for it meanwhile.
        wait_for("a first trace", lambda: names(postgres_lake), 0.3)
        victim = wait_for("a worker", ray_workers)[0]
        os.kill(victim, signal.SIGKILL)
        wait_for("a second worker", lambda: len(names(postgres_lake)) > 3, 0.3)
        cluster.stdin.write("remove\n")
        cluster.stdin.flush()
        assert cluster.stdout.readline() == "removed\n"
        _, errors = ingest.communicate(timeout=400)
    assert ingest.returncode == 0, errors
    assert names(postgres_lake) == sorted(f"rank{number}" for number in range(TRACES))
    sql = "SELECT count(*) AS n FROM (SELECT name_id FROM kernel_names GROUP BY 1 HAVING count(*) > 1)"
    assert Warehouse(postgres_lake).query(sql).to_pylist() == [{"n": 0}]
