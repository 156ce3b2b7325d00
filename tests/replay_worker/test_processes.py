"""Processes of our own run no file of the folder that they are started in, unless the user names it."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from kerneldb.replay import processes
from kerneldb.replay.errors import ReplayError
from kerneldb.replay.host import run as host
from kerneldb.replay.options import Options
from kerneldb.replay.recording import ranks
from kerneldb.replay.recording.settings import RecordError, Settings
from kerneldb.replay.wire import journal
from tests.replay.specs import spec, tensor
from tests.replay_worker.plans import item, write

CPU = Options(device="cpu", runs=3, warmup=1, energy=False)
METER = """
import numpy
from kerneldb.replay.measure.energy import meter

def refuse(device, uuid):
    raise meter.NoMeterError("asked mine")

meter.register("mine", refuse)
"""
SEARCHED = "from importlib.util import find_spec\nprint(find_spec('here_only') is not None)\n"


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a module that PyTorch imports; if it runs, there is a file `ran`."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    (folder / "numpy.py").write_text("import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n")
    monkeypatch.chdir(folder)
    return folder


def test_a_module_of_ours_is_found_and_the_current_folder_not_searched(hostile: Path) -> None:
    (hostile / "here_only.py").touch()
    (hostile.parent / "given").mkdir()
    (hostile.parent / "given" / "look.py").write_text(SEARCHED)
    environment = {**processes.environment(), "PYTHONPATH": str(hostile.parent / "given")}
    done = subprocess.run(processes.command("look"), env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_named_module_of_the_current_folder_comes_last(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here_only", "json"):
        (hostile / f"{name}.py").write_text(SEARCHED)
        monkeypatch.delitem(sys.modules, name, raising=name == "json")
    before = list(sys.path)
    processes.import_named("here_only")
    processes.import_named("json")
    assert Path(str(sys.modules["here_only"].__file__)).parent == hostile
    assert hasattr(sys.modules["json"], "loads")
    assert sys.path == before
    monkeypatch.delitem(sys.modules, "here_only")


def test_a_named_package_may_have_folders_in_several_places(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(hostile.parent / "other"))
    for folder in (hostile, hostile.parent / "other"):
        (folder / "in_two_places").mkdir(parents=True)
    (hostile / "in_two_places" / "here.py").touch()
    processes.import_named("in_two_places.here")
    assert Path(str(sys.modules["in_two_places.here"].__file__)).parent == hostile / "in_two_places"
    for name in ("in_two_places", "in_two_places.here"):
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(("package", "base"), processes.REGISTRIES)
def test_a_class_that_is_not_registered_is_named(hostile: Path, package: str, base: str) -> None:
    name = f"idle_{base.lower()}"
    code = f"from {package} import {base}, register\n\n\nclass Mine({base}):\n    name = 'mine'\n"
    (hostile / f"{name}.py").write_text(code)
    with pytest.raises(ReplayError, match=rf"^{name} does not register its class Mine: end it with `register\(Mine"):
        processes.import_all([name])
    del sys.modules[name]


@pytest.mark.parametrize("package", [package for package, _ in processes.REGISTRIES])
def test_no_class_of_ours_is_left_out(package: str) -> None:
    pytest.importorskip("torch")
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)
        assert list(processes.unregistered(module.name)) == []


def test_a_worker_imports_a_named_module_of_the_current_folder(hostile: Path, tmp_path: Path) -> None:
    """When it replays, and when it measures energy; it runs no other file of that folder."""
    pytest.importorskip("torch")
    (hostile / "mine.py").write_text(METER)
    path = write(tmp_path / "plan", item("mm", "aten", spec("aten::mm", tensor([4, 4]), tensor([4, 4]))))
    chosen = dataclasses.replace(CPU, energy=True, modules=("mine",))
    assert host.run(path, tmp_path / "journal", chosen).by_grade == {"L0": 1}
    found = journal.read(tmp_path / "journal").energy
    assert found is not None
    assert found.reason == "asked mine"
    assert not (hostile / "ran").exists()


@pytest.mark.thorough
def test_a_recording_runs_no_file_of_the_current_folder(hostile: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    wanted = Settings("gpt2", device="cpu", tiny=True, modules=("no_such_module",))
    with pytest.raises(RecordError, match="cannot import no_such_module"):
        ranks.run(wanted, tmp_path / "recorded", resume=False, listen=[].append)
    assert not (hostile / "ran").exists()


GREEDY = """
from kerneldb import files
from kerneldb.replay import processes
files.free_memory = lambda: 0
processes.bound_memory()
len(bytes(600 << 20))
try:
    bytes(1100 << 20)  # zeros, which no system keeps in memory before they are read or written
except MemoryError:
    print("refused")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bound the data of a process")
def test_a_process_takes_its_share_of_the_host_memory_and_no_more() -> None:
    done = subprocess.run([sys.executable, "-c", GREEDY], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"
