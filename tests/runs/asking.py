"""What a database says of the files that were read: which belong together, why, and what their collectives waited."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from kerneldb.api import Database
from kerneldb.cli import cli

Files = Mapping[str, Path]
"""A short word for each file, such as A0 for rank 0 of job A."""
Sets = frozenset[frozenset[str]]


def sets(*texts: str) -> Sets:
    """`sets("A0 A1", "B0")`: a set of sets of words."""
    return frozenset(frozenset(text.split()) for text in texts)


def facts(database: Database, files: Files) -> dict[str, dict[str, Any]]:
    """Word → row of `traces`, with its id."""
    rows = database.sql(
        "SELECT path, trace_id, traces.name, run, job, rank FROM traces JOIN trace_files USING (trace_id)"
    ).rows()
    words = {str(path): word for word, path in files.items()}
    found = {words[row["path"]]: row for row in rows if row["path"] in words}
    assert all(row["run"] is not None for row in found.values()), "a trace is of some run, be it alone"
    return found


def together(database: Database, files: Files, column: str = "job") -> Sets:
    """The files by `column` (job or run); what has none is alone."""
    by_value: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    for word, row in facts(database, files).items():
        by_value[("", word) if row[column] is None else ("=", row[column])].add(word)
    return frozenset(map(frozenset, by_value.values()))


def linked(database: Database, files: Files, relation: str) -> Sets:
    """The files that links of this relation join, be it over others; each without one is alone."""
    words = {row["trace_id"]: word for word, row in facts(database, files).items()}
    groups = {word: {word} for word in words.values()}
    sql = "SELECT trace_id, other_id FROM trace_links WHERE relation = $relation"
    for row in database.sql(sql, {"relation": relation}).rows():
        one, other = words.get(row["trace_id"]), words.get(row["other_id"])
        if one is not None and other is not None:
            groups[one] |= groups[other]
            for word in groups[one]:
                groups[word] = groups[one]
    return frozenset(map(frozenset, groups.values()))


def hinted(database: Database, files: Files) -> set[str]:
    """The files that a hint is about."""
    words = {row["trace_id"]: word for word, row in facts(database, files).items()}
    rows = database.sql("SELECT trace_id, other_id FROM trace_links WHERE relation = 'hint'").rows()
    return {words[one] for row in rows for one in row.values() if one in words}


def waits(database: Database, files: Files) -> dict[str, dict[str, int]]:
    """Word → sums over its collectives, as `ranks.Job.waits` has them."""
    words = {row["name"]: word for word, row in facts(database, files).items()}
    sums = {word: {"n": 0, "matched": 0, "transfer": 0, "wait": 0} for word in words.values()}
    for row in database.sql("FROM collective_waits('kernels')").rows():
        one = sums[words[row["trace"]]]
        one["n"] += row["n"]
        one["matched"] += row["matched"]
        one["transfer"] += row["transfer_ns"] or 0
        one["wait"] += row["wait_ns"] or 0
    return sums


def no_two_of_a_rank(database: Database, files: Files) -> None:
    """Two traces of one rank are of two jobs."""
    seen = collections.Counter(
        (row["job"], row["rank"]) for row in facts(database, files).values() if row["job"] is not None
    )
    assert [one for one, n in seen.items() if n > 1] == []


def right_or_apart(database: Database, files: Files, right: Sets) -> None:
    """No trace is in a job with one that it does not belong to."""
    for group in together(database, files):
        assert any(group <= one for one in right), f"joined without proof: {sorted(group)}"
    no_two_of_a_rank(database, files)


def command(database: Database, *arguments: str | Path) -> tuple[str, str]:
    """What a command prints and says."""
    result = CliRunner().invoke(cli, ["--db", str(database.path), *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def in_calls(database: Database, files: Files, order: Iterable[str]) -> None:
    """Ingest one file a call."""
    for word in order:
        database.ingest([files[word]])
