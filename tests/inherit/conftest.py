"""A recorded trace, and a copy of it without shapes and op links, in one database."""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kerneldb
from kerneldb.api.planning import Request
from kerneldb.replay.wire.plan import Plan
from tests.conftest import made_once

ROOT = Path(__file__).parents[2]
DECODER = ROOT / "examples" / "decoder-h200.json.gz"
GRAPHS = ROOT / "tests" / "fixtures" / "compiled-graph-h200.json.gz"
STRIPPED = "decoder-stripped"
LAUNCHES = 2458
HOUR_NS = 3_600_000_000_000


def load(path: Path) -> ModuleType:
    """A script as a module: scripts are in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def stripped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example trace without anything that tells of its operators, as of another run, an hour later."""
    copy = tmp_path_factory.mktemp("stripped") / "decoder.json.gz"
    counts = load(ROOT / "benchmarks" / "gpu" / "strip_calls.py").strip(DECODER, copy)
    assert counts["removed"] > LAUNCHES
    trace = json.loads(gzip.decompress(copy.read_bytes()))
    trace["baseTimeNanoseconds"] += HOUR_NS
    copy.write_bytes(gzip.compress(json.dumps(trace).encode("utf-8"), mtime=0))
    return copy


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory, stripped: Path) -> Path:
    """A database with the trace and its copy; nothing is inherited yet."""

    def make(path: Path) -> None:
        database = kerneldb.open(path)
        database.ingest(DECODER)
        database.ingest(stripped, name=STRIPPED)

    return made_once(tmp_path_factory, "both.duckdb", make)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory, stripped: Path) -> Path:
    """A database with the copy only."""

    def make(path: Path) -> None:
        kerneldb.open(path).ingest(stripped, name=STRIPPED)

    return made_once(tmp_path_factory, "alone.duckdb", make)


@pytest.fixture(scope="session")
def gemms(alone: Path) -> Plan:
    """The plan of the matrix products of the copy alone: nothing is known of them."""
    return kerneldb.open(alone).plan_replay(Request(where="category = 'GEMM'")).plan


@pytest.fixture(scope="session")
def inherited(tmp_path_factory: pytest.TempPathFactory, both: Path) -> kerneldb.Database:
    """The first database after `inherit`."""

    def make(path: Path) -> None:
        kerneldb.open(shutil.copy(both, path)).inherit()

    return kerneldb.open(made_once(tmp_path_factory, "inherited.duckdb", make))


@pytest.fixture
def fresh(tmp_path: Path, both: Path) -> kerneldb.Database:
    """A copy of the first database, to be changed."""
    path = tmp_path / "k.duckdb"
    shutil.copy(both, path)
    return kerneldb.open(path)


@pytest.fixture
def lonely(tmp_path: Path, alone: Path) -> kerneldb.Database:
    """A copy of the second database, to be changed."""
    path = tmp_path / "k.duckdb"
    shutil.copy(alone, path)
    return kerneldb.open(path)
