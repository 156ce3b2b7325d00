"""The notebook of the documents runs, cell by cell, and what its cells show is what a notebook would draw."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from tests.browser import browser, needs_browser

ROOT = Path(__file__).parents[2]
CELLS = [
    "".join(cell["source"])
    for cell in json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    if cell["cell_type"] == "code"
]


def shown(source: str, names: dict[str, Any]) -> Any:
    """The value of the last expression of a cell, which is what a notebook shows."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102 (a document of ours)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 (the same)


@pytest.mark.thorough
def test_every_cell_runs_and_shows_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    values = [shown(source, names) for source in CELLS]
    tables = [value for value in values if type(value).__name__ == "Result"]
    assert len(tables) >= 4
    for value in tables:
        assert "<table" in value._repr_html_()
    (page,) = (value for value in values if type(value).__name__ == "Page")
    frame = page._repr_html_()
    assert frame.startswith("<iframe")
    assert 'sandbox="allow-scripts"' in frame
    assert "<script" not in frame.split("srcdoc=")[1], "only escaped"
    assert (tmp_path / "decoder.html").read_text(encoding="utf-8") == page.html
    import altair as alt

    (chart,) = (value for value in values if isinstance(value, alt.TopLevelMixin))
    assert chart.to_dict()["width"] == 700
    assert all(isinstance(row["total_ns"], int) for row in names["top"].rows())
    if importlib.util.find_spec("pandas") is not None:
        assert len(names["top"].df()) == len(names["top"])
    names["database"].close()


@needs_browser
def test_charts_are_shown_without_a_network(tmp_path: Path) -> None:
    """As `docs/python-api.md` says: Altair's usual way asks a server, the others named there do not."""
    import altair as alt

    text = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(ROOT / "examples" / "decoder-h200.json.gz")
    chart = database.chart("roofline")

    def made() -> dict[str, Any]:
        found = chart._repr_mimebundle_()
        return dict(found[0] if isinstance(found, tuple) else found)

    usual = alt.renderers.active  # a document that another test ran may have chosen it
    alt.renderers.enable("default")
    assert "cdn.jsdelivr.net" in made()["text/html"]
    try:
        for name, options in (("svg", {}), ("html", {"template": "inline"}), ("mimetype", {})):
            words = "".join(f', {key}="{value}"' for key, value in options.items())
            assert f'alt.renderers.enable("{name}"{words})' in text
            alt.renderers.enable(name, **options)
            shown_as = made()
            assert "https://cdn" not in json.dumps(shown_as)
            if name == "html":
                (tmp_path / "shown.html").write_text(f"<!doctype html><body>{shown_as['text/html']}</body>")
    finally:
        alt.renderers.enable(usual)
    chart.save(tmp_path / "saved.html", inline=True)
    for page_name in ("shown.html", "saved.html"):
        with browser() as page:
            page.go((tmp_path / page_name).as_uri(), "null")
            page.run(
                "new Promise((done) => { const look = () => document.querySelector('svg, canvas') ? done() : "
                "requestAnimationFrame(look); look(); })"
            )
            assert [url for url in page.asked if url.startswith("http")] == []
