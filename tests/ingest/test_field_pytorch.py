"""PyTorch traces of other projects that earlier versions read in part; expected values are of the plain JSON."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.ingest.conversion import convert_file

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ingest.conversion import Converted


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
