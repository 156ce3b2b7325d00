"""Figures of `expected-rocprof.tsv`, derived from the files by other programs, from the converted tables."""

from __future__ import annotations

import csv
import functools
import json
import sqlite3
from typing import TYPE_CHECKING

import polars as pl
import pytest

from kerneldb.ingest.rocpd.convert import DROPPED
from tests.conftest import SHARED_DATA
from tests.rocprof.conversion import converted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.ingest.conversion import Converted

FILE = SHARED_DATA / "expected-rocprof.tsv"
TOPS = ("name", "calls", "ns")


def expected() -> dict[str, dict[str, str]]:
    """File → figure → value; figures inside the note stand beside the others."""
    if not FILE.is_file():
        return {}
    with FILE.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text, delimiter="\t"))
    return {row["file"]: {**{key: value for key, value in row.items() if key != "note"}, **noted(row)} for row in rows}


def noted(row: dict[str, str]) -> dict[str, str]:
    note = row["note"].replace("ops incl. copies; kernel-view rows=29 ns=26399795", "kernel_rows=29;kernel_ns=26399795")
    return dict(part.split("=", 1) for part in note.split(";") if "=" in part)


EXPECTED = expected()


def figures() -> Iterator[tuple[str, str]]:
    for file, values in EXPECTED.items():
        yield from ((file, figure) for figure in values if figure not in ("file", "format"))


@functools.cache
def trace(file: str) -> Converted:
    return converted(SHARED_DATA / "rocprof" / file)


def counted(file: str) -> pl.DataFrame:
    """What the figures count: kernels, and in RPD all operations."""
    launches = trace(file).launches
    return launches if file.endswith(".rpd") else launches.filter(pl.col("kind") == "kernel")


def top(file: str, place: int) -> tuple[str, int, int]:
    sums = counted(file).group_by("name").agg(calls=pl.len(), ns=pl.col("duration_ns").sum())
    row: tuple[str, int, int] = sums.sort("ns", "name", descending=[True, False]).row(place)
    return row


def kernels_alone(file: str) -> pl.DataFrame:
    """Kernels with a grid: what RPD's own view `kernel` shows."""
    return trace(file).launches.filter((pl.col("kind") == "kernel") & pl.col("reported_grid_x").is_not_null())


def counters(file: str) -> str:
    sums = trace(file).table("metrics").group_by("metric").len().sort("metric")
    return ",".join(f"{name}:{n}" for name, n in sums.iter_rows())


def wall(file: str) -> int:
    launches = counted(file)
    return int(launches["end_ns"].max() - launches["start_ns"].min())  # type: ignore[operator]


FIGURES: dict[str, Callable[[str], object]] = {
    "dispatches": lambda file: counted(file).height,
    "total_ns": lambda file: counted(file)["duration_ns"].sum(),
    "distinct_names": lambda file: counted(file)["name"].n_unique(),
    **{
        f"top{place + 1}_{what}": functools.partial(lambda place, at, file: top(file, place)[at], place, at)
        for place in range(3)
        for at, what in enumerate(TOPS)
    },
    "view_kernels_rows": lambda file: counted(file).height - trace(file).report("note").get(DROPPED, 0),
    "wall_ns": wall,
    "guids": lambda file: len(json.loads(trace(file).trace["metadata"])["guids"]),
    "counters": counters,
    "kernel_rows": lambda file: kernels_alone(file).height,
    "kernel_ns": lambda file: kernels_alone(file)["duration_ns"].sum(),
}


@pytest.mark.parametrize(("file", "figure"), list(figures()))
def test_figure(shared_data: object, file: str, figure: str) -> None:
    assert str(FIGURES[figure](file)) == EXPECTED[file][figure]


def test_every_figure_is_tested(shared_data: object) -> None:
    assert {figure for _, figure in figures()} == set(FIGURES)
    assert len(EXPECTED) == 11


def test_the_orphan_that_amds_view_drops_is_there(shared_data: object) -> None:
    file = "synthetic_gfx1151_full.db"
    with sqlite3.connect(f"file:{SHARED_DATA / 'rocprof' / file}?mode=ro", uri=True) as connection:
        (shown,) = connection.execute("SELECT count(*) FROM kernels").fetchone()
    connection.close()
    (orphan,) = counted(file).filter(pl.col("quality") == "no_symbol").to_dicts()
    assert shown == counted(file).height - 1
    assert (orphan["name"], orphan["duration_ns"], orphan["grid_x"]) == ("unknown_kernel", 50_000, 4)
