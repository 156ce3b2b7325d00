"""The examples in the help texts work on the trace in `examples/`."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from kerneldb.cli.root import tree
from tests.conftest import made_once

OTHERS = (
    *("ducklake:", "monday", "counters-v1", "hip8192", "ranks/", "nightly", "bloom-560m", "nsys-run", "llama-"),
    *("same-code", "reconciliation", "reconcile", "kerneldb tui", "kerneldb record", "--until-time", "--in-context"),
    *("train-script", "FROM improvements", "triton_poi", "kerneldb history", "kerneldb mcp"),
    *("> ", "| ", "kerneldb trace.json.gz", "ingest trace", "kerneldb serve"),
)
"""What only runs with other traces, a GPU, a terminal, a lake or a shell."""
EXAMPLES = {
    line: None
    for command in [cli, *(command for _, command in tree(cli))]
    for line in re.findall(r"^ +(kerneldb .*)$", command.help or "", re.MULTILINE)
    if not any(other in line for other in OTHERS)
}
READING = ("top", "show", "query", "analyze", "ncu", "diff", "report", "db export", "db doctor")
"""Commands that change no database."""
WITHOUT = {
    *(
        "analyze",
        "ncu",
        "db",
        "db lake",
        "improve",
        "serve",
        "history",
        "mcp",
        "skill",
        "db lake push",
        "db lake pull",
        "db lake compact",
        "record",
        "tui",
        "db completion",
    ),
    *("analyze same-code", "analyze reconciliation", "analyze reconcile"),
}
"""Groups, and commands whose examples need more than the trace."""


@pytest.fixture(scope="module")
def decoder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of the example, to copy."""
    trace = root / "examples" / "decoder-h200.json.gz"
    return made_once(tmp_path_factory, "examples.duckdb", lambda path: kerneldb.open(path).ingest(trace))


def test_every_command_has_an_example_that_runs() -> None:
    shown = {" ".join(path) for path, _ in tree(cli) if any(f"{' '.join(path)} " in f"{one} " for one in EXAMPLES)}
    assert {" ".join(path) for path, _ in tree(cli)} - shown - WITHOUT == set()


def placed(root: Path, decoder: Path, folder: Path) -> Path:
    """A folder in which the examples work."""
    shutil.copy(decoder, folder / "kernels.duckdb")
    (folder / "examples").symlink_to(root / "examples")
    return folder


@pytest.fixture(scope="module")
def shared(root: Path, decoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the examples that change no database."""
    return placed(root, decoder, tmp_path_factory.mktemp("examples"))


@pytest.mark.thorough
@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_works(
    line: str, root: Path, decoder: Path, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = shlex.split(line.partition("   ")[0])[1:]
    monkeypatch.chdir(shared if " ".join(words).startswith(READING) else placed(root, decoder, tmp_path))
    monkeypatch.delenv("KERNELDB_DB", raising=False)
    if "--remove" in words:
        CliRunner().invoke(cli, ["traces", "--rename", "decoder-h200", "decoder"])
    done = CliRunner().invoke(cli, words, input="y\n")
    assert done.exit_code == 0, done.output
