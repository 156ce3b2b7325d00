"""Two recordings of one run that have some launches in common: what is said of one of them is of all its launches."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.report import events, why
from kerneldb.report.asking import asking
from tests.answers.plain_traces import Recording
from tests.conftest import made_once

COMMON, OWN, LONGER = 40, 3, 60
NS = 1_000


def recording(common: int, own: str, others: int) -> Recording:
    """Kernels of `common` at the same times as in the other one, and `others` kernels that only this one has."""
    made = Recording()
    for number in range(common):
        made.kernel(f"both_{number % 4}", 10_000 * number, NS + number, 10_000 * number - 5_000)
    for number in range(common, common + others):
        made.kernel(own, 10_000 * number + 100 * others, NS, 10_000 * number - 5_000)
    return made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Database:
    def make(path: Path) -> None:
        folder = tmp_path_factory.mktemp("shared")
        recording(COMMON, "only_here", OWN).write(folder / "part.json")
        recording(COMMON, "only_there", LONGER).write(folder / "more.json")
        recording(COMMON, "", 0).write(folder / "within.json")
        kerneldb.open(path).ingest(folder)

    return kerneldb.open(made_once(tmp_path_factory, "shared.duckdb", make))


def test_a_trace_counts_its_launches_though_they_count_in_another_one(shared: Database) -> None:
    counted = {row["trace"]: row["n"] for row in shared.top("trace").rows()}
    assert counted == {"more": COMMON + LONGER, "part": OWN}  # each launch once
    (verdict,) = why.verdicts(shared, ["part"])
    (top,) = shared.top("trace", traces=["part"]).rows()
    wall = shared.wall_time(traces=["part"]).rows()
    spent = sum(NS + number for number in range(COMMON)) + OWN * NS
    assert (top["n"], top["total_ns"]) == (COMMON + OWN, spent)
    assert verdict.parts["computation"] == spent == sum(r["wall_ns"] for r in wall if r["part"] == "computation")
    assert verdict.span_ns == sum(row["wall_ns"] for row in wall)
    assert "launches" not in " ".join(verdict.unknown)  # not too few to say what the program does
    assert {row["trace"]: row["n"] for row in shared.top("trace").rows()} == counted  # as before


def test_the_query_beside_a_sentence_reads_them_too(shared: Database) -> None:
    (verdict,) = why.verdicts(shared, ["part"])
    for piece in verdict.advice:
        assert shared.sql(piece.sql).rows(), piece.rule
    rows = [shared.sql(piece.sql).rows()[0] for piece in verdict.advice if "total_ns" in piece.row]
    assert [row["total_ns"] for row in rows] == [p.row["total_ns"] for p in verdict.advice if "total_ns" in p.row]


def test_it_is_said_on_which_trace_an_answer_is(shared: Database) -> None:
    done = CliRunner().invoke(cli, ["--db", str(shared.path), "why", "within"])
    assert (
        "within: its 40 launches are in more, too (run more); the answer is on that one, which has 100" in done.stderr
    )


def test_a_trace_is_named_as_in_other_commands_too(shared: Database) -> None:
    asked, named = (
        CliRunner().invoke(cli, ["--db", str(shared.path), "why", *words]).stdout
        for words in (["--trace", "part"], ["part"])
    )
    assert asked == named


def test_a_kernel_is_shown_as_it_ran_in_a_trace(shared: Database) -> None:
    def shown(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli, ["--db", str(shared.path), "show", *words])
        return done.exit_code, done.output

    (times,) = shared.show("both_0", traces=["part"]).tables["times"]
    assert (times["trace"], times["n"]) == ("part", COMMON // 4)
    assert {row["trace"] for row in shared.show("both_0").tables["times"]} == {"part", "more", "within"}
    assert [row["n"] for row in shared.signatures("only", traces=["part"]).rows()] == [OWN]
    assert "2 signatures match" in shown("only")[1]
    code, text = shown("only", "--trace", "part")
    assert (code, "only_here" in text, "only_there" in text) == (0, True, False)
    code, text = shown("only_there", "--trace", "part")
    assert (code, "no kernel of part has 'only_there' in its name" in text) == (2, True)


def test_a_page_draws_as_many_launches_as_it_counts(shared: Database) -> None:
    with asking(shared) as ask:
        one = ask.about(trace="part")
        counted = sum(row["n"] for row in one.rows("top"))
        assert events.extent(one).launches == counted == COMMON + OWN
        whole = ask.about(trace="more")
        assert events.extent(whole).launches == sum(row["n"] for row in whole.rows("top")) == COMMON + LONGER


PAIRS = [("part", "more"), ("more", "part"), ("within", "part"), ("part", "part")]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_each_side_of_a_comparison_has_all_its_launches(shared: Database, before: str, after: str) -> None:
    def sums(trace: str) -> tuple[int, int]:
        (row,) = shared.top("trace", traces=[trace]).rows()
        return row["n"], row["total_ns"]

    expected = *sums(before), *sums(after)
    columns = "n_before", "total_before_ns", "n_after", "total_after_ns"
    for rows in (
        shared.diff(before, after).table.to_pylist(),
        shared.diff(before, after, where="duration_ns > 0").table.to_pylist(),
        shared.diff_by(before, after, "category").rows(),
        shared.diff_by(before, after, "category", where="duration_ns > 0").rows(),
    ):
        assert tuple(sum(row[column] for row in rows) for column in columns) == expected
