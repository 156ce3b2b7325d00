"""What a result gives to notebooks and to other libraries."""

from __future__ import annotations

import decimal
import sys

import pyarrow as pa
import pytest

from kerneldb.api.result import NOTEBOOK_ROWS, Result
from kerneldb.errors import UsageError


def of(**columns: pa.Array) -> Result:
    return Result(pa.table(columns))


def wide(*values: int) -> pa.Array:
    return pa.array([decimal.Decimal(value) for value in values], pa.decimal128(38, 0))


def test_sums_are_integers_where_they_fit() -> None:
    halves = pa.array([decimal.Decimal("0.5")], pa.decimal128(10, 2))
    result = of(fits=wide(2**62), huge=wide(2**63), halves=halves)
    kinds = [str(kind) for kind in result.to_arrow().schema.types]
    assert kinds == ["int64", "decimal128(38, 0)", "decimal128(10, 2)"]
    assert result.rows() == [{"fits": 2**62, "huge": decimal.Decimal(2**63), "halves": decimal.Decimal("0.5")}]


def test_a_notebook_shows_units_and_escaped_text() -> None:
    page = of(short_name=pa.array(["<img src=x>\x1b[31m", None]), total_ns=wide(1_500, 20))._repr_html_()
    assert "&lt;img src=x&gt;\\x1b[31m" in page
    assert "<img" not in page
    assert ">1.50 µs<" in page
    assert "more rows" not in page


def test_a_notebook_shows_the_first_rows_and_counts_the_others() -> None:
    page = of(n=pa.array(range(NOTEBOOK_ROWS + 1_234)))._repr_html_()
    assert page.count("<tr>") == 1 + NOTEBOOK_ROWS
    assert page.endswith("<p>1,234 more rows</p>")


def test_without_pandas_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    result = of(n=wide(1))
    with pytest.raises(ModuleNotFoundError, match="pip install pandas"):
        result.df()


def test_two_columns_of_one_name_are_told_where_only_one_could_be_kept() -> None:
    result = Result(pa.table([wide(1), wide(2), wide(3)], ["n", "m", "n"]))
    for way in (result.pl, result.rows):
        with pytest.raises(UsageError, match=r"named 'n'; .* n AS n_2"):
            way()
    assert result.arrow().column_names == ["n", "m", "n"]


def test_pandas_holds_two_columns_of_one_name() -> None:
    pytest.importorskip("pandas")
    assert list(Result(pa.table([wide(1), wide(2)], ["n", "n"])).df().columns) == ["n", "n"]


def test_pandas_has_the_rows() -> None:
    pandas = pytest.importorskip("pandas")
    frame = of(n=wide(1, 2)).df()
    pandas.testing.assert_frame_equal(frame, pandas.DataFrame({"n": [1, 2]}))


def test_integers_stay_integers_in_pandas() -> None:
    """Where some are NULL, too: 2^53 + 1 is no double."""
    pytest.importorskip("pandas")
    frame = of(n=pa.array([2**53 + 1, None], pa.int64()), u=pa.array([2**64 - 1, None], pa.uint64())).df()
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "UInt64"]
    assert [frame.n[0], frame.u[0]] == [2**53 + 1, 2**64 - 1]
