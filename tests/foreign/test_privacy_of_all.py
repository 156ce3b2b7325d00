"""Secrets planted where profilers keep who ran what, and where: none is stored, but for what docs/security.md names."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from kerneldb.warehouse import Warehouse
from tests.fuzz.corpus import FORMATS
from tests.perfetto.traces import packet
from tests.protobuf import message

SECRET: Final = "hunter2-s3cret"  # noqa: S105
PRIVATE: Final = re.compile(
    r"env|cmd|command|argv?s?$|user|login|account|host|machine|cwd|work.?dir|working|home|passw|token|secret|key$", re.I
)
"""Names of columns, keys and settings that may hold such a thing."""
TABLES: Final = re.compile(
    r"TARGET_INFO|META_DATA|PROCESSES|ProcessStreams|SYSTEM|rocpd_info_(process|node)|rocpd_metadata|rpd_"
)
HOST: Final = {("traces", "host")}
"""What is stored on purpose: the name of the machine, by which the runs of several are told apart."""
SQLITE: Final = (
    "nsys/lighttransport_gemm.sqlite", "rocprof/synthetic_merged_2proc.db", "rocprof/synthetic_gfx1151_full.db",
    "rocprof/synthetic_gfx1151_schema410.db", "rocprof/rpd_matmul_result.rpd",
)  # fmt: skip
PRINTED: Final = ("ncu/mojo_profile.ncu2024.2.raw.auto.csv", "ncu/mojo_profile.ncu2024.2.details.auto.csv")


def planted_in_sqlite(path: Path) -> int:
    """Put the secret behind texts of private columns, and of settings with private names; how many."""
    count = 0
    with contextlib.closing(sqlite3.connect(path)) as con:
        tables = [row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in filter(TABLES.search, tables):
            columns = [row[1] for row in con.execute(f'PRAGMA table_info("{table}")')]
            for column in filter(PRIVATE.search, columns):
                sql = f'UPDATE "{table}" SET "{column}" = "{column}" || ? WHERE typeof("{column}") = \'text\''
                count += con.execute(sql, [SECRET]).rowcount
            name = next((one for one in ("name", "tag") if one in columns), None)
            if name and "value" in columns:
                with contextlib.suppress(sqlite3.IntegrityError):  # a table with further columns to fill
                    con.execute(f'INSERT INTO "{table}" ("{name}", "value") VALUES (\'USER_NAME\', ?)', [SECRET])
                rows = con.execute(f'SELECT rowid, "{name}" FROM "{table}"').fetchall()
                hidden = [(SECRET, row) for row, key in rows if PRIVATE.search(str(key))]
                con.executemany(f'UPDATE "{table}" SET value = value || ? WHERE rowid = ?', hidden)
                count += len(hidden)
        con.commit()
    return count


def planted_in_csv(path: Path) -> int:
    """Put the secret into the columns of processes and hosts."""
    text = path.read_text(encoding="utf-8")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    head = next(row for row in rows if "Process Name" in row)
    places = [place for place, name in enumerate(head) if name in {"Process Name", "Host Name"}]
    start = rows.index(head) + 1
    for row in rows[start:]:
        for place in places:
            if len(row) == len(head) and row[place]:
                row[place] += SECRET
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    return len(rows) - start


BESIDE: Final[dict[str, Any]] = {
    "command": f"train {SECRET}", "environment": {"HF_TOKEN": SECRET}, "env": [f"A={SECRET}"], "argv": ["x", SECRET],
    "hostname": SECRET, "cwd": f"/home/{SECRET}", "username": SECRET, "api_key": SECRET,
}  # fmt: skip
JSON: Final = ("bundle", "rocprof-json", "rocprof-v1-json", "xla-json", "proton")
HELD: Final = (message((1, message((1, 7), (2, 1), (3, SECRET)))), message((1, 7), (3, message((1, 7), (2, SECRET)))))
"""Of Perfetto: a process_tree and a track_descriptor with command lines."""


def planted_in_json(value: Any) -> Any:
    """The same with private keys in all objects, but for the tags of a recording, which are its user's."""
    if isinstance(value, list):
        return [planted_in_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: one if key == "tags" else planted_in_json(one) for key, one in value.items()} | BESIDE


def plant_small(folder: Path) -> list[Path]:
    """Write samples of the formats that are JSON or protobuf with secrets; what is to be read."""
    given = []
    for name in JSON:
        for number, sample in enumerate(FORMATS[name].all()):
            for file, content in sample.items():
                is_json = file.endswith((".json", ".hatchet", ".chrome_trace"))
                place = folder / f"{name}-{number}" / file
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(json.dumps(planted_in_json(json.loads(content))).encode() if is_json else content)
            given.append(folder / f"{name}-{number}")
    for name, more in (
        ("perfetto", packet((2, HELD[0])) + packet((60, HELD[1]))),
        ("xplane", message((2, SECRET), (3, SECRET), (4, SECRET))),
    ):
        ((file, content),) = FORMATS[name].all()[0].items()
        (folder / file).write_bytes(content + more)
        given.append(folder / file)
    return given


def found(path: Path) -> set[tuple[str, str]]:
    """Table and column of every text with the secret."""
    leaks = set()
    with duckdb.connect(str(path), read_only=True) as con:
        for (table,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            names = [column[0] for column in con.execute(f'FROM "{table}" LIMIT 0').description]
            sql = f'SELECT count_if(contains(COLUMNS(*)::VARCHAR, ?)) FROM "{table}"'
            counts = con.execute(sql, [SECRET]).fetchall()[0]
            leaks |= {(table, name) for name, count in zip(names, counts, strict=True) if count}
    return leaks


@pytest.fixture(scope="module")
def kept(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of all samples with secrets."""
    folder = tmp_path_factory.mktemp("private") / "traces"
    folder.mkdir()
    for name in (*SQLITE, *PRINTED):
        copy = Path(shutil.copyfile(shared_data / name, folder / Path(name).name))
        assert (planted_in_csv if name in PRINTED else planted_in_sqlite)(copy) > 0, name
    path = folder.parent / "k.duckdb"
    with kerneldb.open(path) as database:
        for file in (*sorted(folder.iterdir()), *plant_small(folder.parent / "small")):
            database.ingest(file)
    Warehouse(path).release()
    return path


@pytest.mark.thorough(alone=True)
def test_no_column_holds_a_secret(kept: Path) -> None:
    assert found(kept) <= HOST
    with duckdb.connect(str(kept), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM traces").fetchone() >= (len(SQLITE) + len(JSON) + 2,)


@pytest.mark.thorough(alone=True)
def test_what_is_written_holds_none_either(kept: Path, tmp_path: Path) -> None:
    def written(*words: str) -> Any:
        done = CliRunner().invoke(cli, ["--db", str(kept), *words])
        assert done.exit_code == 0, done.output
        return done.output

    with kerneldb.open(kept, create=False) as database:
        (name, *_) = [row["trace"] for row in database.traces().rows() if row["launches"]]
    outputs = [
        written("report", name, "--format", "md"), written("traces", "--report"), written("db", "export", "--csv"),
        written("db", "export", "--perfetto", "--trace", name),
        written("replay", "--write-plan", str(tmp_path / "plan")),
        (tmp_path / "plan").read_text(encoding="utf-8"),
    ]  # fmt: skip
    assert [place for place, text in enumerate(outputs) if SECRET in text] == []
