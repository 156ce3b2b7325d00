"""How an ncu capture joins the PyTorch trace of the same program, and how its roofline compares with what ncu prints.

    python tests/gpu/join_report.py join DB NCU_TRACE PYTORCH_TRACE
    python tests/gpu/join_report.py roofline DB RAW_TRACE DETAILS_TRACE

Prints JSON. `join`: launches and kernels (name, blocks, threads) of the capture, and how many meet the trace by which
method; a kernel without a launch key in the trace is listed. `roofline`: for each launch of both traces, the largest
relative difference between the roofline from the raw page and that from the rows which ncu prints with
`--print-details all`, and between its share of the FP32 and FP64 peaks and the percentages in ncu's own rule.
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
    worst = {
        name: max((_apart(ours[key][name], theirs[key][name]) for key in shared), default=None) for name in COMPARED
    }
    return {
        "lines_raw": len(ours),
        "lines_details": len(theirs),
        "lines_compared": len(shared),
        "launches_compared": len({key[0] for key in shared}),
        "worst_relative_difference": worst,
        "rule_percentages": [_rules(database, ours, trace) for trace in (raw, details)],
    }


def _lines(database: Database, trace: str) -> dict[tuple[int, str, str], Row]:
    rows = database.sql(LINES, {"trace": trace})
    return {(row["launch_index"], row["operation"], row["level"]): row for row in rows}


def _apart(one: float | None, other: float | None) -> float:
    """The relative difference; NULL equals NULL and nothing else."""
    if one is None or other is None or other == 0:
        return 0.0 if (one or 0) == (other or 0) else float("inf")
    return abs(one / other - 1)


def _rules(database: Database, ours: dict[tuple[int, str, str], Row], trace: str) -> dict[str, int]:
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
