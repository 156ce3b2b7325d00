"""A change at some places of a program only: found, or said to be in doubt, and never an empty table."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.errors import GateError
from kerneldb.report import changes, markdown
from kerneldb.report.model import Report, Table

OTHERS = 6
SLOW = 2
"""The layer whose product got slower."""


def trace(steps: int, layers: int, *, slowed: float = 1.0, noise: float = 0.0, seed: int = 0) -> dict[str, Any]:
    """`steps` iterations of `layers` modules, each with one product of 100 µs, and six other kernels of a step."""
    rng, events, at, number = random.Random(seed), [], 1000.0, 0

    def event(cat: str, name: str, begin: float, us: float, tid: int = 1, **args: Any) -> None:
        events.append({"ph": "X", "cat": cat, "name": name, "ts": begin, "dur": us, "pid": 1, "tid": tid, "args": args})

    def launch(name: str, op: str, us: float) -> None:
        nonlocal at, number
        number += 1
        event("cpu_op", op, at, 3, **{"External id": number})
        event("cuda_runtime", "cudaLaunchKernel", at + 1, 1, correlation=number)
        us = round(us * max(0.5, rng.gauss(1, noise)), 3)
        event("kernel", name, at + 5, us, 7, correlation=number, device=0, stream=7, grid=[8, 1, 1], block=[128, 1, 1])
        at += us + 10

    for step in range(steps):
        begin = at
        for layer in range(layers):
            entered, place = at, step * layers + layer
            launch("gemm_kernel", "aten::mm", 100 * (slowed if layer == SLOW else 1))
            ids = {"Python id": place, "Python parent id": None, "Python module id": layer}
            event("python_function", f"nn.Module: MLP_{layer}", entered - 1, at - entered, **ids)
        for other in range(OTHERS):
            launch(f"other_{other}", f"aten::other_{other}", 40 + other)
        event("user_annotation", f"ProfilerStep#{step}", begin - 2, at - begin + 1)
    gpu = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "numSms": 132}]
    return {"schemaVersion": 1, "deviceProperties": gpu, "baseTimeNanoseconds": seed, "traceEvents": events}


def pair(folder: Path, slowed: float, **shape: Any) -> Database:
    """The traces `before` and `after`, in which one layer's product got slower."""
    database = kerneldb.open(folder / "k.duckdb")
    for seed, (name, factor) in enumerate((("before", 1.0), ("after", slowed)), 1):
        (folder / f"{name}.json").write_text(json.dumps(trace(slowed=factor, seed=seed, **shape)))
        database.ingest(folder / f"{name}.json")
    return database


def table(report: Report, caption: str) -> Table:
    (found,) = (b for s in report.sections for b in s.blocks if isinstance(b, Table) and b.caption == caption)
    return found


