"""`kerneldb record` and `python -m kerneldb.replay.recording`: from the command line to the database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
import torch
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from kerneldb.errors import NotATraceError
from kerneldb.replay.recording import ranks
from kerneldb.replay.recording.__main__ import main
from kerneldb.replay.recording.settings import RecordError, Settings
from tests.recording import in_process
from tests.recording.conftest import read, tiny

SCRIPT = "import sys, torch\nprint('said', sys.argv[1:])\ntorch.ones(2).add(1)\n"
BRIEF = ["--device", "cpu", "--seconds", "0.1"]
WAITING = """
import json, pathlib, time, torch
parts = json.loads(pathlib.Path("mine/bundle.json").read_text())["parts"]
while "measurements" in parts[0] and not pathlib.Path("go-on").exists():
    time.sleep(0.02)
torch.ones(2).add(1)
"""
"""Waits once it has been measured."""
TINY = ["--tiny", "--device", "cpu", "--prompt", "8", "--new-tokens", "2", "--seconds", "0.3", "--iterations", "1"]
MODULE = [sys.executable, "-m", "kerneldb.replay.recording"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path) -> Path:
    """An empty current folder, from which child processes find the fake meter."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(root))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


def test_list_names_all_models(here: Path) -> None:
    done = CliRunner().invoke(cli, ["record", "--list", "--json"])
    models = {row["model"]: row for row in json.loads(done.stdout)}
    assert {"bloom-560m", "llama-2-7b", "gpt2", "vit-large", "deepseek-vl2-tiny"} <= set(models)
    assert "vicuna-7b" in models["llama-2-7b"]["aliases"]
    assert models["vit-large"]["workloads"] == "forward, train_step"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["blom"], 2, "did you mean bloom-560m"),
        ([], 2, "name one model"),
        (["gpt2", "bert"], 2, "name one model"),
        (["gpt2", "--workloads", "dance", "--device", "cpu"], 2, "no workload dance"),
        (["gpt2", "--cuda-graphs", "--device", "cpu"], 2, "--cuda-graphs needs a GPU"),
        (["--script", "none.py"], 2, "does not exist"),
    ],
)
def test_wrong_calls(here: Path, arguments: list[str], code: int, message: str) -> None:
    done = CliRunner().invoke(cli, ["record", *arguments])
    assert (done.exit_code, done.stdout) == (code, "")
    assert message in done.stderr
    assert list(here.iterdir()) == []


@pytest.fixture
def without_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that records finds none of the packages that read and store traces."""
    script = (
        "import sys\n"
        "for name in ('duckdb', 'polars', 'click', 'pyarrow', 'msgspec'): sys.modules[name] = None\n"
        "from kerneldb.replay.recording.__main__ import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    monkeypatch.setattr(ranks, "WORKER", (sys.executable, "-c", script))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.usefixtures("without_libraries")
def test_a_model_is_recorded_and_ingested(here: Path) -> None:
    given = ["record", "gpt2", *TINY, "--json", "--import", "tests.recording.fake_meter", "--output", "mine"]
    done = CliRunner().invoke(cli, given)
    assert done.exit_code == 0, done.stderr
    prefill, decode = json.loads(done.stdout)
    assert (prefill["workload"], decode["workload"], decode["mode"]) == ("prefill", "decode", "eager")
    assert decode["wall_ms"] > 0
    assert decode["energy_mj"] == pytest.approx(50 * decode["wall_ms"], rel=0.7)  # on a machine that others use
    assert "[1/4] measuring prefill (eager)" in done.stderr
    assert "[4/4] tracing decode (eager)" in done.stderr
    database = kerneldb.open("kernels.duckdb")
    assert [row["trace"] for row in database.traces().rows()] == ["mine-prefill", "mine-decode"]
    assert database.sql("SELECT DISTINCT run, model FROM measurements").rows() == [{"run": "mine", "model": "gpt2"}]
    assert database.sql("SELECT count(*) AS n FROM power_samples WHERE workload = 'decode'").rows()[0]["n"] > 0
    again = CliRunner().invoke(cli, given)
    assert again.exit_code == 2
    assert "--resume goes on with it" in again.stderr


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings need no process of their own, which would import PyTorch again."""

    monkeypatch.setattr(ranks, "run", in_process.run)


