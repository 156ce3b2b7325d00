"""Tables of this package: CSV files with a header line."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def rows_of(file: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file of this package; lines that begin with ``#`` are comments."""
    text = Path(__file__).with_name(file).read_text("utf-8")
    yield from csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
