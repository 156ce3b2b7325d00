"""The figures of the traces recorded for this project, asked of the views."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Ask = Callable[..., list[dict[str, Any]]]

DATA = Path(os.environ.get("KERNELDB_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
EXPECTED: dict[str, dict[str, Any]] = (
    json.loads((DATA / "expected-pytorch.json").read_text(encoding="utf-8"))
    if (DATA / "expected-pytorch.json").is_file()
    else {}
)
TIMES = ("kernel_us", "gpu_us", "span_us")


def cases(only: Callable[[str], bool]) -> list[Any]:
    """One case per file and figure, or one that says what is missing."""
    found = [
        pytest.param(file, figure, id=f"{file.removesuffix('.json.gz')}: {figure}")
        for file, figures in EXPECTED.items()
        for figure in figures
        if only(figure)
    ]
    reason = f"no expected figures in {DATA}"
    return found or [pytest.param(None, None, id="none", marks=pytest.mark.skip(reason=reason))]


def name_of(file: str) -> str:
    return file.removesuffix(".json.gz")


@pytest.mark.parametrize(("file", "figure"), cases(lambda figure: figure not in (*TIMES, "busy_us", "top3")))
def test_count(ask: Ask, file: str, figure: str) -> None:
    [found] = ask("recorded", trace=name_of(file))
    assert found[figure] == pytest.approx(EXPECTED[file][figure], abs=1e-9)


@pytest.mark.parametrize(("file", "figure"), cases(lambda figure: figure in TIMES))
def test_time(ask: Ask, file: str, figure: str) -> None:
    [found] = ask("recorded_times", trace=name_of(file))
    assert found[figure] == pytest.approx(EXPECTED[file][figure], abs=5e-4)


@pytest.mark.parametrize(("file", "figure"), cases(lambda figure: figure == "busy_us"))
def test_busy(ask: Ask, file: str, figure: str) -> None:
    """The expected figure carries the rounding of float64 µs; test_disagreements.py shows that the view is exact."""
    [found] = ask("recorded_times", trace=name_of(file))
    assert found[figure] == pytest.approx(EXPECTED[file][figure], rel=1e-5)


@pytest.mark.parametrize(("file", "figure"), cases(lambda figure: figure == "top3"))
def test_top(ask: Ask, file: str, figure: str) -> None:
    found = [(row["name"], row["us"], row["n"]) for row in ask("recorded_top", trace=name_of(file))]
    assert found == [(name, pytest.approx(us, abs=5e-4), n) for name, us, n in EXPECTED[file][figure]]
