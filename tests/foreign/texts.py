"""Two hundred texts that a trace may hold, each made to drive what shows it; and a database with them everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import duckdb

from kerneldb.output.text import harmless

if TYPE_CHECKING:
    from pathlib import Path

OWNED: Final = "owned"
_ESCAPES: Final = [
    *(f"\x1b[{final}" for final in ("2J", "3J", "H", "31m", "0m", "?1049h", "?25l", "6n", "c", "10000C", "1;1r", "8m")),
    *(f"\x1b]{code};{OWNED}{end}" for code in (0, 1, 2, 4, 9, 10, 11, 50, 52, 777, 1337) for end in ("\x07", "\x1b\\")),
    *(f"\x1b]8;;https://evil.example/{OWNED}{end}{OWNED}\x1b]8;;{end}" for end in ("\x07", "\x1b\\")),
    "\x1b]52;c;b3duZWQ=\x07",
    *(f"\x1b{opener}1;2|{OWNED}\x1b\\" for opener in "P_^X"),
    *(f"\x1b{one}" for one in "c78MDE=>Nn#("),
    "\x1b[200~rm -rf ~\n\x1b[201~",
    "\x1bP+q544e\x1b\\",
]
_CONTROLS: Final = [chr(code) for code in (*range(32), 127, *range(0x80, 0xA0))]
_INVISIBLE: Final = [
    *"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
    *"\u00ad\u034f\u200b\u200c\u200d\u2060\u2061\ufeff\u180e\u2028\u2029\ufff9\ufffb\U000e0001\U000e0041\U000e007f",
    *"\u115f\u1160\u3164\uffa0\u00a0\u202f\u3000\ue000\ufdd0\U0010ffff",
]
_MARKUP: Final = [
    "[red]x[/red]", "[link=https://evil.example]x[/link]", "[@click=app.quit]x[/]", "[/]", "[bold", "[b]x",
    "[$primary]x",
    "<script>alert(1)</script>", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<b>x</b>",
    "</title><h1>", "<!--", "]]>", "\" onmouseover=\"alert(1)", "' autofocus onfocus='alert(1)", "{{ 7 * 7 }}",
    "{% raw %}",
    "javascript:alert(1)", "&lt;b&gt;", "<svg/onload=alert(1)>", "| a | b |", "```\n<script>alert(1)</script>", "`x`",
    "# title", "[x](javascript:alert(1))", "![x](https://evil.example/p)", "\n\n<h1>x</h1>",
]  # fmt: skip
_FORMULAS: Final = [
    "=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "=HYPERLINK(\"https://evil.example\")", "\t=1", "\r=1", " =1", "\n=1",
    "a;=1+1", "a\t=1", *(f"{one}1" for one in "\uff1d\uff0b\uff0d\uff20"), "\0=1", "'=1", "=1\",\"=2", "|cmd",
]  # fmt: skip
_FORMATS: Final = [
    "%s%n%d",
    "{0}",
    "{name!r:>1000000}",
    "${HOME}",
    "$(touch owned)",
    "`touch owned`",
    "\\x1b[31m",
    "\\",
]
_LARGE: Final = ["x" * 20_000, "Z" + "\u0301" * 500, "漢" * 300, "e\u0301\u20dd", "", " " * 300, "a\n" * 300, "🧑‍🚀"]
TEXTS: Final = tuple(_ESCAPES + _CONTROLS + _INVISIBLE + _MARKUP + _FORMULAS + _FORMATS + _LARGE)

PLAIN: Final = "'^$|^[\\[{]'"
"""Nothing, or JSON, which is to stay JSON."""
RARELY: Final = (
    "kind",
    "timing",
    "primary_timing",
    "launch_status",
    "source",
    "level",
    "era",
    "cache",
    "route",
    "grade",
)
"""Columns by whose values rows are found: one row of seven gets a text, so that there is still something to show."""


def is_harmless(text: str) -> bool:
    """Whether nothing in `text`, lines and tabs apart, drives a terminal or is unseen."""
    return harmless(text) == text


VALUES: Final = {
    "VARCHAR[]": "[text(i), text(i + 1)]", "BOOLEAN": "i % 2 = 0", "TIMESTAMP": "now()::TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "now()", "MAP(VARCHAR, VARCHAR)": "map([text(i)], [text(i + 1)])",
}  # fmt: skip
"""What a row of a table that nothing filled has, by type of the column; all else is a number."""
FEW: Final = 3
JSON: Final = ("extra",)
"""Texts that are JSON or refused: a table with others has no more to show."""
OURS: Final = "('schema_docs', 'schema_info', 'schema_version')"
COLUMNS: Final = f"""
    SELECT table_name, column_name, data_type, NOT is_nullable FROM duckdb_columns()
    JOIN duckdb_tables() USING (table_oid, table_name) WHERE table_name NOT IN {OURS} ORDER BY ALL
"""


def spread(path: Path) -> int:
    """Put the texts behind the values of every text column of the database: equal values stay equal. Columns.

    Tables that nothing filled get rows, and text columns in which no row has a value get some.
    """
    with duckdb.connect(str(path)) as con:
        con.execute("SET VARIABLE texts = $texts", {"texts": list(TEXTS)})
        con.execute(
            "CREATE TEMP MACRO text(number) AS "
            "getvariable('texts')[(1 + hash(number) % len(getvariable('texts')))::BIGINT]"
        )
        columns = con.execute(COLUMNS).fetchall()
        for table in dict.fromkeys(one[0] for one in columns):
            _fill(con, table, [(name, kind) for of, name, kind, _ in columns if of == table])
        texts = [(table, column, needed) for table, column, kind, needed in columns if kind == "VARCHAR"]
        for table, column, needed in texts:
            rows = "rowid % 7 = 3" if column in RARELY else "true"
            con.execute(
                f'UPDATE "{table}" SET "{column}" = "{column}" || text("{column}") '
                f'WHERE {rows} AND NOT regexp_matches("{column}", {PLAIN})'
            )
            if (
                not needed
                and column not in (*RARELY, *JSON)
                and not _any(con, f'"{table}" WHERE "{column}" IS NOT NULL')
            ):
                con.execute(f'UPDATE "{table}" SET "{column}" = text(rowid) WHERE rowid % 5 = 0')
    return len(texts)


def _any(con: duckdb.DuckDBPyConnection, rows: str) -> bool:
    return con.execute(f"SELECT 1 FROM {rows} LIMIT 1").fetchone() is not None


def _fill(con: duckdb.DuckDBPyConnection, table: str, columns: list[tuple[str, str]]) -> None:
    if _any(con, f'"{table}"'):
        return
    made = {
        name: "text(i)" if kind == "VARCHAR" else VALUES.get(kind, f"CAST(1 + i AS {kind})") for name, kind in columns
    }
    for key, of in (("trace_id", "traces"), ("signature_id", "signatures")):
        if key in made:
            made[key] = f'(SELECT list({key} ORDER BY {key}) FROM "{of}")[1 + i]'
    names, values = ", ".join(f'"{name}"' for name in made), ", ".join(made.values())
    con.execute(f'INSERT INTO "{table}" ({names}) SELECT {values} FROM range({FEW}) AS rows(i)')
