"""A training step of JAX on an H200, against what plain Python finds in its JSON."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.ingest.ledger import UNKNOWN
from tests.rocprof.conversion import converted, launch_rows

FILES = ("train-step.xplane.pb.gz", "train-step.trace.json.gz")
KERNELS, MEMSETS, TOTAL_NS = 783, 36, 8_805_920
DETAILS = re.compile(r"regs:(\d+) static_shared:(\d+) dynamic_shared:(\d+) grid:([\d,]+) block:([\d,]+) occ_pct:(\S+)")


@pytest.fixture(scope="session")
def folder(field: Path) -> Path:
    if not (field / "jax").is_dir():
        pytest.skip(f"no recordings of JAX in {field}")
    return field / "jax"


def plain(folder: Path) -> list[dict[str, Any]]:
    """Launches as the JSON says them, in order of time."""
    events = json.loads(gzip.decompress((folder / FILES[1]).read_bytes()))["traceEvents"]
    rows = []
    for event in events:
        if event.get("ph") != "X" or event["pid"] != 1:
            continue
        said = DETAILS.search(event["args"].get("kernel_details", ""))
        numbers = [int(said[n]) for n in (1, 2, 3)] if said else [None] * 3
        sizes = [int(size) for n in (4, 5) for size in said[n].split(",")] if said else [None] * 6
        rows.append((round(event["ts"] * 1000), round(event["dur"] * 1000), event["name"], *numbers, *sizes))
    return [dict(zip(SAME, row, strict=True)) for row in sorted(rows)]


SAME = (
    *("start_ns", "duration_ns", "name", "registers", "static_shared_bytes", "dynamic_shared_bytes"),
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
)


@pytest.mark.parametrize("name", FILES)
def test_every_launch_is_as_the_json_says(folder: Path, name: str) -> None:
    found = launch_rows(converted(folder / name), *SAME)
    assert found == plain(folder)
    assert sum(row["duration_ns"] for row in found) == TOTAL_NS
    assert len([row for row in found if row["registers"]]) == KERNELS
    assert len(found) == KERNELS + MEMSETS


def test_nearly_all_time_has_its_instruction_with_shapes(folder: Path) -> None:
    rows = launch_rows(converted(folder / FILES[0]), "name", "duration_ns", "op", "input_dims", "python_line")
    known = [row for row in rows if row["op"] and row["input_dims"] and row["python_line"]]
    assert sum(row["duration_ns"] for row in known) >= 0.95 * TOTAL_NS
    products = {row["op"] for row in rows if row["name"].startswith(("nvjet", "gemm_fusion"))}
    assert products == {"hlo::dot"}
    # The first layer's projection: 8 x 256 tokens, from 1,024 to three times 1,024.
    first = next(row for row in rows if row["name"] == "gemm_fusion_dot_24")
    assert json.loads(first["input_dims"]) == [[2048, 1024], [1024, 3072], []]


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_unknown(folder: Path, name: str) -> None:
    trace = converted(folder / name)
    assert not [reason for reason in trace.report("skipped") if UNKNOWN in reason]
    assert trace.total("lost") == 0


def test_both_files_count_once(folder: Path, tmp_path: Path) -> None:
    with kerneldb.open(tmp_path / "kernels.duckdb") as database:
        for name in reversed(FILES):
            database.ingest(folder / name)
        (row,) = database.sql("SELECT count(*) AS n, sum(duration_ns)::BIGINT AS ns FROM kernels").rows()
        assert row == {"n": KERNELS + MEMSETS, "ns": TOTAL_NS}
        (kept,) = database.sql("SELECT era, gpu FROM traces JOIN devices USING (trace_id) WHERE is_primary").rows()
        assert kept == {"era": "xplane", "gpu": "H200 SXM"}
