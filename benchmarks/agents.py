"""Two hundred questions with known answers, put to `kerneldb mcp` by the SDK: python benchmarks/agents.py FILE.

Known: sums over the tables of launches and signatures, made by polars from rows that are read once (none of kerneldb's
views). Each answer is compared with them; then every query that an answer carries is asked again, and has to give the
same rows. Says how many numbers that were, and the times of the questions. FILE is one of generate_warehouse.py, say.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import anyio
import duckdb
import polars as pl
import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Answer = dict[str, Any]
    Check = Callable[[Answer], bool]

READ = """
SELECT t.name AS trace, l.signature_id AS signature, n.short_name AS kernel, s.category, n.library, s.op, l.phase,
    count(*) AS n, sum(l.duration_ns)::BIGINT AS total_ns, min(l.start_ns) AS start_ns, max(l.end_ns) AS end_ns
FROM launches AS l
INNER JOIN traces AS t ON l.trace_id = t.trace_id
INNER JOIN signatures AS s ON l.signature_id = s.signature_id
INNER JOIN kernel_names AS n ON s.name_id = n.name_id
GROUP BY ALL
"""
KEYS = ("kernel", "category", "library", "op", "phase", "signature", "trace")
COLUMNS = {"kernel": "short_name", "signature": "signature_id"}
SIDES = ("n_before", "total_before_ns", "n_after", "total_after_ns")
SLOWEST = 0.95


@dataclasses.dataclass(frozen=True)
class Question:
    """What is asked, and whether an answer is the known one."""

    tool: str
    arguments: dict[str, Any]
    holds: Check
    refused: bool = False

    def is_right(self, answer: Answer) -> bool:
        """Whether it is the known answer; a refusal is none, where an answer is known."""
        return bool(answer["answered"]) is not self.refused and self.holds(answer)


def questions(path: Path) -> list[Question]:
    """Many of each kind, in turn."""
    with duckdb.connect(str(path), read_only=True) as con:
        cube = con.sql(READ).pl()
    kinds = (
        _tops(cube),
        _chosen(cube),
        _queries(cube),
        _shown(cube),
        _traces(cube),
        _walls(cube),
        _diffs(cube),
        _none(),
    )
    return [one for group in itertools.zip_longest(*kinds) for one in group if one is not None]


def _sums(cube: pl.DataFrame, by: str) -> list[tuple[Any, int, int]]:
    """Key, launches and ns, most time first."""
    summed = cube.group_by(by).agg(pl.col("n").sum(), pl.col("total_ns").sum())
    return summed.sort(["total_ns", by], descending=[True, False], nulls_last=True).rows()


def _is_top(expected: list[tuple[Any, int, int]], offset: int, limit: int) -> Check:
    total = sum(ns for *_, ns in expected)

    def holds(answer: Answer) -> bool:
        rows = answer["rows"]
        wanted = expected[offset : offset + limit]
        return len(rows) == len(wanted) and all(
            (key, n, ns) == (row[1], row[2], row[3])
            and abs(row[4] - ns / n) < 1e-9 * row[4]
            and abs(row[5] - 100 * ns / total) < 1e-9
            for row, (key, n, ns) in zip(rows, wanted, strict=True)
        )

    return holds


def _tops(cube: pl.DataFrame) -> Iterator[Question]:
    for offset, by in itertools.product((0, 7, 20), KEYS):
        expected = _sums(cube, by)
        if offset < len(expected):
            yield Question("top", {"by": by, "limit": 20, "offset": offset}, _is_top(expected, offset, 20))


def _chosen(cube: pl.DataFrame) -> Iterator[Question]:
    """Top of launches that a condition and the names of traces choose."""
    names = cube["trace"].unique().sort().to_list()
    for column in ("category", "phase", "library", "op", "kernel"):
        values = cube[column].drop_nulls().unique().sort().to_list()
        for number, value in enumerate(values[:20]):
            traces = [names[number % len(names)]]
            chosen = cube.filter((pl.col(column) == value) & pl.col("trace").is_in(traces))
            by = KEYS[number % 5]
            if len(chosen):
                where = "{} = '{}'".format(COLUMNS.get(column, column), value.replace("'", "''"))
                asked = {"by": by, "where": where, "traces": traces, "limit": 30}
                yield Question("top", asked, _is_top(_sums(chosen, by), 0, 30))


def _queries(cube: pl.DataFrame) -> Iterator[Question]:
    """SELECTs of a trace's launches, and of all rollups."""
    for trace in cube["trace"].unique().sort().to_list()[:60]:
        own = cube.filter(pl.col("trace") == trace)
        sql = "SELECT phase, count(*) AS n, sum(duration_ns) AS ns FROM selection GROUP BY 1 ORDER BY 1 NULLS FIRST"
        known = [
            list(row)
            for row in own.group_by("phase").agg(pl.col("n").sum(), pl.col("total_ns").sum()).sort("phase").rows()
        ]
        yield Question("query", {"sql": sql, "traces": [trace]}, lambda answer, known=known: answer["rows"] == known)
    for category in cube["category"].drop_nulls().unique().sort().to_list():
        own = cube.filter(pl.col("category") == category)
        sums = [[int(own["n"].sum()), int(own["total_ns"].sum())]]
        text = category.replace("'", "''")
        sql = f"SELECT sum(n) AS n, sum(total_ns) AS ns FROM kernel_rollups WHERE category = '{text}'"  # noqa: S608 (a category)
        yield Question("query", {"sql": sql}, lambda answer, sums=sums: answer["rows"] == sums)


