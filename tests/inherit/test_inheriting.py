"""What `inherit` finds and stores, and how it shows in views, commands and sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import inheriting
from kerneldb.cli import cli
from kerneldb.selection import Selection

STRIPPED = "decoder-stripped"
LAUNCHES = 2458
TRUTH = """
    SELECT count(*) AS n, count(f.launch_index) AS found,
        count(*) FILTER (f.call_id = t.call_id AND f.call_ordinal = l.call_ordinal) AS right
    FROM launches AS l
    JOIN signatures AS t USING (signature_id)
    JOIN traces AS a ON l.trace_id = a.trace_id AND a.name = 'decoder-h200'
    JOIN traces AS b ON b.name = 'decoder-stripped'
    LEFT JOIN inferred_calls AS f ON f.trace_id = b.trace_id AND f.launch_index = l.launch_index
"""


def one(database: kerneldb.Database, sql: str) -> dict[str, Any]:
    (row,) = database.sql(sql).rows()
    return dict(row)


def test_nearly_all_launches_get_the_true_call(inherited: kerneldb.Database) -> None:
    truth = one(inherited, TRUTH)
    assert truth["n"] == LAUNCHES
    assert truth["right"] / truth["n"] >= 0.98
    assert truth["found"] == LAUNCHES


def test_the_donor_of_each_launch_is_stored(inherited: kerneldb.Database) -> None:
    row = one(
        inherited,
        """
        SELECT count(*) AS n, count(d.launch_index) AS donors, min(f.confidence) AS least, max(f.confidence) AS most,
            count(*) FILTER (s.call_id = f.call_id) AS same
        FROM inferred_calls AS f
        LEFT JOIN launches AS d ON f.donor_trace_id = d.trace_id AND f.donor_launch_index = d.launch_index
        LEFT JOIN signatures AS s ON d.signature_id = s.signature_id
        """,
    )
    assert row["n"] == row["donors"] == row["same"] == LAUNCHES
    assert 0.5 <= row["least"] <= row["most"] <= 1


def test_kernels_of_one_call_stand_together(inherited: kerneldb.Database) -> None:
    split = one(
        inherited,
        """
        SELECT count(*) AS n, count(*) FILTER (whole) AS whole
        FROM (
            SELECT call_launch, list_sort(list(call_ordinal)) = range(max(call_kernels)) AS whole
            FROM inferred_calls GROUP BY call_launch HAVING max(call_kernels) > 1
        )
        """,
    )
    assert split["n"] > 0
    assert split["whole"] == split["n"]


def test_kernels_shows_sizes_with_their_source(inherited: kerneldb.Database) -> None:
    sums = """
        SELECT {0} AS source, count(*) AS n, sum(gemm_m * gemm_n * gemm_k) AS products, sum(numel) AS elements,
            sum(flops) AS flops
        FROM kernels WHERE dims_source = '{0}'
    """
    recorded, found = (
        one(inherited, sums.format(source).replace(f"{source} AS", f"'{source}' AS")) for source in ("op", "inherited")
    )
    assert found["n"] == recorded["n"] > LAUNCHES / 2
    assert (found["products"], found["elements"]) == (recorded["products"], recorded["elements"])
    assert found["flops"] == pytest.approx(recorded["flops"])
    whole = one(
        inherited, f"SELECT count(*) AS n FROM kernels WHERE inferred_by = 'inherited' AND trace = '{STRIPPED}'"
    )
    assert whole["n"] == LAUNCHES


def test_what_was_recorded_stays(inherited: kerneldb.Database) -> None:
    levels = inherited.sql(f"SELECT DISTINCT level, call_id FROM kernels WHERE trace = '{STRIPPED}'").rows()
    assert all(row["call_id"] is None and row["level"] != "call" for row in levels)


def test_operators_are_summed_apart(inherited: kerneldb.Database) -> None:
    for sql in ("FROM time_by('op, inferred_by')", "WITH s AS (FROM kernels) FROM time_by('op, inferred_by', 's')"):
        rows = inherited.sql(f"{sql} WHERE trace = '{STRIPPED}' AND op = 'aten::mm'").rows()
        assert [row["inferred_by"] for row in rows] == ["inherited"]
    result = CliRunner().invoke(cli, ["--db", str(inherited.path), "top", "--by", "op", "--json"])
    keys = {row["op" if "op" in row else "key"]: row["n"] for row in json.loads(result.stdout)}
    assert keys["aten::mm"] == keys["aten::mm (inherited)"] > 0


@pytest.mark.thorough
def test_inheriting_again_changes_nothing(fresh: kerneldb.Database) -> None:
    counts = """
        SELECT
            (SELECT count(*) FROM inferred_calls) AS f, (SELECT count(*) FROM rollups) AS r,
            (SELECT sum(n)::BIGINT FROM rollups) AS n, (SELECT count(*) FROM signatures) AS s
    """
    fresh.inherit()
    before = one(fresh, counts)
    fresh.inherit()
    assert one(fresh, counts) == before
    assert before["f"] == LAUNCHES
    assert before["n"] == 2 * LAUNCHES


def test_a_trace_that_goes_takes_its_finds_with_it(fresh: kerneldb.Database) -> None:
    fresh.inherit()
    fresh.remove(STRIPPED)
    assert one(fresh, "SELECT count(*) AS n FROM inferred_calls")["n"] == 0
    fresh_ids = one(
        fresh, "SELECT count(*) AS n FROM signatures WHERE signature_id NOT IN (SELECT signature_id FROM launches)"
    )
    assert fresh_ids["n"] == 0


def test_a_donor_that_goes_leaves_the_sizes(fresh: kerneldb.Database) -> None:
    fresh.inherit()
    fresh.remove("decoder-h200")
    assert (
        one(fresh, "SELECT count(*) AS n FROM kernels WHERE gemm_m IS NOT NULL AND dims_source = 'inherited'")["n"] > 0
    )


def test_without_a_donor_names_tell_operators_only(lonely: kerneldb.Database) -> None:
    rows = lonely.inherit().rows()
    assert {row["found"] for row in rows} == {"operator", "nothing"}
    found = one(lonely, "SELECT count(*) FILTER (op IS NOT NULL) AS ops, count(input_dims) AS dims FROM kernels")
    assert found["ops"] > 0
    assert found["dims"] == 0
    assert one(lonely, "SELECT count(DISTINCT inferred_by) AS n, min(inferred_by) AS by FROM inferred_calls") == {
        "n": 1,
        "by": "inferred",
    }


def test_strangers_give_no_calls(lonely: kerneldb.Database, root: Path) -> None:
    """A trace with few of the kernels is no donor, though some of its launches are the same."""
    lonely.ingest(root / "tests" / "fixtures" / "train-step-h200.json.gz")
    with lonely.warehouse.connection() as con:
        Selection(None, (STRIPPED,)).bind(con)
        (found,) = inheriting.find(con)
    assert found.with_call.height < 0.1 * LAUNCHES
    assert found.weak.height > 0
    assert max(found.weak["confidence"]) < inheriting.SURE


def test_the_command_prints_ways_and_confidence(fresh: kerneldb.Database) -> None:
    result = CliRunner().invoke(cli, ["--db", str(fresh.path), "db", "inherit", "--json"])
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)
    assert sum(row["launches"] for row in rows) == LAUNCHES
    assert {row["trace"] for row in rows} == {STRIPPED}
    again = CliRunner().invoke(cli, ["--db", str(fresh.path), "db", "inherit", "--trace", "decoder-h200"])
    assert "recorded call" in again.stderr


def test_a_launch_that_takes_longer_is_doubted(fresh: kerneldb.Database) -> None:
    trace_id = f"(SELECT trace_id FROM traces WHERE name = '{STRIPPED}')"
    sql = f"UPDATE launches SET duration_ns = 3 * duration_ns + 9000 WHERE trace_id = {trace_id}"
    fresh.sql(sql, write=True)
    fresh.inherit()
    doubted = one(
        fresh,
        "SELECT count(*) AS n, max(confidence) AS most FROM inferred_calls WHERE evidence LIKE '%perhaps other work%'",
    )
    assert doubted["n"] > 0.5 * LAUNCHES
    assert doubted["most"] < 0.7


def test_the_roofline_keeps_calls_of_one_launch_signature_apart(inherited: kerneldb.Database) -> None:
    """Four projections share a kernel and a grid: the work of all launches is that of each one's own call."""
    (shared,) = inherited.sql(
        f"""
        SELECT count(*) AS n FROM (
            SELECT signature_id FROM kernels WHERE trace = '{STRIPPED}'
            GROUP BY signature_id HAVING count(DISTINCT flops) > 1
        )
        """
    ).rows()
    assert shared["n"] > 0
    recorded, found = (
        inherited.sql(
            f"SELECT sum(flops * n) AS flops, min(op) AS op, max(method) AS method FROM roofline('kernels') "
            f"WHERE trace = '{trace}' AND op LIKE 'aten::mm%'"
        ).rows()[0]
        for trace in ("decoder-h200", STRIPPED)
    )
    assert found["flops"] == recorded["flops"] > 0
    assert (recorded["op"], found["op"]) == ("aten::mm", "aten::mm (inherited)")
    assert found["method"] == f"{recorded['method']} (inherited)"


def test_statistics_of_a_signature_name_no_call_that_only_some_of_its_launches_have(
    inherited: kerneldb.Database,
) -> None:
    columns = "trace, signature_id, op, input_dims, flops, moved_bytes, n"
    stored, anew = (
        inherited.sql(f"{given} WHERE kind = 'kernel' ORDER BY trace, signature_id").rows()
        for given in (
            f"SELECT {columns} FROM signature_stats()",
            f"WITH s AS (FROM kernels) SELECT {columns} FROM signature_stats('s')",
        )
    )
    assert anew == stored
    assert {row["op"] for row in stored if row["trace"] == STRIPPED} == {None}
    assert None not in {row["op"] for row in stored if row["trace"] == "decoder-h200"}
