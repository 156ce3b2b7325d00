"""The questions of one report, all asked of one connection: its figures are of one moment of the file."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import itertools
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kerneldb.api.queries import ask, statement
from kerneldb.report.model import Table
from kerneldb.schemas import loader
from kerneldb.warehouse import execute
from kerneldb.warehouse.engine import literal as quoted
from kerneldb.warehouse.statements import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import duckdb
    import polars as pl

    from kerneldb.api import Database
    from kerneldb.report.model import Plan

    Rows = list[dict[str, Any]]

T = TypeVar("T")

FOUND: Final = "found_"
"""Statements read the rows of another one as a relation of this prefix and its name."""
FOUND_NAME: Final = re.compile(rf"\b{FOUND}(\w+)")
KEPT: Final = ("wall", "marks", "places", "typical", "fusion", "conversions")
"""What others read. The engine keeps it: of a trace in which no two launches are alike some have a row per launch."""
COPIED: Final = 100_000
"""So many rows of the wall time are kept twice, with their places: planning these anew takes longer than copying."""
PARAMETER: Final = re.compile(r"\$(\w+)(?:::VARCHAR\[\])?")


@contextlib.contextmanager
def asking(database: Database) -> Iterator[Asking]:
    """One connection for all questions, which see the same rows then, whoever writes meanwhile."""
    with database.warehouse.connection() as con, asking_of(con) as ask:
        yield ask


@contextlib.contextmanager
def asking_of(con: duckdb.DuckDBPyConnection) -> Iterator[Asking]:
    """As `asking`, of a connection that is there; what its views say is as before afterwards."""
    import duckdb

    alone = Alone(con)
    try:
        yield Asking(con, {}, {}, alone=alone)
    finally:
        with contextlib.suppress(duckdb.Error):  # of a connection that somebody has ended
            alone.end()


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """What the engine keeps of a statement: a table or a view, of which parameters, and how many rows a table has."""

    kind: str
    key: str
    rows: int


SHOWN: Final = {"kernels": "all_launches", "_kernels": "all_launches", "kernel_rollups": "all_rollups"}
"""What a reader types to see all launches of a trace that shares some with others."""
SHOWN_NAME: Final = re.compile(rf"(?<=\bFROM )(?:{'|'.join(SHOWN)})\b|(?<=\btop_kernels\()(?=\))")


class Alone:
    """Has the launches of a trace answer that count in another trace of its run: an answer about one trace is whole.

    As `--trace` does (see `Selection`). What the views `kernels`, `_kernels` and `kernel_rollups` would hold if there
    were no other traces stands before them while it is asked for.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self._sharing: frozenset[str] | None = None
        self._timings: dict[str, str | None] = {}
        self._now: str | None = None

    def shares(self, trace: str | None) -> str | None:
        """How the launches of a trace are timed of which some are in other traces; None where none is."""
        if self._sharing is None:
            found = rows_of(self._con, loader.statement("report", "sharing"), None)
            self._sharing = frozenset(row["name"] for row in found)
        if trace is None or trace not in self._sharing:
            return None
        if trace not in self._timings:
            from kerneldb.selection import revived

            self._timings[trace] = revived(self._con, [trace]).get(trace)
        return self._timings[trace]

    def ask(self, trace: str | None) -> None:
        """Have statements from now on see all launches of `trace`; None: each launch of a run once."""
        timing = self.shares(trace)
        if (trace if timing else None) == self._now:
            return
        self.end()
        if trace is not None and timing is not None:
            given = {"trace": quoted(trace), "timing": quoted(timing)}
            for name in SHOWN:
                self._con.execute(loader.statement("report", f"alone_{name}").format(**given))
            self._now = trace

    def end(self) -> None:
        """Have the views say again what they do."""
        for name in SHOWN if self._now is not None else ():
            self._con.execute(loader.statement("report", "together").format(name=name))
        self._now = None


def named(database: Database, name: str) -> list[dict[str, Any]]:
    """The traces that `name` means, with their kinds: a trace, else those of a run, of a label, or of a pattern.

    Raises UsageError where there is none.
    """
    rows = ask(database.warehouse, "report_named", {"name": name})
    if not rows:
        database.traces([name])
    return rows


