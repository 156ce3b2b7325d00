"""A database that release 0.1.0 left opens, migrates, and answers the same, but where its answers were wrong.

The database and the answers were made by the code of that release (tests/fixtures/make_database_0_1_0.py): nothing here
is the code's own output. What may differ stands in CHANGES, each with its reason, and nowhere else.
"""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import functools
import hashlib
import json
import math
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from kerneldb.cli.root import tree
from kerneldb.errors import KerneldbError, WarehouseLockedError
from kerneldb.schemas import loader
from kerneldb.warehouse import Warehouse, migrate
from tests.fixtures.make_database_0_1_0 import Answer, ask, told
from tests.warehouse.conftest import FIXTURES, unpacked

Row = dict[str, Any]
WORDS: Final = {
    "closure_terms": "reconciliation_components", "closure": "reconciliation", "found_calls": "inferred_calls",
    "found_call_id": "inferred_call_id", "found_id": "inferred_id", "found_by": "inferred_by", "term": "component",
    "replay_tries": "replay_attempts", "try_index": "attempt_index", "tries": "attempts", "steady": "steady_state",
    "stage": "workload", "stages": "pipeline_stages", "closure_stages": "reconciliation_workloads",
    "above_gap": "dynamic", "gap_power": "launch_loop_power", "variants": "same_code",
}  # fmt: skip
"""Words of 0.1.0 in names of objects and columns, and those of today."""
WORD: Final = re.compile(rf"(?<![a-z])({'|'.join(sorted(WORDS, key=len, reverse=True))})(?![a-z])")


def in_todays_words(text: str) -> str:
    """The name of an object or a column of 0.1.0, or SQL."""
    return WORD.sub(lambda found: WORDS[found[1]], text)


TEXTS: Final = {
    "gaps of a full queue": "gaps with a full queue",
    "less their overlap": "minus their overlap",
    "less launch-loop power": "minus launch-loop power",
    "mean power of the kernels with an energy": "mean dynamic power of kernels with a measured energy",
    "measured less predicted: no prediction": "measured minus predicted: not a prediction",
}
"""Phrases of 0.1.0 in sources and notes, and those of today."""


def _in_todays_texts(value: Any) -> Any:
    if isinstance(value, str):
        for then, now in TEXTS.items():
            value = value.replace(then, now)
    return value


ASKED: Final[dict[str, dict[str, Any]]] = json.loads(unpacked("answers-0.1.0.json.xz"))
"""Name → question (SQL, or the words of a command) and the answer of 0.1.0, in its words."""


@functools.cache
def answered(name: str) -> Answer:
    """The answer of 0.1.0, in today's words."""
    answer = ASKED[name]["answer"]
    return {in_todays_words(column): [_in_todays_texts(value) for value in answer[column]] for column in answer}


DAMAGED: Final = ("damaged-absurd", "damaged-negative")
NAMESAKES: Final = ("first-rank0", "second-rank0")
"""Rank 0 of two jobs that know nothing of each other: 0.1.0 made one run of them, after their folders."""
PRINTS: Final = ("r23_cuda_gpu_trace_base", "r23_cuda_gpu_trace (2)", "base")
"""Further prints of reports that are there already: names without templates, JSON, other digits."""
FINEST: Final = "fp.raw"
"""The print with most digits of a report that 0.1.0 read from another one."""
BESIDE_TIMELINE: Final = ("h200-roofline",)
"""Counters in a run that has a timeline."""
SUMS_OF_TIMELINE: Final = ("r23_cuda_gpu_kern_sum", "r23_cuda_gpu_mem_size_sum")
"""Sums of a report whose launches are there."""
LONE_SUMS: Final = ("others_cuda_gpu_kern_sum",)
NOT_PRIMARY: Final = PRINTS + BESIDE_TIMELINE
STATED: Final = {
    "evening": {"stacks-memory-h200"},
    "said": {"said-timeline", "h200-roofline"},
    "exchanges": {"exchanges-script-rank0", "exchanges-script-rank1"},
    "tiny-tp2": {f"tiny-tp2-{stage}-rank{rank}" for stage in ("prefill", "decode") for rank in (0, 1)},
}
"""Run → its traces, as `--run`, `kerneldb traces … --run` and bundle.json said."""
UNSTATED: Final = tuple(set(answered("table traces")["name"]).difference(*STATED.values()))


