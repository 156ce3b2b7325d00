"""Says whether a tag may be released, and writes its notes: the newest dated entry of CHANGELOG.md.

    python scripts/release.py v1.2.3 [--notes FILE]

Exit code 1 where tag, version in pyproject.toml and changelog are not the same. Standard library only.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENTRY = re.compile(r"^## \[(?P<version>[^]]+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?\s*$", re.MULTILINE)


def newest_entry(changelog: str) -> tuple[str, str]:
    """Version and text of the first entry that has a date; `("", "")` where none has."""
    entries = list(ENTRY.finditer(changelog))
    ends = [*(entry.start() for entry in entries[1:]), len(changelog)]
    for entry, end in zip(entries, ends, strict=False):
        if entry["date"]:
            return entry["version"], changelog[entry.end() : end].strip() + "\n"
    return "", ""


def unreleased(changelog: str) -> str:
    """What stands under Unreleased."""
    found = re.search(r"^## \[Unreleased\]\s*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def problems(tag: str, version: str, changelog: str) -> list[str]:
    """Why `tag` cannot be released, a line per reason; empty where it can."""
    newest, notes = newest_entry(changelog)
    checks = (
        (tag != f"v{version}", f"the tag is {tag}, but pyproject.toml says version {version}"),
        (newest != version, f"the newest dated entry of CHANGELOG.md is {newest or 'missing'}, not {version}"),
        (bool(newest) and not notes.strip(), f"the entry {newest} of CHANGELOG.md is empty"),
        (bool(unreleased(changelog)), "CHANGELOG.md has changes under Unreleased: move them into the entry"),
    )
    return [text for wrong, text in checks if wrong]


def main() -> int:
    """Check the tag of the command line; 1 where something does not fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tag")
    parser.add_argument("--notes", type=Path, help="where the text of the entry goes")
    given = parser.parse_args()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = problems(given.tag, version, changelog)
    sys.stderr.writelines(f"{line}\n" for line in found)
    if given.notes and not found:
        given.notes.write_text(newest_entry(changelog)[1], encoding="utf-8")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
