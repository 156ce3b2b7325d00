"""The report on a measured and replayed trace has the balances of its workload, with the query behind them."""

from __future__ import annotations

import pytest

import kerneldb
from kerneldb.report import gather, html, markdown
from kerneldb.report.model import Table
from kerneldb.warehouse import Warehouse


@pytest.mark.again
def test_the_report_has_the_reconciliation(closed: Warehouse) -> None:
    database = kerneldb.open(closed.path)
    measured = database.sql(
        "SELECT trace FROM reconciliation_components WHERE section = 'energy' AND component = 'measured' ORDER BY trace"
    )
    report = gather.single(database, [measured.rows()[0]["trace"]])
    (section,) = (section for section in report.sections if section.title == "Replay and reconciliation")
    reconciliation, replays, kernels = (block for block in section.blocks if isinstance(block, Table))
    components = {row["component"] for row in reconciliation.rows if row["section"] == "time"}
    assert {"kernels", "measured"} <= components
    assert any("predicted" in component for component in components)
    assert {row["unit"] for row in reconciliation.rows} <= {"ms", "mJ", "%"}
    assert any(row["grade"] != "not replayed" for row in replays.rows)
    assert kernels.rows
    for block in (reconciliation, replays, kernels):
        assert database.sql(block.sql).rows() == block.rows
    assert "Predicted against measured whole" in markdown.page(report)
    assert "Predicted against measured whole" in html.page(report)
