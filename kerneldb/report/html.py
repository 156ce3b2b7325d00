"""A report as one HTML file that needs nothing else: style, charts with their data, and the library that draws them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.resources
import itertools
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from kerneldb.output.text import harmless
from kerneldb.output.units import amount, duration, figure
from kerneldb.report.dots import ROOFED
from kerneldb.report.model import Chart, Report, Section, is_number, notes, shown

TIMELINE: Final = (
    "timeline_data.js", "timeline_picture.js", "timeline_facts.js", "timeline_ranks.js", "timeline_hits.js",
    "timeline_address.js", "timeline_sums.js", "timeline.js", "timeline_live.js",
)  # fmt: skip
TOLD: Final = 5
"""Marks of a chart that its text names."""
UNUSABLE: Final = (OSError, UnicodeDecodeError, RuntimeError)
"""What a cache that cannot be read or written raises; RuntimeError is for a user without a home."""
ENDS_WITH: Final = "\n/* sha256 {} */\n"
"""The end of a kept bundle, with the digest of the text before it: one that was cut short or changed is made anew."""


def page(report: Report) -> str:
    """The HTML text."""
    anchored = anchors([section.title for section in report.sections])
    titles = [(section.title, anchor) for section, anchor in zip(report.sections, anchored, strict=True)]
    drawn = [block for section in report.sections for block in section.blocks if isinstance(block, Chart)]
    head = _parts().head(report.title, report.subtitle, listed(titles), *_scripts(drawn), ())
    return "".join([head, *_sections(report.sections), _parts().foot(titled=True)])


def arriving(title: str, subtitle: str, sections: Iterable[Section], alone: Sequence[str] = ()) -> Generator[str]:
    """The HTML text in pieces: a section when it is there. `alone` are traces whose timelines the page leads to."""
    yield _parts().head(title, subtitle, (), _safe(script()), _timeline_script(), alone)
    yield from _sections(sections)
    yield _parts().foot(titled=False)


@functools.cache
def _parts() -> Any:
    """The macros of the template."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.ChainableUndefined, finalize=printable)
    known = {"duration": duration, "is_number": is_number, "shown": shown, "notes": notes, "words": words}
    environment.globals |= known
    return environment.from_string(_file("page.html.j2")).module


def _scripts(drawn: Sequence[Chart]) -> tuple[Any, Any]:
    """The library of charts and that of timelines, where there are any."""
    return _safe(script() if drawn else ""), _timeline_script() if any(one.events for one in drawn) else ""


def _timeline_script() -> Any:
    return _safe("".join(map(_file, TIMELINE)))


def _sections(sections: Iterable[Section]) -> Iterator[str]:
    titles: list[str] = []
    count = itertools.count()
    for section in sections:
        titles.append(section.title)
        drawn = {f"chart{next(count)}": block for block in section.blocks if isinstance(block, Chart)}
        specs = _safe(_inline({name: block.spec for name, block in drawn.items()}))
        timelines = _safe(_inline({name: block.events for name, block in drawn.items() if block.events}))
        ids = {id(block): name for name, block in drawn.items()}
        known = anchors(titles)
        before = known[titles.index(section.before)] if section.before in titles else ""
        chart_id = functools.partial(_named, ids)
        yield _parts().part(section, known[-1], before, specs, timelines, chart_id)


def _named(ids: dict[int, str], block: Chart) -> str:
    return ids[id(block)]


def words(chart: Chart) -> str:
    """A chart for who cannot see it: its caption, and what its first marks stand for."""
    layer = chart.spec.get("layer", [chart.spec])[-1]
    axes = [layer["encoding"][axis] for axis in ("y", "x") if "field" in layer["encoding"].get(axis, {})]
    rows = layer.get("data", chart.spec.get("data", {})).get("values", [])
    names = " and ".join(axis.get("title") or axis["field"].lstrip("_") for axis in axes)
    fields = [axis["field"] for axis in axes]
    if set(fields) == set(ROOFED):
        rows = sorted(rows, key=lambda row: -(row.get("total_ns") or 0))
    rest = ", …" if len(rows) > TOLD else ""
    told = ", ".join(_mark(row, fields) for row in rows[:TOLD])
    return f"{chart.caption}: {len(rows):,} marks by {names}: {told}{rest}"


