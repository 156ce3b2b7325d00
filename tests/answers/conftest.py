"""A warehouse of the example trace and of copies of it with known changes."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.warehouse import Warehouse
from tests.conftest import made_once

GPU = ("kernel", "gpu_memcpy", "gpu_memset")

Event = dict[str, Any]


def changed(source: Path, target: Path, scale: Callable[[Event], float]) -> None:
    """Copy a trace with the durations of its GPU events scaled, as a recording of another hour."""
    trace = json.loads(gzip.decompress(source.read_bytes()))
    later_us = 1e6 * (3600 + zlib.crc32(target.name.encode()) % 3600)
    for event in trace["traceEvents"]:
        if "ts" in event:
            event["ts"] = round(event["ts"] + later_us, 3)
        if event.get("cat") in GPU:
            event["dur"] = round(event["dur"] * scale(event), 3)
    target.write_text(json.dumps(trace), encoding="utf-8")


def most_frequent(source: Path) -> str:
    """The kernel name with the most launches."""
    events = json.loads(gzip.decompress(source.read_bytes()))["traceEvents"]
    names = [event["name"] for event in events if event.get("cat") == "kernel"]
    return max(set(names), key=names.count)


@pytest.fixture(scope="session")
def example(root: Path) -> Path:
    return root / "examples" / "decoder-h200.json.gz"


@pytest.fixture(scope="session")
def slowed_name(example: Path) -> str:
    return most_frequent(example)


@pytest.fixture(scope="session")
def nccl(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """A trace with collectives."""
    trace = shared_data / "pytorch" / "hta-nccl.json.gz"
    return kerneldb.open(made_once(tmp_path_factory, "nccl.duckdb", lambda path: kerneldb.open(path).ingest(trace)))


@pytest.fixture(scope="session")
def compared(example: Path, slowed_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The example as `base`; `slower`: one kernel by 5 %, `clocks`: all by 4 %, `noisy`: 6 % of scatter."""
    rng = random.Random(7)
    copies: dict[str, Callable[[Event], float]] = {
        "slower": lambda event: 1.05 if event["name"] == slowed_name else 1.0,
        "clocks": lambda _: 1.04,
        "noisy": lambda _: max(0.5, rng.gauss(1.0, 0.06)),
    }

    def make(path: Path) -> None:
        folder, database = tmp_path_factory.mktemp("compared"), kerneldb.open(path)
        database.ingest(example, name="base")
        for name, scale in copies.items():
            changed(example, folder / f"{name}.json", scale)
            database.ingest(folder / f"{name}.json")

    database = kerneldb.open(made_once(tmp_path_factory, "compared.duckdb", make))
    with Warehouse(database.path).connection():  # a file that is open need not be opened for every question
        yield database
    Warehouse(database.path).release()


@pytest.fixture(scope="session")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """A database of the recording with Python stacks and memory, for those that only ask."""

    def make(path: Path) -> None:
        kerneldb.open(path).ingest(Path(__file__).parents[1] / "fixtures" / "stacks-memory-h200.json.gz")

    return kerneldb.open(made_once(tmp_path_factory, "stacks.duckdb", make))


@pytest.fixture(scope="session")
def stacks_address(stacks: Database, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of its report."""
    from kerneldb.report import gather, html

    path = tmp_path_factory.mktemp("stacks") / "report.html"
    path.write_text(html.page(gather.single(stacks, ["stacks-memory-h200"])), encoding="utf-8")
    return path.as_uri()
