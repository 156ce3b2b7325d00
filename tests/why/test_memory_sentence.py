"""Memory that is short, fragmented or asked for in every step is a sentence with figures; enough of it is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kerneldb
from kerneldb.report import why
from tests.conftest import made_once
from tests.why.causes import H100, US, Program

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.report.model import Advice

GB = 10**9
CAPACITY = 80 * GB


def stepping(reserved: list[int], *, calls: int = 0) -> Program:
    """Steps in which a layer takes 12 GB more than 20; `reserved` are the totals of the allocator, step by step.

    Each step calls cudaFree and cudaMalloc `calls` times, for 2 ms each.
    """
    program = Program()
    program.trace.metadata["deviceProperties"] = [{"id": 0, **H100, "totalGlobalMem": CAPACITY}]
    for step, total in enumerate(reserved):
        begun = program.host
        for _ in range(5):
            program.kernel(op="aten::mm")
        for _ in range(calls):
            program.call("cudaFree", 2_000 * US, "aten::empty")
            program.call("cudaMalloc", 2_000 * US, "aten::empty")
        program.trace.op("aten::linear", program.host, 30 * US)
        for place, (size, used) in enumerate(((12 * GB, 32 * GB), (-12 * GB, 20 * GB))):
            totals = {"Total Allocated": used, "Total Reserved": total}
            program.trace.memory(program.host + (place + 1) * 10 * US, size, 4_096 + step, totals)
        program.think(60 * US)
        program.trace.note(f"ProfilerStep#{step}", begun, program.host - begun)
    return program


PROGRAMS = {
    "enough": stepping([36 * GB] * 4),
    "small": stepping([39 * GB] * 4, calls=0),
    "fragmented": stepping([66 * GB] * 4),
    "full": stepping([76 * GB] * 4),
    "retries": stepping([76 * GB, 40 * GB, 76 * GB, 40 * GB], calls=2),
    "asks": stepping([34 * GB, 35 * GB, 36 * GB, 37 * GB], calls=1),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Advice | None]:
    def make(path: Path) -> None:
        folder = tmp_path_factory.mktemp("memory")
        for name, program in PROGRAMS.items():
            program.write(folder / f"{name}.json")
        kerneldb.open(path).ingest(folder)

    database = kerneldb.open(made_once(tmp_path_factory, "memory.duckdb", make))
    found = why.verdicts(database, list(PROGRAMS))
    return {one.trace: next((piece for piece in one.advice if piece.rule == "memory"), None) for one in found}


@pytest.mark.parametrize("name", ["enough", "small"])
def test_enough_memory_is_not_worth_a_sentence(said: dict[str, Advice | None], name: str) -> None:
    assert said[name] is None


TEXTS = {
    "fragmented": (
        "Of 66.0 GB that the allocator has reserved of the 80.0 GB of the GPU, 32.0 GB are in use at the peak; 34.0 GB "
        "are cached or lost to fragmentation; aten::linear holds 12.0 GB then.",
        "Set expandable_segments:True",
    ),
    "full": ("Of 76.0 GB that the allocator has reserved of the 80.0 GB", "Keep less (checkpoints of activations"),
    "retries": (
        "memory was given back 2 times, up to 36.0 GB; 6 calls to allocate and 6 to free memory took 24.0 ms.",
        "Leave empty_cache() out of loops",
    ),
    "asks": ("3 calls to allocate and 3 to free memory took 12.0 ms.", "Run the largest sizes once beforehand"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_wrong_with_memory_has_its_figures(said: dict[str, Advice | None], name: str) -> None:
    sentence, remedy = TEXTS[name]
    found = said[name]
    assert found is not None
    assert sentence in found.sentence
    assert found.remedy.startswith(remedy)
