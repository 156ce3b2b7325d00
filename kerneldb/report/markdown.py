"""A report as Markdown: tables and queries; charts are named, not drawn."""

from __future__ import annotations

from collections.abc import Iterator

from kerneldb.report.model import Column, Finding, Report, Section, Table
from kerneldb.report.values import duration, is_number, shown


def page(report: Report) -> str:
    """The Markdown text."""
    lines = [f"# {_plain(report.title)}", "", report.subtitle, ""]
    for section in report.sections:
        lines += _section(section)
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section) -> Iterator[str]:
    yield from (f"## {_plain(section.title)}", "")
    if section.text:
        yield from (section.text, "")
    for finding in section.findings:
        yield from _finding(finding)
    for block in section.blocks:
        if isinstance(block, Table):
            yield from _table(block)


def _finding(finding: Finding) -> Iterator[str]:
    stake = "" if finding.at_stake_ns is None else f" **At stake: {duration(finding.at_stake_ns)}.**"
    yield f"- {_plain(finding.sentence)}{stake} {finding.remedy} (rule {finding.rule}, version {finding.version})"
    yield ""


def _table(table: Table) -> Iterator[str]:
    yield from (f"### {table.caption}", "")
    if not table.rows:
        yield from (table.missing, "")
        return
    yield "| " + " | ".join(column.title for column in table.columns) + " |"
    yield "|" + "|".join("---:" if is_number(column) else "---" for column in table.columns) + "|"
    for row in table.rows:
        yield "| " + " | ".join(_cell(column, row[column.name]) for column in table.columns) + " |"
    yield from ("", "<details><summary>query</summary>", "", "```sql", table.sql, "```", "", "</details>", "")


def _cell(column: Column, value: object) -> str:
    text = shown(column, value)
    return f"`{text.replace('`', '')}`".replace("|", "\\|") if column.kind == "code" else _plain(text)


def _plain(text: str) -> str:
    """Text that Markdown and HTML leave as it is."""
    for character in "\\|`*_<[":
        text = text.replace(character, "\\" + character)
    return text.replace("\n", " ")
