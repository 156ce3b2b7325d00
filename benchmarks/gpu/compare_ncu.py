"""How an ncu capture joins the PyTorch trace of the same program, and how its roofline compares with what ncu prints.

    python benchmarks/gpu/compare_ncu.py join DB NCU_TRACE PYTORCH_TRACE
    python benchmarks/gpu/compare_ncu.py roofline DB RAW_TRACE DETAILS_TRACE

Prints JSON. `join`: launches and kernels (name, blocks, threads) of the capture, and how many meet the trace by which
method; a kernel without a launch key in the trace is listed. `roofline`: how many roofline metrics on the rows that
ncu prints with `--print-details all` are those of the raw page within the last printed digit; for each launch of both
traces and each precision, the largest relative difference between the rooflines, and how many values the details page
rounds to 0; how many verdicts of the rule `roofline` are equal; how many of ncu's own percentages of the peaks are.
The two pages must be two traces: ingest them from different folders.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import kerneldb
from kerneldb.api import Database

Row = dict[str, Any]
Key = tuple[int, str, str]
Lines = dict[Key, Row]

KERNELS = """
    SELECT s.signature_id, any_value(n.short_name) AS kernel, any_value(s.launch_key) AS launch_key,
        any_value(n.match_name) AS match_name, count(*) AS launches
    FROM launches AS l
    INNER JOIN traces AS t USING (trace_id)
    INNER JOIN signatures AS s USING (signature_id)
    INNER JOIN kernel_names AS n USING (name_id)
    WHERE t.name = $trace AND l.kind = 'kernel'
    GROUP BY s.signature_id
"""
COUNTED = """
    SELECT c.method, c.candidates, count(DISTINCT c.signature_id) AS signatures
    FROM signature_counters AS c
    WHERE c.signature_id IN (SELECT signature_id FROM kernels WHERE trace = $trace AND kind = 'kernel')
    GROUP BY ALL ORDER BY ALL
"""
LINES = "SELECT * FROM ncu_roofline WHERE trace = $trace AND method = 'section'"
RULES = """
    SELECT launch_index, text FROM metrics INNER JOIN traces USING (trace_id)
    WHERE name = $trace AND metric = 'rule:SOLFPRoofline'
"""
DIGITS = """
    SELECT
        regexp_extract(a.metric, 'inst_executed_op_[fdh]|ops_path_tensor|dram|lts|l1tex|cycles_elapsed') AS of,
        count(*) AS compared,
        count(*) FILTER (abs(a.value - b.value) > (a.precision + b.precision) * (1 + 1e-9)) AS beyond_the_last_digit
    FROM metrics AS a
    INNER JOIN metrics AS b USING (launch_index, metric)
    WHERE a.trace_id = (SELECT trace_id FROM traces WHERE name = $raw)
        AND b.trace_id = (SELECT trace_id FROM traces WHERE name = $details)
        AND a.instance IS NULL AND b.instance IS NULL AND b.section LIKE '%Roofline%'
        AND a.value IS NOT NULL AND b.value IS NOT NULL
    GROUP BY ALL ORDER BY ALL
"""
VERDICTS = """
    SELECT count(*) AS launches, count(*) FILTER (a.verdict IS NOT DISTINCT FROM b.verdict) AS equal
    FROM bounds AS a INNER JOIN bounds AS b USING (launch_index, rule)
    WHERE rule = 'roofline' AND a.trace = $raw AND b.trace = $details
"""
REPEATED = """
    SELECT count(*) AS metrics FROM (
        SELECT launch_index, metric FROM metrics
        WHERE instance IS NULL AND metric NOT LIKE 'rule:%'
            AND trace_id IN (SELECT trace_id FROM traces WHERE name IN ($raw, $details))
        GROUP BY trace_id, launch_index, metric HAVING count(*) > 1
    )
