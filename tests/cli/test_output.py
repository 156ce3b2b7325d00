"""The writers: what each format does with awkward values, and where the bytes go."""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import json
import math
import stat
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kerneldb.errors import UsageError
from kerneldb.output import FORMATS, Format, Output, destination, format_of, records, text, write
from kerneldb.output.carried import carried

GOLDEN = Path(__file__).parent / "golden"


def awkward() -> pa.Table:
    """Two rows with every kind of value that a query can give."""
    columns = {
        "name": pa.array(['void k<int, 2>("a")\n', None]),
        "n": pa.array([1234567, 2]),
        "stream": pa.array([1234567, 7]),
        "duration_ns": pa.array([12345678, None], pa.int64()),
        "share_pct": pa.array([99.123456, math.nan]),
        "mean_ns": pa.array([1234567.25, 3.0]),
        "total": pa.array([decimal.Decimal(12), None], pa.decimal128(38, 0)),
        "linked": pa.array([True, False]),
        "at": pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5, 6), None]),
        "dims": pa.array([[1, 2], None]),
        "tags": pa.array([{"batch": "8"}, None]),
        "raw": pa.array([b"\x00\xff", None]),
        "kind": pa.array(["kernel", "memcpy"]).dictionary_encode(),
        "nothing": pa.nulls(2),
    }
    return pa.table(columns)


def written(table: pa.Table, output: Output, tmp_path: Path) -> bytes:
    """What `write` puts into a file."""
    path = tmp_path / "out"
    write(table.to_reader(), Output(output.format, path, output.header, output.wide, output.limit))
    return path.read_bytes()


@pytest.mark.parametrize("layout", ["table", "csv", "json", "ndjson"])
def test_text_formats_equal_their_golden_files(layout: Format, tmp_path: Path) -> None:
    content = written(awkward(), Output(layout), tmp_path).decode()
    assert content == (GOLDEN / f"awkward.{layout}").read_text(encoding="utf-8")


def test_json_is_one_document_with_null_for_nan(tmp_path: Path) -> None:
    rows = json.loads(written(awkward(), Output("json"), tmp_path))
    assert rows[1]["share_pct"] is None
    assert rows[0]["dims"] == [1, 2]
    assert rows[0]["total"] == 12
    assert rows[0]["at"] == "2026-01-02T03:04:05.000006"


def test_csv_reads_back_with_embedded_newlines_and_quotes(tmp_path: Path) -> None:
    lines = list(csv.DictReader(io.StringIO(written(awkward(), Output("csv"), tmp_path).decode(), newline="")))
    assert lines[0]["name"] == 'void k<int, 2>("a")\n'
    assert lines[1]["name"] == ""
    assert json.loads(lines[0]["dims"]) == [1, 2]


def test_parquet_and_arrow_keep_values_and_types(tmp_path: Path) -> None:
    table = awkward().drop_columns(["share_pct"])
    write(table.to_reader(), Output("parquet", tmp_path / "t.parquet"))
    write(table.to_reader(), Output("arrow", tmp_path / "t.arrow"))
    assert pq.read_table(tmp_path / "t.parquet").to_pylist() == table.to_pylist()
    assert pa.ipc.open_file(tmp_path / "t.arrow").read_all().equals(table)


@pytest.mark.parametrize("layout", FORMATS)
def test_no_rows_is_still_a_valid_file(layout: Format, tmp_path: Path) -> None:
    empty = awkward().slice(0, 0)
    content = written(empty, Output(layout), tmp_path)
    if layout == "json":
        assert json.loads(content) == []
    if layout == "ndjson":
        assert content == b""
    if layout == "csv":
        assert content.decode().strip().split(",") == empty.column_names
    if layout == "parquet":
        assert pq.read_table(io.BytesIO(content)).schema.names == empty.column_names
    if layout == "arrow":
        assert pa.ipc.open_file(content).read_all().num_rows == 0


