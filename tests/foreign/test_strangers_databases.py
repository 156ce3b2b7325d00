"""A database of a stranger: whatever it defines, kerneldb asks its own views and macros, or refuses the file."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

import duckdb
import pytest
from click.testing import CliRunner

from kerneldb.cli import cli
from kerneldb.errors import QueryError, WarehouseError, WarehouseLockedError, WarehouseVersionError
from kerneldb.warehouse import Warehouse, examined, session_of, strangers
from kerneldb.warehouse.place import Place
from tests.warehouse.conftest import empty_file, filled_file, migrated, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["empty_file", "filled_file", "migrated"]

TOTAL = "SELECT sum(total_ns)::BIGINT AS ns, sum(n)::BIGINT AS n FROM top_kernels()"
ENDLESS = "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT x FROM r"


@pytest.fixture
def stranger(filled_file: Path, tmp_path: Path) -> Path:
    """A copy that this user never opened."""
    return shutil.copy(filled_file, tmp_path / "stranger.duckdb")


def changed(path: Path, *statements: str) -> None:
    """Change the file as a stranger would, with DuckDB."""
    with duckdb.connect(str(path)) as con:
        for sql in statements:
            con.execute(sql)


@pytest.fixture(scope="module")
def right(filled_file: Path) -> object:
    """The answer over the rows that all of these files hold."""
    found = Warehouse.open(filled_file).query(TOTAL).to_pylist()
    Warehouse(filled_file).release()
    return found


FALSE = "CREATE OR REPLACE MACRO top_kernels(source := 'kernels') AS TABLE SELECT 1 AS total_ns, 1 AS n"
OTHER = "UPDATE schema_info SET value = 'other' WHERE key = 'objects_hash'"
FORGED = (
    "INSERT INTO schema_docs (object, kind, meaning, subject) "
    "VALUES ('x\"; DELETE FROM launches; --', 'view', '', 'core')"
)


def other_default(path: Path) -> str:
    """Only the default of an argument differs: no list of DuckDB shows it."""
    with duckdb.connect(str(path), read_only=True) as con:
        asked = "SELECT macro_definition FROM duckdb_functions() WHERE function_name = 'top_kernels'"
        (body,) = con.execute(asked).fetchone() or ("",)
    return f"CREATE OR REPLACE MACRO top_kernels(source := 'fewer') AS TABLE {body}"


@pytest.mark.parametrize("what", ["rows", "default", "hash"])
def test_other_views_and_macros_are_made_anew(stranger: Path, right: object, what: str) -> None:
    fewer = "CREATE VIEW fewer AS FROM kernels LIMIT 1"
    made = {
        "rows": [f"CREATE OR REPLACE VIEW device_peaks AS {ENDLESS}", FALSE],
        "default": [fewer, other_default(stranger)],
        "hash": [FALSE, OTHER, FORGED],
    }
    changed(stranger, *made[what])
    opened = Warehouse.open(stranger)
    assert opened.query(TOTAL).to_pylist() == right
    assert "gpu" in opened.query("FROM device_peaks").column_names
    assert strangers.is_known(strangers.look(stranger))


DIFFERING = {
    "a view with other rows": "CREATE OR REPLACE VIEW kernels AS SELECT 'one' AS trace",
    "a view of files": "CREATE OR REPLACE VIEW trace_overview AS SELECT 1 AS trace",
    "a macro without end": f"CREATE OR REPLACE MACRO _sums_by(sums, keys) AS TABLE {ENDLESS}",
    "another way to call it": "CREATE OR REPLACE MACRO top_kernels(source := 'kernels', b := 1) AS TABLE SELECT 1 AS n",
    "a macro that is missing": "DROP MACRO TABLE top_kernels",
    "a view that is missing": "DROP VIEW trace_overview",
    "a macro of values": "CREATE MACRO top_kernels(source) AS 1",
}
REFUSED = {
    "sum": "CREATE MACRO sum(x) AS 42",
    "capitals": 'CREATE MACRO "SUM"(x) AS 42',
    "capitals for a view": 'DROP VIEW kernels; CREATE TABLE "KERNELS" (a INT)',
    "plus": 'CREATE MACRO "+"(a, b) AS 42',
    "list of views": "CREATE MACRO duckdb_views() AS TABLE SELECT 'kernels' AS view_name",
    "list of macros": "CREATE MACRO duckdb_functions() AS TABLE SELECT 1 AS one",
    "view for version": f"ALTER TABLE schema_version RENAME TO sv; CREATE VIEW schema_version AS {ENDLESS}",
    "view for launches": "ALTER TABLE launches RENAME TO l; CREATE VIEW launches AS FROM l LIMIT 1",
    "table for a view": "CREATE TABLE k (trace INT); DROP VIEW kernels; ALTER TABLE k RENAME TO kernels",
    "generated": "DROP TABLE tensile_tokens; CREATE TABLE tensile_tokens (a INT, b INT GENERATED ALWAYS AS (a + 1))",
    "default": "ALTER TABLE traces ALTER label SET DEFAULT 'forged'",
    "sequence": "CREATE SEQUENCE s; ALTER TABLE traces ALTER label SET DEFAULT nextval('s')::VARCHAR",
    "check": "DROP TABLE tensile_tokens; CREATE TABLE tensile_tokens (a INT CHECK (a > 0))",
    "unique": "DROP TABLE tensile_tokens; CREATE TABLE tensile_tokens (a INT PRIMARY KEY)",
    "index": "CREATE INDEX i ON traces ((lower(name)))",
    "type": "CREATE TYPE mood AS ENUM ('a')",
    "more": "ALTER TABLE traces ADD COLUMN more INTEGER",
    "other type": "ALTER TABLE launches ALTER duration_ns TYPE VARCHAR",
    "less": "ALTER TABLE launches DROP duration_ns",
    "no version": "DELETE FROM schema_version",
    "absurd": "UPDATE schema_version SET version = -5",
    "far": "UPDATE schema_version SET version = 2147483647",
    "text": "ALTER TABLE schema_version ALTER version TYPE VARCHAR; UPDATE schema_version SET version = 'x'",
}
"""What cannot be mended: the rows of such files cannot be told from what stands in for them."""


@pytest.fixture(scope="module")
def open_file(filled_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """A file open for writing, whose changes are taken back after each test."""
    path = shutil.copy(filled_file, tmp_path_factory.mktemp("stranger") / "stranger.duckdb")
    with session_of(path).writing(30.0) as con:
        yield con


@contextlib.contextmanager
def for_now(con: duckdb.DuckDBPyConnection, statements: str) -> Iterator[Place]:
    con.begin()
    try:
        for sql in statements.split("; "):
            con.execute(sql)
        yield Place.of("stranger.duckdb")
    finally:
        con.rollback()


@pytest.mark.parametrize("what", DIFFERING)
def test_what_differs_is_found(open_file: duckdb.DuckDBPyConnection, what: str) -> None:
    assert examined(open_file, Place.of("stranger.duckdb"))[1]
    with for_now(open_file, DIFFERING[what]) as place:
        state, is_ours = examined(open_file, place)
        assert state.is_current
        assert not is_ours


if not duckdb.__version__.startswith("1."):  # where = is no function, and such a macro stands in for nothing
    REFUSED["equal"] = 'CREATE MACRO "="(a, b) AS true'


@pytest.mark.parametrize("what", REFUSED)
def test_what_stands_in_for_ours_is_refused(open_file: duckdb.DuckDBPyConnection, what: str) -> None:
    with for_now(open_file, REFUSED[what]) as place, pytest.raises(WarehouseVersionError, match=r"stranger\.duckdb"):
        examined(open_file, place)


@pytest.mark.parametrize("what", ["plus", "view for version"])
def test_commands_refuse_such_a_file_and_leave_it(stranger: Path, what: str) -> None:
    changed(stranger, *REFUSED[what].split("; "))
    content = stranger.read_bytes()
    for words in (["top"], ["query", "SELECT 1", "--write"], ["db", "migrate"]):
        done = CliRunner().invoke(cli, ["--db", str(stranger), *words])
        assert (done.exit_code, "was changed by something else" in done.stderr) == (3, True), done.output
    Warehouse(stranger).release()
    assert stranger.read_bytes() == content


@pytest.mark.skipif(duckdb.__version__.startswith("1."), reason="triggers came with DuckDB 2")
def test_triggers_are_refused(tmp_path: Path) -> None:
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{tmp_path}/t.duckdb' AS warehouse (STORAGE_VERSION 'v2.0.0')")
        con.execute("CREATE TABLE warehouse.main.traces (a INT); CREATE TABLE warehouse.main.launches (a INT)")
        con.execute("USE warehouse")
        con.execute("CREATE TRIGGER t AFTER INSERT ON traces FOR EACH STATEMENT DELETE FROM launches")
        with pytest.raises(WarehouseVersionError, match="trigger t"):
            strangers.require_usable(con, Place.of("t.duckdb"))


@pytest.mark.thorough
def test_an_older_file_is_migrated_without_its_views_and_macros(tmp_path: Path, migrated: Path) -> None:
    path = tmp_path / "old.duckdb"
    path.write_bytes(unpacked("kernels-0.1.0.duckdb.xz"))
    bad = "CREATE OR REPLACE MACRO _base_names(x) AS TABLE SELECT 1 AS y"
    changed(path, f"CREATE OR REPLACE VIEW kernels AS {ENDLESS}", bad)
    assert Warehouse.open(path).query(TOTAL).to_pylist() == Warehouse(migrated).query(TOTAL).to_pylist()


REACHING = {
    "file": "CREATE VIEW file AS FROM read_text('{secret}')",
    "table()": "CREATE MACRO \"table\"() AS TABLE FROM read_csv('{secret}')",
    "folder": "CREATE VIEW folder AS FROM glob('{folder}/*')",
    "named()": "CREATE MACRO named() AS TABLE FROM query_table('{secret}')",
    "home()": "CREATE MACRO home() AS TABLE SELECT getenv('HOME') AS home",
    "attached": "ATTACH '{folder}/other.duckdb' AS other; CREATE TABLE other.t AS SELECT 1 AS a; "
    "CREATE VIEW attached AS FROM other.main.t",
}


@pytest.mark.thorough
def test_what_a_stranger_adds_reaches_nothing(stranger: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\nsecret\n")
    stored = []
    for name, sql in REACHING.items():
        with contextlib.suppress(duckdb.Error):  # what this DuckDB does not store
            changed(stranger, *sql.format(secret=secret, folder=tmp_path).split("; "))
            stored.append(name)
    opened = Warehouse.open(stranger)
    assert {"file", "named()", "table()"} <= set(stored)
    for name in stored:
        for write in (False, True):
            with pytest.raises(QueryError):
                opened.query(f"FROM {name}", write=write)


def test_the_name_of_a_table_is_no_statement(stranger: Path, empty_file: Path, tmp_path: Path, right: object) -> None:
    """A table beside ours looks as if it held rows of traces; its name ends one statement and begins others."""
    mine = shutil.copy(empty_file, tmp_path / "mine.duckdb")
    Warehouse(mine).query("INSERT INTO annotations (signature_id, key, value) VALUES ('s', 'k', 'mine')", write=True)
    name = "a GROUP BY ALL; DELETE FROM warehouse.main.annotations; SELECT trace_id, count(*) FROM source.main.a"
    changed(stranger, "CREATE TABLE a (trace_id VARCHAR)", f'CREATE TABLE "{name}" (trace_id VARCHAR)')
    done = CliRunner().invoke(cli, ["--db", str(mine), "db", "lake", "pull", "--from", str(stranger)])
    assert done.exit_code == 0, done.output
    assert Warehouse(mine).query(TOTAL).to_pylist() == right
    assert Warehouse(mine).query("SELECT value FROM annotations WHERE key = 'k'").to_pylist() == [{"value": "mine"}]


LINKS = [".wal", ".wal.checkpoint", ".wal.recovery"]


def test_calls_that_are_no_calls_are_said(stranger: Path) -> None:
    changed(stranger, "UPDATE op_calls SET extra = 'none'")
    done = CliRunner().invoke(cli, ["--db", str(stranger), "replay", "--dry-run"])
    assert isinstance(done.exception, SystemExit)
    assert "damaged OpCall: extra: not JSON" in done.stderr


@pytest.mark.parametrize("ending", [*LINKS, ".replay", ".replay-plan.new", ".replay-plan.lock"])
def test_links_beside_a_database_are_not_written_through(stranger: Path, tmp_path: Path, ending: str) -> None:
    """A folder that was packed by others may hold links under the names of files that belong to a database."""
    yours = tmp_path / "yours"
    yours.write_text("a diary\n")
    link = stranger.with_name(f"{stranger.name}{ending}")
    link.symlink_to(yours)
    words = ["traces"] if ending in LINKS else ["replay", "--device", "cpu", "--no-energy"]
    done = CliRunner().invoke(cli, ["--db", str(stranger), *words])
    assert (done.exit_code, f"{link.name} is no file" in done.stderr) == (3, True), done.output
    assert yours.read_text() == "a diary\n"
    assert link.is_symlink()


def test_a_pipe_beside_a_database_is_not_waited_for(stranger: Path) -> None:
    os.mkfifo(stranger.with_name(f"{stranger.name}.wal"))
    with pytest.raises(WarehouseError, match="is no file"):
        Warehouse.open(stranger)


def test_what_is_not_ours_stays(stranger: Path, right: object) -> None:
    wide = ", ".join(f"{place} AS c{place}" for place in range(5_000))
    tables = "CREATE TABLE theirs.launches AS SELECT 1 AS a", f"CREATE TABLE wide AS SELECT {wide}"
    changed(stranger, "CREATE SCHEMA theirs", *tables)
    changed(stranger, "CREATE VIEW mine AS SELECT 2 AS two", "CREATE MACRO twice(x) AS 2 * x")
    opened = Warehouse.open(stranger)
    assert opened.query("SELECT twice(two) AS a FROM mine").to_pylist() == [{"a": 4}]
    assert opened.query(TOTAL).to_pylist() == right


def test_views_that_cannot_be_made_anew_are_not_asked(stranger: Path) -> None:
    changed(stranger, "CREATE OR REPLACE VIEW trace_overview AS SELECT 'false' AS trace")
    with session_of(stranger).reading(1.0), pytest.raises(WarehouseLockedError):
        Warehouse.open(stranger, 0.1)
    stranger.chmod(0o400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Warehouse, "_upgrade", _fails)
        with pytest.raises(WarehouseError, match="read-only"):
            Warehouse.open(stranger)


def _fails(*_: object, **__: object) -> None:
    raise WarehouseError("read-only")


def test_ours_are_known_as_ours(filled_file: Path, empty_file: Path, migrated: Path) -> None:
    for path in (filled_file, empty_file, migrated):
        with Warehouse(path).connection() as con:
            assert examined(con, Place.of(path))[1]


def test_a_file_is_checked_once(stranger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[object] = []
    whole = strangers.require_usable
    monkeypatch.setattr(strangers, "require_usable", lambda *given: (checks.append(given), whole(*given))[1])
    changed(stranger, f"CREATE TABLE of_{os.getpid()} (a INTEGER)")  # no other test has opened such a file
    for _ in range(3):
        Warehouse.open(stranger)
    Warehouse.open(stranger).rename("one", "uno")
    Warehouse.open(stranger).query("CREATE TABLE mine (a INTEGER)", write=True)
    Warehouse.open(stranger)
    assert len(checks) == 1
    Warehouse(stranger).release()
    changed(stranger, "CREATE TABLE theirs (a INTEGER)")
    Warehouse.open(stranger)
    assert len(checks) == 2


def test_a_copy_of_a_checked_file_is_known(stranger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its bytes: with one more table, or a write-ahead log beside it, it is checked."""
    changed(stranger, f"CREATE TABLE beside_{os.getpid()} (a INTEGER)")
    Warehouse.open(stranger).release()
    checks: list[object] = []
    whole = strangers.require_usable
    monkeypatch.setattr(strangers, "require_usable", lambda *given: (checks.append(given), whole(*given))[1])
    copy, other = (stranger.with_name(name) for name in ("copy.duckdb", "other.duckdb"))
    for path in (copy, other):
        shutil.copy(stranger, path)
    Warehouse.open(copy).release()
    assert checks == []
    changed(copy, "CREATE TABLE theirs (a INTEGER)")
    Warehouse.open(copy).release()
    assert len(checks) == 1
    assert strangers.is_known(strangers.content(other))
    other.with_name("other.duckdb.wal").touch()
    assert strangers.content(other) is None
