"""Where a part is not known, the whole is not: `least` and `greatest` of SQL would pass over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kerneldb
from kerneldb.warehouse import Warehouse

if TYPE_CHECKING:
    from kerneldb.api import Database

KERNEL = """
    SELECT * REPLACE (
        't' AS trace, 'timeline' AS timing, 'kernel' AS kind, 0 AS device, 's' AS signature_id, 1000 AS duration_ns,
        1e6 AS flops, 1e6 AS moved_bytes, 1.0 AS tflops, 1000.0 AS gbs, {reached} AS pct_peak_flops,
        {used} AS pct_peak_bandwidth
    )
    FROM (SELECT unnest([1])) LEFT JOIN kernels ON false
"""
PAIR = """
    SELECT 'k' AS row_key, 0.5 AS own_change, 100 AS timed_before, {after} AS timed_after, 1000.0 AS mean_before_ns,
        1500.0 AS mean_after_ns, 1.0 AS common_ratio, {variance} AS variance_before, 1e4 AS variance_after,
        {spread} AS spread, 6 AS compared
"""
RANKS = "SELECT 'k' AS row_key, 0.5 AS effect, 20.0 AS z WHERE {ranked}"
SUMS = """
    SELECT 't' AS trace, 'timeline' AS timing, 'A' AS category, 4 AS n, 40 AS total_ns, 4 AS timed, 9 AS min_ns,
        11 AS max_ns, {squares}::DOUBLE AS sum_squares_ns2
"""
MEMBERS = """
    SELECT 'k' AS row_key, 'signature' AS matched_by, 'k' AS short_name, 'A' AS category, NULL::VARCHAR AS op,
        NULL::VARCHAR AS inferred_by, 's' AS signature_id, side, 4 AS n, 4 AS timed, 40 AS total_ns,
        {squares}::DOUBLE AS sum_squares
    FROM (VALUES ('before'), ('after')) AS sides(side)
"""
COLLECTIVE = """
    SELECT * REPLACE (
        'timeline' AS timing, 'COMMUNICATION' AS category, 'kernel' AS kind, 'allgather' AS collective,
        'Half' AS collective_dtype, 1000 AS collective_in_elements, {gets} AS collective_out_elements,
        8 AS group_size, 4000 AS duration_ns
    )
    FROM (SELECT unnest([1])) LEFT JOIN kernels ON false
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    path = tmp_path_factory.mktemp("unknown") / "k.duckdb"
    Warehouse.create_or_open(path)
    return kerneldb.open(path)


def asked(database: Database, made: dict[str, str], what: str) -> dict[str, Any]:
    """The one row of `what` over relations that are made up."""
    (row,) = database.sql(f"WITH {', '.join(f'{name} AS ({sql})' for name, sql in made.items())} {what}").rows()
    return row


@pytest.mark.parametrize(
    ("reached", "used", "known"), [("10.0", "10.0", 10), ("10.0", "NULL", None), ("NULL", "10.0", None)]
)
def test_a_roof_has_two_sides(database: Database, reached: str, used: str, known: float | None) -> None:
    row = asked(database, {"made": KERNEL.format(reached=reached, used=used)}, "FROM roofline('made')")
    assert row["pct_attainable"] == (known and pytest.approx(known))
    assert (row["bound"] is None) == (known is None)


@pytest.mark.parametrize(
    ("part", "is_known"),
    [({}, True), ({"spread": "NULL"}, True), ({"spread": "0.0"}, True), ({"ranked": "false"}, True),
     ({"spread": "NULL", "ranked": "false", "variance": "NULL"}, False),
     ({"ranked": "false", "variance": "NULL"}, False), ({"ranked": "false", "after": "NULL"}, False)],
)  # fmt: skip
def test_a_change_passes_two_tests_or_is_not_judged(
    database: Database, part: dict[str, str], *, is_known: bool
) -> None:
    parts = {"spread": "0.01", "ranked": "true", "variance": "1e4", "after": "100"} | part
    made = {"pairs": PAIR.format(**parts), "ranks": RANKS.format(**parts)}
    row = asked(database, made, "FROM _diff_tests('pairs', 'ranks', 0.03)")
    assert (row["z"] is not None, row["p_value"] is not None) == (is_known, is_known)


@pytest.mark.parametrize(("squares", "deviation"), [("402", pytest.approx((2 / 3) ** 0.5)), ("NULL", None)])
def test_deviations_need_squares(database: Database, squares: str, deviation: object) -> None:
    row = asked(database, {"made": SUMS.format(squares=squares)}, "FROM _sums_by('made', 'category')")
    assert row["stddev_ns"] == deviation


@pytest.mark.parametrize(("squares", "variance"), [("402", pytest.approx(0.5)), ("NULL", None)])
def test_variances_need_squares(database: Database, squares: str, variance: object) -> None:
    row = asked(database, {"made": MEMBERS.format(squares=squares)}, "FROM _diff_pairs('made', 0.03)")
    assert (row["variance_before"], row["variance_after"]) == (variance, variance)


@pytest.mark.parametrize(("gets", "size"), [("8000", 16_000), ("NULL", None)])
def test_a_collective_has_the_larger_of_two_sizes(database: Database, gets: str, size: int | None) -> None:
    row = asked(database, {"made": COLLECTIVE.format(gets=gets)}, "FROM collective_launches('made')")
    assert row["bytes"] == size
