"""Patterns that are compiled once a text may match: hundreds of them take longer than a small trace takes to read."""

from __future__ import annotations

import re

_PIECE = re.compile(r"\\.|\[\^?\]?[^\]]*\]|[()|]|[^\\\[()|]+")
_BEGINNING = re.compile(r"(\^?)([\w: -]*)([?*{]?)")


class Pattern:
    """A regular expression, without flags, to be searched for in short texts."""

    __slots__ = ("_anywhere", "_compiled", "_first", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._first, self._anywhere = _beginnings(text)
        self._compiled: re.Pattern[str] | None = None

    def occurs_in(self, text: str) -> bool:
        """Whether some part of the text matches."""
        if self._compiled is None:
            if not (text.startswith(self._first) or any(letters in text for letters in self._anywhere)):
                return False
            self._compiled = re.compile(self.text)
        return self._compiled.search(text) is not None


def _beginnings(pattern: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The letters with which the alternatives begin: of those that match at the start of a text only, and of others."""
    found = [match.groups() for one in alternatives(pattern) if (match := _BEGINNING.match(one))]
    letters = [(first, letters[:-1] if may_lack else letters) for first, letters, may_lack in found]
    return tuple(one for first, one in letters if first), tuple(one for first, one in letters if not first)


def alternatives(pattern: str) -> list[str]:
    """What stands between the bars outside of brackets."""
    depth, found = 0, [""]
    for piece in _PIECE.findall(pattern):
        depth += (piece == "(") - (piece == ")")
        if piece == "|" and depth == 0:
            found.append("")
        else:
            found[-1] += piece
    return found
