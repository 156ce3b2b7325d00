"""Makes docs/schema.md of the headers of the SQL files: `python -m kerneldb.schemas.docs [FILE]`. A test checks it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.schemas.headers import Shared, columns_of
from kerneldb.schemas.loader import SUBJECTS, headers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerneldb.schemas.headers import Header

DEFAULT: Final = Path("docs", "schema.md")

HEAD: Final = """\
# Schema

Made from the SQL files in `schemas/` by `python -m kerneldb.schemas.docs`. The same text is in the database: table
`schema_docs`, the comments of tables, views and columns, and `kerneldb db schema [OBJECT]`.

Times are integer nanoseconds relative to `traces.base_ns`; names end in their unit where they have one. What a source
does not record is NULL. Ids are content hashes of 16 hexadecimal digits.

**Views** are relations to filter and join: `FROM kernels WHERE category = 'GEMM'`. They work from any DuckDB client,
under whatever name the file is attached. **Macros** are questions: `FROM gpu_time()` asks about everything,
`FROM gpu_time('selection')` about the rows of a view, a table or a common table expression that has the columns of
`kernels`; do not give it the name of an object below. They need the file opened directly, or
`ATTACH 'kernels.duckdb' AS k; USE k;`. Examples name traces of a sample: put your own in their place.

```sql
WITH selection AS (FROM kernels WHERE category = 'GEMM')
FROM top_kernels('selection');
```
"""

TITLES: Final = {
    "core": "Core: traces, launches and their dimensions",
    "time": "Time: where it goes",
    "work": "Work: operations, bytes and rooflines",
    "names": "Names: what kernels are called and what their names say",
    "collectives": "Collectives: communication between ranks",
    "compare": "Comparison: what changed",
    "counters": "Counters: what hardware counters measured",
    "energy": "Energy: power samples and measured models",
    "replay": "Replay: kernels run again",
    "lake": "Lake: many writers",
}
KINDS: Final = ("view", "macro", "table")


def page() -> str:
    """The text of docs/schema.md."""
    parts = [HEAD, *_contents()]
    for subject in SUBJECTS:
        parts.append(f"## {TITLES[subject]}\n")
        parts += ["\n".join(_section(header)) for header in _shown(subject)]
    return "\n".join(parts)


def _shown(subject: str) -> list[Header]:
    of_subject = [one for one in headers().values() if one.subject == subject and not one.is_internal]
    return sorted(of_subject, key=lambda one: (KINDS.index(one.kind), one.name))


def _contents() -> Iterator[str]:
    for subject in SUBJECTS:
        names = ", ".join(f"[{one.name}](#{one.name})" for one in _shown(subject))
        yield f"- **{TITLES[subject].partition(':')[0]}**: {names}"
    yield ""


def _section(header: Header) -> Iterator[str]:
    yield from (f"### {header.name}", "", f"*{header.kind}* · {header.meaning}", "")
    for note in header.notes:
        yield from (note, "")
    if header.arguments:
        yield from ("| argument | default | meaning |", "|---|---|---|", *_arguments(header), "")
    yield from (*_columns(header), "")
    if header.example is not None:
        yield from ("```sql", header.example, "```", "")


def _arguments(header: Header) -> Iterator[str]:
    for argument in header.arguments:
        default = f"`{argument.default}`" if argument.default is not None else ""
        meaning = argument.meaning or "A relation with the columns of `kernels`."
        unit = f" [{argument.unit}]" if argument.unit else ""
        yield _row(argument.name, default, f"{meaning}{unit}")


def _columns(header: Header) -> Iterator[str]:
    """A table of the columns; one line for an object that has those of another."""
    for entry in header.columns:
        if isinstance(entry, Shared) and not entry.names:
            without = f", without {', '.join(f'`{name}`' for name in entry.without)}" if entry.without else ""
            yield f"Its columns are those of [{entry.object}](#{entry.object}){without}."
            return
    yield from ("| column | type | unit | meaning |", "|---|---|---|---|")
    for column in columns_of(headers(), header.name):
        yield _row(column.name, column.type, column.unit or "", column.meaning)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> None:
    """Write the page to the file named on the command line, else to docs/schema.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", nargs="?", type=Path, default=DEFAULT, metavar="FILE")
    target: Path = parser.parse_args().target
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
