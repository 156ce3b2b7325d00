"""A report as one HTML file that needs nothing else: style, charts with their data, and the library that draws them."""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kerneldb.output.units import duration
from kerneldb.report import library
from kerneldb.report.model import Chart, Report
from kerneldb.report.values import is_number, notes, shown

if TYPE_CHECKING:
    import jinja2


def page(report: Report) -> str:
    """The HTML text."""
    drawn = [block for section in report.sections for block in section.blocks if isinstance(block, Chart)]
    numbers = {id(block): f"chart{number}" for number, block in enumerate(drawn)}
    script = library.script() if drawn else ""
    specs = _inline({numbers[id(block)]: block.spec for block in drawn})
    text: str = _template().render(
        report=report,
        script=_safe(script),
        specs=_safe(specs),
        chart_id=lambda block: numbers[id(block)],
        duration=duration,
        is_number=is_number,
        shown=shown,
        notes=notes,
        anchors=anchors([section.title for section in report.sections]),
    )
    return text


def anchors(titles: Sequence[str]) -> list[str]:
    """A name in the page for each title: its words, with a number where another section has the same."""
    found: list[str] = []
    for title in titles:
        words = "-".join(re.findall(r"\w+", title.lower())) or "section"
        same = sum(1 for one in found if one == words or one.rpartition("--")[0] == words)
        found.append(f"{words}--{same + 1}" if same else words)
    return found


def _template() -> jinja2.Template:
    import jinja2

    text = importlib.resources.files("kerneldb.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    return jinja2.Environment(autoescape=True, undefined=jinja2.ChainableUndefined).from_string(text)


def _inline(value: Any) -> str:
    """JSON that may stand inside a script element: names of kernels come from files that are not trusted."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _safe(text: str) -> Any:
    import markupsafe

    return markupsafe.Markup(text.replace("</script", "<\\/script"))  # noqa: S704 (made here, or escaped above)
