"""What the files of the schema say of their objects: read as it is written, and true."""

from __future__ import annotations

from pathlib import Path

import pytest

import kerneldb
from kerneldb.schemas import headers, loader
from kerneldb.schemas.headers import Argument, Column, Shared

MACRO = """\
-- Where the time went,
-- by device.
--
-- A note.
--
-- Another
-- one.
--
-- Arguments:
--   longest_ns: [ns] Gaps over this are
--     left out.
-- Columns:
--   trace, device: as in kernels
--   busy_ns BIGINT [ns]: Time in which
--     something ran: a union.
--   bins MAP(SMALLINT, BIGINT): Bins.
--   *: as in other, without a, b
-- Example:
--   FROM spent(longest_ns := 5)
--   LIMIT 3;
CREATE OR REPLACE MACRO spent(source := 'kernels', longest_ns := 2) AS TABLE
SELECT 1; -- no header: x
"""
TABLE = """\
-- One row per thing.
CREATE TABLE things (
    name VARCHAR NOT NULL,  -- What it is called, whether that
    -- is known or not.
    start_ns BIGINT,  -- [ns] Start.
    -- Why the next one is a list.
    parts VARCHAR[]  -- Its parts.
);

INSERT INTO things VALUES ('x', 1, NULL);
"""


def test_the_header_of_a_macro() -> None:
    found = headers.read(MACRO, "time")
    assert (found.name, found.kind, found.subject, found.is_internal) == ("spent", "macro", "time", False)
    assert (found.meaning, found.notes) == ("Where the time went, by device.", ("A note.", "Another one."))
    assert found.arguments == (
        Argument("source", "'kernels'", None, ""),
        Argument("longest_ns", "2", "ns", "Gaps over this are left out."),
    )
    assert found.columns == (
        Shared(("trace", "device"), "kernels"),
        Column("busy_ns", "BIGINT", "ns", "Time in which something ran: a union."),
        Column("bins", "MAP(SMALLINT, BIGINT)", None, "Bins."),
        Shared((), "other", ("a", "b")),
    )
    assert found.example == "FROM spent(longest_ns := 5)\nLIMIT 3;"


def test_the_columns_of_a_table() -> None:
    found = headers.read(TABLE, "core")
    assert found.columns == (
        Column("name", "VARCHAR", None, "What it is called, whether that is known or not.", needed=True),
        Column("start_ns", "BIGINT", "ns", "Start. Why the next one is a list."),
        Column("parts", "VARCHAR[]", None, "Its parts."),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1;", "makes no table, view or macro"),
        ("CREATE OR REPLACE VIEW v AS SELECT 1;", "schemas/core/v.sql: a comment above it must say what it is"),
        (
            "-- What.\n--\n-- Columns:\n--   start: when\nCREATE OR REPLACE VIEW v AS SELECT 1;",
            "schemas/core/v.sql: not a column: 'start: when'. Write `name TYPE",
        ),
    ],
)
def test_a_header_that_does_not_read(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        headers.read(text, "core")


@pytest.mark.parametrize(
    ("shared", "said"),
    [
        ("name: as in nosuch", "`name: as in nosuch`, but nosuch is no table, view or macro. Name an object"),
        ("*: as in nosuch", r"`\*: as in nosuch`, but nosuch is no table"),
        ("nosuch: as in things", "`nosuch: as in things`, but things has no column nosuch. Name an object"),
    ],
)
def test_columns_that_are_shared_with_nothing(shared: str, said: str) -> None:
    view = headers.read(f"-- What.\n-- Columns:\n--   {shared}\nCREATE OR REPLACE VIEW v AS SELECT 1;", "time")
    with pytest.raises(ValueError, match=f"^schemas/time/v.sql: {said}"):
        headers.columns_of({"v": view, "things": headers.read(TABLE, "core")}, "v")


def test_shared_columns_are_those_of_the_other_object() -> None:
    found = {column.name: column for column in headers.columns_of(loader.headers(), "kernels")}
    theirs = {column.name: column for column in headers.columns_of(loader.headers(), "all_launches")}
    assert theirs == found | {"is_primary": theirs["is_primary"]}
    assert found["start_ns"] in headers.columns_of(loader.headers(), "launches")


EXAMPLES = [header for header in loader.headers().values() if header.example is not None]


OF_CAPTURES = ("captured_calls", "graph_owners")
"""What is asked of the capture of a CUDA graph, which no database of 0.1.0 holds."""


OF_MORE = {"kernel_history": "tests/answers/test_history.py", "work_errors": "tests/counters/test_replayed.py"}
"""What is asked of many runs, or of counters of recorded kernels, and where it is asked of them."""


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """A database with the capture of a graph and launches of it."""
    path = tmp_path_factory.mktemp("captured") / "k.duckdb"
    kerneldb.open(path).ingest(root / "tests" / "fixtures" / "graph-capture-h100.json.gz")
    return path


@pytest.mark.parametrize("header", EXAMPLES, ids=lambda header: header.name)
def test_example(migrated: Path, captured: Path, header: headers.Header) -> None:
    """It runs on recordings of all profilers, and has an answer."""
    asked = captured if header.name in OF_CAPTURES else migrated
    rows = kerneldb.open(asked, create=False).sql(header.example).rows()
    assert bool(rows) != (header.name in OF_MORE)
