"""Recordings of a model with one planted fault each: the first sentence names it, its line, and what mending saves."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest

import kerneldb
from kerneldb.report import why
from tests.conftest import made_once

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.api import Database

FAULTS = {
    "loads": ("data-loading", "record_faults.py:102 (step)"),
    "copies": ("exposed-copies", "record_faults.py:114 (<lambda>)"),
    "collects": ("garbage-collection", "record_faults.py:140 (step)"),
    "reads": ("synchronising", "aten::item at record_faults.py:45 (forward)"),
    "caches": ("allocating", "record_faults.py:45 (forward)"),
}
LONG = frozenset({"loads", "copies", "collects"})
"""Faults that cost more than the clock of the GPU makes kernels differ from one recording to the next."""


@pytest.fixture(scope="module")
def recorded(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Database:
    def make(path: Path) -> None:
        folder = tmp_path_factory.mktemp("faults")
        with tarfile.open(root / "results/2026-11-26-h100-faults/raw.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        (folder / "measured.json").unlink()
        kerneldb.open(path).ingest(folder)

    return kerneldb.open(made_once(tmp_path_factory, "faults.duckdb", make))


def saved(database: Database, fault: str) -> int:
    """What mending saves: of the whole recording, or where the clock matters more, of the time without a kernel."""
    kept = "true" if fault in LONG else "part <> 'computation'"
    sums = f"SELECT trace, sum(wall_ns) FILTER ({kept})::BIGINT AS ns FROM wall_time_budget() GROUP BY trace"
    spent: dict[str, int] = {row["trace"]: row["ns"] for row in database.sql(sums).rows()}
    return spent[fault] - spent[f"{fault}-mended"]


@pytest.mark.thorough
@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_sentence_is_the_fault_and_what_it_costs(recorded: Database, fault: str) -> None:
    rule, line = FAULTS[fault]
    broken, mended = why.verdicts(recorded, [fault, f"{fault}-mended"])
    first, *_ = broken.advice
    assert first.rule == rule
    assert line in first.sentence
    assert first.at_stake_ns == pytest.approx(saved(recorded, fault), rel=0.1)
    assert rule not in {piece.rule for piece in mended.advice}