def test_rows_of_several_batches_make_one_json_array(tmp_path: Path) -> None:
    table = pa.table({"a": list(range(5))})
    write(table.to_reader(max_chunksize=2), Output("json", tmp_path / "o"))
    assert [row["a"] for row in json.loads((tmp_path / "o").read_bytes())] == [0, 1, 2, 3, 4]


def test_table_limit_counts_all_rows(tmp_path: Path) -> None:
    table = pa.table({"a": list(range(10))})
    result = write(table.to_reader(max_chunksize=3), Output("table", tmp_path / "o", limit=4))
    assert (result.shown, result.total) == (4, 10)
    assert (tmp_path / "o").read_text().split() == ["a", "-", "0", "1", "2", "3"]


def test_only_quantities_carry_separators() -> None:
    assert text.format_column("duration_ns", [1234567]) == ["1,234,567"]
    assert text.format_column("sum(duration_ns)", [decimal.Decimal(1234567)]) == ["1,234,567"]
    assert text.format_column("count_star()", [1234567]) == ["1,234,567"]
    assert text.format_column("correlation_id", [1234567]) == ["1234567"]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.5, 0.25], ["0.5000", "0.2500"]),
        ([1234.5678, 1.0], ["1234.6", "1.0"]),
        ([0.0], ["0.0"]),
        ([1e-9], ["1e-09"]),
        ([3.2e18], ["3.2e+18"]),
        ([math.inf, 1.0], ["inf", "1.000"]),
    ],
)
def test_decimals_follow_the_largest_value(values: list[float], shown: list[str]) -> None:
    assert text.format_column("x", values) == shown


def test_control_characters_cannot_reach_the_terminal() -> None:
    assert text.escape("a\x1b[2Jb\u202ec") == "a\\x1b[2Jb\\u202ec"


@pytest.mark.parametrize(("size", "shown"), [(9, "abcdefghi"), (5, "ab…hi"), (4, "ab…i")])
def test_long_text_loses_its_middle(size: int, shown: str) -> None:
    assert text.shorten("abcdefghi", size) == shown


def test_columns_fit_the_terminal_and_numbers_stay_whole() -> None:
    cells = [["k" * 200], ["1,234,567"], ["m" * 90]]
    shown = list(text.lines(["name", "n", "module"], cells, [False, True, False], width=80))
    assert max(len(line) for line in shown) == 80
    assert "1,234,567" in shown[-1]
    assert "…" in shown[-1]


@pytest.mark.parametrize(
    "value",
    [
        *("3 days", "1 day", "0 days", "-14 months", "1 year 1 month 1 day 100:00:00.5", "1 month -1 day"),
        *("-3 hours 5 milliseconds", "-0.000001 seconds", "2 years"),
    ],
)
def test_tables_write_intervals_as_the_engine_does(value: str, tmp_path: Path) -> None:
    with duckdb.connect() as con:
        found = con.sql(f"SELECT INTERVAL '{value}' AS i").to_arrow_table()
        expected = con.sql(f"SELECT (INTERVAL '{value}')::VARCHAR").fetchall()[0][0]
    assert written(found, Output("table"), tmp_path).decode().splitlines()[-1] == expected
    parts = json.loads(written(found, Output("json"), tmp_path))[0]["i"]
    assert len(parts) == 3


@pytest.mark.parametrize(
    "value",
    [
        *("TIME '24:00:00'", "DATE 'infinity'", "TIMESTAMP '294000-01-01'"),
        "TIMESTAMP_NS '2020-01-01 00:00:00.123456789'",
    ],
)
@pytest.mark.parametrize("layout", ["table", "csv", "json", "ndjson"])
def test_times_that_python_cannot_hold_are_written_as_the_engine_does(
    value: str, layout: Format, tmp_path: Path
) -> None:
    with duckdb.connect() as con:
        found = con.sql(f"SELECT {value} AS t").to_arrow_table()
        expected = con.sql(f"SELECT ({value})::VARCHAR").fetchall()[0][0]
    lines = written(found, Output(layout), tmp_path).decode().splitlines()
    line = next(line for line in lines[::-1] if line != "]")
    assert line.removeprefix('{"t":').removesuffix("}").strip('"') == expected


