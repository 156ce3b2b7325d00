"""A route of a package that kerneldb knows nothing of: found by its entry point, it plans, runs, grades, is shown."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from kerneldb.replay import routes
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.plan.work import Work
from kerneldb.replay.wire.plan import PlannedKernel

ROOT = Path(__file__).parents[2]

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

ROUTE = '''
"""Replays kernels of a library of our own, whose names say what they do: toy_scale_1024 scales 1,024 floats."""
import dataclasses
import re

from kerneldb.replay.routes.base import Route
from kerneldb.replay.routes.grades import CallMatch, KernelMatch
from kerneldb.replay.wire.results import Grade

NAME = re.compile(r"toy_scale_([0-9]+)")


@dataclasses.dataclass(frozen=True)
class Buffer:
    name: str
    tensor: object

    @property
    def bytes(self):
        return self.tensor.numel() * self.tensor.element_size()


@dataclasses.dataclass(frozen=True)
class Scale:
    inputs: tuple
    overload: str = "toy::scale"
    notes: tuple = ("sizes from the name",)

    def call(self):
        return self.inputs[0].tensor.mul(2.0)

    def refill(self, seed=0):
        self.inputs[0].tensor.normal_()


class ToyRoute(Route):
    name = "toy"
    about = "scales as many floats as the name of the kernel says"
    source = None

    def claims(self, work):
        return all(NAME.fullmatch(kernel.name) for kernel in work.kernels)

    def lacks(self, item, sources):
        return "more floats than there are" if item.kernels[0].name.endswith("_0") else None

    def prepare(self, item, device):
        import torch

        size = int(NAME.fullmatch(item.kernels[0].name)[1])
        yield Scale((Buffer("values", torch.randn(size, device=device)),))

    def verify(self, item, call, seen):
        ran = [one.name for one in (seen.operations if seen.on_cpu else seen.activities)]
        grade = Grade.L0 if "aten::mul" in ran else Grade.L3
        return CallMatch(grade, tuple(KernelMatch(one, grade) for one in item.kernels))
'''
SHOWN = """
    import asyncio
    import sys
    from pathlib import Path

    from tests.tui.piloting import opened, press, settled, text_of

    async def main():
        async with opened(Path(sys.argv[1]), None, first="replay", size=(120, 30)) as (app, pilot):
            print(text_of(app))
            await press(pilot, "l")
            await settled(pilot)
            print(text_of(app))

    asyncio.run(main())
"""


def trace_of(*names: str) -> str:
    """A PyTorch trace of one launch of 10 µs per name, with no operator around it."""
    events: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        same = {"ph": "X", "pid": 0, "ts": 100.0 * number}
        arguments = {"correlation": number, "device": 0, "stream": 7}
        launch = {"grid": [4, 1, 1], "block": [256, 1, 1], "shared memory": 0}
        events += [
            {**same, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "dur": 5, "args": arguments},
            {**same, "cat": "kernel", "name": name, "tid": 7, "dur": 10, "args": {**arguments, **launch}},
        ]
    return json.dumps({"schemaVersion": 1, "traceEvents": events})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package and a database of a trace that it can replay in part."""
    made = tmp_path_factory.mktemp("toy")
    site = made / "site"
    (site / "toyroute-1.0.dist-info").mkdir(parents=True)
    (site / "toyroute.py").write_text(ROUTE)
    (site / "toyroute-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: toyroute\nVersion: 1.0\n")
    entry = "[kerneldb.routes]\ntoy = toyroute:ToyRoute\n"
    (site / "toyroute-1.0.dist-info" / "entry_points.txt").write_text(entry)
    (made / "toys.json").write_text(trace_of("toy_scale_1024", "toy_scale_1024", "toy_scale_4096", "other_kernel"))
    run(made, "-m", "kerneldb", "ingest", "toys.json", "--quiet")
    return made


