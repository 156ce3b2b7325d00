"""The figures of the traces recorded for this project, asked of the views."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.peers.conftest import by_size

Ask = Callable[..., list[dict[str, Any]]]

DATA = Path(os.environ.get("KERNELDB_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
EXPECTED: dict[str, dict[str, Any]] = (
    json.loads((DATA / "expected-pytorch.json").read_text(encoding="utf-8"))
    if (DATA / "expected-pytorch.json").is_file()
    else {}
)
TIMES = ("kernel_us", "gpu_us", "span_us")


FILES = by_size(file.removesuffix(".json.gz") for file in EXPECTED)
NONE = pytest.param(None, id="none", marks=pytest.mark.skip(reason=f"no expected figures in {DATA}"))


@pytest.mark.parametrize("trace", FILES or [NONE])
def test_figures(ask: Ask, trace: str) -> None:
    """The expected busy time carries the rounding of float64 µs; test_disagreements.py shows that the view is exact."""
    expected = EXPECTED[f"{trace}.json.gz"]
    ([counts], [times]) = ask("recorded", trace=trace), ask("recorded_times", trace=trace)
    for figure, value in expected.items():
        if figure in TIMES:
            assert times[figure] == pytest.approx(value, abs=5e-4), figure
        elif figure == "busy_us":
            assert times[figure] == pytest.approx(value, rel=1e-5)
        elif figure != "top3":
            assert counts[figure] == pytest.approx(value, abs=1e-9), figure
    top = [(row["name"], row["us"], row["n"]) for row in ask("recorded_top", trace=trace)]
    assert top == [(name, pytest.approx(us, abs=5e-4), n) for name, us, n in expected["top3"]]
