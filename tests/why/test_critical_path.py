"""The critical path is the longest one of a graph made in plain Python; what a part is worth, a simulation says."""

from __future__ import annotations

from pathlib import Path

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.errors import UsageError
from tests.conftest import made_once
from tests.why.longest_path import Program

OWN = ("graph-replays-h100.json.gz", "stacks-memory-h200.json.gz", "exchanges-tp2-h200")
SAMPLES = {
    "stacks": ["stacks-memory-h200"],
    "graphs": ["graph-replays-h100"],
    "two ranks": ["exchanges-script-rank0", "exchanges-script-rank1"],
}
COLLECTION = {
    "HTA's overlay": "../field/pytorch/hta-critical-path-overlay.json.gz",
    "training step": "pytorch/gpt2-train.json.gz",
    "two GPUs by nsys": "nsys/nsysai_h100_2gpu_1s.sqlite",
}


@pytest.fixture(scope="module")
def recorded(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Recordings with launch calls, and two ranks of a job."""
    return kerneldb.open(
        made_once(
            tmp_path_factory,
            "paths.duckdb",
            lambda path: [kerneldb.open(path).ingest(root / "tests/fixtures" / name) for name in OWN],
        )
    )


def holds(database: Database, traces: list[str]) -> None:
    """The path is as long as the traces, and worth what the simulation says, cause by cause."""
    rows = database.critical_path(traces=traces).rows()
    steps = database.critical_path("steps", traces=traces).rows()
    program = Program(database, traces)
    length = program.length()
    assert sum(row["path_ns"] for row in rows) == length
    assert sum(step["duration_ns"] for step in steps) == length
    at = 0
    for step in steps:
        assert step["start_ns"] == at
        at += step["duration_ns"]
    causes = {cause for edges in program.edges.values() for _, _, cause, _ in edges}
    for row in rows:
        if row["cause"] in causes - {"unattributed"}:
            assert row["saved_ns"] == length - program.length(row["cause"]), row["cause"]


@pytest.mark.thorough
def test_what_if_any_part_took_no_time(recorded: Database) -> None:
    """Of causes, also those that are not on the path; parts together save what the simulation without both says."""
    traces = SAMPLES["stacks"]
    program = Program(recorded, traces)
    length = program.length()
    causes = {cause for edges in program.edges.values() for _, _, cause, _ in edges} - {"unattributed"}
    for cause in causes:
        (row,) = recorded.what_if(f"cause={cause}", traces=traces)
        assert (row["length_ns"], row["saved_ns"]) == (length, length - program.length(cause))
    (both,) = recorded.what_if("cause=launching", "part=computation", traces=traces)
    (one,) = recorded.what_if("cause=launching", traces=traces)
    assert both["saved_ns"] >= one["saved_ns"]
    with pytest.raises(UsageError, match="kernel"):
        recorded.what_if("kernels=x", traces=traces)


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_path_is_the_longest(recorded: Database, sample: str) -> None:
    holds(recorded, SAMPLES[sample])


@pytest.mark.parametrize(
    "sample", [one if one == "HTA's overlay" else pytest.param(one, marks=pytest.mark.volume) for one in COLLECTION]
)
def test_the_path_of_others_is_the_longest(sample: str, shared_data: Path, tmp_path: Path) -> None:
    file = shared_data / COLLECTION[sample]
    if not file.exists():
        pytest.skip(f"{file} is not in the collection")
    database = kerneldb.open(tmp_path / "one.duckdb")
    database.ingest(file)
    (trace,) = {row["trace"] for row in database.top("trace").rows()}
    holds(database, [trace])
