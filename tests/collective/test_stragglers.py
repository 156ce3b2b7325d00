"""Who waits for whom, and whether the late rank computed or stood idle longer, on traces of which that is known."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.datastructures import QueryParams

import kerneldb
from kerneldb.api import Database, timeline
from kerneldb.cli import cli
from kerneldb.report import asking, gather, html, ranks, serve, why
from kerneldb.report.model import Report
from kerneldb.tui.screens import timeline_words
from tests.collective import jobs

STEP_US, ENDS_US = 1000, 900
PAUSES = {0: (0, 10, 10, 10), 1: (0, 10, 410, 10), 2: (0, 10, 10, 110)}
COMPUTED = {0: (100, 100, 100, 100), 1: (100, 400, 100, 100), 2: (100, 100, 100, 100)}
"""Rank → µs before each all-reduce: nobody is late, then rank 1 computes, then its host is late, then rank 2's."""
LAUNCH = {"device": 0, "context": 1, "grid": [8, 1, 1], "block": [256, 1, 1]}
SUM = {
    "Collective name": "allreduce", "In msg nelems": 262_144, "Out msg nelems": 262_144, "dtype": "Float",
    "Group size": 3, "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2]",
}  # fmt: skip
NAMES = {7: "sm80_xmma_gemm_f32", 20: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"}


def trace(rank: int) -> dict[str, Any]:
    events = []
    for number, (pause, computed) in enumerate(zip(PAUSES[rank], COMPUTED[rank], strict=True)):
        begun, ends = STEP_US * number + pause, STEP_US * number + ENDS_US
        for stream, start, end in ((7, begun, begun + computed), (20, begun + computed, ends)):
            args = {**LAUNCH, "stream": stream, "correlation": len(events) + 1, **(SUM if stream == 20 else {})}
            kernel = {"ph": "X", "cat": "kernel", "name": NAMES[stream], "pid": 0, "tid": stream}
            events.append({**kernel, "ts": start, "dur": end - start, "args": args})
    return {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 3}, "traceEvents": events}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    folder = tmp_path_factory.mktemp("ranks")
    for rank in PAUSES:
        (folder / f"rank{rank}.json").write_text(json.dumps(trace(rank)), encoding="utf-8")
    found = kerneldb.open(folder / "k.duckdb")
    found.ingest(sorted(folder.glob("rank*.json")), run="job")
    return found


def test_waits_are_told_by_the_rank_that_was_late_and_by_what_it_did(database: Database) -> None:
    rows = {(row["rank"], row["late_rank"]): row for row in database.analyze("collective_stragglers").rows()}
    us = 1000
    assert {key: (row["n"], row["wait_ns"] // us, row["computed_longer_ns"] // us, row["idle_longer_ns"] // us) for
            key, row in rows.items()} == {
        (0, 1): (2, 700, 300, 400), (2, 1): (2, 700, 300, 400), (0, 2): (1, 100, 0, 100), (1, 2): (1, 100, 0, 100),
    }  # fmt: skip
    row = rows[0, 1]
    assert (row["run"], row["trace"], row["late_trace"]) == ("job", "rank0", "rank1")
    assert (row["longest_wait_ns"], row["longest_operation"], row["longest_bytes"]) == (400 * us, "allreduce", 1 << 20)
    assert row["longest_at_ns"] == (2 * STEP_US + 10 + 100) * us
    assert row["share_pct"] == pytest.approx(100 * 700 / (3 * STEP_US + ENDS_US))
    alone = database.analyze("collective_stragglers", traces=["rank0"]).rows()
    assert alone == [rows[0, 1], rows[0, 2]]


def test_sentences_say_who_was_late_and_where_to_look(database: Database) -> None:
    found = CliRunner().invoke(cli, ["--db", str(database.path), "analyze", "stragglers"], catch_exceptions=False)
    first, second = [line for line in found.stderr.splitlines() if line.startswith("Job job: ")]
    assert first == (
        "Job job: 2 ranks waited together 1.40 ms for rank 1, in 2 collectives, longest 400 µs in allreduce of "
        "1.05 MB, which rank 0 began at 2.11 ms; its GPU was busy 600 µs longer before, and idle 800 µs longer."
    )
    assert second.endswith("its GPU stood idle 200 µs longer before: its host was late (kerneldb why rank2).")


def test_a_collective_under_the_cursor_says_for_whom_it_waited(database: Database) -> None:
    said = {}
    for rank in PAUSES:
        (place,) = database.sql(
            "SELECT trace_id, launch_index FROM kernels WHERE rank = ? AND category = 'COMMUNICATION' "
            "ORDER BY start_ns LIMIT 1 OFFSET 2", params=[rank],
        ).rows()  # fmt: skip
        with database.warehouse.connection() as con:
            found = timeline.told(con, [place])
            assert found is not None
            said[rank] = timeline_words.facts_of(found)[1:3]
            before = timeline.told(con, [{**place, "launch_index": place["launch_index"] - 1}])
            assert before is not None
            assert (before["category"], before["exchange"]) == ("GEMM", None)
    waited = ["waited 400 µs for rank 1", "allreduce of 1.05 MB"]
    assert said == {0: waited, 1: ["joined last", "allreduce of 1.05 MB"], 2: waited}


def test_collectives_of_a_trace_whose_launches_count_in_another_one(tmp_path: Path) -> None:
    """A report about it has them all: `kernels` of the macro is what the report put in its place."""
    for rank in PAUSES:
        whole = trace(rank)
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(whole), encoding="utf-8")
        part = {**whole, "traceEvents": whole["traceEvents"][:-2]}
        (tmp_path / f"part{rank}.json").write_text(json.dumps(part), encoding="utf-8")
    found = kerneldb.open(tmp_path / "k.duckdb")
    found.ingest(sorted(tmp_path.glob("*.json")), run="job")
    with asking.asking(found) as ask:
        told = {name: ask.about(trace=name).frame("events_exchanges") for name in ("rank0", "part0", "rank1")}
    assert {name: rows.height for name, rows in told.items()} == {"rank0": 4, "part0": 3, "rank1": 4}
    assert told["rank0"]["wait_ns"].to_list() == [0, 300_000, 400_000, 100_000]
    assert told["part0"]["start_ns"].to_list() == told["rank0"]["start_ns"].to_list()[:3]


