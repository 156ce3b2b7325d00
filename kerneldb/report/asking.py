"""The questions of one report, all asked of one connection: its figures are of one moment of the file."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import statement
from kerneldb.warehouse import execute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb
    import pyarrow as pa

    from kerneldb.api import Database

    Rows = list[dict[str, Any]]

FOUND: Final = "found_"
"""Statements read the rows of another one as a relation of this prefix and its name."""


@contextlib.contextmanager
def asking(database: Database) -> Iterator[Asking]:
    """One connection for all questions, which see the same rows then, whoever writes meanwhile."""
    with database.warehouse.connection() as con:
        yield Asking(con)


class Asking:
    """Asks the statements `schemas/queries/report_<name>.sql` and `finding_<name>.sql`, each once per parameters."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self._asked: dict[str, pa.Table] = {}

    def rows(self, name: str, params: Mapping[str, Any] | None = None) -> Rows:
        """The rows of a statement."""
        found: Rows = self._table(name, params).to_pylist()
        return found

    def finding(self, name: str, needs: Sequence[str], trace: str) -> Rows:
        """The rows of the statement of a rule, which reads what the statements `needs` have found for the trace."""
        for need in needs:
            self._con.register(FOUND + need, self._table(f"report_{need}", {"trace": trace}))
        text = statement(name)
        found: Rows = execute.run(self._con, text, {"trace": trace} if "$trace" in text else None, None).to_pylist()
        return found

    def _table(self, name: str, params: Mapping[str, Any] | None) -> pa.Table:
        key = f"{name} {params}"
        if key not in self._asked:
            self._asked[key] = execute.run(self._con, statement(name), params, None)
        return self._asked[key]


def literal(sql: str, trace: str) -> str:
    """A statement as a reader would type it: the parameter as a literal. For reading only, never run here."""
    return opened(sql.replace("$trace", quoted(trace)))


def opened(sql: str) -> str:
    """A statement with the comment above it as a block: what begins with dashes, a shell hands over as an option."""
    above, body = _parted(sql.strip())
    words = "\n   ".join(line.removeprefix("--").strip() for line in above)
    return f"/* {words} */\n{body}" if above else body


def _parted(sql: str) -> tuple[list[str], str]:
    """The lines of the comment above a statement, and the statement."""
    lines = sql.splitlines()
    above = list(itertools.takewhile(lambda line: line.startswith("--"), lines))
    return above, "\n".join(lines[len(above) :])


def quoted(text: str) -> str:
    """`text` as an SQL string literal, for reading only."""
    return "'" + text.replace("'", "''") + "'"


def spelled(name: str, needs: Sequence[str], trace: str) -> str:
    """The statement of a rule as a reader would type it, with those that it needs in front."""
    if not needs:
        return literal(statement(name), trace)
    above, plain = _parted(statement(name))
    body = literal(plain, trace)
    parts = [f"{FOUND}{need} AS (\n{_indented(literal(statement(f'report_{need}'), trace))}\n)" for need in needs]
    rest = f",\n\n{body.removeprefix('WITH ')}" if body.startswith("WITH ") else f"\n\n{body}"
    return opened("\n".join([*above, "WITH " + ",\n\n".join(parts) + rest]))


def _indented(sql: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in sql.removesuffix(";").splitlines())