def product(database: Database, **asked: Any) -> dict[str, Any]:
    rows = database.diff("before", "after", **asked).table.to_pylist()
    return next(row for row in rows if row["kernel"] == "gemm_kernel")


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Three iterations: three launches of each side at a place prove nothing."""
    return pair(tmp_path_factory.mktemp("short"), 1.8, steps=3, layers=3)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """One of sixteen layers twice as slow among scatter of 4 %."""
    return pair(tmp_path_factory.mktemp("long"), 2.0, steps=24, layers=16, noise=0.04)


@pytest.mark.parametrize("backward", [False, True])
def test_one_of_many_layers_is_not_lost_among_the_others(long: Database, backward: bool) -> None:
    """All launches together prove nothing; those of the layer do, found by module or by position in an iteration."""
    module = "NULL" if backward else "module"
    asked = f"""
        WITH s AS (SELECT * REPLACE ({module} AS module) FROM all_launches)
        FROM diff('before', 'after', source := 's')
    """
    row = next(one for one in long.sql(asked) if one["kernel"] == "gemm_kernel")
    assert (row["verdict"], row["test"]) == ("slower", "Mann-Whitney by place")
    assert row["p_value"] < 0.05
    assert row["effect"] == pytest.approx(0.5, abs=0.1)
    place = f"number {SLOW + 1} of an iteration" if backward else f"MLP_{SLOW}"
    assert row["changed_in"] == f"24 of 384 launches: {place}"


def test_places_that_the_sides_do_not_share_are_not_told_apart(long: Database) -> None:
    asked = """
        WITH s AS (SELECT * REPLACE (trace || module AS module) FROM all_launches)
        FROM diff('before', 'after', source := 's')
    """
    row = next(one for one in long.sql(asked) if one["kernel"] == "gemm_kernel")
    assert (row["verdict"], row["changed_in"]) == ("noise", None)


@pytest.mark.parametrize("steps", [3, 24])
def test_scatter_is_in_no_place(tmp_path: Path, steps: int) -> None:
    found = pair(tmp_path, 1.0, steps=steps, layers=8, noise=0.06).diff("before", "after", threshold=0.001)
    assert set(found.table["changed_in"].to_pylist()) == {None}
    assert not {"slower", "faster"} & set(found.by_verdict)


def test_few_launches_are_too_few_and_not_noise(short: Database) -> None:
    row = product(short)
    assert (row["verdict"], row["changed_in"]) == ("too few", f"3 of 9 launches: MLP_{SLOW}")
    assert row["p_value"] > 0.05


def test_the_gate_says_what_it_does_not_know(short: Database) -> None:
    said = r"GPU time: \+.*, but no kernel changed beyond doubt; the largest part: \+240 µs \(too few.* of gemm_kernel"
    with pytest.raises(GateError, match=said):
        short.diff("before", "after").check(3)
    done = CliRunner().invoke(cli, ["--db", str(short.path), "diff", "before", "after", "--fail-on", "3%"])
    assert done.exit_code == 5
    assert "gemm_kernel" in done.stdout
    assert "3 of 9 launches: MLP_2" in done.stdout
    assert "no kernel changed beyond doubt" in done.stderr


def test_a_page_shows_what_matters_to_the_total(short: Database) -> None:
    report = changes.comparison(short, "before", "after")
    (row,) = table(report, "Changes, largest first").rows
    assert (row["kernel"], row["changed_in"]) == ("gemm_kernel", f"3 of 9 launches: MLP_{SLOW}")
    text = markdown.page(report)
    assert "No kernel changed beyond doubt" in text
    assert "Nothing changed." not in text.partition("## What changed")[2].partition("\n## ")[0]


def test_what_all_kernels_share_is_not_an_empty_table(compared: Database) -> None:
    found = compared.diff("base", "clocks")
    assert found.doubt() == "no kernel explains the change by itself: all shifted together by +4.00 %"
    deltas = found.table["delta_ns"].to_pylist()
    left = sum(delta for delta, is_shown in zip(deltas, found.shown(), strict=True) if not is_shown)
    assert any(found.shown())
    assert abs(left) <= found.threshold * found.before_ns


def test_what_changed_beyond_doubt_needs_no_more_words(compared: Database) -> None:
    found = compared.diff("base", "slower", threshold=0.02)
    assert found.doubt() is None
    shown = zip(found.table["verdict"].to_pylist(), found.shown(), strict=True)
    assert {verdict for verdict, is_shown in shown if is_shown} == {"slower"}
    assert not any(compared.diff("base", "base").shown())


def test_modules_of_the_forward_pass_are_said_to_be_such(short: Database) -> None:
    done = CliRunner().invoke(cli, ["--db", str(short.path), "diff", "before", "after", "--by", "module"])
    assert "backward launches have none" in done.stderr
    tree = table(changes.comparison(short, "before", "after"), changes.MODULES.caption)
    assert "backward" in tree.caption
    (row,) = (one for one in tree.rows if one["module"].endswith(f"MLP_{SLOW}"))
    assert row["delta_pct"] == pytest.approx(80)
