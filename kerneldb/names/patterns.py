"""Patterns that are compiled once a text may match: hundreds of them take longer than a small trace takes to read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

_PIECE = re.compile(r"\\.|\[\^?\]?[^\]]*\]|[()|]|[^\\\[()|]+")
_LETTERS = 3
"""By so many letters patterns are looked up."""
_BEGINNING = re.compile(r"(\^?)([\w: -]*)([?*{]?)")


class Pattern:
    """A regular expression, without flags, to be searched for in short texts."""

    __slots__ = ("_anywhere", "_compiled", "_first", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._first, self._anywhere = _beginnings(text)
        self._compiled: re.Pattern[str] | None = None

    def letters(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Of which letters a text that matches begins with one, and of which it else holds one; '' says nothing."""
        return self._first, self._anywhere

    def occurs_in(self, text: str) -> bool:
        """Whether some part of the text matches."""
        if self._compiled is None:
            if not (text.startswith(self._first) or any(letters in text for letters in self._anywhere)):
                return False
            self._compiled = re.compile(self.text)
        return self._compiled.search(text) is not None


class Patterns:
    """Patterns in order. A text is searched by those only whose letters it holds: a trace may have a million names."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._patterns = patterns
        self._always: set[int] = set()
        self._first: dict[str, list[int]] = defaultdict(list)
        self._anywhere: dict[str, list[int]] = defaultdict(list)
        for number, pattern in enumerate(patterns):
            first, anywhere = pattern.letters()
            if "" in first or any(len(letters) < _LETTERS for letters in anywhere):
                self._always.add(number)
            for letters in first:
                self._first[letters[:_LETTERS]].append(number)
            for letters in anywhere:
                self._anywhere[letters[:_LETTERS]].append(number)

    def first_in(self, text: str) -> int | None:
        """The number of the first pattern that occurs in the text."""
        candidates = self._always.copy()
        for length in range(1, _LETTERS + 1):
            candidates.update(self._first.get(text[:length], ()))
        for at in range(len(text) - _LETTERS + 1):
            candidates.update(self._anywhere.get(text[at : at + _LETTERS], ()))
        return next((number for number in sorted(candidates) if self._patterns[number].occurs_in(text)), None)


def _beginnings(pattern: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The letters with which the alternatives begin: of those that match at the start of a text only, and of others."""
    found = [match.groups() for one in alternatives(pattern) if (match := _BEGINNING.match(one))]
    letters = [(first, letters[:-1] if may_lack else letters) for first, letters, may_lack in found]
    return tuple(one for first, one in letters if first), tuple(one for first, one in letters if not first)


def alternatives(pattern: str) -> list[str]:
    """What stands between the bars outside of brackets."""
    if "|" not in pattern:
        return [pattern]
    depth, found = 0, [""]
    for piece in _PIECE.findall(pattern):
        depth += (piece == "(") - (piece == ")")
        if piece == "|" and depth == 0:
            found.append("")
        else:
            found[-1] += piece
    return found
