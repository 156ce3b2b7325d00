"""Damages files that kerneldb itself writes: databases, plans and journals of replays."""

from __future__ import annotations

import atexit
import functools
import random
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from kerneldb.warehouse import session
from tests.fuzz import mutations
from tests.ingest.traces import everything, kineto
from tests.replay_host import test_damaged_files as replay

if TYPE_CHECKING:
    from collections.abc import Callable

Problem = tuple[str, str] | None
READS: Final = (
    ("traces",), ("top",), ("show", "trace"), ("query", "FROM kernels", "--json"),
    ("query", "FROM gpu_time()", "--json"),
)  # fmt: skip
ODD: Final = ("NULL", "-1", "9223372036854775807", "1e308", "''", "'a' || chr(0) || 'b'", "repeat('x', 100000)")
REFUSED: Final = range(1, 6)
"""Exit codes that an error on purpose has."""


@functools.cache
def healthy() -> replay.Healthy:
    """A database, a plan and a journal."""
    folder = tempfile.mkdtemp(prefix="fuzz-healthy-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return replay.make_healthy(Path(folder))


@functools.cache
def filled() -> bytes:
    """A database with a trace."""
    with tempfile.TemporaryDirectory(prefix="fuzz-filled-") as folder:
        trace, path = Path(folder, "trace.json"), Path(folder, "k.duckdb")
        trace.write_text(kineto(everything()), encoding="utf-8")
        kerneldb.open(path).ingest(trace)
        session.release_all()
        return path.read_bytes()


def _changed(dice: random.Random, path: Path) -> None:
    """A database of which a value, a column, a table or a view is another one."""
    con = duckdb.connect(str(path))
    tables = [name for (name,) in con.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()]
    views = [
        name for (name,) in con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1").fetchall()
    ]
    table, view = dice.choice(tables), dice.choice(views)
    columns = con.execute(
        "SELECT column_name FROM duckdb_columns() WHERE table_name = ? ORDER BY 1", [table]
    ).fetchall()
    column = dice.choice(columns)[0]
    statement = dice.choice(
        (
            f'UPDATE "{table}" SET "{column}" = {dice.choice(ODD)}',
            f'UPDATE "{table}" SET "{column}" = TRY_CAST({dice.choice(ODD)} AS BIGINT)',
            f'DELETE FROM "{table}"',
            f'INSERT INTO "{table}" SELECT * FROM "{table}"',
            f'DROP TABLE "{table}" CASCADE',
            f'ALTER TABLE "{table}" DROP COLUMN "{column}"',
            f'DROP VIEW "{view}"',
            f'CREATE OR REPLACE VIEW "{view}" AS SELECT 1 AS one',
            f"UPDATE schema_version SET version = {dice.choice(('-1', '0', '5', '99', '2147483647', 'NULL'))}",
        )
    )
    try:
        con.execute(statement)
    except duckdb.Error:  # a type, a constraint, or what depends on it
        con.execute(f'DELETE FROM "{table}"')
    con.close()


def _run(folder: Path, *words: object) -> Problem:
    """Whether a command ends well, or in a message."""
    result = CliRunner().invoke(cli, ["--db", str(folder / "k.duckdb"), *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return "ends in a traceback", f"{words}: {mutations.traced(result.exception)}"
    if result.exit_code == 0:
        return None
    if result.exit_code not in REFUSED or "report it" in result.stderr or "INTERNAL" in result.stderr:
        return "refused in another way", f"{words}: exit {result.exit_code}: {result.stderr[-2_000:]}"
    return None


def database(dice: random.Random, folder: Path) -> Problem:
    """A database of others, or a damaged one, is read, written or refused."""
    path = folder / "k.duckdb"
    path.write_bytes(filled())
    if dice.random() < 0.7:
        for _ in range(dice.choice((1, 1, 3))):
            _changed(dice, path)
    else:
        path.write_bytes(mutations.some_bytes(dice, path.read_bytes()))
    trace = folder / "other.json"
    trace.write_text(kineto(everything()).replace("gemm", "gemv"), encoding="utf-8")
    for words in (*READS, ("ingest", trace)):
        problem = _run(folder, *words)
        if problem is not None:
            return problem
    return None


def _replay(dice: random.Random, folder: Path, *, of_plan: bool) -> Problem:
    it = healthy()
    shutil.copyfile(it.database, folder / "k.duckdb")
    change = functools.partial(replay.damaged, seed=dice.randrange(1 << 40))
    (folder / "p").write_bytes(change(it.plan) if of_plan else it.plan)
    (folder / "j").write_bytes(it.journal if of_plan else change(it.journal))
    found = _run(folder, "replay", "--write-plan", folder / "p", "--read-journal", folder / "j", "--json")
    return found or _run(folder, "query", "FROM replays", "--json")


OURS: Final[dict[str, Callable[[random.Random, Path], Any]]] = {
    "database": database,
    "plan": functools.partial(_replay, of_plan=True),
    "journal": functools.partial(_replay, of_plan=False),
}
