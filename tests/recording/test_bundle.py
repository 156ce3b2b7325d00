"""Reading recordings: traces with their measurements, whole or not, from the folder or file by file."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database, IngestOptions
from kerneldb.errors import NotATraceError, UnreadableTraceError
from kerneldb.warehouse import session
from tests.ingest.traces import BASE_NS, Trace, kineto

Row = dict[str, Any]
WALL = {"quantity": "wall_ns", "value": 2e6, "low": 1.9e6, "high": 2.1e6, "unit": "ns", "n": 12, "method": "clock"}
FIRST = {"quantity": "wall_ns", "value": 2.05e6, "unit": "ns", "n": 4, "repetition": 1}
ENERGY = {"quantity": "energy_mj", "unit": "mJ", "reason": "no counter", "measured_at": "2026-11-21 14:00:00"}
IDLE = {"quantity": "idle_power_w", "value": 90.0, "low": 89.0, "high": 91.0, "unit": "W"}
BUSY = {"quantity": "busy_ns", "value": 1.5e6, "unit": "ns", "n": 1, "method": "profiler"}


def trace_of(kernel: str) -> bytes:
    """A trace of one launch, as text."""
    trace = Trace({"baseTimeNanoseconds": BASE_NS})
    trace.launch("aten::mm", kernel, 1000, 7)
    return kineto(trace).encode()


def part(folder: Path, workload: str, mode: str = "eager", text: bytes | None = None) -> Row:
    """A finished part, with its trace in the folder."""
    name = f"{workload}{'' if mode == 'eager' else '.' + mode}.pt.trace.json.gz"
    text = trace_of(f"kernel_{workload}_{mode}") if text is None else text
    (folder / name).write_bytes(gzip.compress(text))
    return {
        "workload": workload,
        "mode": mode,
        "tags": {"precision": "float16", "batch": "1", "workload": workload, "mode": mode},
        "measurements": [FIRST, WALL, ENERGY],
        "trace": {"file": name, "sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text), "iterations": 1},
        "of_trace": [BUSY],
    }


def write(folder: Path, parts: list[Row], **more: Any) -> Path:
    """A bundle.json around the parts."""
    content = {
        "format": "kerneldb recording",
        "version": 1,
        "name": "mine",
        "label": "a label",
        "model": "gpt2",
        "powers": [IDLE],
        "software": {"gpu": "NVIDIA H200", "device": 0},
        "parts": parts,
        **more,
    }
    (folder / "bundle.json").write_text(json.dumps(content))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "recordings" / "mine"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def finished(folder: Path) -> Path:
    """A whole recording, to be changed."""
    return finish(folder)


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole recording, `mine`, and a database that has read it. To copy, or to read."""
    made = tmp_path_factory.mktemp("taken")
    (made / "mine").mkdir()
    kerneldb.open(made / "k.duckdb").ingest(finish(made / "mine"))
    session.release_all()
    return made


@pytest.fixture
def ingested(taken: Path) -> Database:
    """That database, to be read."""
    return kerneldb.open(taken / "k.duckdb")


def finish(folder: Path) -> Path:
    """Prefill and decode, decode under CUDA graphs too, readings, and an Execution Trace."""
    parts = [part(folder, "prefill"), part(folder, "decode"), part(folder, "decode", "cuda_graph")]
    parts[0]["trace"]["execution_trace"] = "prefill.et.json.gz"
    (folder / "prefill.et.json.gz").write_bytes(gzip.compress(b'{"schema": "1.1.1", "nodes": []}'))
    readings = [
        {"workload": "idle", "epoch_ns": BASE_NS, "power_w": 90.0},
        {
            "workload": "prefill",
            "mode": "eager",
            "epoch_ns": 1_790_857_027_000_000_000,
            "power_w": 400.0,
            "energy_mj": 7.0,
        },
        {"workload": "decode", "mode": "cuda_graph", "epoch_ns": BASE_NS + 2 * 10**9, "throttle": ""},
    ]
    lines = "".join(json.dumps(one) + "\n" for one in readings)
    (folder / "power.ndjson").write_text(lines + '{"workload": "decode", "mode": "eager", "epoch_ns": 1}\n{"torn')
    return write(folder, parts, power_bytes=len(lines))


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return kerneldb.open(tmp_path / "k.duckdb")


def rows(database: Database, sql: str) -> list[Row]:
    found: list[Row] = database.sql(sql).rows()
    return found