@dataclasses.dataclass(frozen=True)
class Change:
    """What may differ from 0.1.0, and why.

    `questions` are patterns of their names. `gone` are columns that are no more. `columns` are not compared, in all
    rows or in those of `traces`; where there are `traces` only, their rows are not compared at all, nor are those with
    the value of `rows` in its column, for answers that name no trace.
    """

    reason: str
    questions: tuple[str, ...] = ("*",)
    _: dataclasses.KW_ONLY
    gone: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()
    rows: tuple[str, Any] | None = None

    def concerns(self, question: str) -> bool:
        """Whether it is about the question of this name."""
        return any(fnmatch.fnmatchcase(question, pattern) for pattern in self.questions)


CHANGES: Final = (
    Change(
        "absurd and negative durations are refused, and sums of them cannot overflow: with them 0.1.0 had no answers",
        traces=DAMAGED,
    ),
    Change("`counted` has become `is_primary`", gone=("counted",)),
    Change(
        "how near a kernel is to its roof is not known where one side of the roof is not",
        ("macro roofline", "command roofline"),
        columns=("pct_attainable",),
    ),
    Change(
        "a change of which one of the two tests cannot be made is not judged",
        ("macro diff", "command diff*"),
        columns=("p_value", "test", "verdict"),
    ),
    Change(
        "components of what was measured and predicted have other names",
        ("view closure_terms", "macro closure_terms_of", "command closure"),
        columns=("component", "section", "source", "note"),
    ),
    Change(
        "what ran, once: no other print, and no profiled launch beside a timeline; `all_launches` has them",
        ("view *", "macro *", "command bounds"),
        traces=(*NOT_PRIMARY, FINEST),
    ),
    Change(
        "of several prints the one with most digits answers, not the one that happened to be first",
        ("view signature_counters", "macro diff_metrics", "macro diff_classes"),
        columns=("mean", "min", "max", "delta", "delta_pct", "mean_before", "mean_before_ns", "mean_delta_pct"),
    ),
    Change(
        "the work of a signature is what a user noted about it, in the view as in the macro",
        ("view signature_stats",),
        columns=("flops", "moved_bytes"),
    ),
    Change(
        "sums of a tool beside the launches they sum are no rollups that count; `all_rollups` has them",
        ("view kernel_rollups",),
        traces=SUMS_OF_TIMELINE,
    ),
    Change(
        "a sum that a tool printed is told apart by its timing",
        ("view kernel_rollups", "table rollups"),
        columns=("timing",),
        traces=(*SUMS_OF_TIMELINE, *LONE_SUMS),
    ),
    Change("a run of sums only answers a macro as it does a view", ("macro *",), traces=LONE_SUMS),
    Change(
        "a folder's or a file's name proves no run: one that nobody stated is joined by evidence, else the trace alone",
        columns=("run",),
        traces=UNSTATED,
    ),
    Change(
        "two rank 0 are two jobs: nobody waited for anybody, and no instance has launches of both",
        ("macro collective_instances", "macro collective_waits", "macro collectives", "macro collective_replays"),
        traces=NAMESAKES,
        rows=("bytes", 2 * 3000),
    ),
    Change(
        "quantiles of a signature are a view of their own (signature_quantiles): view and macro give the same columns",
        ("macro signature_stats",),
        gone=("median_ns", "p95_ns", "p99_ns"),
    ),
    Change(
        "what reaches little of either roof is bound by latency, not by the memory",
        ("macro roofline", "command roofline", "view roofline"),
        columns=("bound",),
    ),
    Change(
        "peaks that the trace lacks are those of the data sheet of its GPU",
        ("macro roofline", "command roofline", "view roofline"),
        columns=("peak_flops_per_second", "peak_bytes_per_second", "ridge", "pct_peak_flops", "pct_peak_bandwidth"),
    ),
    Change(
        "fills are computation, as in the wall time",
        ("macro overlap", "command overlap"),
        columns=(
            *("computation_ns", "copy_ns", "exposed_copy_ns", "computation_copy_ns", "computation_communication_ns"),
            *("exposed_communication_ns", "communication_copy_ns", "hidden_communication_pct"),
        ),
    ),
    Change(
        "copies and fills are launches of an iteration",
        ("macro iterations", "command iterations"),
        columns=("launches", "total_ns"),
    ),
    Change(
        "idle time has the causes of the wall time, by the same rules",
        ("macro idle*", "view idle*", "command idle*"),
        gone=("host_late_ns",),
        traces=tuple(answered("table traces")["name"]),
    ),
    Change(
        "the call that launches a graph counts once, against all kernels of the graph together",
        ("macro launch_overhead", "command overhead"),
        columns=(
            *("call_ns", "median_call_ns", "p95_call_ns", "median_delay_ns", "p95_delay_ns", "median_kernel_ns"),
            *("shorter_than_call", "shorter_than_call_pct"),
        ),
        traces=("graph",),
    ),
)  # fmt: skip
"""All that may differ. What the runs are that nobody stated is tested apart."""

