"""One real page in the locales of its readers: grouping and decimals differ, figures do not."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

import pytest

from kerneldb.errors import UnreadableTraceError
from tests.ncu.reading import convert_text, page, printed, row, rules, values

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ingest.conversion import Converted

LOCALES = {
    "de": (".", ","),
    "fr": ("\u202f", ","),
    "fr of old": ("\u00a0", ","),
    "fr plain": (" ", ","),
    "de_CH": ("'", "."),
    "de_CH typographic": ("\u2019", "."),
    "en": (",", "."),
    "es": ("", ","),
}
SPEEDUPS = ("22.94", "5.818", "0.005414", "50", "1.2e-05")


def page_in(locale: str | None) -> str:
    """A page of ncu 2024 in the locale, with a rule for each speedup; those stay in the C locale."""
    table = list(csv.reader(io.StringIO(printed("C.details.csv").decode())))
    value = table[0].index("Metric Value")
    for cells in table[1:]:
        if locale is not None:
            cells[value] = localised(cells[value], *LOCALES[locale])
    table[0] += ["Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup"]
    rule = [*table[1][: value - 2], "", "", "", "Rule", "OPT", "what to do, 1.234 times", "global"]
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        [*table, *([*rule, speedup] for speedup in SPEEDUPS)]
    )
    return out.getvalue()


def localised(text: str, group: str, decimal: str) -> str:
    if not re.fullmatch(r"-?\d+(\.\d+)?", text):
        return text
    whole, _, part = text.partition(".")
    return f"{int(whole):,}".replace(",", group) + (decimal + part if part else "")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    return convert_text(page_in(None), tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("locale", LOCALES)
def test_that_figures_are_those_of_the_c_locale(plain: Converted, tmp_path: Path, locale: str) -> None:
    one = convert_text(page_in(locale), tmp_path)
    assert values(one) == values(plain)
    assert rules(one) == rules(plain)
    assert [speedup for *_, speedup in rules(one)] == [float(text) for text in SPEEDUPS]


@pytest.mark.parametrize(("size", "expected"), [("8.192", 8192), ("8,192", 8192), ("8\u202f192", 8192)])
def test_that_counts_decide_what_a_single_mark_is(tmp_path: Path, size: str, expected: int) -> None:
    one = convert_text(page(row("Grid Size", "", size, "Launch Statistics")), tmp_path)
    assert values(one)[0, "launch__grid_size", None][0] == expected


def test_that_decimals_like_the_groups_of_a_count_are_refused(tmp_path: Path) -> None:
    text = page(row("Grid Size", "", "8.192", "Launch Statistics"), row("Duration", "us", "77.06"))
    with pytest.raises(UnreadableTraceError, match="contradict"):
        convert_text(text, tmp_path)
