"""A report as Markdown: tables and queries. Charts whose data no table has become a table or a line of blocks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

from kerneldb.output.text import escape, harmless
from kerneldb.output.units import duration
from kerneldb.report.model import Chart, Column, Report, Section, Table, is_number, notes, shown

BINS: Final = (
    Column("from_value", "from", "number"),
    Column("to_value", "to", "number"),
    Column("n", "launches", "count"),
)
ITERATIONS: Final = (
    Column("iteration", "iteration"),
    Column("total_ms", "GPU time in ms", "number"),
    Column("steady_state", "steady_state"),
)
BLOCKS: Final = "▁▂▃▄▅▆▇█"
PER_BLOCK: Final = 4
"""Bins of the timeline per character."""
NEAR: Final = 1e-6
"""Of a character: what sums of fractions are beside it."""


def page(report: Report) -> str:
    """The Markdown text."""
    lines = [f"# {_plain(report.title)}", "", _plain(report.subtitle), ""]
    for section in report.sections:
        if body := list(_body(section)):
            lines += [f"## {_plain(section.title)}", "", *body]
    return "\n".join(lines).rstrip() + "\n"


def _body(section: Section) -> Iterator[str]:
    """What is below a title: nothing where only a page can draw it."""
    if section.text:
        yield from (_plain(section.text), "")
    for one in section.advice:
        stake = "" if one.at_stake_ns is None else f" **At stake: {duration(one.at_stake_ns)}.**"
        yield f"- {_plain(one.sentence)}{stake} {_plain(one.remedy)} (rule {one.rule}, version {one.version})"
        yield ""
    for block in section.blocks:
        if isinstance(block, Table):
            yield from _table(block)
        else:
            yield from _chart(block)


def _chart(chart: Chart) -> Iterator[str]:
    """The data of charts that no table repeats: histograms, iterations, the timeline."""
    rows: list[dict[str, Any]] = chart.spec.get("data", {}).get("values", [])
    names = rows[0].keys() if rows else ()
    if "from_value" in names:
        yield from _table(Table(chart.caption, BINS, rows, chart.sql))
    elif "iteration" in names:
        yield from _table(Table(chart.caption, ITERATIONS, rows, chart.sql))
    elif "lane" in names:
        yield from (f"### {_plain(chart.caption)}", "", *_lanes(rows), "", *_query(chart.sql))


def _lanes(rows: list[dict[str, Any]]) -> Iterator[str]:
    """How busy each stream was, a block per few bins, the higher the busier."""
    end, width = max(row["to_ms"] for row in rows), min(row["to_ms"] - row["from_ms"] for row in rows) * PER_BLOCK
    yield f"Over {end:,.3f} ms:"
    yield ""
    for lane in dict.fromkeys(row["lane"] for row in rows):
        busy = [0.0] * (round(end / width) + 1)
        for row in rows:
            if row["lane"] == lane:
                first, last = row["from_ms"] / width, row["to_ms"] / width
                for place in range(int(first + NEAR), min(math.ceil(last - NEAR), len(busy))):
                    busy[place] += row["busy"] * (min(last, place + 1) - max(first, place))
        drawn = "".join(BLOCKS[min(7, int(share * 8))] if share > 0 else " " for share in busy)
        yield f"- {_plain(str(lane))}: `{drawn.rstrip()}`"


def _table(table: Table) -> Iterator[str]:
    yield from (f"### {_plain(table.caption)}", "")
    if not table.rows:
        yield from (_plain(table.missing), "")
        return
    yield "| " + " | ".join(column.title for column in table.columns) + " |"
    yield "|" + "|".join("---:" if is_number(column) else "---" for column in table.columns) + "|"
    for row in table.rows:
        yield "| " + " | ".join(_cell(column, row[column.name]) for column in table.columns) + " |"
    yield ""
    for line in notes(table):
        yield from (_plain(line), "")
    yield from _query(table.sql)


def _query(sql: str) -> Iterator[str]:
    longest = max(map(len, re.findall("`+", sql)), default=0)
    fence = "`" * max(longest + 1, 3)  # names in the query must not end it
    yield from ("<details><summary>query</summary>", "", f"{fence}sql", harmless(sql), fence, "", "</details>", "")


def _cell(column: Column, value: object) -> str:
    text = shown(column, value)
    return f"`{text.replace('`', '')}`".replace("|", "\\|") if column.kind in {"code", "shapes"} else _plain(text)


def _plain(text: str) -> str:
    """Text that Markdown and HTML leave as it is."""
    for character in "\\|`*_<[~":
        text = text.replace(character, "\\" + character)
    return escape(text.replace("\n", " "))
