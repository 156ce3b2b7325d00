"""The writers: what each format does with awkward values, and where the bytes go."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import decimal
import io
import json
import math
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, strategies

from kerneldb.cli import cli, console, why
from kerneldb.errors import UsageError
from kerneldb.output import FORMATS, Format, Output, Written, format_of, opened, records, tables, text, write
from kerneldb.output.carried import carried

ROOT = Path(__file__).parents[2]
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
    write(table.to_reader(), dataclasses.replace(output, path=path))
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


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("duration_ns", 1234567, "1.23 ms"),
        ("sum(duration_ns)", decimal.Decimal(1234567), "1.23 ms"),
        ("round(avg(k.duration_ns), 1)", 1234.5, "1.23 µs"),
        ("count(duration_ns)", 1234567, "1,234,567"),
        ("count_star()", 1234567, "1,234,567"),
        ("window_ms", 1500.0, "1.50 s"),
        ("correlation_id", 1234567, "1234567"),
        ("max(stream)", 1234567, "1234567"),
        ("year(at)", 2026, "2026"),
        ("grid_x", 65536, "65536"),
        ("start_ns", 4400985761760297, "4,400,985,761,760,297"),
        ("sum(n)", decimal.Decimal(1234567), "1,234,567"),
        ("moved_bytes", 74_500_000, "74.5 MB"),
        ("flops", 262_144, "262 kFLOP"),
        ("flops_per_second", 2.848e12, "2.85 TFLOP/s"),
        ("bytes_per_second", 3.8e9, "3.80 GB/s"),
        ("bf16_tflops", 989.5, "990 TFLOP/s"),
        ("median_bus_gbs", 392.1, "392 GB/s"),
        ("energy_mj", 2_500, "2.50 J"),
        ("energy_mj", 0.25, "0.25 mJ"),
        ("mean_power_w", 412.34, "412 W"),
        ("sm_mhz", 1980, "1,980 MHz"),
        ("share_pct", 20.43, "20.4 %"),
        ("delta_pct", 3.21, "+3.2 %"),
        ("delta_ns", -1500, "-1.50 µs"),
        ("ratio", 0.974, "0.97×"),
        ("p_value", 6.07891e-06, "6.1e-06"),
        ("duration_ns", "text", "text"),
        ("duration_ns", True, "true"),
        ("duration_ns", math.nan, "nan"),
        ("duration_ns", -math.inf, "-inf"),
        ("duration_ns", None, "–"),
        ("seconds", 0.0005, "500 µs"),
        ("seconds", 12.5, "12.5 s"),
    ],
)
def test_values_have_the_unit_of_their_column(name: str, value: object, shown: str) -> None:
    assert text.format_column(name, [value]) == [shown]


UNITS = {"ns": "5.00 µs", "bytes": "5.00 KB", "mJ": "5.00 J", "%": "5,000 %", "W": "5,000 W", "MHz": "5,000 MHz"}
RATES = {"FLOP/s": "5.00 kFLOP/s", "bytes/s": "5.00 KB/s", "GB/s": "5.00 TB/s", "TFLOP/s": "5.00 PFLOP/s"}
NO_UNIT = re.compile(
    r"(^|_)(start|end|begins|ends|ts|epoch|base|first|last)_ns$|_per_(multiprocessor|block)|^peaks$|^at_ns$"
)
"""Moments (of which `at_ns` has all digits, as ms), limits of hardware, and a map."""


def test_units_of_the_schema_follow_from_names() -> None:
    """Each column with a unit in the headers of the schema is written with it."""
    described = re.compile(r"^ *(?:-- +)?(\w+):? [A-Z]+\S*,? .*?\[([^\]]+)\]", re.MULTILINE)
    known = UNITS | RATES | {"FLOP": "5.00 kFLOP"}
    schemas = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "schemas").rglob("*.sql"))
    columns = {(name, unit) for name, unit in described.findall(schemas) if unit in known and not NO_UNIT.search(name)}
    shown = {(name, unit): text.format_value(5_000, name).lstrip("+") for name, unit in columns}
    assert {column: value for column, value in shown.items() if value != known[column[1]]} == {}
    assert len(columns) > 150


@given(strategies.integers(-(10**30), 10**30), strategies.sampled_from(["duration_ns", "bytes", "n", "flops", "x_id"]))
def test_whole_numbers_of_any_size_are_written_in_few_cells(value: int, name: str) -> None:
    shown = text.format_value(value, name)
    assert shown == text.format_value(decimal.Decimal(value), name)
    if name in ("n", "x_id"):
        assert int(shown.replace(",", "")) == value
    else:
        assert float(re.sub(r"[^\d.]", "", shown)) >= 0


def test_control_characters_cannot_reach_the_terminal() -> None:
    assert text.escape("a\x1b[2Jb\u202ec") == "a\\x1b[2Jb\\u202ec"


@pytest.mark.parametrize(("size", "shown"), [(9, "abcdefghi"), (5, "ab…hi"), (4, "ab…i")])
def test_long_text_loses_its_middle(size: int, shown: str) -> None:
    assert text.shorten("abcdefghi", size) == shown


def test_a_word_of_a_million_characters_is_cut_into_lines() -> None:
    """Each costs the line only: what looks at the rest for every line takes minutes."""
    lines = text.wrapped(f"one {'x' * 1_000_000}-two three", 79)
    assert max(map(len, lines)) == 79
    assert "".join(lines).replace(" ", "") == f"one{'x' * 1_000_000}-twothree"
    assert len(lines) < 1_000_000 / 79 + 4


def test_a_figure_stays_with_its_unit() -> None:
    assert text.wrapped("it takes 27.6 µs of 4 % in 5 steps", 13) == ["it takes", "27.6 µs of", "4 % in 5", "steps"]
    assert text.wrapped("reads 12 MB/s, 3 GB", 11, "1. ", "   ") == ["1. reads", "   12 MB/s,", "   3 GB"]


def test_a_sentence_with_a_name_of_millions_of_characters_is_shortened() -> None:
    said = why._wrapped(f"Look at {'x' * 3_000_000}. It waits.", 100, "  1. ", "     ")
    assert said.startswith("  1. Look at")
    assert "".join(said.split()).endswith(".Itwaits.")
    assert len(said.splitlines()) <= why.LINES + 3


def drawn(columns: tables.Columns, width: int | None, **options: Any) -> tables.Rendered:
    """The table on a terminal so wide (None: no terminal), without colours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "terminal_width", lambda: width)
        return tables.render(columns, Output(**options))


