"""Energy on this GPU: what a product costs is known within a few percent, twice the work costs twice as much."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerneldb.replay.measure.energy.meter import NoMeterError, open_meter
from kerneldb.replay.wire import journal
from tests.replay.specs import spec, tensor
from tests.replay_worker.plans import copy, item, kernel, write

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
HALF = "c10::Half"


def test_energy_grows_with_the_work(tmp_path: Path) -> None:
    try:
        open_meter("cuda:0").close()
    except NoMeterError as error:
        pytest.skip(str(error))
    calls = {
        f"mm{rows}": spec("aten::mm", tensor([rows, 4096], HALF), tensor([4096, 4096], HALF)) for rows in (2048, 4096)
    }
    items = [item(name, "aten", call, kernel()) for name, call in calls.items()]
    path = write(tmp_path / "plan", *items, item("copy", "memory", None, copy(1 << 16)))
    out = tmp_path / "journal"
    given = ["--journal", str(out), "--energy-seconds", "40", "--tries", "1"]  # a made-up kernel: all tries miss it
    command = [sys.executable, "-m", "kerneldb.replay", str(path), *given]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    read = journal.read(out)
    assert read.energy is not None
    assert read.energy.reason is None
    assert (read.energy.idle_power_w or 0) > 5
    assert (read.energy.launch_loop_power_w or 0) >= 0.95 * (read.energy.context_power_w or 0)
    found = {one.item: one.energy for one in read.calls}
    above = []
    for name in calls:
        energy = found[name]
        assert energy is not None
        assert energy.dynamic_mj is not None, energy.reason
        assert (energy.dynamic_high_mj or 0) - energy.dynamic_mj < 0.05 * energy.dynamic_mj
        above.append(energy.dynamic_mj)
    assert above[1] / above[0] == pytest.approx(2.0, rel=0.25)
    pageable = found["copy"]
    assert pageable is not None
    assert (pageable.energy_mj is None) == (pageable.reason is not None)
