"""Every console block of the documents is run, in order, in one folder per document; it must print what stands there.

A line `…` stands for any number of lines. How long a command took, and how fast it read, differs from run to run and is
compared as `N`. A `kerneldb` command at the beginning of a line runs in this process, which saves its start; what needs
a shell gets one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerneldb.cli import cli
from kerneldb.replay import routes
from kerneldb.replay.recording import ranks
from tests.recording import in_process

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BRIEF = ("README.md", "why.md", "ncu.md")
"""The commands of other documents take seconds; tests beside them ask the same of smaller databases."""
NEEDS_SHELL = re.compile(r"""[$`]|[|<>&;*\n](?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")
"""What only a shell expands, and outside quotes what it does."""
THEN = re.compile(r"""((?:[^'"$`|<>&;*\n]|'[^']*'|"[^"$`]*")+)([|>])([^&]*)""")
"""A command without anything for a shell, and what becomes of its output: a pipe, or a file."""
VARYING = (
    (re.compile(r"(?<=\bin )\d+(?:\.\d+)? (?:s|ms)\b"), "N s"),
    (re.compile(r"\b\d+(?:\.\d+)? MB/s"), "N MB/s"),
    (re.compile(r" +"), " "),
    (re.compile(r"[─-]{3,}"), "---"),
)


@dataclass(frozen=True)
class Example:
    """A command and the lines that it is said to print."""

    command: str
    printed: list[str]


def examples(document: Path) -> list[Example]:
    """The commands of all console blocks; `> ` continues a command."""
    found: list[Example] = []
    for block in BLOCK.findall(document.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Example(line[2:], []))
            elif line.startswith("> "):
                found[-1] = Example(found[-1].command + "\n" + line[2:], [])
            else:
                found[-1].printed.append(line)
    return found


def normal(line: str) -> str:
    """The line without what varies."""
    for pattern, replacement in VARYING:
        line = pattern.sub(replacement, line)
    return line.strip()


def agrees(expected: list[str], actual: list[str]) -> bool:
    """Whether the lines are the same; `…` stands for any number of lines."""
    if not expected:
        return not actual
    if expected[0] == "…":
        return any(agrees(expected[1:], actual[skip:]) for skip in range(len(actual) + 1))
    return bool(actual) and expected[0] == actual[0] and agrees(expected[1:], actual[1:])


def run(command: str, folder: Path) -> list[str]:
    """What `command` prints on stdout, with `kerneldb` being the one under test."""
    printed = run_kerneldb(command, folder) if command.startswith("kerneldb ") else None
    if printed is None:
        printed = run_in_shell(command, folder)
    return [normal(line) for line in printed.splitlines() if line.strip()]


def run_kerneldb(command: str, folder: Path) -> str | None:
    """What the command prints where no shell is needed to start it, and None where one is."""
    if not NEEDS_SHELL.search(command):
        return run_here(shlex.split(command)[1:], folder)
    found = THEN.fullmatch(command)
    if found is None or "kerneldb" in found[3]:
        return None
    printed = run_here(shlex.split(found[1])[1:], folder)
    return run_in_shell(found[3] if found[2] == "|" else f"cat >{found[3]}", folder, printed)


def run_here(arguments: list[str], folder: Path) -> str:
    with contextlib.chdir(folder):
        done = CliRunner(env={name: None for name in os.environ if name.startswith("KERNELDB")}).invoke(cli, arguments)
    assert done.exit_code == 0, f"kerneldb {shlex.join(arguments)}\n{done.stderr}"
    return done.stdout


def run_in_shell(command: str, folder: Path, text: str = "") -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KERNELDB")}
    script = f'kerneldb() {{ "{sys.executable}" -m kerneldb "$@"; }}\n{command}'
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, input=text, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(
            document, id=str(document.relative_to(ROOT)), marks=[pytest.mark.thorough] * (document.name not in BRIEF)
        )
        for document in DOCUMENTS
        if examples(document)
    ],
)
def test_console_blocks_print_what_they_say(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "run", in_process.run)
    for folder in ("examples", "tests"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for example in examples(document):
        expected = [normal(line) for line in example.printed if line.strip()]
        actual = run(example.command, tmp_path)
        assert agrees(expected, actual), "\n".join(
            [f"$ {example.command}", "expected:", *expected, "printed:", *actual]
        )


def test_the_readme_has_examples() -> None:
    assert len(examples(ROOT / "README.md")) >= 3


def test_a_wrong_line_is_noticed() -> None:
    assert not agrees(["1 row"], ["2 rows"])
    assert agrees(["a", "…", "z"], ["a", "b", "c", "z"])
    assert not agrees(["a", "…", "z"], ["a", "b"])
    assert normal("done in 0.31 s at 45 MB/s") == "done in N s at N MB/s"


def test_every_route_is_described_as_its_class_says() -> None:
    told = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
    lines = [f"| `{route.name}` | {route.about}" for route in routes.known() if route not in routes.of_users()]
    assert [line for line in lines if line not in told] == []
    places = [told.index(line) for line in lines]
    assert places == sorted(places)
