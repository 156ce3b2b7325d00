"""Nightly runs of a program, made of thirty real ones: what each kernel, operator and cause took, drawn again.

The thirty are recordings of one decoder on one board, each a process of its own
(results/2026-11-26-h100-nights). A made history takes stretches of five of their nights, whole: what kernels have in
common in a night, outliers and the correlation from night to night are those that were recorded.
"""

from __future__ import annotations

import csv
import dataclasses
import datetime as dt
import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kerneldb.history.model import Line, Run

if TYPE_CHECKING:
    from kerneldb.warehouse import Warehouse

RECORDED: Final = Path(__file__).parents[2] / "results" / "2026-11-26-h100-nights" / "nights.csv"
NIGHTS: Final = 30
"""Nights of the program as it was; those after them have a planted change."""
BLOCK: Final = 5
START: Final = dt.datetime(2026, 1, 1, 2)


@functools.cache
def every_night(recorded: Path = RECORDED) -> dict[tuple[str, str], tuple[int, list[float]]]:
    """Of each line (subject, name): its launches in a night, and its values, a night each, planted ones at the end."""
    with recorded.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        (row["subject"], row["name"]): (int(row["n"]), [float(row[one]) for one in row if one.startswith("night_")])
        for row in rows
    }


@dataclasses.dataclass
class Nightly:
    """`runs` nights. Values by line and run, to be changed; environment by run. `launches` times as many launches.

    They are drawn from the first `nights` ones of `recorded`.
    """

    runs: int
    seed: int = 0
    subjects: tuple[str, ...] = ("kernel",)
    launches: int = 1
    recorded: Path = RECORDED
    nights: int = NIGHTS

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        starts = rng.integers(self.nights - BLOCK + 1, size=-(-self.runs // BLOCK))
        drawn = (starts[:, None] + np.arange(BLOCK)).ravel()[: self.runs]
        chosen = {key: found for key, found in every_night(self.recorded).items() if key[0] in self.subjects}
        self.counts = {key: n * self.launches for key, (n, _) in chosen.items()}
        self.values: dict[tuple[str, str], Any] = {
            key: np.asarray(values)[drawn] for key, (_, values) in chosen.items()
        }
        self.environment: list[dict[str, str]] = [{"driver": "580.1", "host": "node1"} for _ in range(self.runs)]

    def kernels(self) -> list[str]:
        """Names, those first that vary least from night to night."""
        spread = {
            name: float(np.std(np.log(found))) for (subject, name), found in self.values.items() if subject == "kernel"
        }
        return sorted(spread, key=lambda name: spread[name])

    def slow(self, name: str, since: int, factor: float) -> None:
        """Plant a change of a kernel."""
        self.values["kernel", name][since:] *= factor

    def commit(self, run: int) -> str:
        """The commit of a run, whose first digits are its place."""
        return f"{run + 1:08x}" * 5

    def searched(self) -> tuple[list[Run], list[Line]]:
        """What the search takes."""
        every = range(self.runs)
        runs = [Run(str(run), self.commit(run), self.environment[run]) for run in every]
        return runs, [Line(*key, every, list(found), [1.0] * self.runs) for key, found in self.values.items()]

    def store(self, warehouse: Warehouse, series: str = "nightly", device: str = "NVIDIA H100") -> None:
        """The rows that ingest would have made."""
        import pyarrow as pa

        ids = [f"{series}:{run:06d}" for run in range(self.runs)]
        runs = pa.table({
            "trace_id": ids, "series_id": [series] * self.runs, "workload": [series] * self.runs,
            "branch": ["main"] * self.runs, "device_name": [device] * self.runs,
            "commit": [self.commit(run) for run in range(self.runs)],
            "happened_at": [START + dt.timedelta(hours=3 * run) for run in range(self.runs)],
            "environment": list(map(json.dumps, self.environment)), "units": [8] * self.runs,
        })  # fmt: skip
        points = pa.concat_tables(
            pa.table({
                "trace_id": ids, "subject": [subject] * self.runs, "name": [name] * self.runs,
                "n": [self.counts[subject, name]] * self.runs, "value": values,
                "total_ns": np.int64(values * (self.counts[subject, name] if subject == "kernel" else 8)),
            })
            for (subject, name), values in self.values.items()
        )  # fmt: skip

        def write(con: Any) -> None:
            con.register("made_runs", runs)
            con.register("made_points", points)
            con.execute("INSERT INTO history_runs BY NAME FROM made_runs")
            con.execute("INSERT INTO history_rollups BY NAME FROM made_points ORDER BY trace_id, subject, name")

        warehouse.write(write)