KEYS: Final = {
    "categories": "category",
    "families": "category, family, library",
    "libraries": "library",
    "operations": "category, operation, dtype",
    "operators": "op, found_by",
    "phases": "phase",
}
"""Objects of 0.1.0 that are time_by of these columns."""
INTERNAL: Final = (
    "closure_replays", "closure_stages", "iteration_launches", "latest_replays", "power_intervals", "power_series",
    "power_windows", "signature_calls", "signature_notes", "time_unions",
)  # fmt: skip
"""Objects that have a `_` before their name now."""
ARGUMENTS: Final = {
    "counter_histogram": "'dram_bytes'",
    "metric_histogram": "'duration_ns'",
    "power_integral": "'kernels'",
    "traces_named": "'said'",
}
"""What macros are called with that take it in another order now, or have another name."""
NAMES: Final = {"power_integral": "window_power", "traces_named": "_traces_named"} | {
    f"closure{name}_of": f"closure{name}" for name in ("", "_jobs", "_kernels", "_terms")
}
INNER: Final = ("closure_launches", "diff_between", "launch_rollups", "profiled_matches", "value_histogram")
"""Parts of other macros, with other parts today; the macros that they serve are compared."""


def question_of_today(name: str, then: str) -> str:
    """What asks the same today as the question of a view or macro in 0.1.0."""
    kind, _, asked = name.partition(" ")
    if kind not in ("view", "macro"):
        return in_todays_words(then)
    if asked in KEYS:
        return f"FROM time_by('{in_todays_words(KEYS[asked])}')"
    today = in_todays_words(NAMES.get(asked, f"_{asked}" if asked in INTERNAL else asked))
    if asked in ARGUMENTS:
        return f"FROM {today}({ARGUMENTS[asked]})"
    if loader.headers()[today].kind == "macro":
        return f"FROM {today}()" if kind == "view" else in_todays_words(then).replace(in_todays_words(asked), today)
    return f"FROM {today}"


TIMINGS: Final = frozenset({"timeline", "summed"})
"""What 0.1.0 summed. Answers with a column `timing` have rows of profiled launches, too, apart from these."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The database as 0.1.0 left it."""
    path = tmp_path / "kernels.duckdb"
    path.write_bytes(unpacked("kernels-0.1.0.duckdb.xz"))
    return path


def rows(path: Path, sql: str) -> list[Row]:
    return [dict(row) for row in kerneldb.open(path, create=False).sql(sql).rows()]


# --- it opens and migrates ---


def versions(path: Path) -> list[Row]:
    return rows(path, "SELECT version, name, applied_at FROM schema_version ORDER BY version")


def test_it_is_of_0_1_0(old: Path) -> None:
    """Whoever makes the fixture anew with later code makes these tests worthless."""
    with duckdb.connect(str(old), read_only=True) as con:
        found = con.execute("SELECT version FROM schema_version ORDER BY version").fetchall()
        assert [version for (version,) in found] == [1, 2, 3, 4, 5, 6]
        (tags,) = con.execute("SELECT tags FROM duckdb_databases() WHERE path IS NOT NULL").fetchone() or ({},)
        assert str(tags["storage_version"]).startswith("v1.5.0")


def test_all_traces_are_there(migrated: Path) -> None:
    names = {row["name"] for row in rows(migrated, "SELECT name FROM traces")}
    assert names == {*answered("table traces")["name"], *DAMAGED}


def test_any_command_migrates_it(migrated: Path) -> None:
    found = [row["version"] for row in versions(migrated)]
    assert found == [*range(1, migrate.OLDEST + 1), *(step.version for step in loader.migrations())]
    assert found[-1] > 6


