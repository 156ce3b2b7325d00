"""Files of Nsight Compute that other people published, with figures from plain csv: rows of field/README.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kerneldb
from tests.ncu.reading import convert_units, differing, rules, values

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SILU_NS = [437_440, 436_640, 437_180]


@pytest.mark.parametrize("locale", ["fr", "de_CH"])
def test_that_a_page_of_another_locale_has_its_figures(field: Path, tmp_path: Path, locale: str) -> None:
    (one,) = convert_units([field / "nsight" / f"ncu-details-{locale}.csv"], tmp_path)
    (other,) = convert_units([field / "nsight" / "ncu-details-fr.csv"], tmp_path / "other")
    assert differing(values(one), values(other)) == {}
    assert values(one).keys() == values(other).keys()
    assert one.table("launches")["duration_ns"].to_list() == SILU_NS
    assert values(one)[0, "gpc__cycles_elapsed.max", None][0] == 478_214
    assert {speedup for *_, speedup in rules(one) if speedup is not None} == {22.8, 22.9, 22.94}


PRINTS = ("details", "metrics", "roofline_section")
LAUNCHED = "SELECT count(*) AS n, count(occupancy) AS occupancy, count(DISTINCT run) AS runs FROM kernels"
COUNTED = "SELECT sum(n)::INTEGER AS n FROM kernel_rollups"
KEPT = """SELECT count(l1_hit_pct) AS l1, count(l2_hit_pct) AS l2, count(occupancy_pct) AS occupancy, count(*) AS n
          FROM launch_counters"""


def ingested(path: Path, files: Iterable[Path]) -> kerneldb.Database:
    database = kerneldb.open(path)
    for file in files:
        database.ingest(file)
    return database


@pytest.mark.parametrize(
    "order", [PRINTS, pytest.param((*PRINTS[1:], PRINTS[0]), marks=pytest.mark.volume)], ids=" ".join
)
def test_that_several_prints_of_a_launch_are_one(field: Path, tmp_path: Path, order: tuple[str, ...]) -> None:
    """Each of three kernels was printed as details, as a metrics page and as one section without durations."""
    folder = field / "ncu_folder"
    files = [folder / f"kernel_{kernel}.{page}.csv" for page in order for kernel in ("0001", "0005", "0013")]
    with ingested(tmp_path / "k.duckdb", files) as database:
        (kernels,) = database.sql(LAUNCHED)
        assert kernels == {"n": 3, "occupancy": 3, "runs": 3}
        assert list(database.sql(COUNTED)) == [{"n": 3}]
        assert list(database.sql(KEPT)) == [{"l1": 3, "l2": 3, "occupancy": 3, "n": 3}]
        (metrics,) = database.sql("SELECT count(*) AS n FROM launch_metrics WHERE section LIKE '%Roofline%'")
        assert metrics["n"] > 0


def test_that_finer_durations_do_not_hide_occupancy(field: Path, tmp_path: Path) -> None:
    """A metrics page in base units has the finer duration; the occupancy is on the details page only."""
    folder = field / "ncu_folder"
    metrics = (folder / "kernel_0001.metrics.csv").read_text(encoding="utf-8")
    fine = tmp_path / "base.csv"
    fine.write_text(metrics.replace('"us","6.75"', '"ns","6752"'), encoding="utf-8")
    with ingested(tmp_path / "k.duckdb", [folder / "kernel_0001.details.csv", fine]) as database:
        (kernel,) = database.sql("SELECT duration_ns, occupancy, theoretical_occupancy FROM kernels")
    assert kernel == {"duration_ns": 6752, "occupancy": 11.32 / 100, "theoretical_occupancy": 16.67 / 100}


def test_that_prints_from_a_container_are_one_launch(field: Path, tmp_path: Path) -> None:
    """Small process ids say nothing; the section without durations has the same DRAM bandwidth to five digits."""
    files = []
    for page in PRINTS:
        text = (field / "ncu_folder" / f"kernel_0001.{page}.csv").read_text(encoding="utf-8")
        files.append(tmp_path / f"{page}.csv")
        files[-1].write_text(text.replace('"1740670"', '"12"'), encoding="utf-8")
    with ingested(tmp_path / "k.duckdb", files) as database:
        assert next(iter(database.sql(LAUNCHED))) == {"n": 1, "occupancy": 1, "runs": 1}
