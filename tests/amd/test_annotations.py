"""Notes about kernels: arithmetic, whose note holds, and what follows in the view `kernels`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kerneldb.api import Database
from kerneldb.api.annotations import number
from kerneldb.cli import cli
from kerneldb.errors import SelectionError, UsageError

CIJK = "name LIKE 'Cijk%'"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2*8192^3", 1_099_511_627_776),
        ("2 * 8192 ** 3", 1_099_511_627_776),
        ("3*8192^2", 201_326_592),
        ("2*(64+36)*1e3/4", 50_000),
        ("-2*-3", 6),
        ("2^3^2", 512),
        ("0", 0),
        ("1_000", 1000),
    ],
)
def test_arithmetic(text: str, expected: float) -> None:
    assert number(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "x",
            "2*N",
            "__import__('os').system('true')",
            "1+",
            "1,2",
            "[1]",
            "1 if 1 else 2",
            "'a'*9",
            "1//2",
            "5%2",
        ),
        *(
            "9**9**9**9",
            "1/0",
            "-1",
            "1e999",
            "1e308*10",
            "0^-1",
            "(" * 300,
            "1" * 400,
            "lambda: 1",
            "1(2)",
            "(-8)^0.5",
        ),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        number(text)


def first(database: Database, columns: str, where: str = CIJK) -> dict[str, object]:
    return next(iter(database.sql(f"SELECT {columns} FROM selection LIMIT 1", where=where)))


def test_unknown_work_stays_unknown(read: Database) -> None:
    columns = "flops, tflops, gbs, pct_peak_flops, pct_peak_bandwidth, role, work_method"
    assert set(first(read, columns).values()) == {None}


def test_a_note_gives_throughput(database: Database) -> None:
    assert database.annotate(CIJK, {"flops": "2*8192^3", "role": "gemm"}, author="me") == 1
    row = first(database, "flops, tflops, pct_peak_flops, gbs, role, work_method, duration_ns")
    assert row["flops"] == 2 * 8192**3
    assert row["tflops"] == pytest.approx(2 * 8192**3 / row["duration_ns"] / 1e3)  # type: ignore[operator]
    assert row["pct_peak_flops"] == pytest.approx(100 * row["tflops"] / 59.4)  # type: ignore[operator]
    assert (row["gbs"], row["role"], row["work_method"]) == (None, "gemm", "annotation")


def test_notes_keep_text_value_and_author(database: Database) -> None:
    database.annotate(CIJK, {"flops": "2*8192^3"}, author="me")
    (row,) = database.annotations().rows()
    assert (row["key"], row["value"], row["number"], row["author"]) == ("flops", "2*8192^3", 2 * 8192**3, "me")
    assert row["noted_at"] is not None


@pytest.mark.thorough
def test_the_same_author_replaces_and_the_latest_author_holds(database: Database) -> None:
    for author, text in (("a", "1"), ("a", "2"), ("b", "3")):
        database.annotate(CIJK, {"flops": text}, author=author)
    assert [row["value"] for row in database.annotations().rows()] == ["2", "3"]
    assert first(database, "flops") == {"flops": 3}
    database.annotate(CIJK, {"flops": "4"}, author="a")
    assert first(database, "flops") == {"flops": 4}
    database.annotate(CIJK, {"flops": None})
    assert len(database.annotations()) == 0
    assert first(database, "flops") == {"flops": None}


def test_notes_written_in_sql_count_too(database: Database) -> None:
    sql = """
        INSERT INTO annotations (signature_id, key, value)
        SELECT DISTINCT signature_id, 'bytes', '1e9' FROM kernels WHERE name LIKE 'Cijk%'
    """
    database.sql(sql, write=True)
    assert first(database, "moved_bytes") == {"moved_bytes": 1e9}


def test_refused_notes_change_nothing(database: Database) -> None:
    for where, notes in (
        (CIJK, {"flops": "x"}),
        (CIJK, {"speed": "1"}),
        (CIJK, {"role": " "}),
        ("false", {"flops": "1"}),
    ):
        with pytest.raises(UsageError):
            database.annotate(where, notes)
    with pytest.raises(SelectionError, match="nam"):
        database.annotate("nam = 'x'", {"flops": "1"})
    with pytest.raises(UsageError, match="no trace"):
        database.annotate(None, {"flops": "1"}, traces=["nowhere"])
    assert len(database.annotations()) == 0


def test_command(database: Database, runner: CliRunner) -> None:
    options = ["--where", CIJK, "--flops", "2*8192^3", "--role", "gemm", "--author", "me"]
    done = runner.invoke(cli, ["--db", str(database.path), "db", "annotate", *options])
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "noted flops, role of 1 signature\n")
    done = runner.invoke(cli, ["--db", str(database.path), "db", "annotate", "--csv"])
    assert ",flops,2*8192^3," in done.stdout
    assert ",me," in done.stdout
    done = runner.invoke(cli, ["--db", str(database.path), "db", "annotate", "--where", CIJK, "--unset", "flops"])
    assert done.exit_code == 0
    assert [row["key"] for row in database.annotations()] == ["role"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--flops", "1"], "say which kernels"),
        (["--where", "true", "--flops", "1", "--unset", "flops"], "contradict"),
        (["--where", "true", "--flops", "1+"], "is not a number"),
        (["--where", "false", "--flops", "1"], "nothing is noted"),
    ],
)
def test_wrong_calls(database: Database, runner: CliRunner, options: list[str], message: str) -> None:
    done = runner.invoke(cli, ["--db", str(database.path), "db", "annotate", *options], standalone_mode=True)
    assert done.exit_code == 2 or isinstance(done.exception, UsageError)
    assert message in done.stderr + str(done.exception)


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


def test_notes_outlive_their_trace(database: Database) -> None:
    database.annotate(CIJK, {"role": "gemm"})
    database.remove("torch")
    (row,) = database.sql("SELECT key, value FROM annotations").rows()
    assert row == {"key": "role", "value": "gemm"}


def test_other_file(database: Database, tmp_path: Path) -> None:
    """A view of the warehouse under another name has the columns too."""
    import duckdb

    database.annotate(CIJK, {"flops": "2*8192^3"})
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{database.path}' AS other (READ_ONLY)")
        (found,) = con.sql("SELECT count(tflops) FROM other.kernels").fetchall()
    assert found == (23,)