def test_columns_fit_the_terminal_and_numbers_stay_whole() -> None:
    columns = [("name", ["k" * 200]), ("n", [1234567]), ("module", ["m" * 90])]
    shown = drawn(columns, 80)
    assert 78 <= len(shown.lines[-1]) <= 80
    assert shown.left_out == []
    assert "1,234,567" in shown.lines[-1]
    assert shown.lines[-1].count("…") == 2


def top_columns(rows: int = 3) -> list[tuple[str, list[Any]]]:
    """What `top` shows of kernels with long names."""
    names = [f"{'a' * 30}{row}{'b' * 30}" for row in range(rows)]
    figures: list[tuple[str, list[Any]]] = [
        (name, [10**6 * (row + 1) for row in range(rows)]) for name in ("total_ns", "mean_ns", "min_ns", "max_ns")
    ]
    share = [("share_pct", [30.0 + row for row in range(rows)])]
    timing = [("timing", ["timeline"] * rows)]
    return [("kernel", names), ("n", list(range(rows))), figures[0], *share, *figures[1:], *timing]


TIMING = "timing (all timeline)"


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (200, []),
        (118, []),
        (100, [TIMING]),
        (80, [TIMING, "min", "max"]),
        (55, [TIMING, "min", "max"]),
        (46, [TIMING, "mean", "min", "max"]),
        (30, [TIMING, "n", "share", "mean", "min", "max"]),
    ],
)
def test_the_least_important_columns_are_left_out_first(width: int, left_out: list[str]) -> None:
    shown = drawn(top_columns(), width)
    assert shown.left_out == left_out
    assert max(map(len, shown.lines)) <= width
    assert {"kernel", "total"} <= set(shown.lines[0].split())


def test_what_a_command_is_asked_for_stays_on_a_narrow_terminal() -> None:
    names = [
        *(
            "trace",
            "device",
            "busy_ns",
            "computation_ns",
            "communication_ns",
            "copy_ns",
            "computation_communication_ns",
        ),
        *("communication_copy_ns", "exposed_communication_ns", "exposed_copy_ns", "hidden_communication_pct"),
    ]
    shown = drawn([(name, [f"trace{row}" if name == "trace" else row + 1 for row in range(2)]) for name in names], 80)
    assert {"exposed_communication", "hidden_communication"} <= set(shown.lines[0].split())
    memory = ["trace", "device_type", "device", "name", "allocations", "allocated_bytes", "peak_bytes", "at_peak_bytes"]
    rows = [(name, ["n" * 22, "m" * 22] if name in {"trace", "name"} else [10**9, 10**8]) for name in memory]
    assert "at_peak" in drawn(rows, 80).lines[0].split()


