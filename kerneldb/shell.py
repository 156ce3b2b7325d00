"""Command lines that are printed to be copied into a shell.

Names of files and traces in them were chosen by strangers: none may be more than one word, nor be taken for an option.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_ASCII: Final = 0x80
_BYTES: Final = range(0xDC80, 0xDD00)
"""How Python holds bytes of a file name that are no UTF-8."""
_QUOTES: Final = re.compile(r"""[^"$`!\\\n]*'[^"$`!\\\n]*""")
"""A word with single quotes and nothing that a shell expands between double ones."""


class Name(str):
    """A word in the place of an argument, whatever it begins with; `file` is for those that name files."""

    __slots__ = ()


def file(path: str | Path) -> str:
    """The word for a file, which is no option: `./-x` for `-x`."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def valued(name: str, value: str) -> list[str]:
    """The words for an option with its value: `--trace x`, but `--trace=-x`."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def command_line(words: Iterable[str]) -> str:
    """Words as a shell takes them, on one line; a condition stays readable: ``--where "kind = 'memcpy'"``.

    Where a `Name` begins like an option, all of them come last, after `--`.
    """
    given = list(words)
    if any(isinstance(word, Name) and word.startswith("-") for word in given):
        names = [word for word in given if isinstance(word, Name)]
        given = [*(word for word in given if not isinstance(word, Name)), "--", *names]
    return " ".join(map(_word, given))


def _word(word: str) -> str:
    """A word of a command; what is not printable in it becomes an escape that bash and zsh know."""
    if not word.isprintable():
        return f"$'{''.join(map(_in_shell, word))}'"
    return f'"{word}"' if _QUOTES.fullmatch(word) else shlex.quote(word)


def _in_shell(one: str) -> str:
    code = ord(one)
    if one in "\\'":
        return f"\\{one}"
    if one.isprintable():
        return one
    if code < _ASCII or code in _BYTES:
        return f"\\x{code & 0xFF:02x}" if one != "\n" else "\\n"
    return f"\\U{code:08x}"


def kerneldb(*words: str, database: object = None) -> str:
    """The command line `kerneldb WORDS`, with `--db` where a `database` is named: a file, or a lake."""
    return command_line(["kerneldb", *([] if database is None else ["--db", file(str(database))]), *words])
