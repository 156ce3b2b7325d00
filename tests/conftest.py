"""Fixtures of all tests."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib.metadata
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kerneldb
from kerneldb.warehouse import Warehouse

ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = Path(os.environ.get("KERNELDB_TEST_DATA", ROOT.parent / "shared" / "data"))


@functools.cache
def gpu_present() -> bool:
    """Whether this machine has an NVIDIA or AMD driver."""
    return shutil.which("nvidia-smi") is not None or Path("/dev/kfd").exists()


def pytest_configure(config: pytest.Config) -> None:
    """Take Ctrl-C where the shell ignores it, as it does for background jobs; children inherit either."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config: pytest.Config) -> str:
    return f"duckdb {importlib.metadata.version('duckdb')}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is not None and not gpu_present():
        pytest.skip("needs a GPU")


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A file to read, made by the first worker that asks for it; the workers beside it wait, and get the same."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made-once"
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / name).exists():
            make(folder / f"draft-{name}")
            (folder / f"draft-{name}").rename(folder / name)
    return folder / name


@pytest.fixture(scope="session", autouse=True)
def ready_made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """New databases are copies of one: its many views take a second or two, as often as a test begins with none.

    `tests/warehouse/test_schema.py` makes them from the ground up, as every command does that runs as a process.
    """
    upgrade = Warehouse._upgrade

    def copied(self: Warehouse, timeout: float) -> None:
        if not self.path.exists() and self.path.parent.is_dir():
            template = made_once(tmp_path_factory, "empty.duckdb", lambda path: upgrade(Warehouse(path), timeout))
            draft = Path(shutil.copyfile(template, self.path.with_name(f".{threading.get_ident()}-{self.path.name}")))
            with contextlib.suppress(FileExistsError):
                self.path.hardlink_to(draft)
            draft.unlink()
        upgrade(self, timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Warehouse, "_upgrade", copied)
        yield


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
def deepseek_file(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with 20 reports of Nsight Compute, in the run `deepseek-ocr-v2`. To copy: it takes seconds to make."""
    reports = shared_data / "ncu" / "deepseek-ocr-v2"
    return made_once(tmp_path_factory, "deepseek.duckdb", lambda path: kerneldb.open(path).ingest(reports))