CONVERSIONS = ("trace", "from_dtype", "to_dtype", "phase", "n", "total_ns", "elements", "kernel", "method")
GAPS = ("trace", "device", "gap_ns", "part", "cause", "host_late_ns", "previous", "next", "next_op", "phase")


@pytest.mark.parametrize(
    ("names", "alike", "shown", "said"),
    [
        (CONVERSIONS, {"method"}, {"trace", "from_dtype", "to_dtype", "phase"}, ["method (all method0)"]),
        (GAPS, {"trace", "device", "part", "cause"}, {"cause", "next", "next_op"}, ["trace (all trace0)"]),
    ],
)
def test_what_answers_the_question_stays_and_one_value_for_all_rows_is_said_once(
    names: tuple[str, ...], alike: set[str], shown: set[str], said: list[str]
) -> None:
    """The example of a conversion is no name of a row; why a GPU waited stays though each row says the same."""
    numbers, long = {"n", "elements", "total_ns", "gap_ns", "host_late_ns"}, {"kernel", "previous", "next"}
    rows: list[tuple[str, list[Any]]] = [
        (name, [10**9 + row if name in numbers else f"{name}{'x' * row if name in long else row}" for row in (0, 30)])
        for name in names
    ]
    rows = [(name, values[:1] * 2 if name in alike else values) for name, values in rows]
    table = drawn(rows, 80)
    assert shown <= set(table.lines[0].split())
    assert table.left_out[: len(said)] == said
    assert "previous" not in table.lines[0]


def test_one_long_value_for_all_rows_is_shortened() -> None:
    columns: list[tuple[str, list[Any]]] = [
        ("kernel", ["a" * 60, "b" * 60]),
        ("previous", ["x" * 500] * 2),
        ("n", [1, 2]),
    ]
    assert drawn(columns, 70).left_out == [f"previous (all {'x' * 22}…{'x' * 21})"]


def test_the_sum_is_named_below_what_names_the_rows() -> None:
    values: list[tuple[str, list[Any]]] = [
        ("phase", ["a", "b"]),
        ("total_ns", [1, 2]),
        ("kernel", ["example", "other"]),
    ]
    found = tables.render(values, Output(), sums={"total_ns": 3}, label="all 2")
    assert found.lines[-1].split() == ["all", "2", "3", "ns"]
    empty: list[tuple[str, list[Any]]] = [("name", [None, None]), ("cause", ["x", "y"]), ("wall_ns", [1, 2])]
    assert tables.render(empty, Output(), sums={"wall_ns": 3}, label="all 2").lines[-1].startswith("      all 2")


def test_an_empty_table_has_no_columns_that_lack_room(capsys: pytest.CaptureFixture[str]) -> None:
    console._told(Written(0, 0, ["min", "max"]))
    assert capsys.readouterr().err == ""
    console._told(Written(1, 1, ["min", "max"]))
    assert capsys.readouterr().err == "no room for min, max; --wide shows all\n"


@pytest.mark.parametrize(("width", "least"), [(80, 44), (64, 24)])
def test_lesser_columns_go_before_names_are_short(width: int, least: int) -> None:
    kernel = drawn(top_columns(), width).lines[2].split()[0]
    assert (len(kernel) >= least, "…" in kernel) == (True, True)


def test_without_a_terminal_or_with_wide_nothing_is_left_out(tmp_path: Path) -> None:
    for shown in (
        drawn(top_columns(), None),
        drawn(top_columns(), 40, wide=True),
        drawn(top_columns(), 40, path=tmp_path),
    ):
        assert shown.left_out == []
        assert not any("…" in line for line in shown.lines)


NAMES = ("kernel", "n", "total_ns", "share_pct", "op", "signature_id", "start_ns", "verdict", "x", "漢字")


@pytest.mark.thorough
@given(
    strategies.lists(strategies.sampled_from(NAMES), min_size=1, max_size=10, unique=True),
    strategies.integers(40, 200),
    strategies.data(),
)
def test_any_table_fits(names: list[str], width: int, data: strategies.DataObject) -> None:
    kinds = {"n": strategies.integers(-(10**12), 10**12), "total_ns": strategies.floats()}
    drawing = {name: kinds.get(name, strategies.text()) for name in names}
    columns = [(name, data.draw(strategies.tuples(kind, kind))) for name, kind in drawing.items()]
    shown = drawn(columns, width)
    assert max(map(text.display_width, shown.lines)) <= width
    assert not any(character in line for line in shown.lines for character in "\x1b\n\r")
    drawn(columns, None)


