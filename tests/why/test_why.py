"""Where wall time goes: every nanosecond once, on every sample; known causes are named first, and not once mended."""

from __future__ import annotations

import functools
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.report import why
from tests.conftest import made_once
from tests.why.causes import CAUSES, late_rank, read_in_layers

if TYPE_CHECKING:
    from kerneldb.report.why import Verdict

PLACES = {
    "exposed-copies": ["pageable memory from the host to the GPU", "train.py:31 (step)"],
    "synchronising": ["39 calls", "aten::item at model.py:14 (forward)"],
    "data-loading": ["train.py:20 (main)"],
    "host-bound": ["the median kernel runs 2.00 µs"],
    "odd-gemm": ["50257 is no multiple of 8", "aten::mm"],
    "garbage-collection": ["Python collected garbage"],
    "stream-dependency": ["20 launches were queued"],
    "allocating": ["cudaMalloc in aten::empty at cache.py:7 (grow)"],
    "exposed-communication": ["ncclDevKernel_AllReduce"],
    "late-rank": ["for rank 1, which joined last"],
}


RECORDINGS = ("examples/decoder-h200.json.gz", "tests/fixtures/graph-replays-h100.json.gz")


@pytest.fixture(scope="module")
def known(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """All programs with their causes, and mended, and two recordings, in one database."""

    def make(path: Path) -> None:
        folder = tmp_path_factory.mktemp("known")
        for rule, program in CAUSES.items():
            for broken in (True, False):
                program(broken=broken).write(folder / f"{rule}{'' if broken else '-mended'}.json")
        database = kerneldb.open(path)
        database.ingest(folder)
        for recording in RECORDINGS:
            database.ingest(root / recording)
        for run, broken in (("late", True), ("mended", False)):
            for rank in (0, 1):
                file = folder / f"late-rank-{rank}{'' if broken else '-mended'}.json"
                database.ingest(late_rank(rank, broken=broken).write(file), run=run)

    return kerneldb.open(made_once(tmp_path_factory, "known.duckdb", make))


@functools.cache
def _verdict(path: Path, trace: str) -> Verdict:
    (found,) = why.verdicts(kerneldb.open(path), [trace])
    return found


def verdict(database: Database, trace: str) -> Verdict:
    """The verdict on a trace, asked once."""
    return _verdict(database.path, trace)


def pieces(database: Database) -> list[dict[str, Any]]:
    """The pieces of wall time of each device, in order."""
    return database.sql("FROM _wall_pieces('kernels') ORDER BY trace, device, start_ns").rows()


def holds(database: Database) -> None:
    """Each piece begins where the one before it ends, and the causes are equal to plain computations."""
    found = pieces(database)
    for before, after in itertools.pairwise(found):
        if (before["trace"], before["device"]) == (after["trace"], after["device"]):
            assert before["end_ns"] == after["start_ns"]
    assert all(piece["end_ns"] > piece["start_ns"] for piece in found)
    sums = "SELECT part, sum(wall_ns)::BIGINT AS ns FROM wall_time_budget() GROUP BY ALL"
    parts = {row["part"]: row["ns"] for row in database.sql(sums).rows()}
    (known,) = database.sql(
        "SELECT sum(computation_ns)::BIGINT AS computation, sum(exposed_communication_ns)::BIGINT AS communication, "
        "sum(exposed_memcpy_ns)::BIGINT AS copy, sum(idle_ns)::BIGINT AS idle FROM gpu_time()"
    ).rows()
    assert sum(parts.pop(part, 0) for part in ("host", "queue", "unattributed")) == known.pop("idle")
    assert parts == {part: ns for part, ns in known.items() if ns}


def test_every_nanosecond_counts_once(known: Database) -> None:
    holds(known)


def test_without_launch_calls_nobody_says_that_the_host_was_late(known: Database) -> None:
    blind = "SELECT * REPLACE (NULL AS launch_start_ns, NULL AS launch_duration_ns, NULL AS api_index) FROM kernels"
    rows = known.sql(
        f"WITH blind AS ({blind} WHERE trace = 'decoder-h200') SELECT DISTINCT part FROM wall_time_budget('blind')"
    ).rows()
    assert {row["part"] for row in rows} == {"computation", "unattributed"}


def test_windows_phases_and_iterations_add_up(known: Database) -> None:
    window = "SELECT sum(wall_ns)::BIGINT AS ns FROM wall_time_budget(from_ns := {}, to_ns := {}) WHERE trace = '{}'"
    name = "decoder-h200"
    (span,) = known.sql(f"SELECT start_ns, end_ns, span_ns FROM gpu_time() WHERE trace = '{name}'").rows()
    start, end = span["start_ns"], span["end_ns"]
    for first, last in ((start - 500, end + 700), (start + 10_001, end - 77)):
        (found,) = known.sql(window.format(first, last, name)).rows()
        assert found["ns"] == last - first
    for by in ("phase", "iteration"):
        assert sum(row["wall_ns"] for row in known.wall_time(by, traces=[name])) == span["span_ns"]


@pytest.mark.parametrize("rule", PLACES)
def test_the_first_sentence_names_the_cause(known: Database, rule: str) -> None:
    trace = "late-rank-0" if rule == "late-rank" else rule
    first, *_ = verdict(known, trace).advice
    assert first.rule == rule
    for words in PLACES[rule]:
        assert words in first.sentence


@pytest.mark.thorough
@pytest.mark.parametrize("rule", PLACES)
def test_mended_it_is_not_named(known: Database, rule: str) -> None:
    trace = "late-rank-0-mended" if rule == "late-rank" else f"{rule}-mended"
    assert rule not in {piece.rule for piece in verdict(known, trace).advice}


def test_mending_saves_what_was_said(known: Database) -> None:
    """The time of the cause, and the difference between the programs, where the work stays the same."""
    spans = {row["trace"]: row["span_ns"] for row in known.sql("SELECT trace, span_ns FROM gpu_time()").rows()}
    for rule in ("exposed-copies", "synchronising", "garbage-collection", "stream-dependency", "allocating"):
        (said,) = (piece.at_stake_ns for piece in verdict(known, rule).advice if piece.rule == rule)
        assert said == pytest.approx(spans[rule] - spans[f"{rule}-mended"], rel=0.1)


READ = {
    "host far ahead": {"kernel": 30, "host": 6},
    "host behind": {"kernel": 5, "host": 10},
    "slow starts": {"kernel": 12, "host": 20, "first": 200, "late": 4},
}


@pytest.mark.thorough
def test_reading_values_costs_what_leaving_it_out_saves(tmp_path: Path) -> None:
    """The queue runs dry: the launch latency, and what the host was ahead, are lost as well."""
    for name, speeds in READ.items():
        for broken in (True, False):
            read_in_layers(broken=broken, **speeds).write(tmp_path / f"{name}{'' if broken else ' mended'}.json")
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(tmp_path)
    spans = {row["trace"]: row["span_ns"] for row in database.sql("SELECT trace, span_ns FROM gpu_time()").rows()}
    for name in READ:
        (said,) = (piece for piece in verdict(database, name).advice if piece.rule == "synchronising")
        assert said.at_stake_ns == pytest.approx(spans[name] - spans[f"{name} mended"], rel=0.1), name
        assert said.row["calls"] <= 24


@pytest.mark.thorough(alone=True)
def test_graphs_that_are_late_are_not_told_to_use_graphs(known: Database) -> None:
    rules = {piece.rule for piece in verdict(known, "graph-replays-h100").advice}
    assert "late-graphs" in rules
    assert "host-bound" not in rules


def call(database: Path, *words: str, exit_code: int = 0) -> str:
    done = CliRunner().invoke(cli, ["--db", str(database), "why", *words])
    assert done.exit_code == exit_code, done.output
    return done.stdout


def test_the_command(known: Database) -> None:
    text = call(known.path, "decoder-h200")
    assert "1. The GPU waited 54.4 ms (89 %) for its next work to be launched and to start" in " ".join(text.split())
    assert "No Python stacks were recorded" in text
    assert "kerneldb analyze idle --gaps --trace decoder-h200" in text.replace(f"--db {known.path} ", "")
    rows = json.loads(call(known.path, "decoder-h200", "--json"))
    assert rows[0]["rule"] == "host-bound"
    assert rows[0]["command"] == "kerneldb analyze idle --gaps --trace decoder-h200"
    budget = json.loads(call(known.path, "decoder-h200", "--budget", "--by", "phase", "--json"))
    assert {row["name"] for row in budget} == {"prefill", "decode"}
    assert sum(row["wall_ns"] for row in budget) == rows[0]["span_ns"]
    call(known.path, "--by", "phase", exit_code=2)
    call(known.path, "nothing", exit_code=2)


WITH_STACKS = (
    "pytorch/tracelens-h100-bert-small.json.gz",
    "pytorch/tracelens-h100-qwen1.5-0.5b.json.gz",
    "pytorch/tracelens-mi300-qwen1.5-0.5b.json.gz",
    "pytorch/tracelens-vllm-decode-graph.json.gz",
    "pytorch/kineto-tb-resnet50-workers0.json.gz",
    "../field/pytorch/b200-eager.json.gz",
    "../field/pytorch/mi300-device-ids.json.gz",
)
LEAST_KNOWN_PCT = 95


@pytest.fixture(scope="module")
def stacked(shared_data: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Recordings with Python stacks."""
    files = [file for name in WITH_STACKS if (file := shared_data / name).exists()]
    files += [root / f"tests/fixtures/{name}.json.gz" for name in ("stacks-memory-h200", "graph-capture-h100")]
    return kerneldb.open(made_once(tmp_path_factory, "stacked.duckdb", lambda path: kerneldb.open(path).ingest(files)))


@pytest.mark.thorough(alone=True)
def test_causes_of_recordings_with_stacks_are_known(stacked: Database) -> None:
    holds(stacked)
    known = "100 * sum(wall_ns) FILTER (part <> 'unattributed') / sum(wall_ns)"
    rows = stacked.sql(f"SELECT trace, {known} AS pct FROM wall_time_budget() GROUP BY trace").rows()
    assert len(rows) > 1
    assert not {row["trace"]: row["pct"] for row in rows if row["pct"] < LEAST_KNOWN_PCT}


def said(database: Database, trace: str) -> dict[str, Any]:
    """Rule → piece of advice on a trace, which is skipped where it is not there."""
    if trace not in {row["trace"] for row in database.top("trace").rows()}:
        pytest.skip(f"{trace} is not in the collection")
    return {piece.rule: piece for piece in verdict(database, trace).advice}


@pytest.mark.thorough(alone=True)
def test_a_kernel_has_at_stake_what_its_known_work_does_not_need(stacked: Database) -> None:
    row = said(stacked, "tracelens-mi300-qwen1.5-0.5b")["one-kernel"].row
    assert row["at_stake_ns"] <= row["total_ns"] * (1 - row["reached_pct"] / 100) * 1.001


@pytest.mark.thorough(alone=True)
def test_softmax_is_said_once(stacked: Database) -> None:
    found = said(stacked, "mi300-device-ids")
    assert "modeling_owlv2.py" in found["attention-unfused"].sentence
    assert "one-kernel" not in found


@pytest.mark.thorough(alone=True)
def test_rows_of_an_odd_number_of_tokens_are_aligned(stacked: Database) -> None:
    """141 × 512 numbers: each row begins at a multiple of 1,024 bytes."""
    assert "odd-gemm" not in said(stacked, "tracelens-h100-bert-small")


@pytest.mark.thorough(alone=True)
def test_a_wait_is_not_in_the_module_of_the_launch_after_it(stacked: Database) -> None:
    found = said(stacked, "tracelens-h100-qwen1.5-0.5b")["synchronising"]
    assert "in 2 calls, mostly cudaDeviceSynchronize at moca/library/profiling/profile.py:34" in found.sentence
