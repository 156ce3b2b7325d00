"""What a release checks, and that workflows are pinned and ask for no more than they need."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from scripts import release

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CHANGELOG = """# Changelog

## [Unreleased]

## [1.2.0] - 2026-01-02

### Added

- A thing.

## [1.1.0] - 2025-01-02

- Another.
"""


def test_a_tag_that_fits_is_released_with_its_entry() -> None:
    assert release.problems("v1.2.0", "1.2.0", CHANGELOG) == []
    assert release.newest_entry(CHANGELOG) == ("1.2.0", "### Added\n\n- A thing.\n")


@pytest.mark.parametrize(
    ("tag", "version", "changelog", "said"),
    [
        ("v1.2.1", "1.2.0", CHANGELOG, "the tag is v1.2.1, but pyproject.toml says version 1.2.0"),
        ("1.2.0", "1.2.0", CHANGELOG, "the tag is 1.2.0"),
        ("v1.3.0", "1.3.0", CHANGELOG, "is 1.2.0, not 1.3.0"),
        ("v1.2.0", "1.2.0", CHANGELOG.replace(" - 2026-01-02", ""), "is 1.1.0, not 1.2.0"),
        (
            "v1.2.0",
            "1.2.0",
            CHANGELOG.replace("### Added\n\n- A thing.\n", ""),
            "the entry 1.2.0 of CHANGELOG.md is empty",
        ),
        ("v1.2.0", "1.2.0", CHANGELOG.replace("d]\n", "d]\n\n- New.\n", 1), "has changes under Unreleased"),
        ("v1.2.0", "1.2.0", "# Changelog\n", "is missing, not 1.2.0"),
    ],
)
def test_a_tag_that_does_not_fit_is_refused(tag: str, version: str, changelog: str, said: str) -> None:
    [reason] = release.problems(tag, version, changelog)
    assert said in reason


def test_the_version_is_the_newest_entry_or_a_later_one_in_the_making() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    newest, notes = release.newest_entry((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert notes
    base, _, making = version.partition(".dev")
    numbers = tuple(map(int, base.split(".")))
    released = tuple(map(int, newest.split(".")))
    assert numbers > released if making else numbers == released


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_to_commits_and_rights_are_stated(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []
    assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE)
    assert "${{ github.ref_name }}" not in "".join(re.findall(r"run: .*", text)), "a name from outside in a shell"
