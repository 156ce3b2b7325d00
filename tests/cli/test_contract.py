"""What every command keeps: help, exit codes, what goes to stdout and to stderr, and how fast the program starts."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import psutil
import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from kerneldb.cli.docs import page
from kerneldb.cli.root import TASKS, tree
from kerneldb.errors import UsageError
from tests.ingest.traces import Trace, kineto

HEAVY = ("duckdb", "polars", "pyarrow", "textual", "msgspec", "importlib.metadata")
COMMANDS = {" ".join(path): command for path, command in tree(cli)}
NEEDS_DATABASE = (
    ["query", "SELECT 1"],
    ["top"],
    ["show", "00"],
    ["traces"],
    ["db", "export", "--csv"],
    ["db", "schema"],
    ["db", "refresh"],
)


def modules_after(*arguments: str) -> set[str]:
    """The modules that a process has imported after running the command line with `arguments`."""
    script = (
        "import sys\n"
        "from kerneldb.cli import cli\n"
        "try:\n    cli(sys.argv[1:], prog_name='kerneldb')\n"
        "except SystemExit:\n    pass\n"
        "sys.stderr.write('\\n'.join(sys.modules))\n"
    )
    command = [sys.executable, "-c", script, *arguments]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines())


@pytest.mark.parametrize("arguments", [["--help"], ["query", "--help"], ["db", "completion", "bash"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert modules_after(*arguments).isdisjoint(HEAVY)


def test_a_command_imports_no_module_of_another() -> None:
    imported = modules_after("ingest", "--help")
    assert "kerneldb.cli.ingest" in imported
    others = {
        f"kerneldb.cli.{name}" for name in (*itertools.chain.from_iterable(TASKS.values()), "compare", "doctor", "lake")
    } - {"kerneldb.cli.ingest"}
    assert imported.isdisjoint(others)


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import sys, kerneldb; dir(kerneldb); sys.stdout.write('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()).isdisjoint({*HEAVY, "click"})


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_and_option_has_help(command: click.Command) -> None:
    assert command.help
    assert command.short_help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{command.name} {parameter.opts}"


@pytest.mark.parametrize("words", COMMANDS)
def test_the_database_may_stand_before_and_after_every_word(
    runner: CliRunner, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, *more = words.split()
    elsewhere = tmp_path / "elsewhere"  # else a database here would be served until someone comes
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for place in (
        [],
        ["--db", str(tmp_path)],
        [command, "--db", str(tmp_path)],
        [command, *more, "--db", str(tmp_path)],
    ):
        done = runner.invoke(cli, [*place, *[one for one in (command, *more) if one not in place]])
        assert ("is a directory" in done.stderr) == bool(place), done.stderr


def test_help_lists_every_command_once_by_task(runner: CliRunner) -> None:
    text = runner.invoke(cli, ["--help"]).stdout
    listed = re.findall(r"^  ([a-z]+)  ", text[text.index("LOAD:") :], re.MULTILINE)
    assert listed == [name for names in TASKS.values() for name in names]
    assert sorted(listed) == sorted(cli.commands)
    assert max(map(len, TASKS.values())) <= 6
    assert sum(not isinstance(cli.commands[name], click.Group) for name in listed) <= 16
    assert re.findall(r"^([A-Z]+):$", text, re.MULTILINE) == list(TASKS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("roofline", "no such command 'roofline'; it is `kerneldb analyze roofline`"),
        ("doctor", "no such command 'doctor'; it is `kerneldb db doctor`"),
        ("export -o k.csv", "no such command 'export'; it is `kerneldb db export`"),
        ("ncu-command", "no such command 'ncu-command'; it is `kerneldb ncu command`"),
        ("analyze top", "no such command 'top'; it is `kerneldb top`"),
        ("quer", "no such command 'quer'; did you mean `kerneldb query`?"),
        ("db rooflin", "no such command 'rooflin'; did you mean `kerneldb analyze roofline`?"),
        ("zzzz", "no such command 'zzzz'; `kerneldb --help` lists the commands"),
        ("db zzzz", "no such command 'zzzz'; `kerneldb db --help` lists the commands"),
        ("lake push", "no such command 'lake'; it is `kerneldb db lake`"),
        ("report --trace a", "traces are named without --trace here: kerneldb report TRACE..."),
        ("top a", "Got unexpected extra argument (a); --trace a chooses a trace"),
        ("top a b", "Got unexpected extra arguments (a b); --trace NAME chooses a trace"),
        ("db init a", "Got unexpected extra argument (a); --db FILE names the database"),
        ("replay --counters --trace a", "Option '--counters' needs SET before --trace."),
        ("no/zzz.json", "no such command, file or folder 'no/zzz.json'; `kerneldb --help` lists the commands"),
    ],
)
def test_a_misplaced_or_misspelt_name_is_found(runner: CliRunner, words: str, said: str) -> None:
    done = runner.invoke(cli, words.split(), prog_name="kerneldb")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith(f"Error: {said}\n")


def test_docs_are_made_from_the_help(root: Path) -> None:
    found = (root / "docs" / "cli.md").read_text(encoding="utf-8")
    assert found == page(), "run: python -m kerneldb.cli.docs docs/cli.md"


def test_docs_name_every_command(root: Path) -> None:
    text = (root / "docs" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^###? kerneldb ([\w -]+)$", text, re.MULTILINE) == ["PATH", *COMMANDS]


def test_no_command_prints_help_on_stderr_and_exits_2(runner: CliRunner) -> None:
    done = runner.invoke(cli, [])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "LOAD:" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["query"],
        ["query", " "],
        ["query", "SELECT 1", "-f", "-"],
        ["query", "SELECT 1", "--csv", "--json"],
        ["query", "SELECT 1", "--limit", "-1"],
        ["query", "SELECT 1", "--timeout", "0"],
        ["top", "--by", "moon"],
        ["ingest"],
        ["ingest", "x.json", "--set", "batch"],
        ["traces", "--remove"],
        ["traces", "--set", "a=b"],
        ["traces", "a", "--remove", "--set", "a=b"],
        ["traces", "a", "--rename", "a", "b"],
        ["traces", "--rename", "a", "b", "--report"],
        ["show", "00", "--csv"],
    ],
    ids=" ".join,
)
def test_wrong_calls_exit_2_with_empty_stdout(runner: CliRunner, arguments: list[str], tmp_path: Path) -> None:
    done = runner.invoke(cli, ["--db", str(tmp_path / "none.duckdb"), *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Error: " in done.stderr


@pytest.mark.parametrize("arguments", NEEDS_DATABASE, ids=" ".join)
def test_a_missing_database_exits_3_and_is_not_made(runner: CliRunner, arguments: list[str], tmp_path: Path) -> None:
    path = tmp_path / "none.duckdb"
    done = runner.invoke(cli, [*arguments, "--db", str(path)])
    assert (done.exit_code, done.stdout) == (3, "")
    assert str(path) in done.stderr
    assert "ingest" in done.stderr
    assert not path.exists()


CROSS_JOIN = "SELECT sum(a.range * b.range) FROM range(10_000_000) AS a, range(10_000_000) AS b"


def wait_for_work(pid: int, file: Path) -> None:
    """Wait until the process has the file open, and has worked on for a while, on a machine of any speed."""
    until, process = time.monotonic() + 120, psutil.Process(pid)
    while time.monotonic() < until and str(file) not in {one.path for one in process.open_files()}:
        time.sleep(0.02)
    began = process.cpu_times().user
    while time.monotonic() < until and process.cpu_times().user < began + 0.5:
        time.sleep(0.02)


def test_ctrl_c_ends_a_query_with_130_and_one_line(shared_database: Path) -> None:
    command = [sys.executable, "-m", "kerneldb", "--db", str(shared_database), "query", CROSS_JOIN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_work(process.pid, shared_database)
        process.send_signal(signal.SIGINT)
        out, problem = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, "")
    assert re.fullmatch(r"\s*Error: interrupted.*\n", problem)


def test_a_reader_that_has_enough_is_no_failure(shared_database: Path) -> None:
    command = [sys.executable, "-m", "kerneldb", "--db", str(shared_database), "query", "FROM range(500000)", "--csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"range\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_the_database_may_stand_in_the_environment(runner: CliRunner, tmp_path: Path) -> None:
    done = runner.invoke(cli, ["traces"], env={"KERNELDB_DB": str(tmp_path / "from-environment")})
    assert "from-environment" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(runner: CliRunner, shell: str) -> None:
    done = runner.invoke(cli, ["db", "completion", shell])
    assert done.exit_code == 0
    assert f"_KERNELDB_COMPLETE={shell}_complete" in done.stdout


def offered(words: str, at: int) -> str:
    """What the shell is told to complete the word `at` with."""
    environment = {"COMP_WORDS": words, "COMP_CWORD": str(at), "_KERNELDB_COMPLETE": "bash_complete"}
    command = [sys.executable, "-c", "from kerneldb.cli import main; main()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout


def test_completion_offers_commands_and_choices() -> None:
    assert "plain,query" in offered("kerneldb qu", 1)
    assert "plain,idle" in offered("kerneldb analyze id", 2)
    assert "plain,category" in offered("kerneldb top --by c", 3)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("top --trace s", "step"),
        ("traces s", "step"),
        ("traces --rename s", "step"),
        ("diff step s", "step"),
        ("show nvj", "nvjet_sm90"),
        ("db schema kern", "kernel_names"),
        ("db export --table idl", "idle_gaps"),
        ("tui --where durat", "duration_ns"),
        ("diff a b --where durat", "duration_ns"),
        ("query durat", "duration_ns"),
    ],
)
def test_completion_offers_what_is_in_the_database(shared_database: Path, words: str, name: str) -> None:
    assert f"plain,{name}" in offered(f"kerneldb --db {shared_database} {words}", len(words.split()) + 2)


def test_completion_offers_nothing_where_no_database_is(tmp_path: Path) -> None:
    assert offered(f"kerneldb --db {tmp_path / 'none.duckdb'} top --trace s", 5).strip() == ""
    broken = tmp_path / "broken.duckdb"
    broken.write_text("x" * 20_000)
    assert offered(f"kerneldb --db {broken} show nvj", 4).strip() == ""


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ('"durat', "duration_ns"),
        ("\"n > 1 AND category = 'GE", "n > 1 AND category = 'GEMM'"),
        ("\"category = 'ge", "category = 'GEMM'"),
        ('"lower(op', "lower(op"),
    ],
)
def test_completion_offers_columns_and_values_in_a_condition(shared_database: Path, typed: str, name: str) -> None:
    assert f"plain,{name}" in offered(f"kerneldb --db {shared_database} top --where {typed}", 5).split("\n")


def test_completion_offers_tables_behind_from_in_a_statement(shared_database: Path) -> None:
    found = offered(f'kerneldb --db {shared_database} query "SELECT 1 FROM kernels JOIN idle_g', 4)
    offer = "plain,SELECT 1 FROM kernels JOIN idle_gaps('selection')"
    assert found == f"{offer}\n{offer} \n", "behind an only offer a shell closes the quote"
    assert offered(f"kerneldb --db {shared_database} query idle_g", 4) == "\n", "a shell takes brackets apart"
    found = offered(f'kerneldb --db {shared_database} query "SELECT 1 FROM kernels JOIN kernel_n', 4)
    assert found.splitlines()[0] == "plain,SELECT 1 FROM kernels JOIN kernel_names"


def test_completion_takes_back_nothing_that_was_typed(tmp_path: Path) -> None:
    """A shell puts in what all offers begin with."""
    with kerneldb.open(tmp_path / "k.duckdb") as db:
        for place, name in enumerate(("Xab", "Xac", "xad")):
            trace = Trace()
            trace.kernel("k", 1000, 100 + place, 1)
            (tmp_path / "t.json").write_text(kineto(trace))
            db.ingest(tmp_path / "t.json", name=name)
    for typed, offers in (("X", {"'Xab'", "'Xac'"}), ("x", {"'xad'"}), ("XA", {"'Xab'", "'Xac'"}), ("xad", {"'xad'"})):
        found = offered(f"kerneldb --db {tmp_path / 'k.duckdb'} top --where \"trace = '{typed}", 5)
        assert set(re.findall("'[^']*'", found)) == offers, typed


def test_completion_offers_blanks_and_brackets_within_double_quotes_alone(tmp_path: Path) -> None:
    with kerneldb.open(tmp_path / "k.duckdb") as db:
        for place, name in enumerate(("of two <4>", "of `ls`", "of 9!x", 'of "q"', "of a\\b")):
            trace = Trace()
            trace.kernel("k", 1000, 100 + place, 1)
            (tmp_path / "t.json").write_text(kineto(trace))
            db.ingest(tmp_path / "t.json", name=name)
    line = f"kerneldb --db {tmp_path / 'k.duckdb'} top --where"
    assert offered(f"{line} \"trace = 'of", 5) == "plain,trace = 'of two <4>'\n"
    assert offered(f"{line} trace\\ =\\ \\'of", 5) == "\n"


def test_completion_hands_no_value_to_a_shell_that_it_would_run(tmp_path: Path) -> None:
    trace = Trace()
    trace.kernel("k", 1000, 100, 1)
    (tmp_path / "t.json").write_text(kineto(trace))
    with kerneldb.open(tmp_path / "k.duckdb") as db:
        db.ingest(tmp_path / "t.json", name="x$(touch pwned)")
    assert "pwned" not in offered(f"kerneldb --db {tmp_path / 'k.duckdb'} top --where \"trace = 'x", 5)


def test_version(runner: CliRunner) -> None:
    assert re.fullmatch(r"kerneldb \S+ \(reader of PyTorch traces: .*\)\n", runner.invoke(cli, ["--version"]).stdout)


@pytest.mark.parametrize(
    "words",
    [
        ("query", "SELECT '\udcff'"),
        ("db", "export", "--table", "\udcff"),
        ("--db", "\udcff.duckdb", "top"),
        ("show", "\udcff"),
    ],
)
def test_arguments_that_are_not_utf_8_are_named(words: tuple[str, ...], shared_database: Path) -> None:
    done = CliRunner().invoke(cli, ["--db", str(shared_database), *words])
    assert done.exit_code == 2
    assert "an argument is not UTF-8: " in done.stderr
    assert "\\udcff" in done.stderr


def test_a_database_in_a_folder_that_is_not_utf_8_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "\udcff").mkdir()
    with pytest.raises(UsageError, match="only where their path is UTF-8; rename it"):
        kerneldb.open(tmp_path / "\udcff" / "k.duckdb")
