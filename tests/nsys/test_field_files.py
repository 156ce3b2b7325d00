"""Public files of Nsight Systems that earlier versions read wrong, in part or not at all: `field/README.md`."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

from tests.ingest.conversion import convert_file

if TYPE_CHECKING:
    from pathlib import Path


def test_every_launch_of_a_graph_is_a_launch(field: Path, tmp_path: Path) -> None:
    path = field / "nsight" / "nsys-2025.5.2-two-graph-launches.sqlite"
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as connection:
        asked = connection.execute("SELECT start, end FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE ORDER BY start")
        expected = asked.fetchall()
    graphs = convert_file(path, tmp_path / "spool").launches.filter(kind="graph").sort("start_ns")
    assert graphs.select("start_ns", "end_ns").rows() == expected
    assert set(graphs["name"]) == {"[CUDA graph]"}
    assert set(graphs["api_call"]) == {"cudaGraphLaunch"}
