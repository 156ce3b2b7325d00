"""A few interrupted commands of each kind; `make fuzz` tries all commands at many more moments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.fuzz.killing import spread


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("command", ["replace", pytest.param("ingest", marks=pytest.mark.volume)])
def test_an_interrupted_command_is_completed_by_giving_it_again(command: str, tmp_path: Path) -> None:
    """Killed, on a full disk, and in a folder that cannot be written: nothing is lost, doubled or left behind."""
    totals = tmp_path / "totals.json"
    words = [sys.executable, "-m", "tests.fuzz.killing", "--each", "4", "--command", command, "--totals", str(totals)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    assert "7 interrupted commands" in done.stdout
    said = json.loads(totals.read_text())
    assert (said["finished"], said["total"], said["findings"], [*said["by_number"]]) == (True, 7, [], ["0"])


@pytest.mark.parametrize(("count", "most"), [(58, 13), (5, 5), (5, 100), (1, 7), (3, 0)])
def test_kills_are_spread_over_all_calls(count: int, most: int) -> None:
    found = spread(count, most)
    assert len(found) == min(count, most)
    assert found == sorted({number for number in found if 1 <= number <= most})
    assert not found or (found[0] - 1 <= most / len(found) and most - found[-1] <= most / len(found))