def test_categories_are_those_of_the_names_until_operators_are_asked(migrated: Path) -> None:
    (row,) = rows(
        migrated,
        """SELECT count(*) AS n, count(s.dtype) AS typed,
        count(*) FILTER (s.category = k.category AND s.dtype IS NOT DISTINCT FROM k.dtype) AS same,
        count(*) FILTER (s.category_source = 'name') AS by_name, count(*) FILTER (k.category <> 'OTHER') AS named
        FROM signatures AS s JOIN kernel_names AS k USING (name_id)""",
    )
    assert row["same"] == row["n"] > 100
    assert row["by_name"] == row["named"] > 0
    assert row["typed"] > 0


def test_it_has_the_tables_of_a_new_one(migrated: Path, tmp_path: Path) -> None:
    tables = (
        "SELECT c.table_name, c.column_name, c.data_type, c.is_nullable, c.comment FROM duckdb_columns() AS c "
        "JOIN duckdb_tables() AS t USING (database_name, table_name) WHERE c.database_name = 'warehouse' "
        "ORDER BY c.table_name, c.column_index"
    )
    made = Warehouse.create_or_open(tmp_path / "new.duckdb")
    assert rows(migrated, tables) == rows(made.path, tables)


@pytest.mark.thorough
def test_it_may_take_the_place_of_another_one(old: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "new.duckdb")
    database.ingest(FIXTURES / "nsys" / "r23_cuda_gpu_trace_mangled.csv")
    Path(shutil.copyfile(old, tmp_path / "copy.duckdb")).replace(database.path)
    outcomes = database.ingest(FIXTURES / "nsys" / "r23_cuda_gpu_trace_mangled.csv")
    assert [outcome.status for outcome in outcomes] == ["ingested"]


def test_opening_it_again_changes_nothing(migrated: Path) -> None:
    before, content = versions(migrated), hashlib.sha256(migrated.read_bytes()).digest()
    kerneldb.open(migrated, create=False)
    assert kerneldb.open(migrated).version().startswith(f"schema {migrate.newest()},")
    assert versions(migrated) == before
    assert hashlib.sha256(migrated.read_bytes()).digest() == content


def test_it_takes_further_traces(migrated: Path, tmp_path: Path) -> None:
    """Written rows and derived ones fit into the tables as migration left them."""
    copy = Path(shutil.copyfile(migrated, tmp_path / "kernels.duckdb"))
    before = rows(copy, "SELECT count(*) AS n FROM traces")
    outcomes = kerneldb.open(copy).ingest(FIXTURES / "nsys" / "r23_cuda_gpu_trace_mangled.csv")
    assert [outcome.status for outcome in outcomes] == ["ingested"]
    assert rows(copy, "SELECT count(*) AS n FROM traces")[0]["n"] == before[0]["n"] + 1
    assert rows(copy, "SELECT count(*) AS n FROM kernels WHERE trace LIKE 'r23%'") == [{"n": 13}]


