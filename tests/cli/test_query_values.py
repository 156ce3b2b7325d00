"""Values that Arrow cannot carry: `kerneldb query` and the screen SQL say them as the engine does."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kerneldb.cli import cli
from kerneldb.cli import query as command
from kerneldb.tui.screens.sql import SqlEditor
from kerneldb.tui.widgets.table import Table
from kerneldb.warehouse import Warehouse
from tests.tui.piloting import opened, press

if TYPE_CHECKING:
    from pathlib import Path

VALUES = {
    "340282366920938463463374607431768211455::UHUGEINT": "340282366920938463463374607431768211455",
    "BIT '10101'": "10101",
    "TIME '24:00:00'": "24:00:00",
    "TIMETZ '12:00:00+02'": "12:00:00+02",
}
NESTED = {
    "MAP {['k']: 1}": {"['k']": 1},
    "[MAP {{'a': 1}: DATE 'infinity'}]": [{"{'a': 1}": "infinity"}],
}
DEEP = 90
"""Levels that Arrow does not take."""
QUERY = f"SELECT {', '.join(f'{value} AS v{place}' for place, value in enumerate(VALUES))}"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return Warehouse.create_or_open(tmp_path / "k.duckdb").path


@pytest.mark.parametrize("layout", ["table", "csv", "json", "ndjson"])
def test_the_command_prints_them(database: Path, layout: str) -> None:
    result = CliRunner().invoke(cli, ["--db", str(database), "query", QUERY, "--format", layout])
    assert result.exit_code == 0, result.output
    line = next(line for line in result.stdout.splitlines()[::-1] if line != "]")
    if layout in {"json", "ndjson"}:
        assert list(json.loads(line).values()) == list(VALUES.values())
    else:
        assert line.replace(",", " ").split() == list(VALUES.values())


@pytest.mark.parametrize("value", NESTED)
def test_maps_with_keys_that_python_cannot_hold_are_printed(database: Path, value: str) -> None:
    result = CliRunner().invoke(cli, ["--db", str(database), "query", f"SELECT {value} AS v", "--format", "ndjson"])
    assert json.loads(result.stdout) == {"v": NESTED[value]}


def test_values_deeper_than_arrow_takes_are_texts_inside(database: Path) -> None:
    value = "MAP {1: " * DEEP + "7" + "}" * DEEP
    result = CliRunner().invoke(cli, ["--db", str(database), "query", f"SELECT {value} AS v", "--format", "ndjson"])
    found = json.loads(result.stdout)["v"]
    while isinstance(found, dict):
        (found,) = found.values()
    assert found.endswith("=7" + "}" * found.count("}"))


def test_the_screen_shows_and_exports_them(database: Path, tmp_path: Path) -> None:
    async def flow() -> None:
        async with opened(database, first="sql", size=(160, 30)) as (app, pilot):
            app.pane.query_one(SqlEditor).load_text(QUERY)
            await press(pilot, "ctrl+j")
            row: dict[str, Any] = app.pane.query_one(Table).row or {}
            assert list(row.values()) == list(VALUES.values())
            await app.pane.export(tmp_path / "x.csv")
            assert (tmp_path / "x.csv").read_text().splitlines()[-1] == ",".join(VALUES.values())

    asyncio.run(flow())


def test_without_sql_a_terminal_gets_the_editor(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_at: list[tuple[object, ...]] = []
    monkeypatch.setattr(command, "browse", lambda *given: opened_at.append(given))
    done = runner.invoke(cli, ["query"])
    assert (done.exit_code, "give the SQL" in done.stderr, opened_at) == (2, True, [])
    monkeypatch.setattr(command, "on_terminal", lambda: True)
    assert runner.invoke(cli, ["query", "--where", "op = 'aten::mm'"]).exit_code == 0
    assert opened_at == [((), "op = 'aten::mm'", "sql")]
