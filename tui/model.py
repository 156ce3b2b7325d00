"""What all screens agree on: which launches are looked at, and how finely lists distinguish kernels."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from kerneldb.shell import kerneldb, valued

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerneldb.selection import Selection

Level = Literal["op", "kernel", "signature", "launch"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)

LITERAL: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
"""Texts and quoted names: their content is not part of the condition's form."""
LOOSE: Final = re.compile(r"(?<![a-z_])(?:or|between)(?![a-z0-9_])|[\n\r]|/\*", re.IGNORECASE)
"""Outside of texts: what binds no tighter than AND, or may."""
HIDING: Final = re.compile(r"[\\$]")
"""What other kinds of texts begin or go on with (E'it\\'s', $$it's$$)."""


def quoted(value: object) -> str:
    """`value` as SQL writes it: texts in single quotes, None as NULL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return "'" + str(value).replace("'", "''") + "'"


def equals(column: str, value: object) -> str:
    """The condition that `column` (a plain column name) has `value`."""
    return f"{column} IS NULL" if value is None else f"{column} = {quoted(value)}"


def both(first: str, second: str) -> str:
    """The condition that two conditions hold; an empty one always does."""
    if not first.strip() or not second.strip():
        return (first.strip() or second.strip()).strip()
    return f"{_guarded(first)} AND {_guarded(second)}"


def _guarded(condition: str) -> str:
    """In brackets, unless AND may follow as it is. A comment at the end would hide what follows, but for a new line."""
    text = condition.strip()
    if "--" in text:
        return f"({text}\n)" if "--" in text.rpartition("\n")[2] else f"({text})"
    return f"({text})" if HIDING.search(text) or LOOSE.search(LITERAL.sub("''", text)) else text


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """The one Selection of the screens: a WHERE text ('' for all), traces by name (none: all), the level of lists."""

    where: str = ""
    traces: tuple[str, ...] = ()
    level: Level = "kernel"

    def selection(self) -> Selection:
        """The same for `kerneldb.selection`, imported here because the engine comes with it."""
        from kerneldb.selection import Selection

        return Selection(self.where.strip() or None, self.traces)

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.where.strip() and not self.traces

    def changed(self, **changes: Any) -> Choice:
        """This choice with other fields."""
        return dataclasses.replace(self, **changes)

    def narrowed(self, condition: str) -> Choice:
        """This choice, further restricted to what meets `condition`."""
        return self.changed(where=both(self.where, condition))

    @property
    def trace_condition(self) -> str:
        """The condition that says the same as `traces`, in SQL."""
        return f"trace IN ({', '.join(map(quoted, self.traces))})" if self.traces else ""

    def arguments(self) -> list[str]:
        """The options of the command line that select the same: `--where TEXT --trace NAME …`."""
        where = valued("--where", self.where.strip()) if self.where.strip() else []
        return where + [part for name in self.traces for part in valued("--trace", name)]


def command_line(database: str, arguments: Sequence[str], choice: Choice | None = None) -> str:
    """A line for the shell: `kerneldb --db FILE ARGUMENTS --where TEXT`."""
    return kerneldb(*arguments, *(choice.arguments() if choice else []), database=database)


@dataclasses.dataclass(frozen=True, slots=True)
class Pointed:
    """A kernel under a cursor: a launch (id of its trace, and its index), else a signature (in one trace, or any)."""

    signature_id: str | None
    trace: str | None = None
    launch: tuple[str, int] | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any], trace: str | None = None) -> Pointed | None:
        """What a row of a table names; None where it names none."""
        signature_id, trace_id, index = (row.get(name) for name in ("signature_id", "trace_id", "launch_index"))
        signature_id = signature_id if isinstance(signature_id, str) else None
        launch = (trace_id, index) if isinstance(trace_id, str) and isinstance(index, int) else None
        return cls(signature_id, trace, launch) if signature_id or launch else None


class History:
    """Choices that were made, with a place in them: `[` steps back, `]` forth; a new one drops what lay ahead."""

    def __init__(self, first: Choice) -> None:
        self._choices = [first]
        self._place = 0

    @property
    def current(self) -> Choice:
        """The choice at the place."""
        return self._choices[self._place]

    def add(self, choice: Choice) -> None:
        """Make `choice` the current one."""
        if choice == self.current:
            return
        self._choices[self._place + 1 :] = [choice]
        self._place += 1

    def step(self, steps: int) -> Choice:
        """Move by `steps` (negative: back), as far as there are choices, and return the one there."""
        self._place = min(max(self._place + steps, 0), len(self._choices) - 1)
        return self.current

    def texts(self) -> list[str]:
        """The WHERE texts that were used in this session, latest first, each once."""
        found = [choice.where for choice in reversed(self._choices) if choice.where.strip()]
        return list(dict.fromkeys(found))
