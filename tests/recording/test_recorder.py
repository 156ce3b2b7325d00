"""A whole recording on a CPU: what the bundle holds, with and without a meter, stopped and resumed, and of a script."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import platform
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import kerneldb
from kerneldb import recordings
from kerneldb.errors import UsageError
from kerneldb.replay.recording import bundle, recorder, workloads
from kerneldb.replay.recording.settings import RecordError, Settings, WorkloadError, resolved
from tests.recording.conftest import read, tiny
from tests.recording.meters import POWER_W

BRIEF = 0.05
"""Seconds of a repetition where no figure is looked at."""
BUSY_MACHINE = 0.7
"""Windows of a tenth of a second on a machine that others use: units are tested here, precision in tests/energy."""

TRIES = 5

Listener = Callable[[Mapping[str, Any]], None]


def nobody(event: Mapping[str, Any]) -> None:
    """Listens to nothing."""


def record(folder: Path, wanted: Settings, *, resume: bool = False, listen: Listener = nobody) -> dict[str, Any]:
    recorder.record(wanted, folder, resume=resume, listen=listen)
    return read(folder)


def quantities(part: Mapping[str, Any], repetition: int | None = None) -> dict[str, dict[str, Any]]:
    """Quantity → row, over all repetitions or of one."""
    rows = [*part["measurements"], *part.get("of_trace", ())]
    return {row["quantity"]: row for row in rows if row.get("repetition") == repetition}


def events_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path) as file:
        found: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of prefill and decode with the fake meter, which a busy machine may not read in time."""
    from kerneldb.replay.measure.energy import meter
    from tests.recording import meters

    meter.register(meters.NAME, meters.open_fake)
    for _ in range(TRIES):
        folder = tmp_path_factory.mktemp("recorded") / "mine"
        content = record(folder, tiny(label="a label"))
        if all("value" in quantities(part)["energy_mj"] for part in content["parts"]):
            break
    meter.unregister(meters.NAME)
    return folder


def test_the_bundle_says_what_was_recorded(recorded: Path) -> None:
    content = read(recorded)
    assert (content["name"], content["label"], content["model"]) == ("mine", "a label", "gpt2")
    assert [(part["workload"], part["mode"]) for part in content["parts"]] == [
        ("prefill", "eager"),
        ("decode", "eager"),
    ]
    assert content["finished"] is not None
    assert content["software"]["torch"] == torch.__version__
    assert content["meter"]["name"] == "fake"
    assert content["meter"]["period_ms"] > 0
    assert content["parts"][1]["tags"] == {
        "model": "gpt2", "workload": "decode", "mode": "eager", "precision": "float32", "batch": "1",
        "weights": "seed 0",
        "prompt": "8", "new_tokens": "3", "scale": "tiny",
    }  # fmt: skip


@pytest.mark.parametrize("number", [0, 1], ids=["prefill", "decode"])
def test_energy_is_power_times_wall_time(recorded: Path, number: int) -> None:
    part = read(recorded)["parts"][number]
    whole = quantities(part)
    assert whole["power_w"]["value"] == pytest.approx(POWER_W, rel=BUSY_MACHINE)
    assert whole["energy_mj"]["value"] == pytest.approx(POWER_W * whole["wall_ns"]["value"] / 1e6, rel=BUSY_MACHINE)
    for quantity in ("wall_ns", "energy_mj"):
        row = whole[quantity]
        assert row["low"] <= row["value"] <= row["high"]
        each = [quantities(part, repetition)[quantity] for repetition in (1, 2, 3)]
        single = [one["value"] for one in each if "value" in one]
        assert row["value"] == pytest.approx(sum(single) / len(single))
        assert all("value" in one or one["reason"] for one in each), "a meter may not be read in time on a busy machine"
    assert whole["tokens"]["value"] == (8, 3)[number]
    assert whole["sm_mhz"]["value"] == 1980
    assert whole["iterations"]["value"] == whole["wall_ns"]["n"] >= 3, "one per repetition, on the slowest machine"
    assert whole["seconds"]["value"] >= 0.3


