"""An answer without rows says why on stderr, and nothing on stdout but the header."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.cli.answers import NO_RATES, NOTHING

NEVER = ("--where", "false")
ASKED = {
    "idle": ("idle",),
    "idle_gaps": ("idle", "--gaps"),
    "overlap": ("overlap",),
    "collectives": ("collectives",),
    "collective_waits": ("collectives", "--waits"),
    "collective_replays": ("collectives", "--replays"),
    "phases": ("phases",),
    "iterations": ("iterations",),
    "launch_overhead": ("overhead",),
    "fusion_candidates": ("fusion",),
    "precision_conversions": ("conversions",),
    "roofline": ("roofline",),
}


def test_every_answer_has_its_sentence() -> None:
    assert set(ASKED) == set(NOTHING)


@pytest.mark.parametrize("name", ASKED)
def test_no_rows_have_a_reason(compared: Database, name: str) -> None:
    done = CliRunner().invoke(cli, ["--db", str(compared.path), *ASKED[name], *NEVER, "--csv"])
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 1)
    assert NOTHING[name] in done.stderr


def test_rows_without_a_rate_have_one_too(compared: Database) -> None:
    unknown = ["--db", str(compared.path), "roofline", "--where", "flops IS NULL AND moved_bytes IS NULL", "--csv"]
    assert NO_RATES in CliRunner().invoke(cli, unknown).stderr
    known = ["--db", str(compared.path), "roofline", "--where", "category = 'GEMM'", "--csv"]
    assert NO_RATES not in CliRunner().invoke(cli, known).stderr