HOLD: Final = """
import duckdb, sys
con = duckdb.connect(sys.argv[1], read_only=True)
sys.stdout.write("held\\n")
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.mark.thorough
def test_while_another_process_reads_it_the_wait_says_who(old: Path) -> None:
    """A migration needs the file alone. Nothing of it happens where it cannot have it."""
    content = old.read_bytes()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(old)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(WarehouseLockedError, match=rf"kernels\.duckdb.*{holder.pid}"):
            kerneldb.open(old, create=False, lock_timeout=0.2)
        assert old.read_bytes() == content
    assert holder.returncode == 0
    for _ in range(2):
        result = CliRunner().invoke(cli, ["--db", str(old), "db", "migrate"])
        assert result.exit_code == 0, result.output
    assert versions(old)[-1]["version"] == migrate.newest()


def test_a_file_that_may_not_be_written_says_so(old: Path) -> None:
    old.chmod(stat.S_IRUSR)
    try:
        with old.open("r+b"):
            pytest.skip("this account may write every file")
    except PermissionError:
        pass
    with pytest.raises(KerneldbError, match=r"kernels\.duckdb"):
        kerneldb.open(old, create=False)


def test_a_reader_before_migration_has_the_answers_of_then(old: Path) -> None:
    """Any DuckDB client reads the file as it is: its views are its own."""
    known = answered("view categories")
    with duckdb.connect(str(old), read_only=True) as con:
        sql = "SELECT sum(n)::BIGINT FROM kernel_rollups WHERE counted AND category = 'GEMM'"
        expected = sum(n for n, category in zip(known["n"], known["category"], strict=True) if category == "GEMM")
        assert con.execute(sql).fetchone() == (expected,)


# --- what users said is still there ---


def test_names_labels_and_notes(migrated: Path) -> None:
    found = rows(migrated, "SELECT name, label, default_phase FROM traces WHERE label IS NOT NULL OR name = 'graph'")
    assert {(row["name"], row["label"]) for row in found} == {
        ("stacks-memory-h200", "a label"), ("said-timeline", "said of it"), ("graph", None),
    }  # fmt: skip
    assert rows(migrated, "SELECT DISTINCT phase FROM kernels WHERE trace = 'gfx1151'") == [{"phase": "prefill"}]
    tags = rows(migrated, "SELECT name, key, value FROM trace_tags JOIN traces USING (trace_id)")
    said = {(row["key"], row["value"]) for row in tags if row["name"] == "train-step-h200"}
    assert said == {("precision", "bf16"), ("batch", "4")}
    notes = rows(migrated, "SELECT DISTINCT author, role FROM annotations JOIN _signature_notes USING (signature_id)")
    assert notes == [{"author": "somebody", "role": "product"}]
    flops = "SELECT DISTINCT flops, work_method FROM kernels WHERE trace = 'stacks-memory-h200' AND category = 'GEMM'"
    assert rows(migrated, flops) == [{"flops": 2.0 * 64**3, "work_method": "annotation"}]


def test_inferred_calls_and_replays(migrated: Path) -> None:
    found = "SELECT count(*) AS n, count(op) AS ops FROM kernels WHERE trace = 'graph' AND inferred_by = 'inherited'"
    assert rows(migrated, found) == [{"n": 6, "ops": 6}]
    counts = "SELECT (SELECT count(*) FROM inferred_calls) AS f, (SELECT count(*) FROM replay_runs) AS r"
    assert rows(migrated, counts) == [{"f": 6, "r": 1}]
    replayed = "SELECT count(*) AS n FROM kernels WHERE trace LIKE 'tiny-tp2-decode%' AND replay_grade = 'L0'"
    assert rows(migrated, replayed) == [{"n": 50}]


def test_runs_that_were_stated(migrated: Path) -> None:
    """By the user or by a recording. Runs after folders are nobody's word."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for row in rows(migrated, "SELECT name, run, stated_run FROM traces WHERE stated_run IS NOT NULL"):
        assert row["run"] == row["stated_run"]
        found[row["stated_run"]].add(row["name"])
    assert found == STATED


def test_runs_that_nobody_stated(migrated: Path) -> None:
    """Prints of one report are one run, by their content; all others are alone."""
    sql = "SELECT name, run FROM traces WHERE stated_run IS NULL"
    found: dict[str, set[str]] = collections.defaultdict(set)
    for row in rows(migrated, sql):
        assert row["run"] is not None, row
        found[row["run"]].add(row["name"])
    several = {frozenset(names) for names in found.values() if len(names) > 1}
    nsys = {"r23_cuda_gpu_trace", "r23_cuda_gpu_trace (2)", "r23_cuda_gpu_trace_base"}
    with_times = set(SUMS_OF_TIMELINE) - {
        "r23_cuda_gpu_mem_size_sum"
    }  # sums of bytes are those of any capture of the program
    assert several == {frozenset(nsys | with_times), frozenset({"base", "fp.raw"})}
    assert all(run == name for run, names in found.items() if len(names) == 1 for name in names)


def test_namesakes_are_two_jobs(migrated: Path) -> None:
    found = rows(migrated, f"SELECT run, job FROM traces WHERE name IN {NAMESAKES}")
    assert len({row["run"] for row in found}) == 2
    waits = (
        f"SELECT DISTINCT traced_ranks, matched, wait_ns FROM collective_waits('kernels') WHERE trace IN {NAMESAKES}"
    )
    assert [row for row in rows(migrated, waits) if row != {"traced_ranks": 1, "matched": 0, "wait_ns": None}] == []


# --- answers ---


def test_all_launches_are_the_kernels_of_then(migrated: Path) -> None:
    """Every launch, with all that was known of it."""
    gone = {"run", "counted"}
    then = {name: values for name, values in answered("view kernels").items() if name not in gone}
    now = ask(migrated, f"FROM all_launches WHERE trace NOT IN {DAMAGED}")
    assert set(then) <= set(now)
    assert "\n".join(differences(then, {name: now[name] for name in then})) == ""


