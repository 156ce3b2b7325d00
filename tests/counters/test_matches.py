"""Counters of one profiler beside the durations of another."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kerneldb.api import Database, signature
from kerneldb.cli.show import lines
from kerneldb.output import Output
from kerneldb.warehouse import Warehouse
from tests.counters.captures import GEMM, MEMORY, MUL_KINETO, MUL_NCU, MUL_NSYS, SM, Captures, Launch

Row = dict[str, Any]

OF_TRACE = """
    SELECT c.* FROM signature_counters AS c
    WHERE c.signature_id IN (SELECT signature_id FROM launches WHERE trace_id = 't:' || $trace)
    ORDER BY ALL
"""


def counters(warehouse: Warehouse, trace: str) -> list[Row]:
    return warehouse.query(OF_TRACE, {"trace": trace}).to_pylist()


def profiled(*values: float, grid: int = 8, name: str = MUL_NCU) -> tuple[Launch, ...]:
    return tuple(Launch(name, grid=grid, counters={SM: value}) for value in values)


@pytest.mark.again
def test_counters_reach_other_spellings_by_launch_key(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("timeline", (Launch(MUL_KINETO), Launch(MUL_NSYS, start=2000))))
    warehouse.commit(capture("ncu", profiled(10, 20, 60), source="ncu"))
    rows = counters(warehouse, "timeline")
    assert len(rows) == 2
    for row in rows:
        assert (row["mean"], row["min"], row["max"], row["launches"]) == (30, 10, 60, 3)
        assert (row["method"], row["candidates"], row["unit"]) == ("launch_key", 1, "%")


def test_one_spelling_has_counters_of_its_own(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("timeline", (Launch(GEMM),)))
    warehouse.commit(capture("ncu", profiled(40, name=GEMM), source="ncu"))
    (row,) = counters(warehouse, "timeline")
    assert (row["method"], row["candidates"], row["mean"]) == ("own", 1, 40)


def test_another_grid_is_a_weaker_match_and_the_best_method_excludes_it(
    warehouse: Warehouse, capture: Captures
) -> None:
    warehouse.commit(capture("weak", (Launch(MUL_NSYS, grid=9),)))
    warehouse.commit(capture("strong", (Launch(MUL_NSYS),)))
    warehouse.commit(capture("ncu", (*profiled(10), *profiled(30, grid=16)), source="ncu"))
    (row,) = counters(warehouse, "weak")
    assert (row["method"], row["candidates"], row["mean"]) == ("match_name", 2, 20)
    assert len(row["measured_ids"]) == 2
    (row,) = counters(warehouse, "strong")
    assert (row["method"], row["candidates"], row["mean"]) == ("launch_key", 1, 10)


def test_of_several_candidates_those_of_the_run(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("timeline", (Launch(MUL_NSYS, grid=9),), stated_run="job"))
    warehouse.commit(capture("ncu", profiled(10), source="ncu", stated_run="job"))
    warehouse.commit(capture("elsewhere", profiled(90, grid=16), source="ncu", stated_run="other"))
    (row,) = counters(warehouse, "timeline")
    assert (row["candidates"], row["mean"]) == (1, 10)


def test_metrics_without_value_are_no_counters(warehouse: Warehouse, capture: Captures) -> None:
    warehouse.commit(capture("ncu", profiled(10, name=GEMM), source="ncu"))
    warehouse.query("UPDATE metrics SET value = NULL, text = 'n/a'", write=True)
    assert counters(warehouse, "ncu") == []


def test_page_of_a_signature_shows_counters_where_there_are_any(warehouse: Warehouse, capture: Captures) -> None:
    dram = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
    warehouse.commit(capture("timeline", (Launch(MUL_KINETO, duration=1234),), source="pytorch"))
    warehouse.commit(capture("ncu", (Launch(MUL_NCU, counters={SM: 10, dram: 70}),), source="ncu"))
    (found,) = warehouse.query("SELECT signature_id FROM launches WHERE trace_id = 't:timeline'").to_pylist()
    page = signature.page(warehouse, found["signature_id"])
    assert {row["metric"]: (row["mean"], row["method"]) for row in page.tables["counters"]} == {
        SM: (10, "launch_key"),
        dram: (70, "launch_key"),
    }
    assert ("sm_dram", "memory") in {(row["rule"], row["verdict"]) for row in page.tables["bounds"]}
    text = "\n".join(lines(page, Output(), []))
    assert text.index("1.23 µs") < text.index("\ncounters\n") < text.index("\nbounds\n") < text.index("\nmatches\n")
    assert "measured_ids" not in text
    warehouse.remove("ncu")
    assert "counters" not in "\n".join(lines(signature.page(warehouse, found["signature_id"]), Output(), []))


def test_the_report_joins_its_sums(samples: Database) -> None:
    """Each of the 20 kernels of the report meets exactly one of the 113 names of the kernel sums."""
    sql = """
        SELECT l.signature_id, list(DISTINCT m.other_id) AS others
        FROM launches AS l
        INNER JOIN traces AS t ON t.trace_id = l.trace_id AND t.run = 'deepseek-ncu'
        INNER JOIN signature_matches AS m USING (signature_id)
        INNER JOIN rollups AS r ON r.signature_id = m.other_id
        INNER JOIN traces AS s ON s.trace_id = r.trace_id AND s.run = 'deepseek-nsys'
        GROUP BY l.signature_id
    """
    rows = samples.sql(sql).rows()
    assert len(rows) == 20
    assert {len(row["others"]) for row in rows} == {1}


def test_a_pytorch_trace_shows_counters_of_the_decoder(samples: Database) -> None:
    sql = """
        SELECT c.method, count(DISTINCT c.signature_id) AS signatures
        FROM signature_counters AS c
        WHERE
            c.metric = 'dram__bytes_read.sum'
            AND c.signature_id IN (SELECT signature_id FROM kernels WHERE trace = 'bloom-560m')
        GROUP BY c.method
    """
    found = {row["method"]: row["signatures"] for row in samples.sql(sql)}
    assert found["launch_key"] >= 20
    assert found["match_name"] >= 15


def test_counters_of_two_captures_are_compared(warehouse: Warehouse, capture: Captures) -> None:
    """The SM throughput of one kernel goes from a mean of 20 % to 90 %; another kernel is in the later capture only."""
    other = Launch(GEMM, counters={SM: 50, MEMORY: 10})
    for trace, launches in (("a", profiled(10, 30)), ("b", (*profiled(90), other))):
        both = tuple(dataclasses.replace(one, counters={MEMORY: 10, **(one.counters or {})}) for one in launches)
        warehouse.commit(capture(trace, both, source="ncu", stated_run=trace))
    sql = "SELECT kernel IS NULL AS whole, n_before, n_after, mean_before, mean_after FROM diff_metrics('a', 'b')"
    found = warehouse.query(f"{sql} WHERE title = 'SM throughput' ORDER BY 1, mean_after").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (False, 0, 1, None, 50), (False, 2, 1, 20, 90), (True, 2, 2, 20, 70),
    ]  # fmt: skip
    classes = warehouse.query("SELECT change, verdict_after FROM diff_classes('a', 'b') ORDER BY 2").to_pylist()
    assert [row["verdict_after"] for row in classes] == ["high", "latency"]