def _shown(cube: pl.DataFrame) -> Iterator[Question]:
    for signature, n, ns in _sums(cube, "signature")[:40]:

        def holds(answer: Answer, n: int = n, ns: int = ns) -> bool:
            times = answer["parts"]["times"]
            rows = [dict(zip(times["columns"], row, strict=True)) for row in times["rows"]]
            complete = times["next_offset"] is None
            sums = sum(row["n"] for row in rows), sum(row["total_ns"] for row in rows)
            return sums == (n, ns) if complete else sums < (n, ns)

        yield Question("show", {"kernel": signature}, holds)


def _traces(cube: pl.DataFrame) -> Iterator[Question]:
    known = {trace: n for trace, n, _ in _sums(cube, "trace")}
    for offset in range(0, min(len(known), 100), 10):

        def holds(answer: Answer) -> bool:
            rows = [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
            return bool(rows) and all(row["launches"] == known[row["trace"]] for row in rows)

        yield Question("traces", {"limit": 10, "offset": offset}, holds)


def _walls(cube: pl.DataFrame) -> Iterator[Question]:
    """The causes of a verdict add up to the time from the first launch to the end of the last."""
    for trace in cube["trace"].unique().sort().to_list()[:8]:
        own = cube.filter(pl.col("trace") == trace)
        span = int(own["end_ns"].max()) - int(own["start_ns"].min())  # type: ignore[arg-type]

        def holds(answer: Answer, span: int = span) -> bool:
            wall = answer["parts"]["wall_time"]
            return sum(row[wall["columns"].index("wall_ns")] for row in wall["rows"]) == span

        yield Question("why", {"trace": trace}, holds)


def _diffs(cube: pl.DataFrame) -> Iterator[Question]:
    """The rows of a comparison add up to the launches and the time of both sides."""
    sums = {trace: (n, ns) for trace, n, ns in _sums(cube, "trace")}
    for before, after in itertools.pairwise(sorted(sums)[:11]):

        def holds(answer: Answer, known: tuple[int, ...] = (*sums[before], *sums[after])) -> bool:
            places = [answer["columns"].index(name) for name in SIDES]
            found = tuple(sum(row[place] for row in answer["rows"]) for place in places)
            return bool(found) and (found == known if answer["next_offset"] is None else found < known)

        yield Question("diff", {"before": before, "after": after, "limit": 500}, holds)


def _none() -> Iterator[Question]:
    """What has no answer."""
    refused = [
        ("query", {"sql": "DELETE FROM launches"}), ("query", {"sql": "SELECT nothing FROM kernels"}),
        ("top", {"where": "category = 'GEM'"}), ("why", {"trace": "none"}), ("show", {"kernel": "no such kernel"}),
        ("replay", {"where": "true"}), ("counters", {"where": "true"}), ("improve", {"trace": "no such trace"}),
    ]  # fmt: skip
    for tool, asked in refused:
        yield Question(tool, asked, lambda answer: answer["cannot_answer"].startswith("because "), refused=True)


def repeats(answer: Answer) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """The arguments of `query` for each query that an answer carries, and the rows that it has to give."""
    for one in (answer, *answer.get("parts", {}).values()):
        if one.get("query") and "rows" in one:
            selected = {"where": one.get("where"), "traces": one.get("traces")}
            yield {"sql": one["query"], **selected, "limit": max(len(one["rows"]), 1), "offset": 0}, one["rows"]


def advised(answer: Answer) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The same for the pieces of advice, each of which has a row of figures."""
    for one in answer.get("advice", ()):
        yield {"sql": one["query"], "limit": 1}, one["figures"]


def numbers(value: Any) -> int:
    """How many numbers there are in it."""
    if isinstance(value, dict):
        return sum(map(numbers, value.values()))
    if isinstance(value, list):
        return sum(map(numbers, value))
    return int(isinstance(value, int | float) and not isinstance(value, bool))


async def repeated(client: Any, question: Question, answer: Answer) -> tuple[int, int]:
    """Ask every query of an answer again: how many numbers came out, and how many of them the same."""
    asked, same = 0, 0
    offset = question.arguments.get("offset", 0)
    for arguments, rows in repeats(answer):
        again = (
            await client.call_tool("query", {**arguments, "offset": offset if "parts" not in answer else 0})
        ).structured_content
        asked += numbers(rows)
        same += numbers(rows) if again.get("rows") == rows else 0
        if again.get("rows") != rows:
            print("not the same:", question, again.get("cannot_answer"), flush=True)
    for arguments, figures in advised(answer):
        again = (await client.call_tool("query", arguments)).structured_content
        rows = [dict(zip(again["columns"], row, strict=True)) for row in again.get("rows", ())]
        asked += numbers(figures)
        same += numbers(figures) if rows == [figures] else 0
        if rows != [figures]:
            print("not the same:", question, again.get("cannot_answer", rows), figures, flush=True)
    return asked, same


async def converse(path: Path, count: int, skipped: list[str]) -> None:
    """Ask, compare, and say what came of it."""
    from mcp import Client, StdioServerParameters, stdio_client

    every = [one for one in questions(path) if one.tool not in skipped][:count]
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "kerneldb", "--db", str(path), "mcp"], env=dict(os.environ)
    )
    took: list[tuple[float, float, str]] = []
    asked, same = 0, 0
    async with Client(stdio_client(command)) as client:
        (server,) = psutil.Process().children()
        for question in every:
            began, used = time.perf_counter(), server.cpu_times()
            answer = (await client.call_tool(question.tool, question.arguments)).structured_content
            now = server.cpu_times()
            took.append((time.perf_counter() - began, now.user + now.system - used.user - used.system, question.tool))
            if not question.is_right(answer):
                print("wrong:", question.tool, question.arguments, answer.get("cannot_answer"), flush=True)
            found = await repeated(client, question, answer)
            asked, same = asked + found[0], same + found[1]
    print(f"{len(every)} questions; {same:,} of {asked:,} numbers came again from the query beside them")
    for place, what in enumerate(("wall", "of processor")):
        times = sorted(one[place] for one in took)
        p95 = times[int(SLOWEST * len(times))]
        print(f"p50 {times[len(times) // 2]:.3f} s, p95 {p95:.3f} s, longest {times[-1]:.3f} s {what}")
    for tool in sorted({one[2] for one in took}):
        some = [one for one in took if one[2] == tool]
        print(f"  {tool}: {len(some)}, longest {max(some)[0]:.3f} s, {max(one[1] for one in some):.3f} s of processor")


def main() -> None:
    """Read the arguments."""
    from pathlib import Path

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("database", type=Path)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--skip", action="append", default=[], metavar="TOOL")
    arguments = parser.parse_args()
    anyio.run(converse, arguments.database, arguments.questions, arguments.skip)


if __name__ == "__main__":
    main()
