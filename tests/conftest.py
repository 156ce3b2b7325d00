"""Fixtures of all tests."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import shutil
import signal
from pathlib import Path

import pytest

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
