"""What a new trace changes is decided from the traces that it has to do with; the outcome is that of all together."""

from __future__ import annotations

import pytest

from kerneldb.warehouse import Warehouse, runs
from tests.warehouse.conftest import Traces

CALLED = "SELECT name, run, job, primary_timing, is_primary FROM traces ORDER BY name"


def called(warehouse: Warehouse) -> list[tuple[object, ...]]:
    """What is decided of each trace."""
    with warehouse.connection() as con:
        return con.execute(CALLED).fetchall()


def test_a_stated_run_takes_the_name_of_another(warehouse: Warehouse, make_trace: Traces) -> None:
    warehouse.commit(make_trace("one"))
    warehouse.commit(make_trace("other"))
    assert [row[:2] for row in called(warehouse)] == [("one", "one"), ("other", "other")]
    warehouse.commit(make_trace("third", stated_run="one"))
    assert [row[:2] for row in called(warehouse)] == [("one", "one (2)"), ("other", "other"), ("third", "one")]


@pytest.mark.thorough
def test_deciding_about_all_changes_nothing(warehouse: Warehouse, make_trace: Traces) -> None:
    job = {"world_size": 2, "stated_job": "j"}
    kinds = ({}, {"stated_run": "r"}, {"rank": 0, **job}, {"rank": 1, **job}, {"stated_run": "r"}, {"rank": 1, **job})
    for number, facts in enumerate(kinds):
        warehouse.commit(make_trace(f"trace {number}", **facts))
        decided = called(warehouse)
        warehouse.write(runs.judge)
        assert called(warehouse) == decided
        if number == 3:
            assert {row[2] for row in decided} == {None, "j"}
    assert {row[2] for row in called(warehouse)} == {None, "j", "j (2)", "j (3)"}  # which of two is rank 1 of the job?
