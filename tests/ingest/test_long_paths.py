"""What is around an event may be longer than anybody reads: each event would have it."""

from __future__ import annotations

import json
from pathlib import Path

from kerneldb import repeated
from tests.ingest.conversion import convert_file
from tests.ingest.traces import everything, kineto


def test_a_long_annotation_costs_each_launch_no_more_than_its_ends(tmp_path: Path) -> None:
    """Its middle is left out where launches repeat it, which is counted; other texts are whole."""
    trace, long = json.loads(kineto(everything())), "a" * 30_000 + "b" * 70_000 + "c" * 30_000
    names = {"forward": long, "nn.Module: Linear_0": f"nn.Module: {long}", "model.py(12): forward": f"a.py(12): {long}"}
    for event in trace["traceEvents"]:
        event["name"] = names.get(event["name"], event["name"])
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace), encoding="utf-8")
    found = convert_file(path, tmp_path / "spool")
    for column in repeated.PATHS:
        cut = [text for text in found.launches[column].drop_nulls() if " … " in text]
        assert cut, column
        assert all("b" not in text and len(text) <= repeated.LONGEST_PATH for text in cut)
        reason = f"launches.{column} longer than 16,384 bytes: its middle left out"
        assert found.report("refused")[reason] == len(cut)
