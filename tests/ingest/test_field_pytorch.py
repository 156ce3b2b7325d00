"""PyTorch traces of other projects that earlier versions read in part; expected values are of the plain JSON."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from kerneldb.ingest.doctor import Diagnostic, diagnose_manifest, of_pytorch
from tests.conftest import ROOT, SHARED_DATA
from tests.ingest.conversion import Converted, convert_file, from_repository

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def document(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.fixture
def overlay(field: Path, tmp_path: Path) -> tuple[Converted, list[dict[str, Any]]]:
    path = field / "pytorch" / "hta-critical-path-overlay.json.gz"
    return convert_file(path, tmp_path / "spool"), document(path)["traceEvents"]


def test_waits_between_streams_are_stored(overlay: tuple[Converted, list[dict[str, Any]]]) -> None:
    found, events = overlay
    waits = [event["args"] for event in events if event.get("cat") == "cuda_sync"]
    stored = found.table("sync_events")
    assert Counter(stored["kind"]) == {"stream_sync": 16, "stream_wait_event": 20, "context_sync": 5}
    assert Counter(stored.select("stream", "waits_on_stream", "event_id", "correlation_id").rows()) == Counter(
        (
            None if one["stream"] == 4_294_967_295 else one["stream"],
            one.get("wait_on_stream"),
            one.get("wait_on_cuda_event_id"),
            one["correlation"],
        )
        for one in waits
    )
    assert sum(stored["duration_ns"]) == 1000 * sum(event["dur"] for event in events if event.get("cat") == "cuda_sync")


def test_arrows_of_an_overlay_are_named_for_what_they_are(overlay: tuple[Converted, list[dict[str, Any]]]) -> None:
    found, events = overlay
    arrows = sum(event.get("cat") == "critical_path" for event in events)
    said = {reason: n for reason, n in found.report("skipped").items() if "critical_path" in reason}
    assert list(said.values()) == [arrows] == [384]
    assert "Holistic Trace Analysis" in next(iter(said))


SAMPLES = sorted(
    path
    for folder in (
        *(ROOT / "tests" / "fixtures", ROOT / "examples", SHARED_DATA / "pytorch"),
        SHARED_DATA.parent / "field" / "pytorch",
    )
    for path in folder.glob("*.json.gz")
)
SMALL = [path for path in SAMPLES if path.stat().st_size < 500_000]


def advice(path: Path) -> list[Diagnostic]:
    return diagnose_manifest(from_repository(path).manifest, of_pytorch).diagnostics


def contradictions(said: Sequence[Diagnostic], trace: Any) -> list[str]:
    """Remedies that ask for what the file shows was done, and problems that it does not have."""
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    options = trace if isinstance(trace, dict) else {}
    categories = Counter(event.get("cat") for event in events)
    done = {
        "CPU activity": categories["cpu_op"] + categories["Operator"] > 0,
        "with_stack=True` (": bool(options.get("with_stack")),
        "record_shapes=True`:": bool(options.get("record_shapes")),
        "ProfilerActivity.CUDA": categories["kernel"] + categories["Kernel"] + categories["cuda_profiler_range"] > 0,
    }
    return [one.remedy for one in said for asked, was_done in done.items() if was_done and asked in one.remedy]


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name.partition(".json")[0])
def test_no_advice_contradicts_the_file(path: Path) -> None:
    assert contradictions(advice(path), document(path)) == []


@pytest.mark.thorough
@pytest.mark.collection
@pytest.mark.parametrize(
    "path", [path for path in SAMPLES if path not in SMALL], ids=lambda path: path.name.partition(".json")[0]
)
def test_no_advice_contradicts_a_large_file(path: Path) -> None:
    assert contradictions(advice(path), document(path)) == []


def test_a_capture_is_named(field: Path) -> None:
    path = field / "pytorch" / "sglang-graph-capture.json.gz"
    events = document(path)["traceEvents"]
    calls = [event for event in events if event.get("name") in ("hipLaunchKernel", "hipExtModuleLaunchKernel")]
    ran = sum(event.get("cat") == "kernel" for event in events)
    (said,) = [one for one in advice(path) if one.topic == "graph capture"]
    assert (len(calls), ran) == (546, 2)
    assert said.level == "warning"
    assert said.message.startswith("544 launch calls were recorded into 1 graph, which ran nothing then; 2 kernels")