def test_what_arrow_cannot_carry_goes_there_as_text() -> None:
    values = {
        "340282366920938463463374607431768211455::UHUGEINT": "340282366920938463463374607431768211455",
        "BIT '10101'": "10101",
        "TIMETZ '12:00:00+02'": "12:00:00+02",
        "[BIT '101', NULL]": ["101", None],
        "{'x y': BIT '1', 'size': [1::UHUGEINT]}": {"x y": "1", "size": ["1"]},
        "MAP {1::UHUGEINT: BIT '0'}": {"1": "0"},
        "[BIT '1']::BIT[1]": ["1"],
        "7": 7,
    }
    with duckdb.connect() as con:
        found = con.sql(f"SELECT {', '.join(f'{value} AS a' for value in values)}")
        table = carried(found).to_arrow_table()
        assert [column.to_pylist(maps_as_pydicts="lossy")[0] for column in table.columns] == list(values.values())
        assert set(table.column_names) == {"a"}
        plain = con.sql("SELECT 1 AS a, [{'b': 2}] AS b")
        assert carried(plain) is plain


def test_wide_characters_take_two_cells() -> None:
    shown = list(text.lines(["a", "b"], [["漢字", "x"], ["1", "2"]], [False, True]))
    assert [text.display_width(line) for line in shown] == [7, 7, 7, 7]


@pytest.mark.parametrize("layout", ["parquet", "arrow"])
def test_binary_formats_refuse_a_terminal(layout: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerneldb.output.is_terminal", lambda: True)
    with pytest.raises(UsageError, match="-o FILE"):
        write(awkward().to_reader(), Output(layout))


def test_a_failure_leaves_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")

    def interrupted() -> None:
        with destination.opened(path) as sink:
            sink.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed_and_devices_are_written_directly(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with destination.opened(tmp_path / "link") as sink:
        sink.write(b"new")
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "link").is_symlink()
    with destination.opened(Path("/dev/null")) as sink:
        sink.write(b"x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.parametrize(
    ("name", "layout"),
    [("a.csv", "csv"), ("a.JSONL", "ndjson"), ("a.feather", "arrow"), ("a.txt", "table"), ("a", None)],
)
def test_the_suffix_names_the_format(name: str, layout: str | None) -> None:
    assert format_of(Path(name)) == layout


@pytest.mark.parametrize("layout", ["json", "ndjson"])
def test_json_refuses_two_columns_of_one_name(layout: Format, tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(UsageError, match="rename with AS: a"):
        write(table.to_reader(), Output(layout, tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []
    assert written(table, Output("csv"), tmp_path) == b"a,a\n1,2\n"


def test_parquet_holds_intervals_as_text(tmp_path: Path) -> None:
    day = pa.MonthDayNano([0, 1, 5])
    columns = {"n": pa.array([1, 2]), "pause": pa.array([day, None]), "pauses": pa.array([[day], []])}
    written(pa.table(columns), Output("parquet"), tmp_path)
    found = pq.read_table(tmp_path / "out").to_pylist()
    assert found[0] == {"n": 1, "pause": "[0,1,5]", "pauses": "[[0,1,5]]"}
    assert found[1] == {"n": 2, "pause": None, "pauses": "[]"}


@pytest.mark.parametrize("layout", ["csv", "json", "ndjson"])
def test_text_is_made_of_few_rows_at_a_time(layout: Format, tmp_path: Path) -> None:
    rows = 2 * records.BATCH_ROWS + 1
    lines = written(pa.table({"a": range(rows)}), Output(layout), tmp_path).decode().splitlines()
    assert len([line for line in lines if line.strip("[]")]) == rows + (layout == "csv")
    batches = records._portions(pa.table({"a": range(rows)}).to_reader())
    assert max(batch.num_rows for batch in batches) == records.BATCH_ROWS