def test_idle_power_is_measured_and_a_cpu_has_no_launch_loop_power(recorded: Path) -> None:
    rows = {row["quantity"]: row for row in read(recorded)["powers"]}
    assert rows["idle_power_w"]["value"] == pytest.approx(POWER_W, rel=BUSY_MACHINE)
    assert rows["launch_loop_power_w"]["reason"] == "a CPU has no launch gaps"
    assert "value" not in rows["launch_loop_power_w"]


def test_each_traced_iteration_is_a_step_and_a_range(recorded: Path) -> None:
    events = [event for event in events_of(recorded / "decode.pt.trace.json.gz") if event.get("ph") == "X"]
    names = [event["name"] for event in events]
    assert [name for name in names if name.startswith("ProfilerStep#")] == ["ProfilerStep#1", "ProfilerStep#2"]
    assert names.count("decode") == 2
    # two traced iterations of three steps, each with as many layers
    assert names.count("aten::scaled_dot_product_attention") == 2 * 3 * 2
    assert any("Input Dims" in event.get("args", {}) for event in events)


def test_the_execution_trace_tells_of_the_same_operators(recorded: Path) -> None:
    with gzip.open(recorded / "prefill.et.json.gz") as file:
        nodes = [node["name"] for node in json.load(file)["nodes"]]
    trace = [event["name"] for event in events_of(recorded / "prefill.pt.trace.json.gz")]
    assert nodes.count("aten::addmm") == trace.count("aten::addmm") > 0


def test_readings_stand_in_the_file_up_to_the_size_that_the_bundle_says(recorded: Path) -> None:
    path = recorded / "power.ndjson"
    assert path.stat().st_size == read(recorded)["power_bytes"]
    readings = [json.loads(line) for line in path.read_text().splitlines()]
    assert {one["workload"] for one in readings} == {"idle", "prefill", "decode"}
    assert {one["power_w"] for one in readings} == {POWER_W}


def test_only_whole_files_are_left(recorded: Path) -> None:
    assert sorted(path.name for path in recorded.iterdir()) == [
        "bundle.json", "decode.et.json.gz", "decode.pt.trace.json.gz", "power.ndjson", "prefill.et.json.gz",
        "prefill.pt.trace.json.gz",
    ]  # fmt: skip


def test_the_table_has_figures_per_iteration(recorded: Path) -> None:
    content = read(recorded)
    prefill, decode = bundle.rows([recordings.load(recorded)])
    whole = quantities(content["parts"][1])
    assert decode["wall_ms"] == pytest.approx(whole["wall_ns"]["value"] / 1e6)
    assert decode["tokens_per_s"] == pytest.approx(3 / whole["wall_ns"]["value"] * 1e9)
    assert decode["j_per_token"] == pytest.approx(whole["energy_mj"]["value"] / 3000)
    assert (prefill["busy_pct"], prefill["launches"], prefill["reason"]) == (None, 0, None)
    assert len(bundle.text([recordings.load(recorded)]).splitlines()) == 3


def test_a_recording_tells_nothing_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_meter: None
) -> None:
    monkeypatch.setenv("KERNELDB_SECRET_TOKEN", "hunter2-in-the-environment")
    monkeypatch.setattr(sys, "argv", ["program", "--password=hunter2-on-the-command-line"])
    script = tmp_path / "private-folder" / "job.py"
    script.parent.mkdir()
    script.write_text("import torch; torch.ones(4).add(1)\n")
    folder = tmp_path / "out"
    record(
        folder, resolved(Settings("", device="cpu", seconds=BRIEF, script=(str(script), "--key", "hunter2-argument")))
    )
    told = (folder / "bundle.json").read_text()
    for path in folder.glob("*.gz"):
        told += gzip.decompress(path.read_bytes()).decode()
    assert "hunter2" not in told
    assert "private-folder" not in told
    assert str(tmp_path) not in told
    assert platform.node() not in (folder / "bundle.json").read_text().split('"')


