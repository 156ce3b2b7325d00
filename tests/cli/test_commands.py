"""The commands end to end, on a database with one small trace."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import kerneldb
from kerneldb.cli import cli
from kerneldb.cli.console import progress_line
from kerneldb.cli.top import GROUPS, ORDERS
from kerneldb.ingest.pytorch import native
from tests.cli.test_working import said_on_a_terminal

GOLDEN = Path(__file__).parent / "golden"
FIXED = "SELECT 1 AS n, 'a, b' AS text, [1, 2] AS dims, NULL::INTEGER AS nothing, 1234567 AS duration_ns"


def call(database: Path, *arguments: str, exit_code: int = 0, text: str | None = None) -> Result:
    """Run a command and check its exit code."""
    done = CliRunner().invoke(cli, ["--db", str(database), *arguments], input=text)
    assert done.exit_code == exit_code, done.output
    return done


def objects(done: Result) -> list[dict[str, Any]]:
    """The JSON rows of a command."""
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    command = [sys.executable, "-m", "kerneldb", *arguments]
    return subprocess.run(command, capture_output=True, text=True, input=text, check=False)


class TestIngest:
    def test_outcomes_on_stdout_and_summaries_on_stderr(self, small_trace: Path, tmp_path: Path) -> None:
        done = call(tmp_path / "new.duckdb", "ingest", str(small_trace), "--json")
        (row,) = objects(done)
        assert row["status"] == "ingested"
        assert row["launches"] > 0
        assert row["error"] is None
        assert row["trace"] in done.stderr
        assert re.search(r" in \d+\.\d s", done.stderr)

    def test_twice_is_once(self, shared_database: Path, small_trace: Path, tmp_path: Path) -> None:
        before = shared_database.read_bytes()
        copy = shutil.copy(small_trace, tmp_path / "other-name.json.gz")
        (row,) = objects(call(shared_database, "ingest", str(copy), "--json"))
        assert (row["status"], row["trace"]) == ("unchanged", "step")
        assert shared_database.read_bytes() == before

    def test_replace_keeps_name_and_notes(self, database: Path, small_trace: Path) -> None:
        (row,) = objects(call(database, "ingest", str(small_trace), "--replace", "--json"))
        assert (row["status"], row["trace"]) == ("replaced", "step")
        (trace,) = objects(call(database, "traces", "--json"))
        assert trace["tags"] == {"precision": "bf16"}

    def test_failures_exit_1_and_the_rest_goes_on(self, small_trace: Path, tmp_path: Path) -> None:
        page = tmp_path / "page.json"
        page.write_text("<html></html>")
        done = call(tmp_path / "k.duckdb", "ingest", str(page), str(small_trace), "--csv", exit_code=1)
        statuses = [row["status"] for row in csv.DictReader(io.StringIO(done.stdout))]
        assert statuses == ["failed", "ingested"]
        assert "HTML" in done.stderr

    def test_only_failures_make_no_database(self, tmp_path: Path) -> None:
        empty = tmp_path / "empty.json"
        empty.touch()
        done = call(tmp_path / "k.duckdb", "ingest", str(empty), exit_code=1)
        rows = [line for line in done.stdout.splitlines() if "empty.json" in line]
        assert (len(rows), done.stderr.count("Error: ")) == (1, 1)
        assert "error" not in done.stdout.splitlines()[0]
        assert [path.name for path in tmp_path.iterdir()] == ["empty.json"]

    def test_quiet_says_nothing(self, small_trace: Path, tmp_path: Path) -> None:
        done = call(tmp_path / "k.duckdb", "ingest", "-q", str(small_trace))
        assert (done.stdout, done.stderr) == ("", "")

    def test_quiet_says_what_a_trace_lost(self, small_trace: Path, tmp_path: Path) -> None:
        cut = tmp_path / "cut.json"
        cut.write_bytes(small_trace.read_bytes()[:-40])
        done = call(tmp_path / "k.duckdb", "ingest", "-q", str(cut))
        assert done.stdout == ""
        assert "truncated 1: " in done.stderr

    def test_a_database_alone_is_no_command(self, tmp_path: Path) -> None:
        done = call(tmp_path / "k.duckdb", exit_code=2)
        assert f"`kerneldb {tmp_path / 'k.duckdb'}` shows what the database says" in done.stderr

    def test_options_reach_the_trace(self, small_trace: Path, tmp_path: Path) -> None:
        options = ["--label", "my step", "--phase", "train", "--name", "n", "--run", "r", "--set", "batch=8"]
        call(tmp_path / "k.duckdb", "ingest", str(small_trace), *options)
        (trace,) = objects(call(tmp_path / "k.duckdb", "traces", "--json"))
        told = {key: trace[key] for key in ("trace", "label", "run", "default_phase", "tags")}
        assert told == {"trace": "n", "label": "my step", "run": "r", "default_phase": "train", "tags": {"batch": "8"}}

    def test_a_file_that_is_no_database_exits_3(self, small_trace: Path, tmp_path: Path) -> None:
        (tmp_path / "k.duckdb").write_text("not a database, but long enough to be looked at" * 100)
        done = call(tmp_path / "k.duckdb", "ingest", str(small_trace), exit_code=3)
        assert "not a DuckDB database" in done.stderr

    def test_a_locked_database_exits_3_and_names_the_holder(self, database: Path, small_trace: Path) -> None:
        script = (
            f"import duckdb, sys; c = duckdb.connect({str(database)!r}); print('held', flush=True); sys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            done = run("--db", str(database), "ingest", str(small_trace), "--replace", "--lock-timeout", "0.2")
            assert done.returncode == 3
            assert str(holder.pid) in done.stderr
            holder.communicate("")

    def test_progress_tells_speed_and_time_left(self) -> None:
        assert progress_line("a.json", 50_000_000, 100_000_000, 2.0) == "a.json   50%  50 MB  25 MB/s  2 s left"
        assert progress_line("a.json", 9, 9, 1.0).endswith("linking and storing")
        assert progress_line("a.json", 0, 0, 0.0).startswith("a.json")


class TestQuery:
    @pytest.mark.parametrize("layout", ["table", "csv", "json", "ndjson"])
    def test_formats_equal_their_golden_files(self, shared_database: Path, layout: str) -> None:
        done = call(shared_database, "query", FIXED, "--format", layout)
        assert done.stdout == (GOLDEN / f"query.{layout}").read_text(encoding="utf-8")
        assert done.stderr == ""

    def test_binary_formats_on_stdout(self, shared_database: Path) -> None:
        parquet = call(shared_database, "query", FIXED, "--format", "parquet").stdout_bytes
        assert pq.read_table(io.BytesIO(parquet)).num_rows == 1
        arrow = call(shared_database, "query", FIXED, "--format", "arrow").stdout_bytes
        assert pa.ipc.open_file(arrow).read_all().column_names[0] == "n"

    def test_sql_from_stdin_and_file(self, shared_database: Path, tmp_path: Path) -> None:
        (tmp_path / "q.sql").write_text("SELECT 7 AS n;\n")
        for done in (
            call(shared_database, "query", "-", "--csv", text="SELECT 7 AS n"),
            call(shared_database, "query", "-f", "-", "--csv", text="SELECT 7 AS n"),
            call(shared_database, "query", "-f", str(tmp_path / "q.sql"), "--csv"),
        ):
            assert done.stdout == "n\n7\n"

    def test_a_table_is_limited_and_says_so(self, shared_database: Path) -> None:
        done = call(shared_database, "query", "FROM range(250)")
        assert len(done.stdout.splitlines()) == 102
        assert done.stderr == "showing 100 of 250 rows; --limit 0 shows all\n"
        assert len(call(shared_database, "query", "FROM range(250)", "--limit", "0").stdout.splitlines()) == 252

    def test_other_formats_are_whole(self, shared_database: Path) -> None:
        done = call(shared_database, "query", "FROM range(250)", "--csv", "--no-header")
        assert len(done.stdout.splitlines()) == 250
        assert done.stderr == ""

    def test_the_name_of_the_file_gives_the_format(self, shared_database: Path, tmp_path: Path) -> None:
        done = call(shared_database, "query", FIXED, "-o", str(tmp_path / "o.parquet"))
        assert done.stdout == ""
        assert pq.read_table(tmp_path / "o.parquet").num_rows == 1

    def test_where_binds_selection(self, shared_database: Path) -> None:
        sql = "SELECT count(*) AS n, count(*) FILTER (kind = 'memcpy') AS copies FROM selection"
        (row,) = objects(call(shared_database, "query", "--where", "kind = 'memcpy'", sql, "--json"))
        assert row["n"] == row["copies"]

    @pytest.mark.parametrize(
        ("sql", "code", "message"),
        [
            ("SELEC 1", 1, "syntax error"),
            ("SELECT nothing FROM kernels", 1, "nothing"),
            ("SELECT 1; SELECT 2", 1, "one statement"),
            ("DELETE FROM launches", 1, "--write"),
            ("FROM '/etc/passwd'", 1, "Error"),
            ("FROM read_csv('/etc/passwd')", 1, "Error"),
        ],
    )
    def test_bad_sql(self, shared_database: Path, sql: str, code: int, message: str) -> None:
        done = call(shared_database, "query", sql, exit_code=code)
        assert done.stdout == ""
        assert message in done.stderr

    def test_bad_where_exits_2_with_near_columns(self, shared_database: Path) -> None:
        done = call(shared_database, "query", "--where", "categry = 'GEMM'", "FROM selection", exit_code=2)
        assert "category" in done.stderr

    def test_where_cannot_hold_a_second_statement(self, shared_database: Path) -> None:
        done = call(shared_database, "query", "--where", "true; DROP TABLE launches", "FROM selection", exit_code=2)
        assert "the condition" in done.stderr
        assert int(call(shared_database, "query", "--csv", "--no-header", "SELECT count(*) FROM launches").stdout) > 0

    def test_timeout_exits_4(self, shared_database: Path) -> None:
        sql = "SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range % 7 = b.range % 11"
        began = time.monotonic()
        done = call(shared_database, "query", sql, "--timeout", "0.2", exit_code=4)
        assert time.monotonic() - began < 60
        assert done.stdout == ""

    def test_write_changes_the_database(self, database: Path) -> None:
        call(database, "query", "--write", "CREATE TABLE mine AS SELECT 1 AS a")
        assert call(database, "query", "FROM mine", "--csv").stdout == "a\n1\n"

    def test_a_closed_pipe_is_quiet(self, shared_database: Path) -> None:
        script = f"{sys.executable} -m kerneldb --db {shared_database} query 'FROM range(2000000)' --csv | head -n 1"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("range\n", "")

    def test_text_formats_do_without_polars(self, shared_database: Path) -> None:
        script = (
            "import sys\nfrom kerneldb.cli import cli\n"
            "cli(sys.argv[1:], standalone_mode=False)\n"
            "sys.stderr.write('\\n'.join(sys.modules))\n"
        )
        command = [sys.executable, "-c", script, "--db", str(shared_database), "query", "FROM kernels LIMIT 1"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert {"polars", "textual"}.isdisjoint(done.stderr.splitlines())


class TestTop:
    @pytest.mark.parametrize("by", GROUPS)
    def test_every_grouping_sums_to_the_whole(self, shared_database: Path, by: str) -> None:
        found = objects(call(shared_database, "top", "--by", by, "--json"))
        (whole,) = objects(
            call(shared_database, "query", "SELECT count(*) AS n, sum(duration_ns)::BIGINT AS t FROM kernels", "--json")
        )
        assert sum(row["n"] for row in found) == whole["n"]
        assert sum(row["total_ns"] or 0 for row in found) == whole["t"]
        assert sum(row["share_pct"] or 0 for row in found) == pytest.approx(100)

    @pytest.mark.parametrize("by", GROUPS)
    def test_rollups_and_launches_agree(self, shared_database: Path, by: str) -> None:
        quick = objects(call(shared_database, "top", "--by", by, "--json"))
        slow = objects(call(shared_database, "top", "--by", by, "--where", "true", "--json"))
        assert [{**row, "mean_ns": 0, "share_pct": 0} for row in quick] == [
            {**row, "mean_ns": 0, "share_pct": 0} for row in slow
        ]
        assert [row["mean_ns"] for row in quick] == pytest.approx([row["mean_ns"] for row in slow])

    @pytest.mark.parametrize(
        ("sort", "column"), list(zip(ORDERS, ("total_ns", "n", "mean_ns", "min_ns", "max_ns"), strict=True))
    )
    def test_sort(self, shared_database: Path, sort: str, column: str) -> None:
        values = [row[column] for row in objects(call(shared_database, "top", "--sort", sort, "--json"))]
        assert values == sorted(values, reverse=True)

    def test_limit_holds_for_every_format_and_the_table_says_so(self, shared_database: Path) -> None:
        assert len(objects(call(shared_database, "top", "--limit", "2", "--json"))) == 2
        done = call(shared_database, "top", "--limit", "2")
        assert len(done.stdout.splitlines()) == 6
        assert done.stdout.splitlines()[-1].startswith("all ")
        assert "showing 2 of" in done.stderr

    def test_where_and_trace(self, shared_database: Path) -> None:
        found = objects(
            call(shared_database, "top", "--by", "kind", "--where", "kind = 'memcpy'", "--trace", "step", "--json")
        )
        assert [row["kind"] for row in found] == ["memcpy"]

    @pytest.mark.parametrize(
        "command", ["top", "analyze roofline", "db export --csv", "ncu coverage", "replay --dry-run"]
    )
    def test_a_text_that_never_occurs_names_near_ones(self, shared_database: Path, command: str) -> None:
        where, code = "category = 'gemm' AND kind IN ('x', 'kernel')", 2 if command.startswith("replay") else 0
        said = call(shared_database, *command.split(), "--where", where, exit_code=code).stderr
        assert "category has no value 'gemm'; near: 'GEMM'\n" in said
        assert "kind has no value 'x'; it has: 'kernel', 'memcpy', 'memset'\n" in said

    def test_the_scope_of_a_sum_over_several_traces(self, database: Path, root: Path) -> None:
        assert call(database, "top", "--by", "category").stderr == ""
        call(database, "ingest", str(root / "examples" / "decoder-h200.json.gz"), "-q")
        assert "2 traces on NVIDIA H200; --trace NAME takes one\n" in call(database, "top").stderr
        assert call(database, "top", "--by", "category", "--trace", "step").stderr == ""

    def test_unknown_trace_exits_2_with_near_names(self, shared_database: Path) -> None:
        assert "near: step" in call(shared_database, "top", "--trace", "stepp", exit_code=2).stderr


class TestShow:
    def signature(self, database: Path) -> str:
        return str(objects(call(database, "top", "--by", "signature", "--limit", "1", "--json"))[0]["signature_id"])

    def test_page_and_json_of_a_prefix(self, shared_database: Path) -> None:
        signature = self.signature(shared_database)
        page = call(shared_database, "show", signature[:9]).stdout
        assert page.startswith(f"signature {signature}\n")
        assert "\ntimes\n" in page
        found = json.loads(call(shared_database, "show", signature, "--json").stdout)
        assert found["signature_id"] == signature
        assert found["times"][0]["trace"] == "step"

    def test_an_ambiguous_prefix_lists_candidates(self, shared_database: Path) -> None:
        done = call(shared_database, "show", "", exit_code=2)
        assert len(done.stderr.splitlines()) > 10

    def test_no_such_signature(self, shared_database: Path) -> None:
        assert "zz" in call(shared_database, "show", "zz", exit_code=2).stderr
        assert (
            "near names:\n  cunn_SoftMax" in call(shared_database, "show", "cunn_SoftmxForwardReg", exit_code=2).stderr
        )

    def test_a_name_or_a_part_of_it_shows_its_only_signature(self, shared_database: Path) -> None:
        of_name = "SELECT signature_id, name, short_name FROM kernels WHERE name LIKE '%SoftMaxForward%' LIMIT 1"
        (row,) = objects(call(shared_database, "query", of_name, "--json"))
        for text in (row["name"], row["short_name"], "cunn_SOFTMAXforward"):
            assert call(shared_database, "show", text).stdout.startswith(f"signature {row['signature_id']}\n")

    def test_a_name_of_several_signatures_lists_them_by_time(self, shared_database: Path) -> None:
        sql = "SELECT signature_id FROM selection GROUP BY 1 ORDER BY sum(duration_ns) DESC, 1"
        selected = ("--where", "name LIKE '%MulFunctor%'", "--json")
        expected = [row["signature_id"] for row in objects(call(shared_database, "query", sql, *selected))]
        done = call(shared_database, "show", "mulfunctor")
        assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == expected
        assert "kerneldb show ID" in done.stderr
        done = call(shared_database, "show", "mulfunctor", "--json", exit_code=2)
        assert done.stdout == ""
        assert re.search(rf"  {expected[0]}  .*MulFunctor.*  aten::mul  grid \d+x\d", done.stderr)

    def test_a_page_has_colours_on_a_terminal(self, shared_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        command = [sys.executable, "-m", "kerneldb", "--db", str(shared_database), "show"]
        said = said_on_a_terminal([*command, self.signature(shared_database)])
        assert "\x1b[1mtrace\x1b[0m" in said
        assert "\\x1b" not in said


class TestTraces:
    def test_notes_names_and_runs(self, database: Path) -> None:
        call(database, "traces", "step", "--set", "batch=8", "--unset", "precision", "--run", "job")
        call(database, "traces", "--rename", "step", "other")
        (trace,) = objects(call(database, "traces", "other", "--json"))
        assert (trace["trace"], trace["tags"], trace["run"]) == ("other", {"batch": "8"}, "job")

    def test_report_counts_events(self, shared_database: Path) -> None:
        found = objects(call(shared_database, "traces", "step", "--report", "--json"))
        assert "stored" in {row["outcome"] for row in found}

    def test_remove_asks(self, database: Path) -> None:
        assert "nothing removed" in call(database, "traces", "step", "--remove", exit_code=1, text="n\n").stderr
        assert "--yes" in call(database, "traces", "step", "--remove", exit_code=2).stderr
        assert len(objects(call(database, "traces", "--json"))) == 1
        assert call(database, "traces", "step", "--remove", text="y\n").stdout == ""
        assert objects(call(database, "traces", "--json")) == []

    def test_remove_leaves_no_rows(self, database: Path) -> None:
        call(database, "traces", "step", "--remove", "--yes")
        for table in ("launches", "ops", "rollups", "signatures", "kernel_names", "trace_tags"):
            assert objects(call(database, "query", f"SELECT count(*) AS n FROM {table}", "--json")) == [{"n": 0}]

    @pytest.mark.parametrize(
        "arguments", [["nope"], ["nope", "--set", "a=b"], ["nope", "--remove", "--yes"], ["--rename", "nope", "x"]]
    )
    def test_unknown_names_exit_2(self, database: Path, arguments: list[str]) -> None:
        said = call(database, "traces", *arguments, exit_code=2).stderr
        assert "there is no trace 'nope'; kerneldb traces lists them" in said

    def test_a_file_in_place_of_a_name_is_to_be_read(self, shared_database: Path, small_trace: Path) -> None:
        for command in (("why", str(small_trace)), ("top", "--trace", str(small_trace))):
            said = call(shared_database, *command, exit_code=2).stderr
            told = f"{small_trace} is a file, not a trace of the database: kerneldb ingest {small_trace} puts it there"
            assert told in said


class TestExport:
    def test_parquet_is_the_default(self, shared_database: Path, tmp_path: Path) -> None:
        done = call(shared_database, "db", "export", "-o", str(tmp_path / "data"))
        (row,) = objects(call(shared_database, "query", "SELECT count(*) AS n FROM kernels", "--json"))
        table = pq.read_table(tmp_path / "data")
        assert table.num_rows == row["n"]
        assert {"trace", "name", "duration_ns", "category"} <= set(table.column_names)
        assert done.stderr == f"wrote {row['n']:,} rows to {tmp_path / 'data'}\n"

    def test_csv_on_stdout_with_a_condition(self, shared_database: Path) -> None:
        done = call(shared_database, "db", "export", "--csv", "--where", "kind = 'memcpy'", "--trace", "step")
        kinds = {row["kind"] for row in csv.DictReader(io.StringIO(done.stdout))}
        assert kinds == {"memcpy"}

    @pytest.mark.parametrize("table", ["signatures", "ops", "traces", "kernel_names", "api_calls", "kernel_rollups"])
    def test_tables_and_views(self, shared_database: Path, table: str, tmp_path: Path) -> None:
        call(shared_database, "db", "export", "--table", table, "-o", str(tmp_path / "t.ndjson"))
        assert len((tmp_path / "t.ndjson").read_text().splitlines()) > 0

    def test_a_table_of_one_trace(self, shared_database: Path) -> None:
        assert objects(call(shared_database, "db", "export", "--table", "ops", "--trace", "step", "--json"))
        assert (
            "--trace"
            in call(
                shared_database, "db", "export", "--table", "signatures", "--trace", "step", "--json", exit_code=2
            ).stderr
        )

    @pytest.mark.parametrize(
        "arguments", [["--table", "kernel"], ["--where", "no = 1"], ["--table", "ops", "--where", "no = 1"]]
    )
    def test_wrong_names_exit_2_and_leave_no_file(
        self, shared_database: Path, arguments: list[str], tmp_path: Path
    ) -> None:
        call(shared_database, "db", "export", *arguments, "-o", str(tmp_path / "x.csv"), exit_code=2)
        assert list(tmp_path.iterdir()) == []

    def test_a_condition_failing_at_a_row_exits_2_and_leaves_no_file(
        self, shared_database: Path, tmp_path: Path
    ) -> None:
        arguments = ["--where", "error(name) IS NULL", "-o", str(tmp_path / "x.csv")]
        assert "Traceback" not in call(shared_database, "db", "export", *arguments, exit_code=2).output
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "command", [["top"], ["db", "export", "--csv"], ["query", "SELECT count(*) FROM selection"]]
    )
    def test_conditions_on_values_exit_2(self, shared_database: Path, command: list[str]) -> None:
        done = call(shared_database, *command, "--where", "name::INTEGER = 1", exit_code=2)
        assert "the condition does not work on all rows" in done.stderr

    def test_a_failing_statement_over_a_good_condition_exits_1(self, shared_database: Path) -> None:
        done = call(shared_database, "query", "SELECT name::INTEGER FROM selection", "--where", "true", exit_code=1)
        assert "INT32" in done.stderr
        assert "the condition does not work" not in done.stderr


class TestDoctorAndSchema:
    def test_environment(self, shared_database: Path, tmp_path: Path) -> None:
        topics = {row["topic"]: row for row in objects(call(shared_database, "db", "doctor", "--json"))}
        assert {"python", "duckdb", "polars", "database"} <= set(topics)
        assert topics["duckdb"]["message"] == duckdb.__version__
        assert "1 trace" in topics["database"]["message"]
        assert "note" in call(tmp_path / "none", "db", "doctor").stdout

    def test_what_reads_traces(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def reader() -> dict[str, str]:
            listed = objects(call(tmp_path / "none", "db", "doctor", "--json"))
            return next(row for row in listed if row["topic"] == "reader")

        there = native.is_there()
        monkeypatch.delenv(native.PURE, raising=False)
        assert reader()["level"] == ("ok" if there else "note")
        monkeypatch.setenv(native.PURE, "1")
        assert native.PURE in reader()["remedy"] or not there
        monkeypatch.setattr(native, "_scan", None)
        assert "compiler" in reader()["remedy"]

    def test_a_trace_file_and_a_trace_by_name(self, shared_database: Path, small_trace: Path) -> None:
        of_file = call(shared_database, "db", "doctor", str(small_trace)).stdout
        assert of_file
        assert call(shared_database, "db", "doctor", "step").stdout == of_file

    def test_no_trace(self, shared_database: Path, tmp_path: Path) -> None:
        (tmp_path / "x.json").write_text("<html>")
        assert "HTML" in call(shared_database, "db", "doctor", str(tmp_path / "x.json"), exit_code=1).stderr
        call(shared_database, "db", "doctor", "no-such-trace", exit_code=2)
        call(tmp_path / "none", "db", "doctor", "no-such-trace", exit_code=2)

    def test_what_is_no_file(self, shared_database: Path, tmp_path: Path) -> None:
        assert "no such file" in call(shared_database, "db", "doctor", "nope.json", exit_code=2).stderr.lower()
        assert "is a folder" in call(shared_database, "db", "doctor", str(tmp_path), exit_code=2).stderr

    def test_broken_database_exits_1(self, tmp_path: Path) -> None:
        (tmp_path / "k").write_text("x" * 10_000)
        assert "PROBLEM" in call(tmp_path / "k", "db", "doctor", exit_code=1).stdout

    def test_schema(self, shared_database: Path) -> None:
        listed = {row["object"] for row in objects(call(shared_database, "db", "schema", "--json"))}
        assert {"kernels", "launches", "top_kernels"} <= listed
        columns = {row["column"]: row for row in objects(call(shared_database, "db", "schema", "kernels", "--json"))}
        assert columns["duration_ns"]["unit"] == "ns"
        assert "near: kernels" in call(shared_database, "db", "schema", "kernel", exit_code=2).stderr


def test_refresh_gives_the_same_rows(database: Path) -> None:
    sql = "SELECT * FROM kernel_names ORDER BY name_id"
    before = call(database, "query", sql, "--json").stdout
    assert "kernel_names" in call(database, "db", "refresh", "--all").stderr
    assert call(database, "query", sql, "--json").stdout == before


def test_an_interrupt_exits_130(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kerneldb.Database, "sql", interrupted)
    done = call(database, "query", "SELECT 1", exit_code=130)
    assert done.stdout == ""


def test_an_unwritable_output_is_one_line(shared_database: Path, tmp_path: Path) -> None:
    done = call(shared_database, "query", "SELECT 1", "-o", str(tmp_path / "no" / "x.csv"), exit_code=1)
    assert done.stderr.startswith("Error: ")
    assert "No such file" in done.stderr
