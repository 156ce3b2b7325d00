"""What `kerneldb db doctor` says of every sample of ncu and nvprof agrees with what is stored of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kerneldb
from kerneldb.ingest import diagnose
from kerneldb.ingest.ledger import UNKNOWN
from tests.conftest import SHARED_DATA
from tests.ingest.conversion import convert_file

if TYPE_CHECKING:
    from pathlib import Path

FIELD = SHARED_DATA.parent / "field"
SAMPLES = (
    *sorted((SHARED_DATA / "ncu").glob("*.*")),
    *sorted((FIELD / "nsight").glob("n[cv]*.csv*")),
    *sorted((FIELD / "ncu_folder").glob("*.csv")),
)
REPORTS = sorted((SHARED_DATA / "ncu").glob("deepseek*/*.csv"))
"""Of one program: the advice for one kernel of it is the advice for the others."""
FACTS = """
    SELECT
        (SELECT count(*) FROM launches) AS launches,
        (SELECT count(*) FROM launches WHERE duration_ns IS NULL) AS untimed,
        (SELECT count(*) FROM launches WHERE coalesce(phase, range_path) IS NOT NULL) AS in_phases,
        (SELECT count(*) FROM ncu_roofline) AS points,
        (SELECT count(*) FROM ncu_roofline WHERE ridge IS NOT NULL AND precision = 'single') AS roofs,
        (SELECT count(compute_pct + coalesce(dram_pct, memory_pct)) FROM normalized_roofline) AS normalised,
        (SELECT count(*) FROM metrics WHERE metric LIKE 'flop_count%' AND value IS NULL) AS old_names
"""


@pytest.mark.collection
def test_nothing_of_further_reports_is_new(tmp_path: Path) -> None:
    for path in REPORTS[2:]:
        assert [
            reason for reason in convert_file(path, tmp_path / path.name).report("skipped") if UNKNOWN in reason
        ] == []


@pytest.mark.collection
@pytest.mark.parametrize("path", [*SAMPLES, *REPORTS[:2]], ids=lambda path: path.name)
def test_advice(path: Path, tmp_path: Path) -> None:
    with kerneldb.open(tmp_path / "k.duckdb") as database:
        (outcome,) = database.ingest(path)
        (facts,) = database.sql(FACTS)
    assert [entry.reason for entry in outcome.report if UNKNOWN in entry.reason] == []
    (diagnosis,) = diagnose(path)
    said = {one.topic: f"{one.level}: {one.message} {one.remedy}" for one in diagnosis.diagnostics}
    roofline = said.get("roofline", "")
    assert ("no roofline is possible" in roofline) <= (facts["points"] == facts["normalised"] == 0)
    assert ("only the normalised form" in roofline) <= (facts["points"] == 0 < facts["normalised"])
    assert roofline.startswith("ok") <= (facts["roofs"] > 0)
    assert ("No NVTX" in said.get("phases", "")) <= (facts["in_phases"] == 0)
    assert ("no duration" in said.get("times", "")) == (facts["untimed"] > 0)
    assert ("flop_count_sp" in said.get("metrics", "")) == (facts["old_names"] > 0)
    assert ("GPU events" in said) == (facts["launches"] > 0)
