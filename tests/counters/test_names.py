"""Names of all profilers meet, and the friendly names of the report come out of the decoder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from kerneldb.names import decode
from tests.counters.join_names import measure

pytestmark = pytest.mark.slow

FIGURES = {
    "report_names": 20,
    "report_names_in_sums": 20,
    "sum_names": 113,
    "sum_names_merged": 0,
    "ncu_names_in_kineto": 35,
    "nsys_names_in_kineto": 38,
    "ncu_names_in_nsys": 37,
    "merged_in_one_file": 0,
    "merged_across_kineto_files": 13,
}
"""Across files, names merge whose namespace or parameters changed from one version of a library to the next."""


@pytest.fixture(scope="module")
def figures(shared_data: Path) -> dict[str, int]:
    return measure(shared_data)


@pytest.mark.parametrize("figure", FIGURES)
def test_joins_and_false_merges(figures: dict[str, int], figure: str) -> None:
    assert figures[figure] == FIGURES[figure]


MEANINGS = {
    "GEMV": {"category": {"GEMV"}},
    "CUTLASS GEMM": {"category": {"GEMM"}, "family": {"cutlass"}},
    "elementwise multiply": {"operation": {"mul"}, "category": {"ELEMENTWISE"}},
    "elementwise add": {"operation": {"add"}, "category": {"ELEMENTWISE"}},
    "SiLU": {"operation": {"silu"}, "category": {"ELEMENTWISE"}},
    "copy/cast": {"operation": {"copy"}, "category": {"COPY"}},
    "cat batched copy": {"category": {"CONCAT"}},
    "FlashAttention Forward": {"category": {"ATTENTION"}},
    "Memory-Efficient Attention": {"category": {"ATTENTION"}},
    "layer norm": {"category": {"NORMALIZATION"}},
    "convolution forward": {"category": {"CONVOLUTION"}, "direction": {"forward"}},
}
LIBRARIES = {
    "cuBLAS": {"cuBLAS"},
    "CUTLASS": {"CUTLASS"},
    "PyTorch ATen": {"PyTorch ATen"},
    "FlashAttention": {"FlashAttention"},
    "cuDNN": {"cuDNN"},
    "PyTorch MemEffAttention": {"CUTLASS"},
}
"""What the report calls a library, and what the decoder may. Its `CUDA` means that its own list did not know."""


ENTRY = re.compile(
    r"^- raw_name: (.+)\n  friendly_name: (.+)\n  source_lib: (.+)\n(?s:.*?)    tiled:(.*(?:\n      - .*)?)",
    re.MULTILINE,
)


class Entry(NamedTuple):
    """A kernel in the report's own map; `tile` are the numbers of the products of tiles: m, k, k, n, m, n."""

    raw_name: str
    friendly_name: str
    library: str
    tile: tuple[int, ...]


def entries(shared_data: Path) -> list[Entry]:
    text = (shared_data / "ncu" / "deepseek-ocr-v2" / "kernel-info.yaml").read_text(encoding="utf-8")
    found = [
        Entry(name.strip('"'), friendly, library, tuple(int(number) for number in re.findall(r"\d+", tile)))
        for name, friendly, library, tile in ENTRY.findall(text)
    ]
    assert len(found) == text.count("raw_name")
    return found


def test_libraries_of_the_report(shared_data: Path) -> None:
    known = [entry for entry in entries(shared_data) if entry.library in LIBRARIES]
    assert len(known) == 50
    found = [(entry.raw_name, decode(entry.raw_name).library, LIBRARIES[entry.library]) for entry in known]
    assert [(name, library) for name, library, allowed in found if library not in allowed] == []


def test_what_the_report_did_not_know_is_decoded_too(shared_data: Path) -> None:
    unknown = [entry.raw_name for entry in entries(shared_data) if entry.library == "CUDA"]
    assert len(unknown) == 4
    assert {decode(name).library for name in unknown} == {"FlashAttention", "PyTorch NNC", "cuDNN"}


@pytest.mark.parametrize("meaning", MEANINGS)
def test_friendly_names_of_the_report(shared_data: Path, meaning: str) -> None:
    named = [entry.raw_name for entry in entries(shared_data) if meaning in entry.friendly_name]
    assert named
    for field, allowed in MEANINGS[meaning].items():
        assert {getattr(decode(name), field) for name in named} <= allowed


def test_data_types_of_the_report(shared_data: Path) -> None:
    named = [entry for entry in entries(shared_data) if "BF16" in entry.friendly_name]
    assert len(named) > 15
    assert {decode(entry.raw_name).dtype for entry in named} == {"bf16"}


def test_tiles_of_the_report(shared_data: Path) -> None:
    """Those of its GEMMs: of attention it gives one tile for three operands."""
    gemms = [entry for entry in entries(shared_data) if entry.tile and "GEMM" in entry.friendly_name]
    assert len(gemms) > 10
    for entry in gemms:
        m, k, _, n, *_ = entry.tile
        found = decode(entry.raw_name)
        assert (found.tile_m, found.tile_n, found.tile_k) == (m, n, k)
