"""Nightly runs of a program, made of a real recording: its launches drawn again, run by run, with what runs differ by.

Durations are drawn from the recorded launches of each kernel, so that a run's mean has their real spread. From run to
run all kernels share a shift (clocks), and each has one of its own, correlated from night to night. How large these are
is assumed; how durations of one kernel differ within a run is as recorded.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from kerneldb.warehouse import Warehouse

START: Final = dt.datetime(2026, 1, 1, 2)
SHARED: Final = 0.004
OWN: Final = 0.003
CORRELATION: Final = 0.4
DRAWN: Final = 400
"""Launches drawn of a kernel in a run; a run of 100,000 launches has more of most."""


@dataclasses.dataclass
class Nightly:
    """`runs` nights of `series` programs. Means by series, run and kernel; commit, environment and time by run."""

    runs: int
    kernels: dict[str, list[int]]
    seed: int = 0
    launches: int = 1

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        shared = 1 + SHARED * self._night()
        self.means = {
            name: self._means(durations) * shared * (1 + OWN * self._night())
            for name, durations in self.kernels.items()
        }
        self.environment: list[dict[str, str]] = [{"driver": "580.1", "host": "node1"} for _ in range(self.runs)]

    def _night(self) -> Any:
        drawn = self.rng.standard_normal(self.runs)
        for place in range(1, self.runs):
            drawn[place] = CORRELATION * drawn[place - 1] + np.sqrt(1 - CORRELATION**2) * drawn[place]
        return drawn

    def _means(self, durations: list[int]) -> Any:
        return np.asarray(durations)[self.rng.integers(len(durations), size=(self.runs, DRAWN))].mean(axis=1)

    def commit(self, run: int) -> str:
        return f"{run + 1:08x}" * 5

    def store(self, warehouse: Warehouse, series: str = "nightly", device: str = "NVIDIA H200") -> None:
        """The rows that ingest would have made, of `launches` launches of each kernel."""
        import pyarrow as pa

        ids = [f"{series}:{run:06d}" for run in range(self.runs)]
        counts = {name: len(durations) * self.launches for name, durations in self.kernels.items()}
        runs = pa.table({
            "trace_id": ids, "series_id": [series] * self.runs, "workload": [series] * self.runs,
            "branch": ["main"] * self.runs, "device_name": [device] * self.runs,
            "commit": [self.commit(run) for run in range(self.runs)],
            "happened_at": [START + dt.timedelta(hours=3 * run) for run in range(self.runs)],
            "environment": list(map(json.dumps, self.environment)), "units": [1] * self.runs,
        })  # fmt: skip
        points = pa.concat_tables(
            pa.table({
                "trace_id": ids, "subject": ["kernel"] * self.runs, "name": [name] * self.runs,
                "n": [counts[name]] * self.runs, "total_ns": np.int64(means * counts[name]),
                "value": means,
            })
            for name, means in self.means.items()
        )  # fmt: skip

        def write(con: Any) -> None:
            con.register("made_runs", runs)
            con.register("made_points", points)
            con.execute("INSERT INTO history_runs BY NAME FROM made_runs")
            con.execute("INSERT INTO history_rollups BY NAME FROM made_points ORDER BY trace_id, name")

        warehouse.write(write)


def recorded(warehouse: Warehouse) -> dict[str, list[int]]:
    """The durations of the launches of each kernel of the traces in a database, of kernels with ten or more."""
    rows = warehouse.query("""
        SELECT short_name, list(duration_ns ORDER BY start_ns) AS durations
        FROM kernels WHERE kind = 'kernel' AND steady_state
        GROUP BY short_name HAVING count(*) >= 10 ORDER BY short_name
    """)
    return {row["short_name"]: row["durations"] for row in rows.to_pylist()}