def test_what_is_primary(migrated: Path) -> None:
    found = rows(migrated, "SELECT DISTINCT trace, is_primary FROM all_launches")
    assert {row["trace"] for row in found if not row["is_primary"]} == set(NOT_PRIMARY)
    assert len({row["trace"] for row in found}) == len(found)
    same = "SELECT * EXCLUDE is_primary FROM all_launches WHERE is_primary"
    for left, right in ((same, "FROM kernels"), ("FROM kernels", same)):
        assert rows(migrated, f"{left} EXCEPT ALL {right}") == []
    columns = {row["column_name"] for row in rows(migrated, "DESCRIBE kernels")}
    assert "counted" not in columns


def test_damaged_durations_are_refused(migrated: Path) -> None:
    sql = f"SELECT name, duration_ns, end_ns FROM all_launches WHERE trace IN {DAMAGED} ORDER BY name"
    known = {"damaged_good": (7000, 1_007_000), "damaged_fine": (9000, 1_009_000)}
    found = {row["name"]: (row["duration_ns"], row["end_ns"]) for row in rows(migrated, sql)}
    refused = ("damaged_absurd_2", "damaged_absurd_3", "damaged_negative")
    assert found == known | dict.fromkeys(refused, (None, None))
    total = "SELECT n, total_ns FROM time_by('category') WHERE trace = 'damaged-absurd'"
    assert rows(migrated, total) == [{"n": 3, "total_ns": 7000}]


@pytest.fixture(scope="module")
def ids(migrated: Path) -> dict[str, dict[str, str]]:
    """Column → value → trace that alone has it, for columns that tell of which trace a row is."""
    found: dict[str, dict[str, str]] = {"trace": {}, "trace_id": {}, "signature_id": {}, "name_id": {}}
    for row in rows(migrated, "SELECT trace_id, name FROM traces"):
        found["trace"][row["name"]] = found["trace_id"][row["trace_id"]] = row["name"]
    for column in ("signature_id", "name_id"):
        alone = "GROUP BY ALL HAVING count(DISTINCT trace) = 1"
        sql = f"SELECT {column} AS id, min(trace) AS trace FROM all_launches {alone}"
        found[column] = {row["id"]: row["trace"] for row in rows(migrated, sql)}
    return found


LONG: Final = ("view kernels", "view closure", "command closure", "macro power_integral")
"""Questions that take long; the kernels are compared by a test of their own."""


def asked_twice(name: str) -> bool:
    """Whether it is a macro over all launches that a view of its name asks, too: tests of views compare the two."""
    return (
        name.startswith("macro ")
        and {f"view {name[6:]}", f"view {name[6:].removesuffix('_of')}"} & ASKED.keys() != set()
    )


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.thorough] * (asked_twice(name) or name.startswith(LONG)))
        for name in ASKED
        if not name.endswith(INNER)
    ],
)
def test_the_answer_is_that_of_0_1_0(name: str, migrated: Path, ids: dict[str, dict[str, str]]) -> None:
    question, then = ASKED[name]["question"], answered(name)
    changes = [change for change in CHANGES if change.concerns(name)]
    if name.startswith("command "):
        first, *more = question
        first = in_todays_words(first)
        path = next(path for path, _ in tree(cli) if path[-1] == first)  # most commands are in groups now
        now = told(migrated, [*path, *more])
    else:
        now = ask(migrated, question_of_today(name, question))
    gone = {column for change in changes for column in change.gone}
    assert set(then) - set(now) - gone == set(), "columns that are no more"
    told_apart = "timing" in now and "timing" not in then
    columns = sorted(set(then) & set(now))
    left = compared(then, columns, changes, ids)
    right = compared(now, columns, changes, ids, TIMINGS if told_apart else None)
    assert "\n".join(differences(left, right)) == ""


def compared(
    answer: Answer, columns: list[str], changes: list[Change], ids: dict[str, dict[str, str]], timings: Any = None
) -> Answer:
    """What of an answer is compared."""
    dropped = {trace for change in changes if not change.columns for trace in change.traces}
    unnamed = [change.rows for change in changes if change.rows is not None]
    everywhere = {column for change in changes if not change.traces for column in change.columns}
    of_traces = [(change.columns, change.traces) for change in changes if change.columns and change.traces]
    kept = [column for column in columns if column not in everywhere]
    found = []
    for row in as_rows(answer):
        traces = traces_of(row, ids)
        if traces & dropped or (not traces and any(row.get(column) == value for column, value in unnamed)):
            continue
        if timings is not None and row["timing"] not in timings:
            continue
        unlike = {column for names, some in of_traces if traces & set(some) for column in names}
        found.append({column: None if column in unlike else row[column] for column in kept})
    return {column: [row[column] for row in found] for column in kept}