def test_without_a_meter_energy_is_unknown_with_the_reason(tmp_path: Path, no_meter: None) -> None:
    (part,) = record(tmp_path / "a", tiny(workloads=("prefill",), seconds=BRIEF))["parts"]
    whole = quantities(part)
    assert whole["energy_mj"]["reason"] == "no energy counter here"
    assert "value" not in whole["energy_mj"]
    assert whole["wall_ns"]["value"] > 0
    assert not (tmp_path / "a" / "power.ndjson").exists()


def test_trace_only_measures_nothing(tmp_path: Path, fake_meter: None) -> None:
    content = record(tmp_path / "a", tiny(workloads=("prefill",), trace_only=True))
    assert "measurements" not in content["parts"][0]
    assert content["parts"][0]["trace"]["iterations"] == 2
    assert content["powers"] == []
    (row,) = bundle.rows([recordings.load(tmp_path / "a")])
    assert (row["wall_ms"], row["reason"]) == (None, "not measured: --trace-only")


class StoppedError(Exception):
    """Where a test stops a recording."""


@pytest.mark.parametrize("step", [1, 3])
def test_a_recording_stopped_anywhere_goes_on(tmp_path: Path, no_meter: None, step: int) -> None:
    told: list[tuple[str, str]] = []

    def stop(event: Mapping[str, Any]) -> None:
        if len(told) == step:
            raise StoppedError
        told.append((event["what"], event["workload"]))

    wanted, folder = tiny(seconds=BRIEF), tmp_path / "a"
    with pytest.raises(StoppedError):
        record(folder, wanted, listen=stop)
    before = read(folder)
    assert before["finished"] is None
    for part in before["parts"]:
        assert "trace" not in part or (folder / part["trace"]["file"]).exists()
    rest: list[tuple[str, str]] = []
    after = record(folder, wanted, resume=True, listen=lambda event: rest.append((event["what"], event["workload"])))
    whole = [("measure", "prefill"), ("measure", "decode"), ("trace", "prefill"), ("trace", "decode")]
    assert (told, rest) == (whole[:step], whole[step:])
    assert after["finished"] is not None
    for old, new in zip(before["parts"], after["parts"], strict=True):
        assert old.get("measurements", new["measurements"]) == new["measurements"]


def test_a_torn_reading_is_overwritten(tmp_path: Path, fake_meter: None) -> None:
    folder, wanted = tmp_path / "a", tiny(workloads=("prefill",))

    def stop(event: Mapping[str, Any]) -> None:
        if event["what"] == "trace":
            raise StoppedError

    with pytest.raises(StoppedError):
        record(folder, wanted, listen=stop)
    with (folder / "power.ndjson").open("a") as file:
        file.write('{"workload": "prefill", "epo')
    content = record(folder, wanted, resume=True)
    text = (folder / "power.ndjson").read_text()
    assert len(text) == content["power_bytes"]
    assert all(json.loads(line) for line in text.splitlines())


def test_another_recording_in_the_folder_is_left_alone(tmp_path: Path, no_meter: None) -> None:
    folder = tmp_path / "a"
    record(folder, tiny(workloads=("prefill",), seconds=BRIEF))
    with pytest.raises(UsageError, match=r"there is a recording already\. --resume"):
        record(folder, tiny(workloads=("prefill",), seconds=BRIEF))
    with pytest.raises(UsageError, match=r"was recorded with batch 1\. Give the same settings"):
        record(folder, tiny(workloads=("prefill",), seconds=BRIEF, batch=2), resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(UsageError, match="not empty, and no recording"):
        record(tmp_path / "other", tiny())


def test_what_cannot_be_captured_has_its_reason_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_meter: None
) -> None:
    make = workloads.make

    def refuse(workload: str, *others: Any) -> workloads.Work:
        if workload == "prefill":
            message = "cannot be captured in a CUDA graph: it waits"
            raise WorkloadError(message)
        return make(workload, *others)

    monkeypatch.setattr(workloads, "make", refuse)
    prefill, decode = record(tmp_path / "a", tiny(seconds=BRIEF))["parts"]
    assert prefill["reason"] == "cannot be captured in a CUDA graph: it waits"
    assert "trace" not in prefill
    assert "trace" in decode
    assert bundle.rows([recordings.load(tmp_path / "a")])[0]["reason"] == prefill["reason"]