@pytest.mark.usefixtures("no_meter", "in_this_process")
def test_a_trace_alone_is_written_and_not_ingested(here: Path) -> None:
    given = ["record", "gpt2", *TINY, "--trace-only", "--output", "mine", "--workloads", "prefill"]
    done = CliRunner().invoke(cli, given)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[2].startswith("prefill")
    assert sorted(path.name for path in here.iterdir()) == ["mine"]
    assert (here / "mine" / "prefill.pt.trace.json.gz").exists()


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.usefixtures("without_libraries")
def test_a_script_prints_to_stderr(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "job.py").write_text(SCRIPT)
    done = CliRunner().invoke(cli, ["record", "--script", "job.py", *BRIEF, "--json", "--", "--key", "v"])
    assert done.exit_code == 0, done.stderr
    assert [row["workload"] for row in json.loads(done.stdout)] == ["script"]
    captured = capfd.readouterr()
    assert "said ['--key', 'v']" in captured.err
    assert "said" not in captured.out
    (trace,) = kerneldb.open("kernels.duckdb").traces().rows()
    assert (trace["trace"], trace["default_phase"]) == ("job-script", "script")
    assert "--key" not in (here / "job" / "bundle.json").read_text()


@pytest.mark.usefixtures("in_this_process")
def test_no_gpu_is_told_with_its_remedy(here: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = CliRunner().invoke(cli, ["record", "gpt2"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "--device cpu" in done.stderr
    assert list(here.iterdir()) == []


@pytest.mark.thorough
@pytest.mark.slow
def test_a_killed_recording_goes_on(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "job.py").write_text(WAITING)
    given = [*BRIEF, "--iterations", "1", "--output", "mine"]
    command = [*MODULE, *given, "--script", "job.py"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        until = time.monotonic() + 180
        while time.monotonic() < until:
            if (here / "mine" / "bundle.json").exists() and "measurements" in read(here / "mine")["parts"][0]:
                break
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    measured = read(here / "mine")["parts"][0]["measurements"]
    with pytest.raises(NotATraceError, match="without a finished workload"):
        kerneldb.open("k.duckdb").ingest("mine")
    (here / "go-on").touch()
    with mock.patch.dict(os.environ):
        assert main([*given, "--resume", "--script", "job.py"]) == 0
    assert read(here / "mine")["parts"][0]["measurements"] == measured
    assert [one.status for one in kerneldb.open("k.duckdb").ingest("mine")] == ["ingested"]
    assert "script" in capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.slow
def test_ctrl_c_leaves_a_recording_that_goes_on(here: Path) -> None:
    (here / "job.py").write_text("import torch\ntorch.ones(2).add(1)\n")
    given = ["--device", "cpu", "--seconds", "60", "--output", "mine", "--script", "job.py"]
    command = [sys.executable, "-m", "kerneldb", "record", *given]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "[1/2] measuring script (eager)\n"
        os.killpg(process.pid, signal.SIGINT)
        process.wait(120)
        rest = process.stderr.read()
    assert process.returncode == 130, rest
    assert read(here / "mine")["finished"] is None


def test_a_process_that_dies_is_told(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script = "import os, sys; sys.stderr.write('last words\\n'); sys.stderr.flush(); os.kill(os.getpid(), 9)"
    monkeypatch.setattr(ranks, "WORKER", (sys.executable, "-c", script))
    with pytest.raises(RecordError, match="the recording ended with signal 9: last words; --resume goes on with it"):
        ranks.run(tiny(), here / "a", resume=False, listen=print)


def test_a_script_that_dies_has_said_why_already(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ranks, "WORKER", (sys.executable, "-c", "1 / 0"))
    wanted = Settings("job", device="cpu", workloads=("script",), script=("job.py",))
    with pytest.raises(RecordError, match="the recording ended with exit code 1: what it said stands above; --resume"):
        ranks.run(wanted, here / "a", resume=False, listen=print)
    assert "ZeroDivisionError" in capfd.readouterr().err