def as_rows(answer: Answer) -> Iterator[Row]:
    for values in zip(*answer.values(), strict=True):
        yield dict(zip(answer, values, strict=True))


def traces_of(row: Row, ids: dict[str, dict[str, str]]) -> set[str]:
    """The traces that a row is about. A trace that a row names goes before one that has had its signature alone."""
    for columns in (("trace", "trace_id"), ("signature_id", "name_id")):
        found = {ids[column][row[column]] for column in columns if row.get(column) in ids[column]}
        if found:
            return found
    return set()


# --- differences that a person can read ---

MOST_SHOWN: Final = 12
DIGITS: Final = 1e-9


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same, floats but for their last digits."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if numbers and float in {type(left), type(right)}:
        return math.isclose(left, right, rel_tol=DIGITS, abs_tol=1e-12)
    return bool(left == right)


def differences(then: Answer, now: Answer) -> list[str]:
    """A line per row that differs, with the columns that do; rows are paired by all that is neither number nor list."""
    said = []
    groups: dict[str, tuple[list[Row], list[Row]]] = collections.defaultdict(lambda: ([], []))
    for side, answer in enumerate((then, now)):
        for row in as_rows(answer):
            key = repr([value for value in row.values() if value is None or isinstance(value, str | bool)])
            groups[key][side].append(row)
    for left, right in groups.values():
        pairs, only_left, only_right = paired(left, right)
        said += [f"0.1.0 only: {shown(row)}" for row in only_left] + [f"now only:   {shown(row)}" for row in only_right]
        said += [f"changed:    {shown(a)}\n    {changed(a, b)}" for a, b in pairs]
    rest = len(said) - MOST_SHOWN
    return [*said[:MOST_SHOWN], f"… and {rest} more"] if rest > 0 else said


def paired(left: list[Row], right: list[Row]) -> tuple[list[tuple[Row, Row]], list[Row], list[Row]]:
    """Rows of one key that differ: pairs of them, and those that only one side has."""
    equal = collections.Counter(map(repr, left)) & collections.Counter(map(repr, right))
    left, right = without(left, equal.copy()), without(right, equal)
    open_left: list[Row] = []
    for row in left:
        place = next((n for n, other in enumerate(right) if all(same(row[key], other[key]) for key in row)), None)
        if place is None:
            open_left.append(row)
        else:
            del right[place]
    count = min(len(open_left), len(right))
    return list(zip(open_left, right, strict=False)), open_left[count:], right[count:]


def without(some: list[Row], taken: collections.Counter[str]) -> list[Row]:
    found = []
    for row in some:
        if taken[repr(row)] > 0:
            taken[repr(row)] -= 1
        else:
            found.append(row)
    return found


def changed(left: Row, right: Row) -> str:
    return "; ".join(f"{key}: {left[key]!r} → {right[key]!r}" for key in left if not same(left[key], right[key]))


def shown(row: Row) -> str:
    """A row in a line, without what is unknown."""
    return ", ".join(f"{key}={str(value)[:40]}" for key, value in row.items() if value is not None)[:400]


def test_differences_are_found() -> None:
    """The comparison itself: it would be worth nothing if it were blind."""
    then: Answer = {"trace": ["a", "a", "b"], "n": [1, 2, 3], "x": [0.1, None, 2.0]}
    assert differences(then, then) == []
    assert differences(then, {**then, "x": [0.1 + 1e-15, None, 2.0]}) == []
    assert differences(then, {name: values[::-1] for name, values in then.items()}) == []
    (line,) = differences(then, {**then, "n": [1, 2, 4]})
    assert "n: 3 → 4" in line
    assert differences(then, {name: values[:2] for name, values in then.items()}) == ["0.1.0 only: trace=b, n=3, x=2.0"]


def test_every_change_concerns_something() -> None:
    """A pattern that fits no question any more excuses nothing, and is to go."""
    unused: Collection[str] = [change.reason for change in CHANGES if not any(map(change.concerns, ASKED))]
    assert unused == []