class CapturedHere:
    """A graph on a CPU, which has none: what is captured runs, and runs again in place of a launch of the graph."""

    def __init__(self, work: workloads.Work, watch: workloads.Watch) -> None:
        self.tokens, self.work = work.tokens, work
        with watch():
            work()

    def __call__(self) -> None:
        self.work()


def as_graph(**more: Any) -> Settings:
    """A prefill, also in a graph, which a CPU is not asked for otherwise."""
    return dataclasses.replace(tiny(workloads=("prefill",), seconds=BRIEF, **more), cuda_graphs=True)


def test_the_capture_of_a_graph_is_traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_meter: None) -> None:
    monkeypatch.setattr(workloads, "Captured", CapturedHere)
    eager, graph, capture = record(tmp_path / "a", as_graph())["parts"]
    assert [one["mode"] for one in (eager, graph, capture)] == ["eager", "cuda_graph", "cuda_graph_capture"]
    assert "measurements" not in capture
    assert capture["trace"]["execution_trace"] == "prefill.cuda_graph_capture.et.json.gz"
    events = events_of(tmp_path / "a" / "prefill.cuda_graph_capture.pt.trace.json.gz")
    sizes = [one["args"]["Input Dims"] for one in events if one["name"] == "aten::addmm"]
    assert sizes
    assert all(sizes)
    assert sum(one["name"] == "prefill" for one in events) == 1
    assert not [path for path in (tmp_path / "a").iterdir() if path.name.startswith(".")]
    assert [row["mode"] for row in bundle.rows([recordings.load(tmp_path / "a")])] == ["eager", "cuda_graph"]
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(tmp_path / "a")
    names = {row["trace"] for row in database.traces().rows()}
    assert names == {"a-prefill", "a-prefill-cuda-graph", "a-prefill-cuda-graph-capture"}


def test_a_resumed_recording_has_a_capture_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_meter: None
) -> None:
    monkeypatch.setattr(workloads, "Captured", CapturedHere)
    record(tmp_path / "a", as_graph())
    content = read(tmp_path / "a")
    del content["parts"][1]["trace"]
    (tmp_path / "a" / recordings.NAME).write_text(json.dumps(content))
    modes = [one["mode"] for one in record(tmp_path / "a", as_graph(), resume=True)["parts"]]
    assert modes == ["eager", "cuda_graph", "cuda_graph_capture"]


def test_a_graph_that_the_profiler_keeps_from_being_captured_is_traced_without_its_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_meter: None
) -> None:
    class Refusing(CapturedHere):
        def __init__(self, work: workloads.Work, watch: workloads.Watch) -> None:
            with watch() as watched:
                if watched is not None:
                    message = "cannot be captured in a CUDA graph: somebody looks"
                    raise WorkloadError(message)
            super().__init__(work, contextlib.nullcontext)

    monkeypatch.setattr(workloads, "Captured", Refusing)
    told = list[dict[str, Any]]()
    parts = record(tmp_path / "a", as_graph(), listen=told.append)["parts"]
    (failed,) = [event for event in told if event["what"] == "failed"]
    assert failed["mode"] == "cuda_graph_capture"
    assert failed["reason"].endswith("somebody looks; the kernels of the graph have no calls")
    assert [one["mode"] for one in parts] == ["eager", "cuda_graph"]
    assert "trace" in parts[1]
    assert not [path for path in (tmp_path / "a").iterdir() if "capture" in path.name]


def test_a_capture_that_another_rank_could_not_trace_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_meter: None
) -> None:
    class Alone(CapturedHere):
        def __init__(self, work: workloads.Work, watch: workloads.Watch) -> None:
            super().__init__(work, watch)
            if watch is not contextlib.nullcontext:
                message = "cannot be captured in a CUDA graph: not on rank 1"
                raise WorkloadError(message)

    monkeypatch.setattr(workloads, "Captured", Alone)
    parts = record(tmp_path / "a", as_graph())["parts"]
    assert [one["mode"] for one in parts] == ["eager", "cuda_graph"]
    assert not [path for path in (tmp_path / "a").iterdir() if "capture" in path.name]


