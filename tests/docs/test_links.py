"""Every page is in the navigation of the site, and links between files of the repository lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import site_pages

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*DOCS, *(ROOT / page for page in site_pages.outside_pages())]
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)
NAVIGATED = re.compile(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", re.MULTILINE)


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return site_pages.FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What headings are called in links, as GitHub and MkDocs do."""
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in HEADING.findall(prose(page)))
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower()) for text in plain}


def test_every_page_is_in_the_navigation_once() -> None:
    shown = NAVIGATED.findall((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    mine = [path for path in shown if not path.startswith(site_pages.PREFIX)]
    assert sorted(mine) == [path.relative_to(ROOT / "docs").as_posix() for path in DOCS]
    others = {path.removeprefix(site_pages.PREFIX) for path in shown if path not in mine}
    assert others <= set(site_pages.outside_pages())


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in site_pages.LINK.finditer(prose(page)):
        target = (page.parent / link["path"]).resolve()
        anchor = (link["anchor"] or "").removeprefix("#")
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link[0])
        elif target.suffix == ".md" and target not in PAGES:
            broken.append(f"{link[0]}: not a page of the site")
    assert broken == []


@pytest.mark.parametrize(
    ("page", "written", "moved"),
    [
        ("reconciliation.md", "../results/a/README.md#time", "repository/results/a/README.md#time"),
        ("formats/ncu.md", "../counters.md", "../counters.md"),
        ("formats/ncu.md", "../../README.md", "../repository/README.md"),
        ("repository/README.md", "docs/images/tui.svg", "../images/tui.svg"),
        ("repository/results/README.md", "a/README.md", "a/README.md"),
        ("repository/benchmarks/gpu/README.md", "../../docs/energy.md", "../../../energy.md"),
        ("index.md", "https://duckdb.org", "https://duckdb.org"),
    ],
)
def test_links_lead_to_the_same_page_on_the_site(page: str, written: str, moved: str) -> None:
    class Page:
        class file:  # noqa: N801 (as MkDocs names it)
            src_uri = page

    text = f"see [this]({written})\n\n```\n[not](this.md)\n```\n"
    assert site_pages.on_page_markdown(text, Page) == text.replace(written, moved)


def test_indexes_list_every_result_and_every_program() -> None:
    index = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    found = [path.parent.name for path in (ROOT / "results").glob("*/README.md")]
    assert found
    assert [name for name in found if f"({name}/README.md)" not in index] == []
    programs = (ROOT / "benchmarks" / "gpu" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in (ROOT / "benchmarks" / "gpu").glob("*.py") if f"`{path.name}`" not in programs] == []
