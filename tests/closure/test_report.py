"""The report on a measured and replayed trace has the books of its stage, with the query behind them."""

from __future__ import annotations

import pytest

import kerneldb
from kerneldb.report import gather, html, markdown
from kerneldb.report.model import Table
from kerneldb.warehouse import Warehouse


@pytest.mark.again
def test_the_report_closes_the_books(closed: Warehouse) -> None:
    database = kerneldb.open(closed.path)
    measured = database.sql(
        "SELECT trace FROM closure_terms WHERE section = 'energy' AND term = 'measured' ORDER BY trace"
    )
    report = gather.single(database, [measured.rows()[0]["trace"]])
    (section,) = (section for section in report.sections if section.title == "Replay and closure")
    closure, replays, kernels = (block for block in section.blocks if isinstance(block, Table))
    terms = {row["term"] for row in closure.rows if row["section"] == "time"}
    assert {"kernels", "measured"} <= terms
    assert any("predicted" in term for term in terms)
    assert {row["unit"] for row in closure.rows} <= {"ms", "mJ", "%"}
    assert any(row["grade"] != "not replayed" for row in replays.rows)
    assert kernels.rows
    for block in (closure, replays, kernels):
        assert database.sql(block.sql).rows() == block.rows
    assert "Predicted against measured whole" in markdown.page(report)
    assert "Predicted against measured whole" in html.page(report)
