"""Counters of replayed calls against those of the same program under Nsight Compute.

    python benchmarks/gpu/compare_counters.py kernels.duckdb TRACE PROGRAM

The database holds TRACE (`kerneldb record --script benchmarks/gpu/record_with_ncu.py -- --step`), its replay with
counters, and PROGRAM, what ncu printed of `record_with_ncu.py --program` with the same sections, caches and clocks.
The n-th kernel of an iteration of the trace is the n-th of the program. Prints a row per signature as CSV, and to
standard error the shares of time within the bounds.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import kerneldb
from kerneldb.replay.routes.grades import same_name

METRICS = {
    "dram_bytes": ("dram__bytes_read.sum", "dram__bytes_write.sum"),
    "l2_bytes": ("lts__t_bytes.sum",),
    "occupancy_pct": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
}
WITHIN = {"dram_bytes": 5.0, "l2_bytes": 5.0, "occupancy_pct": 1.0}
LAUNCHES = """
SELECT k.signature_id, k.name, k.short_name, k.category, k.duration_ns
FROM all_launches AS k WHERE k.trace = $trace AND k.kind = 'kernel' ORDER BY k.start_ns, k.launch_index
"""
COUNTED = """
SELECT l.launch_index, l.signature_id, l.name, m.metric, any_value(m.value) AS value
FROM all_launches AS l INNER JOIN launch_metrics AS m ON l.trace_id = m.trace_id AND l.launch_index = m.launch_index
INNER JOIN traces AS t ON l.trace_id = t.trace_id
WHERE (t.name = $trace OR ($trace IS NULL AND t.kind = 'replay')) AND m.instance IS NULL AND m.value IS NOT NULL
GROUP BY ALL ORDER BY l.launch_index
"""


def counted(database: kerneldb.Database, trace: str | None) -> list[dict[str, Any]]:
    """The launches of a trace under ncu (None: of replays) with their counters, in order."""
    found: dict[int, dict[str, Any]] = {}
    for row in database.sql(COUNTED, {"trace": trace}).rows():
        launch = found.setdefault(row["launch_index"], {"name": row["name"], "signature_id": row["signature_id"]})
        launch[row["metric"]] = row["value"]
    return list(found.values())


def figures(launches: list[dict[str, Any]]) -> dict[str, float]:
    """The mean of each compared figure."""
    sums = {name: [sum(one[metric] for metric in parts) for one in launches] for name, parts in METRICS.items()}
    return {name: sum(values) / len(values) for name, values in sums.items()}


def compare(database: kerneldb.Database, trace: str, program: str) -> list[dict[str, Any]]:
    """A row per signature that ran in the program, and whose counters were read in a replay."""
    recorded = database.sql(LAUNCHES, {"trace": trace}).rows()
    theirs, ours = defaultdict(list), defaultdict(list)
    for launch in counted(database, None):
        ours[launch["signature_id"]].append(launch)
    for launch, under_ncu in zip(recorded, counted(database, program), strict=False):
        if not same_name(launch["name"], under_ncu["name"]):
            raise SystemExit(f"the program ran {under_ncu['name']} where the trace has {launch['name']}")
        theirs[launch["signature_id"]].append(under_ncu)
    rows = []
    for signature, launches in theirs.items():
        same = [one for one in recorded if one["signature_id"] == signature]
        row = {"signature_id": signature, "kernel": same[0]["short_name"], "category": same[0]["category"]}
        row |= {"total_ns": sum(one["duration_ns"] for one in same), "launches": len(launches)}
        if ours[signature]:
            mine, their = figures(ours[signature]), figures(launches)
            for name in METRICS:
                off = mine[name] - their[name]
                row |= {name: mine[name], f"{name}_in_program": their[name]}
                row[f"{name}_off"] = off if name == "occupancy_pct" else 100 * off / max(their[name], 1)
        rows.append(row)
    return sorted(rows, key=lambda row: -row["total_ns"])


def main() -> None:
    """Print the rows, and the shares of time."""
    rows = compare(kerneldb.open(Path(sys.argv[1]), create=False), *sys.argv[2:4])
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()})
    total = sum(row["total_ns"] for row in rows)
    for name, bound in WITHIN.items():
        near = sum(row["total_ns"] for row in rows if abs(row.get(f"{name}_off", bound + 1)) <= bound)
        sys.stderr.write(f"{name}: {100 * near / total:.2f} % of the compared time within {bound:g}\n")


if __name__ == "__main__":
    main()
