"""Files of Nsight Compute that other people published, with figures from plain csv: rows of field/README.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ncu.reading import convert_units, differing, rules, values

if TYPE_CHECKING:
    from pathlib import Path

SILU_NS = [437_440, 436_640, 437_180]


@pytest.mark.parametrize("locale", ["fr", "de_CH"])
def test_that_a_page_of_another_locale_has_its_figures(field: Path, tmp_path: Path, locale: str) -> None:
    (one,) = convert_units([field / "nsight" / f"ncu-details-{locale}.csv"], tmp_path)
    (other,) = convert_units([field / "nsight" / "ncu-details-fr.csv"], tmp_path / "other")
    assert differing(values(one), values(other)) == {}
    assert values(one).keys() == values(other).keys()
    assert one.table("launches")["duration_ns"].to_list() == SILU_NS
    assert values(one)[0, "gpc__cycles_elapsed.max", None][0] == 478_214
    assert {speedup for *_, speedup in rules(one) if speedup is not None} == {22.8, 22.9, 22.94}
