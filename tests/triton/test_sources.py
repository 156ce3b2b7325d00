"""Sources are found by the hash of their text, and stored with the trace."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database, IngestOptions, planning
from kerneldb.api.planning import Request
from kerneldb.ids import code_hash
from kerneldb.ingest import triton_sources
from kerneldb.replay.triton import code
from tests.triton.kernels import HASH, OTHER_TEMPLATE, POINTWISE, TEMPLATE, embedded

SOURCES = """
SELECT kernel_hash, name, "language", origin, "source" AS "text", file
FROM kernel_sources ORDER BY name, kernel_hash
"""


def stored(database: Database) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = database.sql(SOURCES).to_arrow().to_pylist()
    return rows


def ingested(folder: Path, options: IngestOptions | None = None) -> Database:
    database = kerneldb.open(folder.parent / "kernels.duckdb")
    outcomes = list(database.ingest_each([folder / "trace.json"], options or IngestOptions()))
    assert [outcome.error for outcome in outcomes] == [None]
    return database


def test_files_and_embedded_texts_have_one_hash(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "kernel.py").write_text(POINTWISE.strip(), encoding="utf-8")
    (tmp_path / "output_code.py").write_text(embedded(POINTWISE, TEMPLATE), encoding="utf-8")
    (tmp_path / "broken.py").write_text("async_compile.triton('x', '''", encoding="utf-8")
    (tmp_path / "other.py").write_text("def triton_poi_fused_add_mul_1(): pass\n", encoding="utf-8")
    found = triton_sources.index([tmp_path])
    assert sorted(found) == sorted([HASH, code_hash(TEMPLATE)])
    assert found[HASH].name == "triton_poi_fused_add_mul_1"
    assert found[HASH].origin == "inductor"


@pytest.mark.parametrize("text", ["-" * 100_000 + "1", "(" * 100_000, "a" + ".a" * 100_000 + "()"])
def test_files_that_nest_too_deeply_are_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "deep.py").write_text(f"{text}\n# async_compile.triton(", encoding="utf-8")
    (tmp_path / "kernel.py").write_text(POINTWISE, encoding="utf-8")
    assert list(triton_sources.index([tmp_path])) == [HASH]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "around.py").symlink_to(tmp_path / "around.py")
    (tmp_path / "kernel.py").write_text(POINTWISE, encoding="utf-8")
    assert list(triton_sources.index([tmp_path])) == [HASH]


def test_a_user_kernel_is_told_by_what_it_imports() -> None:
    text = "import triton\n\n@triton.jit\ndef helper(x):\n    return x\n\n@triton.jit\ndef mine(x):\n    helper(x)\n"
    found = triton_sources.source_of(text, "mine.py")
    assert found is not None
    assert (found.name, found.origin) == ("mine", "user")


def test_sources_beside_the_trace(recorded: Path) -> None:
    (recorded / "triton").mkdir()
    (recorded / "triton" / "output_code.py").write_text(embedded(POINTWISE, TEMPLATE, OTHER_TEMPLATE), encoding="utf-8")
    (recorded / "triton" / "stranger.py").write_text(POINTWISE.replace("mul_1", "mul_2"), encoding="utf-8")
    rows = stored(ingested(recorded))
    assert [row["name"] for row in rows] == ["triton_poi_fused_add_mul_1", *["triton_tem_fused_mm_0"] * 2]
    assert rows[0]["kernel_hash"] == HASH
    assert rows[0]["text"] == POINTWISE
    assert {row["language"] for row in rows} == {"triton"}


def test_sources_of_a_given_folder_and_of_the_cache(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, given = recorded.parent / "cache", recorded.parent / "given"
    (cache / HASH[1:3]).mkdir(parents=True)
    (cache / HASH[1:3] / f"{HASH}.py").write_text(POINTWISE, encoding="utf-8")
    given.mkdir()
    (given / "mm.py").write_text(TEMPLATE, encoding="utf-8")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    rows = stored(ingested(recorded, IngestOptions(triton_sources=(given,))))
    assert [Path(row["file"]).parent.name for row in rows] == [HASH[1:3], "given"]


def test_a_file_with_another_text_than_its_name_says_is_not_taken(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = recorded.parent / "cache"
    (cache / HASH[1:3]).mkdir(parents=True)
    (cache / HASH[1:3] / f"{HASH}.py").write_text(POINTWISE + "import os\n", encoding="utf-8")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    assert stored(ingested(recorded)) == []


def test_removing_the_trace_removes_its_sources(recorded: Path) -> None:
    (recorded / "triton").mkdir()
    (recorded / "triton" / "kernel.py").write_text(POINTWISE, encoding="utf-8")
    database = ingested(recorded)
    assert len(stored(database)) == 1
    database.remove(["trace"])
    assert stored(database) == []


def test_the_plan_carries_sources(recorded: Path) -> None:
    (recorded / "triton").mkdir()
    (recorded / "triton" / "output_code.py").write_text(embedded(POINTWISE, TEMPLATE, OTHER_TEMPLATE), encoding="utf-8")
    planned = ingested(recorded).plan_replay(Request())
    assert [item.route for item in planned.plan.items] == ["triton", "triton"]
    assert {row["reason"] for row in planned.routes.to_pylist()} == {None}
    calls = [item.spec.call for item in planned.plan.items if item.spec is not None]
    known = code.held(planned.plan.sources)
    assert {one.op: [found.hash for found in code.matching(one, known)] for one in calls} == {
        "triton_poi_fused_add_mul_1": [HASH],
        "triton_tem_fused_mm_0": [code_hash(TEMPLATE)],  # the one with four warps
    }


def test_the_plan_says_what_is_missing(recorded: Path) -> None:
    planned = ingested(recorded).plan_replay(Request())
    reasons = {row["name"]: row["reason"] for row in planned.routes.to_pylist()}
    assert planned.plan.sources == {}
    assert HASH in reasons["triton_poi_fused_add_mul_1"]
    assert all("--triton-sources" in reason for reason in reasons.values())


@pytest.fixture
def beside_a_poor_copy(recorded: Path, tmp_path: Path) -> Database:
    """The trace with one source, and a copy of it without operators, which inherits its calls."""
    poor = tmp_path / "poor" / "poor.json"
    poor.parent.mkdir()
    trace = json.loads((recorded / "trace.json").read_text(encoding="utf-8"))
    events = [one for one in trace["traceEvents"] if one["cat"] != "cpu_op"]
    for event in events:
        event["args"].pop("External id", None)
    poor.write_text(json.dumps({**trace, "traceEvents": events}), encoding="utf-8")
    (recorded / "triton").mkdir()
    (recorded / "triton" / "kernel.py").write_text(POINTWISE, encoding="utf-8")
    database = ingested(recorded)
    database.ingest(poor)
    return database


def test_what_has_no_source_is_not_counted_as_replayable(beside_a_poor_copy: Database) -> None:
    times = beside_a_poor_copy.sql("SELECT name, sum(duration_ns) AS ns FROM kernels GROUP BY name").rows()
    spent = {row["name"]: row["ns"] for row in times}
    expected = 100 * spent["triton_poi_fused_add_mul_1"] / sum(spent.values())
    for trace, total in (("trace", "TOTAL"), ("poor", "TOTAL inherited")):
        planned = beside_a_poor_copy.plan_replay(Request(traces=(trace,)))
        lines = {line["category"]: line for line in planning.feasibility(planned.routes)}
        assert lines[total]["replayable_pct"] == pytest.approx(expected)
        reasons = {row["name"]: row["reason"] for row in planned.routes.to_pylist()}
        assert reasons["triton_poi_fused_add_mul_1"] is None
        assert "no source of triton_tem_fused_mm_0" in reasons["triton_tem_fused_mm_0"]


@pytest.mark.thorough
def test_sources_of_inherited_calls_are_shown_before_they_run(beside_a_poor_copy: Database) -> None:
    planned = beside_a_poor_copy.plan_replay(Request(traces=("poor",)))
    assert {item.route for item in planned.plan.items} == {"inherited"}
    refused, allowed = code.shown(planned.plan, allowed=False), code.shown(planned.plan, allowed=True)
    assert "not run without --allow-code" in refused[0]
    assert HASH in allowed[1]


def test_a_source_whose_file_has_no_name_in_utf_8_is_stored(recorded: Path) -> None:
    (recorded / "triton").mkdir()
    (recorded / "triton" / os.fsdecode(b"b\xff.py")).write_text(POINTWISE, encoding="utf-8")
    (row,) = stored(ingested(recorded))
    assert (row["text"], Path(row["file"]).name) == (POINTWISE, "b\\udcff.py")


def test_a_source_that_is_no_text_is_left_out_and_named(recorded: Path) -> None:
    """Half a surrogate pair cannot be stored; the trace and other sources are."""
    (recorded / "triton").mkdir()
    hostile = embedded(TEMPLATE.replace("pass", "pass  # \\ud800"), OTHER_TEMPLATE)
    (recorded / "triton" / os.fsdecode(b"b\xff.py")).write_text(POINTWISE, encoding="utf-8")
    (recorded / "triton" / "output_code.py").write_text(hostile, encoding="utf-8")
    database = kerneldb.open(recorded.parent / "kernels.duckdb")
    (outcome,) = database.ingest_each([recorded / "trace.json"], IngestOptions())
    assert outcome.error is None
    assert {row["text"] for row in stored(database)} == {POINTWISE, OTHER_TEMPLATE}
    (lost,) = (entry for entry in outcome.report if entry.outcome == "lost")
    place = recorded / "triton" / "output_code.py"
    assert lost.reason == f"source of a Triton kernel that is not Unicode text (triton_tem_fused_mm_0 in {place})"
    rows = database.sql("SELECT n, reason FROM ingest_reports WHERE outcome = 'lost'").rows()
    assert rows == [{"n": 1, "reason": lost.reason}]


@pytest.mark.parametrize("odd", ["c" * 5000, "../../../../etc/passwd", "ca\x00bc", "c" + "a" * 50 + "/"])
def test_what_is_no_hash_is_not_looked_up(recorded: Path, odd: str) -> None:
    text = (recorded / "trace.json").read_text(encoding="utf-8")
    (recorded / "trace.json").write_text(text.replace(HASH, json.dumps(odd)[1:-1]), encoding="utf-8")
    assert stored(ingested(recorded)) == []


def test_a_cache_that_cannot_be_read_is_passed_over(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(recorded.parent / ("c" * 300)))
    assert stored(ingested(recorded)) == []
