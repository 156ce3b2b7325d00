"""The command line of the worker, as far as it goes without torch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from kerneldb.replay.__main__ import main
from tests.replay_worker.plans import item, kernel, write

ROOT = Path(__file__).parents[2]


def test_without_torch_one_line_says_how_to_get_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if importlib.util.find_spec("torch") is not None:
        pytest.skip("torch is installed")
    path = write(tmp_path / "plan", item("a", "aten", None, kernel()))
    assert main([str(path), "--journal", str(tmp_path / "journal"), "--device", "cpu"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("replay and record need PyTorch: install it with")
    assert not (tmp_path / "journal").stat().st_size


def test_a_file_that_is_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan").write_text("{}\n")
    assert main([str(tmp_path / "plan"), "--journal", str(tmp_path / "journal")]) == 1
    assert "not a replay plan" in capsys.readouterr().err


def test_a_missing_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "plan"), "--journal", str(tmp_path / "journal")]) == 1
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--cache", "hot"), ("--runs", "0"), ("--journal",)])
def test_wrong_options_are_usage_errors(tmp_path: Path, option: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([str(tmp_path / "plan"), "--journal", "j", *option])
    assert stopped.value.code == 2


def test_the_worker_needs_no_database_and_no_torch_to_start() -> None:
    code = (
        "import sys, kerneldb.replay.worker.__main__, kerneldb.replay.host.run; "
        "sys.exit(len({'duckdb', 'polars', 'click', 'torch', 'pynvml'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
