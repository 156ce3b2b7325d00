"""A few interrupted commands of each kind; `make fuzz` tries all commands at many more moments."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
@pytest.mark.thorough
def test_an_interrupted_command_is_completed_by_giving_it_again() -> None:
    """Killed, on a full disk, and in a folder that cannot be written: nothing is lost, doubled or left behind."""
    words = [sys.executable, "-m", "tests.fuzz.killing", "--each", "4"]
    for command in ("ingest", "replace"):
        words += ["--command", command]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    assert "14 interrupted commands" in done.stdout
