"""A hook of MkDocs: pages from outside docs/ become pages of the site, and links lead to them there.

README.md, CONTRIBUTING.md, the results and so on lie where people look for them in a repository. On the site they are
below `repository/`, with the same folders, so that a relative link that works in the repository works there as well.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = ("*.md", "results/*.md", "results/*/*.md", "benchmarks/*.md", "benchmarks/gpu/*.md", "examples/*.md")
PREFIX = "repository/"
FENCED = re.compile(r"^(?P<fence>```+).*?^(?P=fence)$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")


def outside_pages() -> list[str]:
    """Paths of the pages outside docs/, from the top of the repository."""
    return sorted({path.relative_to(ROOT).as_posix() for pattern in OUTSIDE for path in ROOT.glob(pattern)})


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside docs/."""
    from mkdocs.structure.files import File

    for page in outside_pages():
        content = (ROOT / page).read_text(encoding="utf-8")
        files.append(File.generated(config, PREFIX + page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links between files of the repository into links between pages of the site."""
    source = page.file.src_uri
    place = source.removeprefix(PREFIX) if source.startswith(PREFIX) else f"docs/{source}"
    code = [(match.start(), match.end()) for match in FENCED.finditer(markdown)]

    def moved(match: re.Match[str]) -> str:
        if any(start <= match.start() < end for start, end in code):
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(place), match["path"]))
        there = posixpath.relpath(site_path(target), posixpath.dirname(source) or ".")
        return there + (match["anchor"] or "")

    return LINK.sub(moved, markdown)


def site_path(path: str) -> str:
    """Where a file of the repository is on the site, from its top."""
    return path.removeprefix("docs/") if path.startswith("docs/") else PREFIX + path
