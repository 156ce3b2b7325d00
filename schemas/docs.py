"""Makes docs/schema.md from reference/schema_docs.csv: `python -m kerneldb.schemas.docs [FILE]`. A test checks it."""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.schemas.loader import NARROWED, Doc, docs

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT: Final = Path("docs", "schema.md")

HEAD: Final = """\
# Schema

Made from `schemas/reference/schema_docs.csv` by `python -m kerneldb.schemas.docs`. The same text is in the database:
table `schema_docs`, and the comments of tables, views and columns.

Times are integer nanoseconds relative to `traces.base_ns`; names end in their unit where they have one. What a source
does not tell is NULL. Ids are content hashes of 16 hexadecimal digits.

Views work from any DuckDB client, under whatever name the file is attached. Macros need the file opened directly, or
`USE`. A macro takes the name of a relation that has the columns of `kernels`:

```sql
WITH selection AS (FROM kernels WHERE category = 'GEMM')
FROM top_kernels('selection');
```
"""

KINDS: Final = {
    "view": "Views",
    "view, macro": "Views that are macros too",
    "macro": "Macros",
    "table": "Tables",
}


def page() -> str:
    """The text of docs/schema.md."""
    told = [doc for doc in docs() if doc.object not in NARROWED or doc.column_name is None]
    groups = [list(rows) for _, rows in groupby(told, key=lambda doc: doc.object)]
    parts = [HEAD]
    for kind, title in KINDS.items():
        sections = ["\n".join(_section(doc, columns)) for doc, *columns in groups if doc.kind == kind]
        if sections:
            parts += [f"## {title}\n", *sections]
    return "\n".join(parts)


def _section(doc: Doc, columns: list[Doc]) -> Iterator[str]:
    yield from (f"### {doc.object}", "", doc.meaning, "")
    if doc.object in NARROWED:
        yield from (f"Its columns are those of `{NARROWED[doc.object]}`, without `is_primary`.", "")
        return
    yield from ("| column | type | unit | meaning |", "|---|---|---|---|")
    for column in columns:
        only = " (macro only)" if column.kind != doc.kind else ""
        meaning = column.meaning.replace("|", "\\|")
        yield f"| {column.column_name} | {column.type} | {column.unit or ''} | {meaning}{only} |"
    yield ""


def main() -> None:
    """Write the page to the file named on the command line, else to docs/schema.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", nargs="?", type=Path, default=DEFAULT, metavar="FILE")
    target: Path = parser.parse_args().target
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
