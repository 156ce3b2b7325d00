"""Makes docs/cli.md from the help texts: `python -m kerneldb.cli.docs docs/cli.md`. A test keeps the two equal."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kerneldb.cli import cli
from kerneldb.cli.overview import overview
from kerneldb.cli.root import HELP_OPTIONS, tree

WIDTH = 100

HEAD = """\
# Command line

Made from the help texts by `python -m kerneldb.cli.docs docs/cli.md`.

- stdout carries data only; progress, notes and errors go to stderr.
- `--db FILE` goes before or after the command; without it, `KERNELDB_DB`, else `kernels.duckdb` in the current
  folder.
- `--format table|csv|json|ndjson|parquet|arrow`; without it, the suffix of `-o FILE` decides, else `table`. Tables are
  for people: times, sizes and rates have a fitting unit, and rows are limited. On a terminal they fit its width: long
  text is shortened, then the least important columns are left out, which stderr says (`--wide` shows all). All other
  formats carry every row and column, in base units (ns, bytes, mJ). `arrow` is the Arrow IPC file format (Feather 2).
  NaN and infinities are `null` in JSON.
- `-o FILE` appears under its name when it is complete. Binary formats refuse a terminal.
- Tables have colours on a terminal only, and none where NO_COLOR is set or TERM is `dumb`.
  With NO_COLOR, plots (`--plot FILE`) are grey.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | something failed |
| 2 | the call was wrong (option, `--where`, a name that does not exist) |
| 3 | database: missing, locked (the message has the process id), or of another version |
| 4 | `--timeout` was reached |
| 5 | a check asked for did not pass |
| 130 | interrupted (Ctrl-C) |
"""


def page() -> str:
    """The text of docs/cli.md."""
    root = _context(cli, "kerneldb", None)
    sections = [_section(root), _section(_context(overview, "", root))]
    parents: dict[tuple[str, ...], click.Context] = {(): root}
    for path, command in tree(cli):
        parents[path] = _context(command, path[-1], parents[path[:-1]])
        sections.append(_section(parents[path]))
    return "\n".join([HEAD, *sections])


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    context = click.Context(command, parent, name, terminal_width=WIDTH, max_content_width=WIDTH)
    context.help_option_names = HELP_OPTIONS
    return context


def _section(context: click.Context) -> str:
    level = "###" if context.parent and context.parent.parent else "##"
    return (
        f"{level} {context.command_path}{'' if context.info_name else 'PATH'}\n\n```text\n{context.get_help()}\n```\n"
    )


def main() -> None:
    """Write the page to the file named on the command line."""
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
