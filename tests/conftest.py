"""Fixtures of all tests."""

from __future__ import annotations

import fcntl
import functools
import gc
import importlib.metadata
import os
import shutil
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

import kerneldb
from kerneldb.warehouse import session

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("busy")

# Threads of PyTorch wait for each other at full speed: beside other workers that is most of what they do.
os.environ.setdefault("OMP_NUM_THREADS", "1")

MANY_OBJECTS = 50_000

ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = Path(os.environ.get("KERNELDB_TEST_DATA", ROOT.parent / "shared" / "data"))


@functools.cache
def gpu_present() -> bool:
    """Whether this machine has an NVIDIA or AMD driver."""
    return shutil.which("nvidia-smi") is not None or Path("/dev/kfd").exists()


def pytest_configure(config: pytest.Config) -> None:
    """Take Ctrl-C where the shell ignores it, as it does for background jobs; children inherit either.

    What is imported until all tests are collected stays: the garbage collector begins then.
    """
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before marks choose what runs
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that read the collection of large traces, by the fixture that knows where it is.

    What is thorough there is more of the same, which takes as long as all else, unless it is `alone`: the only test of
    its kind.
    """
    for item in items:
        if "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.collection)
        thorough, of_collection, volume = (
            item.get_closest_marker(name) for name in ("thorough", "collection", "volume")
        )
        if thorough is not None and of_collection is not None and not thorough.kwargs.get("alone"):
            item.add_marker(pytest.mark.volume)
        elif volume is not None and thorough is None:
            item.add_marker(pytest.mark.thorough)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Thousands of tests and all of torch stay to the end: the garbage collector need not visit them again.

    It looks less often, too. By its own measure it takes a sixth of the time of the screens, which make many objects.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(200_000, 50, 100)


@pytest.fixture(scope="module", autouse=True)
def collector_left_alone() -> None:
    """What modules before this one left stays out of the collector's sight, too.

    Half a million objects are a second each time that a recording collects what its model left.
    """
    if len(gc.get_objects()) > MANY_OBJECTS:
        gc.collect()
        gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    return f"duckdb {importlib.metadata.version('duckdb')}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is not None and not gpu_present():
        pytest.skip("needs a GPU")


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder of all workers."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made-once"
    folder.mkdir(exist_ok=True)
    return folder


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A file to read, made by the first worker that asks for it; the workers beside it wait, and get the same.

    A database is copied for each of them: while one keeps it open, the others would wait for it. Names are one module's
    own: what another module makes by the same name is another file.
    """
    folder = shared_folder(factory) / make.__module__
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / name).exists():
            make(folder / f"draft-{name}")
            session.release_all()
            (folder / f"draft-{name}").rename(folder / name)
        if not name.endswith(".duckdb") or "PYTEST_XDIST_WORKER" not in os.environ:
            return folder / name
        own = factory.getbasetemp() / "made-once" / make.__module__ / name
        own.parent.mkdir(parents=True, exist_ok=True)
        return own if own.exists() else Path(shutil.copyfile(folder / name, own))


def raw_result(result: str, name: str) -> bytes:
    """A raw file of results/RESULT, which keeps these in one archive."""
    with tarfile.open(ROOT / "results" / result / "raw.tar.xz") as archive:
        found = archive.extractfile(next(member for member in archive if member.name == name))
        assert found is not None
        return found.read()


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """A folder of large traces of other projects, which the repository does not carry. Read only."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"no collection of traces at {SHARED_DATA} (KERNELDB_TEST_DATA names another place)")
    return SHARED_DATA


@pytest.fixture(scope="session")
def field(shared_data: Path) -> Path:
    """Public files that earlier versions read wrong or not at all, in a folder beside the large traces. Read only."""
    folder = shared_data.parent / "field"
    if not folder.is_dir():
        pytest.skip(f"no files from the field at {folder}")
    return folder


@pytest.fixture(scope="session")
def deepseek_file(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with 20 reports of Nsight Compute, in the run `deepseek-ocr-v2`. To copy: it takes seconds to make."""
    reports = shared_data / "ncu" / "deepseek-ocr-v2"
    return made_once(
        tmp_path_factory, "deepseek.duckdb", lambda path: kerneldb.open(path).ingest(reports, run=reports.name)
    )