"""
FRACTIONS = re.compile(
    r"achieved\s+(?:close to )?(\d+)% of this device's fp32 peak performance and\s+"
    r"(?:close to )?(\d+)% of its fp64 peak",
    re.IGNORECASE,
)
COMPARED = (
    "peak_flops_per_second",
    "peak_bytes_per_second",
    "ridge",
    "flops_per_second",
    "bytes_per_second",
    "intensity",
)


def kernels(database: Database, trace: str) -> list[Row]:
    """The kernels of a trace, a row per signature."""
    found = database.sql(KERNELS, {"trace": trace}).rows()
    if not found:
        message = f"the trace {trace} holds no kernels; there are: {[row['trace'] for row in database.traces()]}"
        raise SystemExit(message)
    return found


def join(database: Database, profiled: str, timeline: str) -> dict[str, Any]:
    """How the kernels of the capture `profiled` meet those of the trace `timeline`."""
    counted, running = kernels(database, profiled), kernels(database, timeline)
    keys = {row["launch_key"] for row in running}
    names = {row["match_name"] for row in running}
    lost = [row for row in counted if row["launch_key"] not in keys]
    return {
        "profiled_launches": sum(row["launches"] for row in counted),
        "profiled_kernels": len(counted),
        "distinct_launch_keys": len({row["launch_key"] for row in counted}),
        "joined_by_launch_key": len(counted) - len(lost),
        "joined_by_match_name_only": sum(row["match_name"] in names for row in lost),
        "without_launch_key_in_the_trace": [f"{row['kernel']} × {row['launches']}" for row in lost],
        "trace_signatures_with_counters": database.sql(COUNTED, {"trace": timeline}).rows(),
        "coverage": {"kernels": len(covered := database.coverage(traces=[timeline])),
                     "covered": sum(row["covered"] for row in covered)},
    }  # fmt: skip


def roofline(database: Database, raw: str, details: str) -> dict[str, Any]:
    """The largest relative differences between the rooflines of two pages of one report."""
    ours, theirs = (_lines(database, trace) for trace in (raw, details))
    shared = sorted(ours.keys() & theirs.keys())
    pages = {"raw": raw, "details": details}
    return {
        "lines_raw": len(ours),
        "lines_details": len(theirs),
        "lines_compared": len(shared),
        "launches_compared": len({key[0] for key in shared}),
        "launches_with_tensor_lines": len({key[0] for key in shared if "src_" in key[1]}),
        "metrics_within_the_last_printed_digit": database.sql(DIGITS, pages).rows(),
        "metrics_with_several_rows": database.sql(REPEATED, pages).rows()[0]["metrics"],
        "by_operation": {name: _compared(ours, theirs, shared, name) for name in sorted({key[1] for key in shared})},
        "verdicts": database.sql(VERDICTS, pages).rows()[0],
        "rule_percentages": [_rules(database, ours, trace) for trace in (raw, details)],
    }


def _compared(ours: Lines, theirs: Lines, shared: list[Key], operation: str) -> dict[str, Any]:
    """Of one operation: the largest relative difference of each figure, and how many the details page rounds to 0."""
    keys = [key for key in shared if key[1] == operation]
    found: dict[str, Any] = {}
    for name in COMPARED:
        pairs = [(ours[key][name], theirs[key][name]) for key in keys]
        both = [(one, other) for one, other in pairs if one and other]
        found[name] = {
            "worst_relative_difference": max((abs(one / other - 1) for one, other in both), default=None),
            "rounded_to_zero": sum(bool(one) and not other for one, other in pairs),
        }
    return found


def _lines(database: Database, trace: str) -> Lines:
    rows = database.sql(LINES, {"trace": trace})
    return {(row["launch_index"], row["operation"], row["level"]): row for row in rows}


def _rules(database: Database, ours: Lines, trace: str) -> dict[str, int]:
    """How many percentages of the peaks, printed without decimals, are ours when rounded."""
    compared = equal = 0
    for row in database.sql(RULES, {"trace": trace}):
        printed = FRACTIONS.search(row["text"])
        for operation, text in zip(("ffma", "dfma"), printed.groups() if printed else (), strict=False):
            line = ours.get((row["launch_index"], operation, "dram"))
            if line is not None and line["peak_pct"] is not None:
                compared += 1
                equal += round(line["peak_pct"]) == int(text)
    return {"compared": compared, "equal": equal}


def main() -> None:
    """Print the figures that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=("join", "roofline"))
    parser.add_argument("database", type=Path)
    parser.add_argument("traces", nargs=2, metavar="TRACE")
    given = parser.parse_args()
    answer = join if given.question == "join" else roofline
    found = answer(kerneldb.open(given.database, create=False), *given.traces)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
