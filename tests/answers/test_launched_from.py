"""`kerneldb show` names the line that launched a kernel: the innermost Python frame around its call in the trace."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import kerneldb

FIXTURES = Path(__file__).parents[1] / "fixtures"


def test_a_kernel_names_the_line_that_launched_it(tmp_path: Path) -> None:
    path = FIXTURES / "stacks-memory-h200.json.gz"
    events = [one for one in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if one.get("ph") == "X"]
    (kernel,) = [one for one in events if one["name"].startswith("void sgemm_largek")]
    number = kernel["args"]["correlation"]
    (call,) = [one for one in events if one.get("cat") == "cuda_runtime" and one["args"].get("correlation") == number]
    frames = [
        one
        for one in events
        if one.get("cat") == "python_function"
        and one["tid"] == call["tid"]
        and one["ts"] <= call["ts"] <= one["ts"] + one["dur"]
        and re.search(r"\(\d+\): ", one["name"])
    ]
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(path)
    (row,) = database.show("sgemm_largek").tables["launched from"]
    assert row["line"] == min(frames, key=lambda one: one["dur"])["name"]
    assert (row["trace"], row["module"], row["n"]) == ("stacks-memory-h200", "Linear_1", 1)
    assert database.show("sgemm_largek", traces=["stacks-memory-h200"]).tables["launched from"] == [row]