def test_lack_of_memory_says_what_to_lower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_meter: None) -> None:
    def exhaust(self: workloads.Pass) -> None:
        message = "CUDA out of memory. Tried to allocate 80.00 GiB."
        raise torch.OutOfMemoryError(message)

    monkeypatch.setattr(workloads.Pass, "__call__", exhaust)
    with pytest.raises(RecordError, match=r"out of memory in prefill: lower --batch \(now 4\)"):
        record(tmp_path / "a", tiny(batch=4))


def test_no_gpu_leaves_no_folder(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(
        RecordError, match=r"no GPU that PyTorch .* can use: .*\(kerneldb ingest reads the recording here\)"
    ):
        record(tmp_path / "a", resolved(Settings("gpt2")))
    assert not (tmp_path / "a").exists()


def script(folder: Path, text: str, *arguments: str) -> Settings:
    path = folder / "job.py"
    path.write_text(text)
    return resolved(Settings("", device="cpu", seconds=BRIEF, iterations=1, script=(str(path), *arguments)))


def test_a_script_runs_with_its_arguments(tmp_path: Path, no_meter: None) -> None:
    runs = tmp_path / "runs"
    text = (
        "import pathlib, sys, torch\n"
        "if __name__ == '__main__':\n"
        "    a = torch.ones(int(sys.argv[1]), 4); a @ a.T\n"
        f"    with pathlib.Path({str(runs)!r}).open('a') as file: file.write('.')\n"
    )
    content = record(tmp_path / "a", script(tmp_path, text, "3"))
    (part,) = content["parts"]
    whole = quantities(part)
    assert (content["model"], part["workload"]) == ("job", "script")
    # warmed up before measuring and before tracing, settled, measured, traced with one step before
    assert len(runs.read_text()) > whole["iterations"]["value"]
    events = events_of(tmp_path / "a" / "script.pt.trace.json.gz")
    assert [event["args"]["Input Dims"] for event in events if event["name"] == "aten::matmul"] == [[[3, 4], [4, 3]]]
    assert "tokens" not in whole


def test_a_script_finds_its_neighbours_and_each_run_begins_where_the_first_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_meter: None
) -> None:
    current = tmp_path / "current"
    (tmp_path / "scripts").mkdir()
    current.mkdir()
    (tmp_path / "scripts" / "its_own_neighbour.py").write_text("SIZE = 4\n")
    text = (
        "import os, sys, torch\n"
        "from its_own_neighbour import SIZE\n"
        f"assert os.getcwd() == {str(current)!r}\n"
        "torch.ones(SIZE).add(1)\n"
        "sys.argv.append('more'); sys.path.append('/nowhere'); os.chdir('/')\n"
    )
    monkeypatch.chdir(current)
    (tmp_path / "scripts" / "job.py").write_text(text)
    before = list(sys.path)
    wanted = Settings("", device="cpu", seconds=BRIEF, iterations=1, script=("../scripts/job.py",))
    content = record(Path("a"), resolved(wanted))
    assert content["finished"] is not None
    assert (current / "a" / "script.pt.trace.json.gz").exists()
    assert (sys.path, Path.cwd()) == (before, current)


def test_a_script_that_fails_says_so(tmp_path: Path, no_meter: None) -> None:
    with pytest.raises(RecordError, match=r"job\.py: ended with exit code 3; run it by itself"):
        record(tmp_path / "a", script(tmp_path, "raise SystemExit(3)\n"))
    with pytest.raises(ZeroDivisionError):
        record(tmp_path / "b", script(tmp_path, "1 / 0\n"))
    content = record(tmp_path / "c", script(tmp_path, "raise SystemExit(0)\n"))
    assert content["finished"] is not None
