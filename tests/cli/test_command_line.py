"""Commands that kerneldb proposes are what a shell takes, and readable where they hold a condition."""

from __future__ import annotations

import shlex

import pytest

from kerneldb.output.text import command_line


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


@pytest.mark.parametrize("word", ["a'b$HOME", "a'`ls`", "a'\"b", "a'b!c", "a'b\\c", "a'\nb", "", "it's"])
def test_a_shell_takes_each_word_as_it_is(word: str) -> None:
    assert shlex.split(command_line(["top", word])) == ["top", word]
