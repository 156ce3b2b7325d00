"""The ingest report accounts for every event of the file."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.conftest import SHARED_DATA
from tests.ingest.conversion import Converted, convert_file, from_repository, laid_out
from tests.ingest.traces import LAYOUTS, everything

if TYPE_CHECKING:
    from tests.ingest.conftest import Convert

ROOT = Path(__file__).resolve().parents[2]
RECORDED = sorted([*ROOT.glob("tests/fixtures/*.json.gz"), *ROOT.glob("examples/*.json.gz")])
SHARED = sorted(SHARED_DATA.glob("pytorch/*.json.gz"))
FEW = [path for path in SHARED if path.stat().st_size < 100_000]
GPU = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset", "mtia_ccp_events"}


def events_of(path: Path) -> list[dict[str, Any]]:
    content = msgspec.json.decode(gzip.decompress(path.read_bytes()))
    return content if isinstance(content, list) else content["traceEvents"]


def assert_conserved(found: Converted, events: list[dict[str, Any]]) -> None:
    assert found.report("read") == {"events": len(events)}
    assert found.accounted == len(events)
    assert (found.total("lost"), found.repaired, found.total("truncated")) == (0, 0, 0)
    stored = found.report("stored")
    assert stored.get("launches", 0) == sum(event.get("cat") in GPU and event["ph"] == "X" for event in events)
    for table in ("launches", "ops", "api_calls", "ranges", "memory_events"):
        assert stored.get(table, 0) == found.manifest.rows.get(table, 0)
    statuses = {
        reason.removeprefix("launch status "): n for reason, n in found.report("note").items() if "status" in reason
    }
    assert sum(statuses.values()) == stored.get("launches", 0)


@pytest.mark.parametrize("path", [*RECORDED, *FEW], ids=lambda path: path.name.removesuffix(".json.gz"))
def test_every_event_is_accounted_for(path: Path) -> None:
    assert_conserved(from_repository(path), events_of(path))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["hta-nccl", "hta-ns-resolution-rank0", "kineto-tb-resnet50-workers0"])
def test_every_event_of_large_traces_is_accounted_for(shared_data: Path, tmp_path: Path, name: str) -> None:
    path = shared_data / "pytorch" / f"{name}.json.gz"
    assert_conserved(convert_file(path, tmp_path / "spool"), events_of(path))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_hand_made_events_are_accounted_for(layout: str) -> None:
    assert_conserved(laid_out(layout), everything().events)


def test_skips_have_reasons(convert: Convert) -> None:
    trace = everything()
    trace.add("b", "async", "nested", 0, id=3)
    found = convert(trace)
    phases = Counter(event["ph"] for event in trace.events)
    assert found.total("skipped") == phases["s"] + phases["f"] + phases["M"] + phases["i"] + phases["b"] - 1
    assert all(reason.strip() for reason in found.report("skipped"))


def test_file_row() -> None:
    found = laid_out()
    (file,) = found.table("trace_files").to_dicts()
    assert (file["events"], file["role"], len(file["sha256"])) == (len(everything().events), "trace", 64)
    assert file["path"].endswith("trace.json")
    assert json.loads(file["report"])["read"] == {"events": len(everything().events)}


def test_example_of_a_repair(convert: Convert) -> None:
    text = LAYOUTS["kineto"](everything()).replace("cat_kernel", 'cat "kernel"')
    found = convert(text)
    example = found.table("ingest_reports").filter(outcome="repaired")["example"][0]
    assert 'cat "kernel"' in example
    assert len(example) <= 300