def test_every_trace_is_named_and_noted(ingested: Database) -> None:
    traces = {row["trace"]: row for row in ingested.traces().rows()}
    assert list(traces) == ["mine-prefill", "mine-decode", "mine-decode-cuda-graph"]
    one = traces["mine-decode-cuda-graph"]
    assert (one["run"], one["label"], one["default_phase"], one["source"]) == ("mine", "a label", "decode", "pytorch")
    assert one["tags"] == {
        "precision": "float16", "batch": "1", "workload": "decode", "mode": "cuda_graph",
    }  # fmt: skip
    kernels = rows(ingested, "SELECT trace, name, phase FROM kernels ORDER BY name")
    assert kernels[0] == {"trace": "mine-decode-cuda-graph", "name": "kernel_decode_cuda_graph", "phase": "decode"}


def test_measurements_belong_to_the_trace_of_their_workload(ingested: Database) -> None:
    found = rows(
        ingested,
        "SELECT t.name, m.* FROM measurements AS m JOIN traces AS t USING (trace_id) "
        "WHERE t.name = 'mine-decode' ORDER BY quantity, repetition",
    )
    assert [(row["quantity"], row["repetition"], row["value"]) for row in found] == [
        ("busy_ns", None, 1.5e6), ("energy_mj", None, None), ("idle_power_w", None, 90.0), ("wall_ns", 1, 2.05e6),
        ("wall_ns", None, 2e6),
    ]  # fmt: skip
    assert {(row["run"], row["model"], row["workload"], row["mode"]) for row in found} == {
        ("mine", "gpt2", "decode", "eager")
    }
    assert found[1]["reason"] == "no counter"
    assert str(found[1]["measured_at"]) == "2026-11-21 14:00:00"
    assert (found[-1]["low"], found[-1]["high"], found[-1]["n"]) == (1.9e6, 2.1e6, 12)


def test_measured_workloads_can_be_closed(ingested: Database) -> None:
    workloads = rows(
        ingested, "SELECT trace, workload, mode, wall_ns, busy_ns FROM _reconciliation_workloads ORDER BY trace"
    )
    assert workloads[0] == {
        "trace": "mine-decode", "workload": "decode", "mode": "eager", "wall_ns": 2e6, "busy_ns": 1.5e6,
    }  # fmt: skip
    assert len(workloads) == 3


def test_readings_that_count_are_aligned_with_their_trace(ingested: Database) -> None:
    found = rows(
        ingested,
        "SELECT t.name AS trace, p.workload, p.source, p.device, p.gpu, p.power_w, p.energy_mj, "
        "p.epoch_ns - t.base_ns - p.ts_ns AS off "
        "FROM power_samples AS p JOIN traces AS t USING (trace_id) ORDER BY epoch_ns",
    )
    common = {"source": "record", "device": 0, "gpu": "NVIDIA H200", "off": 0}
    assert found == [
        {"trace": "mine-prefill", "workload": "idle", "power_w": 90.0, "energy_mj": None, **common},
        {"trace": "mine-prefill", "workload": "prefill", "power_w": 400.0, "energy_mj": 7.0, **common},
        {"trace": "mine-decode-cuda-graph", "workload": "decode", "power_w": None, "energy_mj": None, **common},
    ]


def test_the_files_of_a_recording_are_listed(ingested: Database) -> None:
    found = rows(
        ingested,
        "SELECT f.role, f.path FROM trace_files AS f JOIN traces AS t USING (trace_id) "
        "WHERE t.name = 'mine-prefill' ORDER BY file_index",
    )
    assert [(row["role"], Path(str(row["path"])).name) for row in found] == [
        ("trace", "prefill.pt.trace.json.gz"), ("recording", "bundle.json"), ("execution trace", "prefill.et.json.gz"),
    ]  # fmt: skip


@pytest.mark.thorough
def test_again_nothing_changes_and_replace_doubles_nothing(taken: Path, tmp_path: Path) -> None:
    database, finished = kerneldb.open(shutil.copy(taken / "k.duckdb", tmp_path)), taken / "mine"
    counted = "SELECT (SELECT count(*) FROM measurements) AS m, (SELECT count(*) FROM power_samples) AS p"
    before = rows(database, counted)
    assert [one.status for one in database.ingest(finished)] == ["unchanged"] * 3
    database.tag("mine-decode", {"batch": "my own"})
    assert [one.status for one in database.ingest(finished, replace=True)] == ["replaced"] * 3
    assert rows(database, counted) == before
    (kept,) = rows(database, "SELECT value FROM trace_tags WHERE key = 'batch' AND value <> '1'")
    assert kept["value"] == "my own"