def test_units_stand_below_each_other_and_headers_do_without_them() -> None:
    columns = [("total_ns", [1_310_000, 518_000, 2 * 10**9]), ("share_pct", [100.0, None, 0.5])]
    assert drawn(columns, None).lines == [
        "  total  share",
        "-------  -----",
        "1.31 ms  100 %",
        " 518 µs      –",
        "2.00 s   0.5 %",
    ]


def test_a_header_has_no_prefix_of_a_unit_that_the_cells_choose() -> None:
    lines = drawn([("kernel", ["k"]), ("tflops", [18.6e-6]), ("gbs", [0.149])], None).lines
    assert (lines[0].split(), lines[2].split()) == (
        ["kernel", "FLOP/s", "B/s"],
        ["k", "18.6", "MFLOP/s", "149", "MB/s"],
    )


def test_names_that_a_query_can_use_stay_exact() -> None:
    columns = [("sum(total_ns)", [1_310_000]), ("total_ns", [5]), ("dtype", ["c10::Half"])]
    assert drawn(columns, None, exact_names=True).lines[0].split() == ["sum(total_ns)", "total_ns", "dtype"]
    assert "c10::Half" in drawn(columns, None, exact_names=True).lines[-1]


def test_a_header_keeps_its_unit_where_two_would_be_the_same() -> None:
    columns = [("delta_ns", [1500]), ("delta_pct", [2.0]), ("share_pct", ["as text"])]
    assert drawn(columns, None).lines[0].split() == ["delta", "delta_pct", "share_pct"]


def test_commands_have_one_spelling_of_types_and_the_sizes_of_products() -> None:
    columns = [
        ("from_dtype", ["c10::Half", "long int"]),
        ("input_dtypes", ['["c10::BFloat16", "", "Scalar"]', None]),
        ("gemm_m", [1, None]),
        ("gemm_n", [5632, None]),
        ("gemm_k", [2048, None]),
        ("gemm_batch", [None, None]),
    ]
    assert tables.for_people(columns) == [
        ("problem", ["1×5632×2048", None]),
        ("from_dtype", ["fp16", "int64"]),
        ("input_dtypes", ['["bf16", "", "Scalar"]', None]),
    ]
    named = tables.for_people([("n", [1]), ("kernel", ["k"]), *((name, values[:1]) for name, values in columns[2:])])
    assert [name for name, _ in named] == ["n", "kernel", "problem"]
    batched = [("gemm_m", [64]), ("gemm_n", [64]), ("gemm_k", [128]), ("gemm_batch", [16])]
    assert tables.for_people(batched) == [("problem", ["16×(64×64×128)"])]


def test_a_launch_without_a_problem_is_told_by_its_grid_and_a_copy_by_its_bytes() -> None:
    """Else rows of one kernel that differ in their launch look the same."""
    unknown = [None] * 4
    columns = [
        ("gemm_m", unknown),
        ("gemm_n", unknown),
        ("gemm_k", unknown),
        ("bytes", [None, None, None, 168_000_000]),
    ]
    grids = [("grid_x", [132, 30, 1, 1]), ("grid_y", [1, 4, 40, None]), ("grid_z", [1, 1, 3, None])]
    assert tables.for_people([*columns, *grids]) == [("problem", ["grid 132", "grid 30×4", "grid 1×40×3", "168 MB"])]
    assert tables.for_people(grids) == grids


def test_totals_are_of_all_rows_and_only_in_tables(tmp_path: Path) -> None:
    table = pa.table({"kernel": ["a", "b", "c"], "n": [1, 2, 3], "share_pct": [50.0, 30.0, 20.0], "min_ns": [1, 2, 3]})
    output = Output(path=tmp_path / "out", limit=1, totals=("n", "share_pct"))
    result = write(table.to_reader(), output)
    lines = (tmp_path / "out").read_text().splitlines()
    assert (result.shown, result.total) == (1, 3)
    assert lines[3].startswith("---")
    assert lines[2:3] + lines[4:] == ["a       1  50.0 %  1 ns", "all 3   6   100 %"]
    csv_output = Output("csv", tmp_path / "out", totals=("n",))
    write(table.to_reader(), csv_output)
    assert len((tmp_path / "out").read_text().splitlines()) == 4
    mixed = table.append_column("timing", pa.array(["timeline", "profiled", "timeline"]))
    assert "all" not in written(mixed, dataclasses.replace(output, path=None), tmp_path).decode()


