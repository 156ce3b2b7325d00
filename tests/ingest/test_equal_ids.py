"""Ids that are all the same cost what other ones do: no step has more rows than what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from tests.fuzz import corpus, mutations
from tests.ingest import sizes
from tests.ingest.conversion import convert_file
from tests.ingest.traces import T0, Trace
from tests.rocprof import test_csv
from tests.rocprof.conversion import converted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ingest.conftest import Convert

ROWS = 1_000
PER_LAUNCH = 3
"""Rows of a step for each launch, at most; with a row for each pair there were ROWS."""
DATABASES = [name for name, one in corpus.FORMATS.items() if one.mutate is mutations.sqlite]


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What joins give: rows of the longer of both frames, and of the result."""
    seen: list[tuple[int, int]] = []
    join = pl.DataFrame.join

    def noting(one: pl.DataFrame, other: pl.DataFrame, *given: Any, **named: Any) -> pl.DataFrame:
        result = join(one, other, *given, **named)
        seen.append((max(one.height, other.height), result.height))
        return result

    monkeypatch.setattr(pl.DataFrame, "join", noting)
    return seen


def test_launches_of_one_correlation(convert: Convert, joined: list[tuple[int, int]]) -> None:
    """Each takes the call before it, as few of them do."""
    trace, ids = Trace(), {"External id": 1, "Sequence number": 1, "Fwd thread id": 0}
    for number in range(ROWS):
        begin = T0 + 10_000 * number
        trace.op("aten::mm", begin, 8_000, ids)
        trace.api("cudaLaunchKernel", begin + 1_000, 3_000, 1, {"External id": 1})
        trace.kernel("k", begin + 4_000, 5_000, 1, {"External id": 1})
    launches = convert(trace).launches
    assert launches["launch_start_ns"].to_list() == (launches["start_ns"] - 3_000).to_list()
    assert launches["op_id"].to_list() == list(range(ROWS))
    assert max(rows for _, rows in joined) <= PER_LAUNCH * ROWS


def test_counters_of_one_dispatch(tmp_path: Path, joined: list[tuple[int, int]]) -> None:
    counted = test_csv.COUNTED.format(dispatch=1, counter="SQ_WAVES", value="16", start=1000, end=1500)
    header, *kernels = test_csv.KERNELS_63.splitlines(keepends=True)
    for name, text in (
        ("x_kernel_trace.csv", header + kernels[0] * ROWS),
        ("x_agent_info.csv", test_csv.AGENTS),
        ("x_counter_collection.csv", test_csv.COUNTERS + counted * ROWS),
    ):
        (tmp_path / name).write_text(text)
    assert converted(tmp_path).launches.height == ROWS
    assert max(rows for _, rows in joined) <= PER_LAUNCH * ROWS


@pytest.mark.parametrize("kind", DATABASES)
def test_tables_that_repeat_their_rows(tmp_path: Path, kind: str, joined: list[tuple[int, int]]) -> None:
    ((name, content),) = corpus.FORMATS[kind].all()[0].items()
    (tmp_path / name).write_bytes(content)
    grown = sizes.resized(tmp_path / name, tmp_path / f"grown-{name}", sizes.tables(tmp_path / name), ROWS)
    assert convert_file(grown, tmp_path / "spool").launches.height >= ROWS
    assert [pair for pair in joined if pair[1] > PER_LAUNCH * max(pair[0], ROWS)] == []
