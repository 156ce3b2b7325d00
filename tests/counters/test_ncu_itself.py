"""The views against what Nsight Compute says itself: its rules stand in its pages."""

from __future__ import annotations

import re

from kerneldb.api import Database

FRACTIONS = re.compile(
    r"ratio of peak float \(fp32\) to double \(fp64\) performance on this device is (\d+):1\. The \w+ achieved\s+"
    r"(?:close to )?(\d+)% of this device's fp32 peak performance and\s+(?:close to )?(\d+)% of its fp64 peak",
    re.IGNORECASE,
)
BOTTLENECKS = {
    "Compute is more heavily utilized than Memory": "compute",
    "Memory is more heavily utilized than Compute": "memory",
    "Compute and Memory are well-balanced": "balanced",
    "This kernel grid is too small": "latency",
    "exhibits low compute throughput and memory bandwidth utilization": "latency",
    "is utilizing greater than 80.0% of the available compute or memory performance": "high",
}
ROOFLINES = """
    SELECT
        m.text,
        s.peak_pct AS single_pct,
        d.peak_pct AS double_pct,
        s.peak_flops_per_second / d.peak_flops_per_second AS ratio
    FROM metrics AS m
    INNER JOIN ncu_roofline AS s ON s.trace_id = m.trace_id AND s.launch_index = m.launch_index AND s.operation = 'ffma'
    INNER JOIN ncu_roofline AS d ON d.trace_id = m.trace_id AND d.launch_index = m.launch_index AND d.operation = 'dfma'
    WHERE m.metric = 'rule:SOLFPRoofline' AND s.level = 'dram' AND d.level = 'dram'
"""
VERDICTS = """
    SELECT b.verdict, b.detail, b.waves, m.text
    FROM bounds AS b
    INNER JOIN metrics AS m ON m.trace_id = b.trace_id AND m.launch_index = b.launch_index
    WHERE b.rule = 'ncu' AND m.metric = 'rule:SOLBottleneck'
"""


def test_share_of_the_fp32_and_fp64_peak(samples: Database) -> None:
    """Sixty launches on an H200, each with the percentages that ncu 2025.3 printed, without decimals."""
    rows = samples.sql(ROOFLINES).rows()
    assert len(rows) == 60
    for row in rows:
        printed = FRACTIONS.search(row["text"])
        assert printed is not None, row["text"]
        ratio, single, double = (int(group) for group in printed.groups())
        assert round(row["ratio"]) == ratio
        assert round(row["single_pct"]) == single
        assert round(row["double_pct"]) == double


def test_verdicts_are_those_of_its_own_rule(samples: Database) -> None:
    """All launches of both sets: 80 verdicts, in four classes at least."""
    rows = samples.sql(VERDICTS).rows()
    said = [next(verdict for text, verdict in BOTTLENECKS.items() if text in row["text"]) for row in rows]
    assert len(rows) == 80
    assert [row["verdict"] for row in rows] == said
    assert set(said) >= {"compute", "memory", "balanced", "latency", "high"}


def test_details_are_those_of_its_own_rule(samples: Database) -> None:
    for row in samples.sql(VERDICTS):
        if row["verdict"] == "latency" and row["waves"] is not None:
            assert (row["detail"] == "small grid") == ("grid is too small" in row["text"])
        if named := re.search(r"to identify the (DRAM|L2|L1) bottleneck", row["text"]):
            assert row["detail"] == named[1]