def test_other_formats_are_exact_byte_for_byte(tmp_path: Path) -> None:
    table = pa.table({"total_ns": [1234567], "dtype": ["c10::Half"], "gemm_m": [1], "gemm_n": [2], "gemm_k": [3]})
    assert written(table, Output("csv"), tmp_path) == b"total_ns,dtype,gemm_m,gemm_n,gemm_k\n1234567,c10::Half,1,2,3\n"
    assert json.loads(written(table, Output("ndjson"), tmp_path)) == table.to_pylist()[0]


class TestColours:
    """On a terminal, and only there."""

    @pytest.fixture(autouse=True)
    def terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", "120")

    def lines(self, path: Path | None = None) -> list[str]:
        """A table with a verdict and shares."""
        columns = [("kernel", ["a\x1b[31m", "b"]), ("verdict", ["slower", "faster"]), ("share_pct", [60.0, 0.5])]
        return tables.render(columns, Output(path=path)).lines

    def test_words_and_shares_have_colours_and_foreign_escapes_none(self) -> None:
        head, _, first, second = self.lines()
        assert head.startswith("\x1b[1mkernel")
        assert "a\\x1b[31m" in first
        assert "\x1b[31mslower\x1b[0m" in first
        assert "\x1b[1m60.0 %\x1b[0m" in first
        assert "\x1b[32mfaster\x1b[0m" in second

    @pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
    def test_the_environment_can_switch_them_off(self, name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(name, value)
        assert "\x1b[" not in "".join(self.lines()).replace("a\\x1b[", "")

    def test_files_have_none(self, tmp_path: Path) -> None:
        assert "\x1b[" not in "".join(self.lines(tmp_path / "out.txt")).replace("a\\x1b[", "")

    @pytest.mark.parametrize("name", ["message", "meaning"])
    @pytest.mark.parametrize("width", [40, 80, 200])
    def test_sentences_that_have_no_room_stand_below_their_row(
        self, width: int, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("NO_COLOR", "1")
        text = " ".join(["one block keeps one multiprocessor busy"] * 8)
        columns = [("kernel", ["a", "b"]), (name, [text, "short"]), ("n", [1, 2])]
        lines, left_out = tables.render(columns, Output())
        first, second = (next(place for place, line in enumerate(lines) if line[0] == row) for row in "ab")
        assert " ".join(line.strip() for line in lines[first + 1 : second]) == text
        assert lines[second + 1 :] == ["  short"]
        assert max(map(len, lines)) <= width
        assert not left_out

    def test_the_width_is_that_of_columns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "33")
        assert tables.terminal_width() == 33


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
    shown = drawn([("a", ["漢字", "x"]), ("b", [1, 2])], None).lines
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
        with opened(path) as sink:
            sink.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


WRITING = {
    "report.html": "report step -o",
    "report.md": "report step -o",
    "plan.jsonl": "replay --write-plan",
    "rows.csv": "query 'FROM ops' -o",
    "rows.parquet": "query 'FROM ops' -o",
    "timeline.json": "db export --perfetto -o",
    "idle.svg": "analyze idle --plot",
}


@pytest.mark.parametrize("name", WRITING)
def test_a_full_disk_is_told_by_the_file_and_leaves_none(
    name: str, shared_database: Path, tmp_path: Path, full_disk: Any, runner: CliRunner
) -> None:
    path = tmp_path / name
    with full_disk(64):
        done = runner.invoke(cli, ["--db", str(shared_database), *shlex.split(WRITING[name]), str(path)])
    said = f"Error: {path}: File too large; make room there, and give the command again"
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (1, said)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_missing_is_told_by_the_file(tmp_path: Path) -> None:
    def tried() -> None:
        with opened(tmp_path / "no" / "out.csv"):
            raise AssertionError

    with pytest.raises(FileNotFoundError) as caught:
        tried()
    assert caught.value.filename == str(tmp_path / "no" / "out.csv")


def test_a_link_is_followed_and_devices_are_written_directly(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with opened(tmp_path / "link") as sink:
        sink.write(b"new")
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "link").is_symlink()
    with opened(Path("/dev/null")) as sink:
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


@pytest.mark.parametrize("words", [["--help"], ["top", "--help"]])
def test_help_on_a_full_disk_is_one_line(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "kerneldb", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "Error: output: No space left on device\n")


def test_a_column_without_values_goes_before_any_text_becomes_short() -> None:
    columns: list[tuple[str, list[Any]]] = [("kernel", ["a" * 30]), ("n", [1]), ("example", [None])]
    shown = drawn(columns, 35)
    assert (shown.lines[-1].split(), shown.left_out) == (["a" * 30, "1"], ["example"])
