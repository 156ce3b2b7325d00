"""Commands that kerneldb proposes are what a shell takes, and readable where they hold a condition."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

from kerneldb.shell import command_line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["top", "--by", "op"], "top --by op"),
        (["top", "--where", "kind = 'memcpy'"], """top --where "kind = 'memcpy'\""""),
        (["show", "[CUDA memcpy Host-to-Device]"], "show '[CUDA memcpy Host-to-Device]'"),
    ],
)
def test_words_are_quoted_as_people_do(words: list[str], line: str) -> None:
    assert command_line(words) == line


@pytest.mark.parametrize("word", ["a'b$HOME", "a'`ls`", "a'\"b", "a'b!c", "a'b\\c", "", "it's"])
def test_a_shell_takes_each_word_as_it_is(word: str) -> None:
    assert shlex.split(command_line(["top", word])) == ["top", word]


@pytest.mark.parametrize("word", ["a'\nb", "\n1", "\x1b[2J", "\u202eevil\\", "\x9b0", "\U000e0041a", "caf\udce9"])
def test_what_is_not_printable_is_an_escape_of_the_shell(word: str) -> None:
    line = command_line(["printf", "%s", word])
    assert line.isprintable()
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True, env=environment)
    assert os.fsdecode(done.stdout) == word
