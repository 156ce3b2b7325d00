"""Coverage over every name of the sample traces."""

from __future__ import annotations

import gzip
from collections import Counter
from typing import TYPE_CHECKING, Any

from kerneldb.names import CATEGORIES, decode
from kerneldb.names.decoding import DERIVER_VERSION

if TYPE_CHECKING:
    from pathlib import Path

# Names that no table can decode, and why each may stay so.
REVIEWED_OTHER = {
    "mathKernel1": "a divergence exercise of a CUDA course: arithmetic without a name of its own",
    "mathKernel2": "the same exercise",
    "mathKernel3": "the same exercise",
    "warmingUp": "the same exercise",
    "kernel": "a short name without arguments; with them it is cuBLAS' gemvx",
}


def base_name(name: str) -> str:
    return name.partition("(")[0].strip()


def test_every_name_has_category_and_library(trace_names: list[Any]) -> None:
    unknown = {
        named.name
        for named in trace_names
        if (found := decode(named.name, named.kind)).category == "OTHER" or found.library is None
    }
    assert {base_name(name) for name in unknown} <= set(REVIEWED_OTHER)


def test_categories_are_the_agreed_ones(trace_names: list[Any]) -> None:
    assert {decode(named.name, named.kind).category for named in trace_names} <= set(CATEGORIES)


def test_launches_of_pytorch_traces_have_operations(trace_names: list[Any]) -> None:
    total: Counter[str] = Counter()
    named_operation: Counter[str] = Counter()
    for named in trace_names:
        found = decode(named.name, named.kind)
        if ".json" in named.source and found.category in {"ELEMENTWISE", "REDUCTION", "COPY"}:
            total[found.category] += named.launches
            named_operation[found.category] += named.launches if found.operation else 0
    assert total["ELEMENTWISE"] > 5000
    assert total["REDUCTION"] > 300
    for category, launches in total.items():
        assert named_operation[category] >= 0.99 * launches, category


def test_launches_of_pytorch_traces_have_element_types(trace_names: list[Any]) -> None:
    counted = [
        (named.launches, decode(named.name).dtype is not None)
        for named in trace_names
        if ".json" in named.source and decode(named.name, named.kind).category in {"GEMM", "ELEMENTWISE", "REDUCTION"}
    ]
    assert sum(n for n, typed in counted if typed) >= 0.99 * sum(n for n, _ in counted)


def test_products_have_tiles(trace_names: list[Any]) -> None:
    families = {"nvjet", "xmma_gemm", "arch_gemm", "cutlass", "tensile"}
    products = [found for named in trace_names if (found := decode(named.name)).family in families]
    assert len(products) > 80
    assert [found.match_name for found in products if not (found.tile_m and found.tile_n and found.layout)] == []


def test_tensile_symbols_decode(shared_data: Path) -> None:
    text = gzip.decompress((shared_data / "rocprof" / "tensile_symbols.txt.gz").read_bytes()).decode()
    decoded = [decode(symbol) for symbol in text.split()]
    assert len(decoded) == 270
    assert {found.category for found in decoded} == {"GEMM"}
    assert all(found.dtype for found in decoded)
    products = [found for found in decoded if found.family == "tensile"]
    assert all(found.tile_k and found.arch and found.layout for found in products)
    assert {found.family for found in decoded} == {"tensile", "splitK_reduce"}


def test_short_names_fit_a_table(trace_names: list[Any]) -> None:
    decoded = [decode(named.name, named.kind) for named in trace_names]
    assert all(0 < len(found.short_name) <= 60 for found in decoded)
    assert not any(found.short_name.startswith("void ") or "::native" in found.short_name for found in decoded)


def test_deriver_version_is_a_positive_number() -> None:
    assert DERIVER_VERSION >= 1
