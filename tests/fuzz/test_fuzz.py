"""Damaged files of every format, as many as a minute allows, and that a fault of a reader would be found."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.fuzz import __main__ as campaigns
from tests.fuzz import corpus, harness, mutations
from tests.fuzz.corpus import FORMATS
from tests.fuzz.harness import Finding

FAULTS = (IndexError("planted"), ValueError("planted"), AssertionError("planted"))


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("cases", [1, pytest.param(4, marks=pytest.mark.volume)])
def test_damaged_files_are_read_or_refused_in_one_line(cases: int) -> None:
    """So many of each format; `make fuzz` gives them an hour."""
    command = [sys.executable, "-m", "tests.fuzz", "--seed", "1", "--cases", str(cases)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert f"{cases * len(harness.NAMES)} inputs" in done.stdout


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> harness.Room:
    return harness.Room.make(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize(
    ("content", "way"),
    [
        (b"#toy\na,1,2\n", mutations.table),
        (b'\n{"a": 1}', mutations.json_text),
        (b"SQLite format 3\0", mutations.sqlite),
        (b"\x0a\x00", mutations.protobuf),
    ],
)
def test_a_new_reader_has_the_sample_of_its_test(
    monkeypatch: pytest.MonkeyPatch, content: bytes, way: Callable[..., bytes]
) -> None:
    sample = {"run.toy": content}
    monkeypatch.setitem(sys.modules, "tests.ingest.test_toy", types.SimpleNamespace(SAMPLE=sample))
    found = corpus.of_its_test("toy")
    assert (found.reader, found.all(), found.mutate) == ("toy", [sample], way)


@pytest.mark.parametrize(("number", "name"), [*enumerate(FORMATS)])
def test_a_fault_of_a_reader_is_found(
    room: harness.Room, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    """Whatever it raises while it reads, in each of its formats; the finding names the case, well without the fault."""
    fault = FAULTS[number % len(FAULTS)]
    with monkeypatch.context() as patched:
        patched.setattr("kerneldb.ingest.output.Output.finish", _failing(fault))
        patched.setattr("kerneldb.batch.Spool.finish", _failing(fault))
        found = next(filter(None, (harness.run(room, name, 1, case) for case in range(40))))
    assert found.problem == "asks for a report"
    assert f"--seed 1 --format {name} --case {found.case}\n" in str(found)
    assert type(fault).__name__ in found.said
    assert harness.run(room, name, 1, found.case) is None


def test_the_totals_outlast_what_cuts_a_campaign_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each input is counted in the file before the next one begins."""
    done = [(3, "plan", None), (3, "ncu", Finding("ncu", 3, 0, "hangs")), (4, "plan", None)]

    def cut(*_: object) -> Iterator[tuple[int, str, Finding | None]]:
        yield from done
        raise KeyboardInterrupt

    monkeypatch.setattr(campaigns, "as_asked", cut)
    file = tmp_path / "totals.json"
    with pytest.raises(KeyboardInterrupt):
        campaigns.campaign([], argparse.Namespace(totals=file, seed=3))
    said = json.loads(file.read_text())
    assert (said["finished"], said["total"], said["found"]) == (False, 3, 1)
    assert said["by_number"] == {"3": {"plan": 1, "ncu": 1}, "4": {"plan": 1}}
    assert "--seed 3 --format ncu --case 0" in said["findings"][0]
    assert [*tmp_path.iterdir()] == [file]


def _failing(fault: Exception) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise fault

    return fail