class Asking:
    """Asks `schemas/queries/report_<query>.sql` and `advice_<name>.sql` with the parameters `params`, each once."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        params: Mapping[str, Any],
        asked: dict[str, Rows],
        kept: dict[str, Kept] | None = None,
        *,
        alone: Alone,
    ) -> None:
        self.params = params
        self._alone = alone
        self._con = con
        self._asked = asked
        self._kept = {} if kept is None else kept

    def about(self, **params: Any) -> Asking:
        """The same connection, with these parameters."""
        return Asking(self._con, params, self._asked, self._kept, alone=self._alone)

    def also(self, params: Mapping[str, Any]) -> Asking:
        """The same, with these parameters beside its own."""
        return self.about(**self.params, **params)

    def rows(self, query: str) -> Rows:
        """The rows of a statement."""
        text = statement(f"report_{query}")
        key = self._key(query, text)
        if key not in self._asked:
            kept = loader.statement("report", "kept").format(name=FOUND + query)
            self._asked[key] = self._run(kept if query in KEPT else text)
        return self._asked[key]

    def frame(self, query: str) -> pl.DataFrame:
        """The rows of a statement as columns, for many rows."""
        import polars as pl

        text = statement(f"report_{query}")
        self._find(text)
        self._alone.ask(self.params.get("trace"))
        return pl.DataFrame(pl.from_arrow(execute.answer(self._con, text, self._named(text))))

    def sql(self, query: str) -> str:
        """A statement as a reader would type it."""
        return self._typed(statement(f"report_{query}"))

    def table(self, plan: Plan, most: int | None = None) -> Table:
        """The table of a plan, with its first `most` rows."""
        rows = self.rows(plan.asked or plan.query)[:most]
        columns = plan.columns
        if plan.is_sparse and rows:
            columns = tuple(one for one in columns if any(row[one.name] is not None for row in rows))
        return Table(plan.caption.format(**self.params), columns, rows, self.sql(plan.query), plan.missing)

    def critical_path(self, trace: str) -> Rows:
        """The steps of the critical path of a trace, by its clock."""
        from kerneldb.api import critical
        from kerneldb.selection import Selection

        Selection(None, (trace,)).bind(self._con)
        return list(critical.in_traces(self._con))

    def of(self, work: Callable[..., T], *args: Any, **options: Any) -> T:
        """What a function of `kerneldb.api` says of the connection."""
        return work(self._con, *args, **options)

    def rule_rows(self, name: str) -> Rows:
        """The rows of the statement of a rule."""
        return self._run(statement(name))

    def rule_sql(self, name: str) -> str:
        """The statement of a rule as a reader would type it, with those that it reads in front."""
        text = statement(name)
        names = read(text)
        if not names:
            return self._typed(text)
        above, plain = _parted(text)
        body = self._typed(plain)
        parts = [f"{FOUND}{one} AS (\n{_indented(self.sql(one))}\n)" for one in names]
        rest = f",\n\n{body.removeprefix('WITH ')}" if body.startswith("WITH ") else f"\n\n{body}"
        return opened("\n".join([*above, "WITH " + ",\n\n".join(parts) + rest]))

    def _typed(self, text: str) -> str:
        """A statement with its parameters, which reads all launches where those of the trace are in others, too."""
        shares = self._alone.shares(self.params.get("trace"))
        whole = SHOWN_NAME.sub(lambda name: SHOWN.get(name[0], "'all_launches'"), text) if shares else text
        return literal(whole, self.params)

    def _key(self, query: str, text: str) -> str:
        """What the rows of a statement depend on."""
        named = set(PARAMETER.findall(" ".join([text, *(statement(f"report_{one}") for one in read(text))])))
        return f"{query} { {name: value for name, value in self.params.items() if name in named} }"

    def _found(self, query: str) -> None:
        """Have the rows of a statement there for others."""
        text = statement(f"report_{query}")
        self._find(text)  # other parameters may have been asked for meanwhile
        key, before = self._key(query, text), self._kept.get(query)
        if before is not None and before.key == key:
            return
        if before is not None:
            self._rows(loader.statement("report", f"drop_{before.kind}").format(name=FOUND + query), "")
        kind = "view" if query == "places" and self._kept["wall"].rows > COPIED else "table"
        keep = loader.statement("report", kind)
        made = self._rows(keep.format(name=FOUND + query, statement=text.rstrip().removesuffix(";")), text)
        self._kept[query] = Kept(kind, key, sum(row["Count"] for row in made))

    def _find(self, text: str) -> None:
        for name in dict.fromkeys(FOUND_NAME.findall(text)):
            self._found(name)

    def _run(self, text: str) -> Rows:
        """The rows of a statement with those of the parameters that it names, which may read those of others."""
        self._find(text)
        return self._rows(text, text)

    def _rows(self, asked: str, text: str) -> Rows:
        """What comes of `asked`, with the parameters that `text` names."""
        self._alone.ask(self.params.get("trace"))
        with execute.query_errors():
            return execute.interruptible(self._con, lambda: rows_of(self._con, asked, self._named(text)))

    def _named(self, text: str) -> dict[str, Any] | None:
        """The parameters that a statement names."""
        named = PARAMETER.findall(text)
        return {name: value for name, value in self.params.items() if name in named} or None


def read(text: str) -> list[str]:
    """The statements whose rows a statement reads, each after those that it reads itself."""
    found: list[str] = []
    for name in dict.fromkeys(FOUND_NAME.findall(text)):
        found += [*read(statement(f"report_{name}")), name]
    return list(dict.fromkeys(found))


def literal(sql: str, params: Mapping[str, Any]) -> str:
    """A statement as a reader would type it: parameters as literals. For reading only, never run here."""

    def typed(match: re.Match[str]) -> str:
        return _typed(params[match[1]]) if match[1] in params else match[0]

    return opened(PARAMETER.sub(typed, sql))


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


def _typed(value: Any) -> str:
    """A value as an SQL literal."""
    if isinstance(value, list):
        return f"[{', '.join(map(_typed, value))}]"
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value}'"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else f"{value:g}"


def _indented(sql: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in sql.removesuffix(";").splitlines())