def _mark(row: Mapping[str, Any], fields: Sequence[str]) -> str:
    """What a mark stands for: its values, after the name of its kernel where no axis has it."""
    if set(fields) == set(ROOFED):
        values = f"{amount(row['flops_per_second'], 'FLOP/s')} at {figure(row['intensity'], 'FLOP/byte')}"
    else:
        values = " ".join(_plain(row.get(field)) for field in fields)
    return f"{row['kernel']}: {values}" if "kernel" in row and "kernel" not in fields else values


def _plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _file(name: str) -> str:
    return importlib.resources.files("kerneldb.report").joinpath(name).read_text(encoding="utf-8")


def printable(value: Any) -> Any:
    """What the page takes for a value: all of its texts pass here, but for the scripts of `_safe`."""
    import markupsafe

    return harmless(value) if isinstance(value, str) and not isinstance(value, markupsafe.Markup) else value


def anchors(titles: Sequence[str]) -> list[str]:
    """A name in the page for each title: its words, with a number where another section has the same."""
    found: list[str] = []
    for title in titles:
        words = "-".join(re.findall(r"\w+", title.lower())) or "section"
        same = sum(1 for one in found if one == words or one.rpartition("--")[0] == words)
        found.append(f"{words}--{same + 1}" if same else words)
    return found


def listed(titles: Sequence[tuple[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Titles with their anchors, as the page lists them: those with the same words before a colon on one line.

    Of several traces, each has a line with its sections; what stands alone has no words before it.
    """
    parts = [(title.rpartition(": "), title, anchor) for title, anchor in titles]
    many = Counter(group for (group, _, _), _, _ in parts if group)
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for (group, _, rest), title, anchor in parts:
        if many[group] > 1:
            found.setdefault((group, ""), []).append((rest, anchor))
        else:
            found["", anchor] = [(title, anchor)]
    return [(group, links) for (group, _), links in found.items()]


def _inline(value: Any) -> str:
    """JSON that is safe inside a script element: names of kernels come from files that are not trusted."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _safe(text: str) -> Any:
    import markupsafe

    return markupsafe.Markup(text.replace("</script", "<\\/script"))  # noqa: S704 (made here, or escaped above)


def script() -> str:
    """Vega, Vega-Lite and vega-embed as one script, from the cache where an earlier report left it.

    Bundling it takes over a second, so it is kept for the next report.
    """
    with contextlib.suppress(*UNUSABLE):
        text = _place().read_bytes().decode("utf-8")
        if _is_whole(text):
            return text
    text = _sealed(_bundled())
    with contextlib.suppress(*UNUSABLE):
        _keep(_place(), text)
    return text


def _sealed(bundle: str) -> str:
    return bundle + ENDS_WITH.format(hashlib.sha256(bundle.encode()).hexdigest())


def _is_whole(text: str) -> bool:
    """Whether the digest at the end is that of all before it."""
    bundle = text[: -len(_sealed(""))]
    return text == _sealed(bundle)


def _place() -> Path:
    """Where the bundle of this version of vl-convert is kept: `$XDG_CACHE_HOME/kerneldb`, else `~/.cache/kerneldb`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base) / "kerneldb" / f"vega-{metadata.version('vl-convert-python')}.js"


def _bundled() -> str:
    import vl_convert

    bundle: Any = vl_convert.javascript_bundle  # its stub asks for an argument that it takes or leaves
    return str(bundle())


def _keep(path: Path, text: str) -> None:
    """Write as a whole or not at all, for programs that run at the same time. Leaves nothing where that fails."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(number, "wb") as sink:
            sink.write(text.encode())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
