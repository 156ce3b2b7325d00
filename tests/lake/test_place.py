"""What names a lake, what is said where one cannot be opened, and what the rest of kerneldb knows of lakes: nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from kerneldb.cli import cli
from kerneldb.errors import UsageError, WarehouseError
from kerneldb.schemas import loader
from kerneldb.warehouse import lakes
from kerneldb.warehouse.engine import store_errors
from kerneldb.warehouse.place import Place, masked

ONLY_OF_LAKES = (
    "kerneldb.warehouse.lakes",
    "kerneldb.warehouse.transfer",
    "kerneldb.warehouse.upkeep",
)
NEVER = ("ray", "boto3", "moto", "duckdb_extension_ducklake", "duckdb_extension_postgres_scanner")
NOT_IN_DUCKLAKE = (
    "PRIMARY KEY", "UNIQUE", r"CHECK\s*\(", "FOREIGN KEY", "REFERENCES", "CREATE SEQUENCE", "ENUM", "GENERATED",
    "CREATE INDEX", "RETURNING", "ON CONFLICT", r"CREATE TYPE", r"ALTER (COLUMN )?\w+ (SET DATA )?TYPE",
    "TIMESTAMPTZ", "WITH TIME ZONE",
)  # fmt: skip
"""What DuckLake refuses, and changes of types, after which it can merge no files (and gives up the process)."""


def test_files_and_lakes() -> None:
    assert Place.of("a/b.duckdb") == Place(Path("a/b.duckdb"))
    lake = Place.of("ducklake:postgres:postgresql://u:secret@db:5432/traces?sslmode=require")
    assert lake.uri == "ducklake:postgres:postgresql://u:secret@db:5432/traces?sslmode=require"
    assert (str(lake), lake.path.name) == (lake.uri.replace("secret", "***"), "traces.ducklake")
    assert Place.of("ducklake:sqlite:x/lake.sqlite").path == Path("x/lake.sqlite").absolute()
    assert Place.of(lake) is lake


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("dbname=a password=b host=c", "dbname=a password=*** host=c"),
        ("password = 'b c\\' d' host=c", "password = *** host=c"),
        ('Unable to connect at "host=a password=b"', 'Unable to connect at "host=a password=***'),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql://:b@h/d", "postgresql://:***@h/d"),
        ("postgresql://u:b@c@h/d", "postgresql://u:***@h/d"),
        ("postgresql://h/d?password=b&sslmode=c", "postgresql://h/d?password=***&sslmode=c"),
        ("ATTACH 'ducklake:postgres:password=''b c'' host=d'", "ATTACH 'ducklake:postgres:password=*** host=d'"),
    ],
)
def test_passwords_are_not_shown(text: str, shown: str) -> None:
    assert masked(text).startswith(shown)


@pytest.mark.parametrize("text", ["ducklake:lake.duckdb", "ducklake:mysql:db=x", "ducklake:sqlite:"])
def test_other_catalogs_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="ducklake:postgres:"):
        Place.of(text)


def test_missing_extension_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nowhere(con: object, name: str) -> None:
        raise lakes.no_extension(name)

    monkeypatch.setattr(lakes, "load_extension", nowhere)
    (tmp_path / "lake.sqlite").touch()
    done = CliRunner().invoke(cli, ["--db", f"ducklake:sqlite:{tmp_path / 'lake.sqlite'}", "traces"])
    assert done.exit_code == WarehouseError.exit_code
    assert "pip install 'kerneldb[lake-offline]'" in done.stderr
    assert "INSTALL ducklake" in done.stderr


def test_missing_lake_says_how_to_make_it(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["--db", f"ducklake:sqlite:{tmp_path / 'lake.sqlite'}", "ingest", str(tmp_path)])
    assert done.exit_code == WarehouseError.exit_code
    assert "init --data" in done.stderr
    assert not (tmp_path / "lake.sqlite").exists()


def test_init_of_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "k.duckdb")
    assert CliRunner().invoke(cli, ["--db", path, "db", "init"]).exit_code == 0
    assert CliRunner().invoke(cli, ["--db", path, "traces", "--json"]).stdout.strip() == "[]"
    assert "schema" in CliRunner().invoke(cli, ["--db", path, "db", "migrate"]).stderr
    for arguments in (["db", "init", "--data", "x"], ["db", "lake", "compact"]):
        done = CliRunner().invoke(cli, ["--db", path, *arguments])
        assert (done.exit_code, "file" in done.stderr) == (2, True)


@pytest.mark.parametrize("word", NOT_IN_DUCKLAKE)
def test_migrations_use_what_lakes_take(word: str) -> None:
    for step in (loader.tables(), *loader.migrations()):
        sql = re.sub(r"--[^\n]*", "", step.sql)
        assert re.search(rf"\b{word}", sql, re.IGNORECASE) is None, step.name


def test_tables_have_a_column_that_is_never_null() -> None:
    """The row that `init` puts into a new table and takes out again is told by it."""
    for step in (loader.tables(), *loader.migrations()):
        for table in re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+ \(.*?\));", step.sql, re.DOTALL):
            name = table.partition(" ")[0]
            assert "NOT NULL" in table or name == "power_samples", name


def test_nothing_of_lakes_is_imported_by_others(tmp_path: Path, root: Path) -> None:
    trace = root / "tests" / "fixtures" / "compiled-graph-h200.json.gz"
    program = f"""
import sys
from click.testing import CliRunner
from kerneldb.cli import cli
for arguments in (["ingest", {str(trace)!r}], ["top"], ["traces"], ["query", "FROM kernels LIMIT 1"]):
    done = CliRunner().invoke(cli, ["--db", {str(tmp_path / "k.duckdb")!r}, *arguments])
    assert done.exit_code == 0, done.output
print(*sorted(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "kerneldb.warehouse.place" in loaded
    assert loaded.isdisjoint((*ONLY_OF_LAKES, *NEVER))


def test_what_a_lake_failed_to_write_is_blamed_on_the_disk(tmp_path: Path) -> None:
    said = duckdb.TransactionException("Failed to commit: cannot rollback - no transaction is active")
    for folder, found in ((tmp_path / "gone", "gone: cannot be written"), (tmp_path, "lake.sqlite: Failed to commit")):
        place = Place.of(f"ducklake:sqlite:{folder}/lake.sqlite")
        with pytest.raises(WarehouseError, match=found), store_errors(place):
            raise said
    assert list(tmp_path.iterdir()) == []
