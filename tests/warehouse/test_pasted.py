"""What is pasted into statements: paths and names, which may hold anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from kerneldb.schemas import loader
from kerneldb.warehouse import session
from tests.answers.plain_traces import Recording

STORE = Path(loader.__file__).parent / "store"
NAMES: Final = (
    "two\nlines",
    "it's\n; SELECT error('reached') --",
    "g\nSELECT error('reached' || (SELECT count(*) FROM traces)); --",
    "g*/ SELECT error('reached') /*\r-- {names} {0} $trace ?",
)
"""Behind a comment all but the first line of them would be statements."""


def test_no_statement_that_is_filled_in_has_comments() -> None:
    files = sorted(file.stem for file in STORE.glob("*.sql"))
    found = [loader.statement(file, name) for file in files for name in loader.statement_names(file)]
    assert len(found) > 100
    assert not [text for text in found if "--" in text or "/*" in text]


def answers(folder: Path, names: tuple[str, str]) -> list[Any]:
    """What two traces of these names answer, of which only the first counts; names are told as 0, 1."""
    folder.mkdir()
    database = kerneldb.open(folder / "k.duckdb")
    for name, ns in zip(names, (5_000, 9_000), strict=True):
        recording = Recording()
        recording.kernel("first", 0, ns, call=-5_000)
        database.ingest(recording.write(folder / "made.json"), name=name)
    shadowed = "UPDATE traces SET is_primary = false WHERE name = $name"
    database.warehouse.query(shadowed, {"name": names[1]}, write=True)
    found = [
        database.diff(*names, where="duration_ns > 0").table.to_pylist(),
        database.diff_by(*names, "cause").rows(),
        database.top(traces=[names[1]], where="duration_ns > 0").rows(),
        database.top("trace", traces=names).rows(),
        database.critical_path(traces=[names[1]]).rows(),
    ]
    page = folder / "page.html"
    run = CliRunner().invoke(cli, ["--db", str(folder / "k.duckdb"), "report", names[1], "-o", str(page)])
    assert run.exit_code == 0, run.output
    assert "9.00 µs" in page.read_text()
    place = {name: number for number, name in enumerate(names)}
    return [[{key: place.get(value, value) for key, value in row.items()} for row in rows] for rows in found]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_no_statement(name: str, tmp_path: Path) -> None:
    assert answers(tmp_path / "odd", ("a", name)) == answers(tmp_path / "plain", ("a", "plain"))


@pytest.mark.parametrize("place", ["x\nCOPY (SELECT 42) TO $$reached.csv$$; --.duckdb", "it's\n--/k.duckdb"])
def test_a_path_is_no_statement(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    kerneldb.open(path).ingest(Recording().write(tmp_path / "made.json"))
    session.release_all()
    assert kerneldb.open(path, create=False).traces().rows()
    session.release_all()
    assert {one.name for one in tmp_path.iterdir()} == {"made.json", Path(place).parts[0]}
