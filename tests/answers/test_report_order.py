"""What a report says first, what it says that a trace lacks, and that a comparison says what its changes are of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kerneldb
from kerneldb.report import changes, contents, counters, gather
from kerneldb.report.model import Table

FIXTURES = Path(__file__).parents[1] / "fixtures"


def test_the_report_of_a_run_begins_with_why(tmp_path: Path) -> None:
    """Who waits for whom is what `why` says first of ranks; then comes why each of them takes so long."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(sorted(FIXTURES.glob("exchanges-tp2-h200/*/*.json.gz")), run="job")
    titles = [one.title for one in gather.single(database, ["job"]).sections]
    assert titles[0] == gather.RANKS
    assert [title.partition(": ")[2] for title in titles[1:3]] == [contents.WHY, contents.WHY]


def test_stacks_are_lacking_as_the_doctor_says(root: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest([root / "examples/decoder-h200.json.gz", FIXTURES / "stacks-memory-h200.json.gz"])
    said = {name: lacks(database, name) for name in ("decoder-h200", "stacks-memory-h200")}
    stacks = {"what": "no Python stacks or modules", "remedy": "Record with with_stack=True (slower recording)."}
    assert stacks in said["decoder-h200"]
    assert stacks not in said["stacks-memory-h200"]


def lacks(database: kerneldb.Database, trace: str) -> list[dict[str, Any]]:
    (found,) = (
        block
        for section in gather.single(database, [trace]).sections
        for block in section.blocks
        if isinstance(block, Table) and block.caption == "What the trace lacks"
    )
    return list(found.rows)


def test_a_change_is_of_a_launch_or_of_a_sum() -> None:
    titles = [column.title for column in changes.CHANGES]
    assert {"a launch is", "Δ of the sum", "Δ of a launch"} <= set(titles)
    assert "Δ" not in titles


def test_operations_of_a_roofline_are_in_words() -> None:
    row = {"category": "op_hgmma_src_bf16_dst_fp32_sparsity_off", "method": "section"}
    assert counters._plain(row)["category"] == "bf16 tensor cores, sums in fp32 (HGMMA)"
    assert counters._plain(row)["method"] == "rates of operations and bytes"
    assert counters._plain(row | {"category": "ffma"})["category"] == "fp32 (FFMA)"