def test_a_folder_of_recordings_and_a_single_file(finished: Path, database: Database) -> None:
    (only,) = database.ingest(finished / "decode.pt.trace.json.gz")
    assert only.trace == "mine-decode"
    assert rows(database, "SELECT count(*) AS n FROM measurements")[0]["n"] == 5
    assert [one.status for one in database.ingest(finished.parent)] == ["ingested", "unchanged", "ingested"]


def test_what_the_user_says_comes_first(finished: Path, database: Database) -> None:
    database.ingest(finished, run="night", label="mine own", tags={"batch": "2"})
    row = database.traces(["mine-prefill"]).rows()[0]
    assert (row["run"], row["label"]) == ("night", "mine own")
    assert row["tags"]["batch"] == "2"
    assert rows(database, "SELECT DISTINCT run FROM measurements") == [{"run": "night"}]


def test_an_unfinished_recording_is_taken_as_far_as_it_goes(folder: Path, database: Database) -> None:
    open_part = {"workload": "decode", "mode": "eager", "measurements": [WALL]}
    failed = {"workload": "decode", "mode": "cuda_graph", "reason": "cannot be captured"}
    (one,) = database.ingest(write(folder, [part(folder, "prefill"), open_part, failed]))
    reasons = {(entry.outcome, entry.reason) for entry in one.report}
    assert ("lost", "decode was not recorded to its end; kerneldb record … --resume goes on") in reasons
    assert ("note", "decode (cuda_graph): cannot be captured") in reasons
    assert {row["workload"] for row in rows(database, "SELECT workload FROM measurements")} == {"prefill"}


def test_a_recording_without_a_finished_workload_is_refused(folder: Path, database: Database) -> None:
    write(folder, [{"workload": "decode", "mode": "eager"}])
    with pytest.raises(
        NotATraceError, match=r"without a finished workload\. Go on with it: kerneldb record … --resume"
    ):
        database.ingest(folder)


def test_a_file_that_was_not_copied_is_told(finished: Path, database: Database) -> None:
    (finished / "decode.pt.trace.json.gz").unlink()
    first, second = database.ingest(finished)
    for one in (first, second):
        lost = [entry.reason for entry in one.report if entry.outcome == "lost"]
        assert lost == ["decode.pt.trace.json.gz of the recording is not in its folder"]


@pytest.mark.thorough
def test_another_trace_gets_no_measurements(finished: Path, database: Database) -> None:
    (finished / "decode.pt.trace.json.gz").write_bytes(gzip.compress(trace_of("an_other_kernel")))
    database.ingest(finished)
    assert rows(database, "SELECT DISTINCT workload, mode FROM measurements ORDER BY ALL") == [
        {"workload": "decode", "mode": "cuda_graph"},
        {"workload": "prefill", "mode": "eager"},
    ]
    (lost,) = rows(database, "SELECT reason FROM ingest_reports WHERE outcome = 'lost'")
    assert str(lost["reason"]).startswith("measurements: the trace is not the one that was recorded")


def test_bundle_json_alone_names_its_folder(finished: Path, database: Database) -> None:
    with pytest.raises(NotATraceError, match=f"Give its folder: kerneldb ingest {finished}"):
        database.ingest(finished / "bundle.json")


def test_a_damaged_or_newer_bundle_json_says_so(finished: Path, database: Database) -> None:
    (finished / "bundle.json").write_text('{"format": "kerneldb recording", "par')
    with pytest.raises(UnreadableTraceError, match=r"bundle\.json: cannot be read"):
        database.ingest(finished)
    (finished / "bundle.json").write_text('{"format": "kerneldb recording", "version": 99}')
    with pytest.raises(UnreadableTraceError, match="written by a newer kerneldb"):
        database.ingest(finished)


def test_a_bundle_json_of_another_program_changes_nothing(folder: Path, database: Database) -> None:
    part(folder, "prefill")
    (folder / "bundle.json").write_text('{"files": []}')
    taken, refused = database.ingest_each([folder], IngestOptions())
    assert {taken.trace, refused.trace} == {"prefill", None}
    assert rows(database, "SELECT count(*) AS n FROM measurements") == [{"n": 0}]


def test_a_recorded_gpu_trace_keeps_its_identity(folder: Path, database: Database, root: Path, tmp_path: Path) -> None:
    source = root / "tests" / "fixtures" / "train-step-h200.json.gz"
    text = gzip.decompress(source.read_bytes())
    (one,) = database.ingest(write(folder, [part(folder, "train_step", text=text)]))
    plain = kerneldb.open(tmp_path / "plain.duckdb")
    (other,) = plain.ingest(shutil.copy(source, tmp_path / "plain.json.gz"))
    assert (one.trace_id, one.launches, one.ops) == (other.trace_id, other.launches, other.ops)
