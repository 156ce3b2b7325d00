"""Kernels of the libraries that are met in the field: category, library and, where the name says it, element type."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from kerneldb.names import decode

NAMES = Path(__file__).with_name("library_names.tsv")


def known_names() -> list[dict[str, str]]:
    """The rows of the table; an empty dtype says nothing about the element type."""
    with NAMES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.parametrize("row", known_names(), ids=lambda row: row["name"][:60])
def test_a_librarys_kernel_is_known(row: dict[str, str]) -> None:
    found = decode(row["name"])
    assert (found.category, found.library) == (row["category"], row["library"])
    assert row["dtype"] in {"", found.dtype}
