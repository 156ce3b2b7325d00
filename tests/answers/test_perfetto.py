"""The timeline export: every launch and host event once, exact times, arrows from calls to launches."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kerneldb.api import Database
from kerneldb.cli import cli


@pytest.fixture(scope="module")
def exported(compared: Database, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("perfetto") / "t.json"
    compared.export_timeline(path, traces=["base", "slower"])
    trace: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return trace


def test_every_event_is_there_once(compared: Database, exported: dict[str, Any]) -> None:
    counts = Counter(event["cat"] for event in exported["traceEvents"] if event["ph"] == "X")
    chosen = "trace IN ('base', 'slower')"
    launches = compared.sql(f"SELECT kind, count(*) AS n FROM kernels WHERE {chosen} GROUP BY kind").rows()
    for row in launches:
        assert counts["kernel" if row["kind"] == "kernel" else f"gpu_{row['kind']}"] == row["n"]
    (ops,) = compared.sql(
        f"SELECT count(*) AS n FROM ops JOIN traces USING (trace_id) WHERE {chosen.replace('trace', 'traces.name', 1)}"
    ).rows()
    assert counts["cpu_op"] == ops["n"]


def test_times_are_exact(compared: Database, exported: dict[str, Any]) -> None:
    sums = Counter[str]()
    for event in exported["traceEvents"]:
        if event["ph"] == "X" and event["cat"] == "kernel":
            sums["ns"] += round(event["dur"] * 1000)
    sql = "SELECT sum(duration_ns)::BIGINT AS ns FROM kernels WHERE trace IN ('base', 'slower') AND kind = 'kernel'"
    assert sums["ns"] == compared.sql(sql).rows()[0]["ns"]
    assert min(event["ts"] for event in exported["traceEvents"] if event["ph"] == "X") == 0


def test_arrows_do_not_cross_traces(exported: dict[str, Any]) -> None:
    begins = Counter(event["id"] for event in exported["traceEvents"] if event["ph"] == "s")
    ends = [event["id"] for event in exported["traceEvents"] if event["ph"] == "f"]
    assert ends
    assert max(begins.values()) == 1
    assert {one.partition(".")[0] for one in begins} == {"1", "2"}


def test_tracks_are_named(exported: dict[str, Any]) -> None:
    names = {event["args"]["name"] for event in exported["traceEvents"] if event["ph"] == "M"}
    assert {"base: GPU 0", "slower: GPU 0"} <= names
    places = {(event["pid"], event["tid"]) for event in exported["traceEvents"] if event["ph"] == "X"}
    named = {(event["pid"], event["tid"]) for event in exported["traceEvents"] if event.get("name") == "thread_name"}
    assert places <= named


def test_a_selection_restricts_launches(compared: Database, tmp_path: Path) -> None:
    arguments = [
        "--db",
        str(compared.path),
        "db",
        "export",
        "--perfetto",
        "--where",
        "trace = 'base' AND category = 'GEMM'",
    ]
    run = CliRunner().invoke(cli, [*arguments, "-o", str(tmp_path / "t.json")])
    assert run.exit_code == 0, run.stderr
    events = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert {event["args"]["category"] for event in kernels} == {"GEMM"}
    bad = CliRunner().invoke(cli, [*arguments, "--table", "ops"])
    assert bad.exit_code == 2


def test_an_export_that_is_read_again_holds_nothing_new(compared: Database, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    compared.export_timeline(path, traces=["base"])
    done = CliRunner().invoke(cli, ["--db", str(tmp_path / "k.duckdb"), "ingest", str(path)])
    assert done.exit_code == 0
    assert "new to this version" not in done.stderr
