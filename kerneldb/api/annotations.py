"""What users know about kernels: FLOPs and bytes per launch, and the role of a kernel in its program."""

from __future__ import annotations

import ast
import math
import operator
import re
from typing import TYPE_CHECKING, Final

from kerneldb.api.queries import require_traces
from kerneldb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kerneldb.api.queries import Connection
    from kerneldb.selection import Selection
    from kerneldb.warehouse import Warehouse

    Note = tuple[str, str | None, float | None]

KEYS: Final = ("flops", "bytes", "role")
NUMBERS: Final = ("flops", "bytes")
LONGEST: Final = 200
ALLOWED: Final = f"Allowed: numbers, + - * / ^ and parentheses, up to {LONGEST} characters."
_ALLOWED: Final = re.compile(r"[0-9eE_.+\-*/^()\s]+")
_OPERATORS: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
}


def number(text: str) -> float:
    """The value of arithmetic over numbers: + - * / ^ (or **) and parentheses, such as "2*8192^3".

    Everything is computed in floating point, so no exponent takes long. Raises UsageError for anything else, and for
    values that are negative or not finite.
    """
    if len(text) > LONGEST or not _ALLOWED.fullmatch(text):
        raise UsageError(f"{text[:40]!r} is not a number. {ALLOWED}")
    try:
        value = _value(ast.parse(text.strip().replace("^", "**"), mode="eval").body)
    except (SyntaxError, ArithmeticError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{text!r} is not a number: {error}. {ALLOWED}") from error
    if not 0 <= value < math.inf:
        raise UsageError(f"{text!r} is {value:g}, and cannot be an amount of work")
    return value


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
    raise ValueError(f"{ast.unparse(node)} is not allowed")


def annotate(
    warehouse: Warehouse, where: str | None, traces: Sequence[str], notes: Mapping[str, str | None], author: str | None
) -> int:
    """Note facts (`flops`, `bytes`, `role`; None takes one off) about the signatures of the selected launches.

    Returns how many signatures. A note holds for its signature in every trace, and replaces the same author's; of
    several authors' notes the latest counts. The author is the user's login name unless given. Raises UsageError for an
    unknown key, for a text that is not arithmetic, and where nothing is selected.
    """
    from kerneldb.selection import Selection

    checked = [(key, text, _checked(key, text)) for key, text in notes.items()]
    require_traces(warehouse, traces)
    selection, known = Selection(where, tuple(traces)), author_of(author)
    return warehouse.write(lambda con: _note(con, selection, checked, known))


def _note(con: Connection, selection: Selection, notes: Sequence[Note], author: str | None) -> int:
    from kerneldb.schemas import loader
    from kerneldb.warehouse.execute import query_errors

    with query_errors():
        selection.bind(con)
        ids = [identity for (identity,) in con.execute(loader.statement("annotate", "chosen")).fetchall()]
    if not ids:
        raise UsageError("no launch meets the condition; nothing is noted")
    for key, text, value in notes:
        wanted = {"ids": ids, "key": key, "author": author}
        con.execute(loader.statement("annotate", "forget"), wanted if text else {**wanted, "author": None})
        if text is not None:
            con.execute(loader.statement("annotate", "note"), {**wanted, "value": text, "number": value})
    return len(ids)


def _checked(key: str, text: str | None) -> float | None:
    """The number of a note that is one. Raises UsageError for what cannot be noted."""
    if key not in KEYS:
        raise UsageError(f"no note is called {key!r}; notes are {', '.join(KEYS)}")
    if text is not None and key in NUMBERS:
        return number(text)
    if text is not None and not text.strip():
        raise UsageError(f"the {key} is empty")
    return None


def author_of(given: str | None) -> str | None:
    """Who notes: as given, else the user's login name, where the system knows one."""
    import getpass

    if given is not None:
        return given
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no login name, as in some containers
        return None
