"""Every screen on traces of every tool: something sensible, or a sentence that says why not.

`KERNELDB_TEST_EVERY=1` takes all files of the collection instead of one or two of each kind.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final

import pytest

import kerneldb
from kerneldb.api import IngestOptions
from kerneldb.tui.model import Choice
from kerneldb.tui.screens import PLACES
from tests.tui.piloting import opened, settled, text_of

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from kerneldb.tui.app import KerneldbApp

FILES: Final = {
    "pytorch": ["compiled-fp8-8192.json.gz", "tracelens-mi210-gpu-only.json.gz"],
    "nsys": ["nsightful_cuda_gpu_trace.csv.gz", "dsocr_prefill_cuda_gpu_kern_sum.csv"],
    "ncu": ["superbench_cublaslt_ncu.log"],
    "rocprof": [
        "synthetic_gfx1151_full.db",
        "rocprofv3_gfx1151_llamacpp_decode_fetch_counter_collection.csv",
    ],
}
NO_TIMELINE: Final = {"profiled": "under a counter profiler", "summary": "sums"}
"""Words that say why a trace of a kind has none."""

TRACES: Final = """
    SELECT traces.name, any_value(traces.kind) AS kind, count(launch_index) AS launches
    FROM traces LEFT JOIN launches USING (trace_id) GROUP BY traces.name ORDER BY traces.name
"""


@pytest.fixture(scope="module", params=FILES)
def source(request: pytest.FixtureRequest, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with traces of one tool. Read only."""
    tool: str = request.param
    path = tmp_path_factory.mktemp(tool) / f"{tool}.duckdb"
    if os.environ.get("KERNELDB_TEST_EVERY"):
        wanted = [shared_data / tool]
    else:
        wanted = [shared_data / tool / name for name in FILES[tool]]
    for outcome in kerneldb.open(path).ingest_each(wanted, IngestOptions()):
        assert outcome.error is None or os.environ.get("KERNELDB_TEST_EVERY"), outcome.error
    return path


def traces_of(path: Path) -> list[dict[str, Any]]:
    return kerneldb.open(path).sql(TRACES).rows()


async def check(app: KerneldbApp, pilot: Pilot[Any], kind: str, launches: int) -> None:
    """Every screen of the trace that is chosen."""
    for place in PLACES:
        app.show(place.name)
        await settled(pilot)
        shown, state = text_of(app), app.pane.state
        words = " ".join(shown.split())
        said = [line for line in shown.splitlines()[3:-1] if line.strip()]
        where = (app.choice.traces, place.name, shown)
        assert state in {"ready", "empty"}, where
        assert len(said) >= (3 if state == "ready" else 1), where
        if place.name == "overview":
            assert (state, app.choice.traces[0][:12] in shown) == ("ready", True), where
        if place.name == "timeline" and kind in NO_TIMELINE:
            assert (state, NO_TIMELINE[kind] in words) == ("empty", True), where
        if place.name == "timeline" and kind == "timeline" and launches:
            assert state == "ready", where
        if place.name == "sql":
            assert state == "ready", where


def test_every_screen_opens(source: Path) -> None:
    async def flow() -> None:
        traces = traces_of(source)
        assert traces
        async with opened(source, Choice(traces=(traces[0]["name"],)), size=(100, 40)) as (app, pilot):
            for trace in traces:
                app.signature = None
                app.choose(traces=(trace["name"],), level="kernel")
                await settled(pilot)
                await check(app, pilot, trace["kind"], trace["launches"])

    asyncio.run(flow())