def run(folder: Path, *command: str) -> str:
    path = os.pathsep.join([str(folder / "site"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "KERNELDB_DB": "k.duckdb"}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(folder: Path, *command: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(folder, "-m", "kerneldb", *command, "--json"))
    return found


@pytest.mark.thorough
def test_it_claims_what_it_knows_and_nothing_else(folder: Path) -> None:
    planned = rows(folder, "replay", "--dry-run")
    by_route = {row["route"]: row for row in planned}
    assert set(by_route) == {"toy", "none"}
    assert (by_route["toy"]["signatures"], by_route["toy"]["launches"]) == (2, 3)
    assert by_route["toy"]["replayable_pct"] == pytest.approx(75)
    assert sum(row["replayable_pct"] for row in planned) == pytest.approx(75)


@pytest.mark.thorough
@needs_torch
def test_it_runs_and_is_shown_in_table_sql_and_screen(folder: Path) -> None:
    results = rows(folder, "replay", "--device", "cpu", "--no-energy", "--runs", "6")
    by_route = {row["route"]: row for row in results}
    assert (by_route["toy"]["launches"], by_route["toy"]["l0_launches_pct"]) == (3, 100)
    assert by_route["none"]["l0_launches_pct"] == 0
    sql = (
        "SELECT c.route, c.grade, c.status, c.overload, c.time_ns > 0 AS timed, r.about, r.waits "
        "FROM replay_calls AS c JOIN replay_routes AS r USING (route) ORDER BY c.item_id"
    )
    called = {"route": "toy", "grade": "L0", "status": "ok", "overload": "toy::scale", "timed": True}
    about = {"about": "scales as many floats as the name of the kernel says", "waits": False}
    assert rows(folder, "query", sql) == [{**called, **about}] * 2
    kernels = "SELECT name, replay_grade FROM kernels ORDER BY name, start_ns"
    grades = [(row["name"], row["replay_grade"]) for row in rows(folder, "query", kernels)]
    assert grades == [("other_kernel", "L4"), *[("toy_scale_1024", "L0")] * 2, ("toy_scale_4096", "L0")]
    shown = run(folder, "-c", textwrap.dedent(SHOWN), "k.duckdb")
    assert len([line for line in shown.splitlines() if " toy " in line]) == 2  # in the plan, and in the results


def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path, folder: Path) -> None:
    broken = tmp_path / "broken-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (broken / "entry_points.txt").write_text("[kerneldb.routes]\nmine = not_there:Route\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-m", "kerneldb", "--db", str(folder / "k.duckdb"), "replay", "--dry-run"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    package, reason = "installed package broken", "ModuleNotFoundError: No module named 'not_there'"
    assert done.stderr.strip() == f"Error: the route mine of the {package} cannot be loaded: {reason}"


def test_a_route_that_fails_is_named_with_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clumsy(routes.Route):
        name = "clumsy"

        def claims(self, work: Work) -> bool:
            return bool(work.kernels[0].bytes < 1)  # type: ignore[operator]

    work = Work("w", (PlannedKernel(0, "s", "toy\x1b[2J"),))
    with pytest.raises(ReplayError, match=r"^the route 'clumsy' fails over toy\\x1b\[2J: TypeError: "):
        routes.decide([work], archive=None, among=[Clumsy()])  # type: ignore[arg-type]


def test_names_of_our_own_are_not_taken() -> None:
    class Other(routes.Route):
        name = "aten"

    for odd, said in (
        (Other(), "a route 'aten' comes with kerneldb"),
        (Other, "is not a route"),
        (None, "is not a route"),
    ):
        with pytest.raises(ReplayError, match=said):
            routes.register(odd)  # type: ignore[arg-type]


def test_the_last_one_registered_is_asked_first() -> None:
    class Mine(routes.Route):
        name = "mine"

    before = routes.known()
    try:
        routes.register(Mine())
        assert [route.name for route in routes.known()] == ["mine", *(route.name for route in before)]
        assert [route.name for route in routes.of_users() if route not in before] == ["mine"]
    finally:
        routes._ROUTES.pop("mine")
