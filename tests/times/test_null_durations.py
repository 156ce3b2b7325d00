"""Launches without a duration break nothing that asks a database."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from tests.conftest import SHARED_DATA, made_once
from tests.ingest.traces import T0, Trace, kineto
from tests.times.inputs import LONG_NS

HOSTILE = SHARED_DATA.parent / "field" / "hostile"
FILES = ("duration-5e15.json", "negative-duration.json", "negative-duration-nsys.sqlite", "negative_kernel_trace.csv")
COMMANDS = (
    "top",
    "top --by category",
    "top --by op",
    "query FROM~kernels",
    "show {signature}",
    "traces",
    "traces {trace} --report",
    "analyze idle",
    "analyze idle --gaps",
    "analyze overlap",
    "analyze roofline",
    "analyze phases",
    "analyze iterations",
    "analyze overhead",
    "analyze fusion",
    "analyze conversions",
    "analyze collectives",
    "analyze collectives --waits",
    "analyze stragglers",
    "ncu coverage",
    "ncu bounds",
    "ncu command --trace mixed",
    "diff {trace} mixed",
    "diff mixed {trace}",
    "report {trace} --output {folder}/report.html",
    "db export -o {folder}/kernels.parquet",
    "db export --perfetto --trace {trace} -o {folder}/perfetto.json",
    "db doctor",
    "db doctor {trace}",
    "replay --dry-run",
)


def mixed() -> Trace:
    """Three iterations in which any second launch of a kernel, and of a collective, has a bad duration."""
    trace = Trace()
    nccl = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 4, "Group size": 2, "Seq": 1}
    for number in range(12):
        at = T0 + 1_000_000 * number
        took = (5_000, -5_000, 6_000, LONG_NS)[number % 4]
        args = {"External id": 100 + number, "Input Dims": [[8, 8], [8, 8]], "Input type": ["float", "float"]}
        trace.op("aten::mm", at, 300_000, args)
        trace.api("cudaLaunchKernel", at + 100, 3_000, 2 * number + 1)
        trace.kernel("gemm", at + 20_000, took, 2 * number + 1)
        trace.api("cudaLaunchKernel", at + 4_000, took, 2 * number + 2)
        trace.kernel("ncclDevKernel_AllReduce", at + 60_000, took, 2 * number + 2, nccl)
    return trace


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hostile files, as far as they are there, beside a trace that is made here."""

    def make(path: Path) -> None:
        file = tmp_path_factory.mktemp("mixed") / "mixed.json"
        file.write_text(kineto(mixed()), encoding="utf-8")
        hostile = [HOSTILE / name for name in FILES if (HOSTILE / name).exists()]
        kerneldb.open(path).ingest([file, *hostile])

    return made_once(tmp_path_factory, "null-durations.duckdb", make)


@pytest.mark.thorough
def test_every_view_and_macro(database: Path) -> None:
    with duckdb.connect(database, read_only=True) as con:
        views = [name for (name,) in con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()]
        macros = con.execute(
            "SELECT function_name FROM duckdb_functions() WHERE function_type = 'table_macro' AND NOT internal "
            "AND parameters = ['source'] AND NOT starts_with(function_name, '_') "
            "AND database_name NOT IN ('system', 'temp')"
        ).fetchall()
        assert len(views) > 30
        assert len(macros) > 15
        for name in views:
            con.execute(f'SELECT * FROM "{name}"').fetchall()
        for (name,) in macros:
            con.execute(f"FROM {name}('kernels')").fetchall()


@pytest.fixture(scope="module")
def named(database: Path) -> tuple[str, str]:
    """A trace with such launches, and a signature of it."""
    sql = (
        "SELECT trace, signature_id FROM kernels WHERE duration_ns IS NULL "
        "ORDER BY trace = 'mixed', trace, signature_id LIMIT 1"
    )
    (found,) = kerneldb.open(database).sql(sql)
    return found["trace"], found["signature_id"]


@pytest.mark.thorough
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command(database: Path, named: tuple[str, str], tmp_path: Path, command: str) -> None:
    trace, signature = named
    words = [
        word.replace("~", " ").format(trace=trace, signature=signature, folder=tmp_path) for word in command.split()
    ]
    if trace == "mixed" and words[:1] == ["diff"]:
        pytest.skip(f"no second trace: {HOSTILE} is not there")
    if words == ["db", "doctor", "mixed"]:
        pytest.skip("its file is gone")
    done = CliRunner().invoke(cli, ["--db", str(database), *words])
    assert (done.exit_code, done.exception) == (0, None), done.output


@pytest.mark.parametrize(("name", "n"), dict(zip(FILES, (3, 3, 9, 9), strict=True)).items())
def test_files_of_the_field(tmp_path: Path, name: str, n: int) -> None:
    if not (HOSTILE / name).exists():
        pytest.skip(f"no {HOSTILE / name}")
    done = CliRunner().invoke(cli, ["--db", str(tmp_path / "k.duckdb"), "ingest", str(HOSTILE / name)])
    assert done.exit_code == 0
    why = "longer than 7 days" if "5e15" in name else "with a negative duration"
    assert f"refused {n}: launch {why}" in done.stderr
    told = CliRunner().invoke(cli, ["db", "doctor", str(HOSTILE / name)])
    assert f"{n} × launch {why}" in " ".join(told.output.split())
    with duckdb.connect(tmp_path / "k.duckdb") as con:
        assert con.execute("SELECT max(window_end_ns - window_start_ns) < 1e9 FROM traces").fetchone() == (True,)