def test_a_slow_gpu_is_no_late_host(database: Database) -> None:
    rows = database.analyze("collective_stragglers", traces=["rank0"]).rows()
    (first, _) = ranks.late([{**row, "idle_longer_ns": 0} for row in rows])
    assert first.is_computing()
    compared = "slower kernels, or more of them (kerneldb diff rank0 rank1)"
    assert first.reason() == f"its GPU was busy 300 µs longer before: {compared}"
    (_, second) = ranks.late([{**row, "computed_longer_ns": None, "idle_longer_ns": None} for row in rows])
    assert (second.is_computing(), second.reason()) == (False, "")


@pytest.fixture(scope="module")
def report(database: Database) -> Report:
    """The report on the job."""
    return gather.single(database, ["job"])


def test_a_report_of_ranks_begins_with_who_waits_for_whom(database: Database, report: Report) -> None:
    assert report.sections[0].title == gather.RANKS
    assert report.sections[0].text.startswith("2 ranks waited together 1.40 ms for rank 1, in 2 collectives")
    assert not [one for one in gather.single(database, ["rank0"]).sections if one.title == gather.RANKS]


def test_the_contents_of_a_page_have_a_line_for_each_trace(report: Report) -> None:
    titles = [section.title for section in report.sections]
    listed = html.listed([(title, str(number)) for number, title in enumerate(titles)])
    assert [group for group, _ in listed if group] == ["rank0", "rank1", "rank2", "Full names"]
    assert listed[0] == ("", [(gather.RANKS, "0")])
    assert [name for name, _ in dict(listed)["rank1"]][:2] == ["Why it takes so long", "Setup"]
    assert sorted(int(anchor) for _, links in listed for _, anchor in links) == list(range(len(titles)))


def test_of_a_rank_that_computes_longer_the_verdict_says_so(tmp_path: Path) -> None:
    for rank in PAUSES:
        events = trace(rank)
        events["traceEvents"] = events["traceEvents"][:4]
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(events), encoding="utf-8")
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(sorted(tmp_path.glob("rank*.json")), run="job")
    (verdict,) = why.verdicts(database, ["rank0"])
    (piece,) = [one for one in verdict.advice if one.rule == "late-rank"]
    assert "Here, its GPU was busy 300 µs longer before: slower kernels, or more of them" in piece.remedy
    assert piece.command == ("analyze", "stragglers")


def test_a_run_that_is_called_like_a_rank_is_reached(tmp_path: Path) -> None:
    for rank in PAUSES:
        made = trace(rank)
        for event in made["traceEvents"]:
            event["ts"] += 1_700_000_000_000_000
        (tmp_path / f"step-rank{rank}.json").write_text(json.dumps(made), encoding="utf-8")
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(sorted(tmp_path.glob("*.json")))
    assert {row["run"] for row in database.traces().rows()} == {"step-rank0"}, "their clocks and collectives prove it"
    asked = ["--db", str(database.path), "report", "step-rank0", "-o", str(tmp_path / "page.md")]
    said = CliRunner().invoke(cli, asked, catch_exceptions=False).stderr
    assert "step-rank0 is the trace; all 3 ranks of the run of that name: kerneldb" in said
    assert "report step-rank0 step-rank1 step-rank2\n" in said
    page = serve._trace(database, QueryParams({"run": "step-rank0"}))
    text = "".join(asyncio.run(pieces(page)))
    assert [f"step-rank{rank}: Why it takes so long</h2>" in text for rank in PAUSES] == [True] * 3
    told = CliRunner().invoke(cli, ["--db", str(database.path), "why"], catch_exceptions=False).stdout
    assert told.startswith("Job step-rank0: 2 ranks waited together 1.40 ms for rank 1, in 2 collectives,")


async def pieces(response: Any) -> list[str]:
    """The text of an answer that comes in pieces."""
    return [piece async for piece in response.body_iterator]


def test_a_job_is_meant_by_its_name(tmp_path: Path) -> None:
    """A run of two workloads has a job of each."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest([jobs.make(tmp_path / "tiny-tp2")])
    meant = {name: [row["trace"] for row in asking.named(database, name)] for name in ("tiny-tp2", "tiny-tp2-decode")}
    assert meant["tiny-tp2-decode"] == ["tiny-tp2-decode-rank0", "tiny-tp2-decode-rank1"]
    assert len(meant["tiny-tp2"]) == 4
    told = {row["run"] for row in database.analyze("collective_stragglers").rows()}
    assert told == {"tiny-tp2-prefill", "tiny-tp2-decode"}
