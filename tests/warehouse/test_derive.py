"""Derived columns: filled at ingest, renewed by refresh."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

from kerneldb import derive, work
from kerneldb import names as kernel_names
from kerneldb.batch import Manifest
from kerneldb.ids import content_id
from kerneldb.names.tables import rows_of
from kerneldb.warehouse import Warehouse

MADE: Final = {"kerneldb.names": (7, "6ebf3c73cc43ce2f"), "kerneldb.work": (1, "f215f4e41554f1e3")}
"""The version of each deriver, and a digest of its tables and of what it makes of a database of 0.1.0."""


@dataclasses.dataclass(frozen=True)
class Decoded:
    """Stands in for kerneldb.names.Decoded."""

    demangled: str
    short_name: str = "short"
    match_name: str = "match"
    category: str = "GEMM"
    family: str | None = None
    library: str | None = None
    operation: str | None = None
    dtype: str | None = "fp16"
    dtypes: tuple[str, ...] = ("fp16", "fp32")
    arch: str | None = "sm_90"
    tile_m: int | None = 64
    tile_n: int | None = None
    tile_k: int | None = None
    pipeline_stages: int | None = None
    cluster: str | None = None
    layout: str | None = None
    split_k: bool | None = None
    epilogue: str | None = None
    vector_width: int | None = None
    template: str | None = None
    head_dim: int | None = None
    direction: str | None = None
    details: dict[str, Any] = dataclasses.field(default_factory=dict)


class Derivers:
    """Stand-ins for the name decoder and the work models, with versions that can be raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[work.OpCall, Any, work.LaunchShape]] = []
        self._patch = monkeypatch
        self.answer: dict[str, Any] = {}
        self.raise_to(names=1, works=1)
        monkeypatch.setattr(kernel_names, "decode_many", self._decode)
        monkeypatch.setattr(work, "problem", self._problem)

    def raise_to(self, *, names: int, works: int) -> None:
        self._patch.setattr(kernel_names, "DERIVER_VERSION", names)
        self._patch.setattr(work, "DERIVER_VERSION", works)

    def _decode(self, given: list[tuple[str, str]]) -> list[Decoded]:
        return [Decoded(f"{name}:{kind}", **self.answer) for name, kind in given]

    def _problem(self, call: work.OpCall, name: Any, launch: work.LaunchShape) -> work.Problem:
        self.asked.append((call, name, launch))
        return work.Problem(gemm_m=7, flops=2.0, dims_source="op")


@pytest.fixture
def derivers(monkeypatch: pytest.MonkeyPatch) -> Derivers:
    return Derivers(monkeypatch)


NAMES = pl.DataFrame({"name_id": ["n"], "name": ["k"], "kind": ["kernel"]})
GRID = {"grid_x": 2, "grid_y": 3, "grid_z": 1, "block_x": 32, "block_y": 4, "block_z": 1}
FACTS = {"signature_id": "s", "kind": "kernel", "name_id": "n"}


def signature(**facts: Any) -> dict[str, Any]:
    (row,) = derive.derive_signatures(pl.DataFrame([FACTS | facts]), derive.derive_names(NAMES)).to_dicts()
    return row


def test_rows_have_the_columns_of_the_tables(warehouse: Warehouse, derivers: Derivers) -> None:
    names = derive.derive_names(NAMES)
    assert set(names.columns) == set(warehouse.query("FROM kernel_names").column_names)
    signatures = derive.derive_signatures(pl.DataFrame([FACTS]), names)
    assert set(signatures.columns) == set(warehouse.query("FROM signatures").column_names)


def test_names(derivers: Derivers) -> None:
    derivers.answer = {"details": {"z": (1, 2), "a": True}}
    (row,) = derive.derive_names(NAMES).to_dicts()
    assert (row["demangled"], row["dtypes"], row["name_arch"]) == ("k:kernel", "fp16,fp32", "sm_90")
    assert (row["decoded"], row["tile_m"], row["deriver_version"]) == ('{"a": true, "z": [1, 2]}', 64, 1)


def test_real_decoder_fills_whole_rows() -> None:
    given = pl.DataFrame(
        {"name_id": ["a", "b"], "name": ["ncclDevKernel_X", "Memset (Device)"], "kind": ["kernel", "memset"]}
    )
    assert derive.derive_names(given)["category"].to_list() == ["COMMUNICATION", "MEMSET"]


@pytest.mark.parametrize(
    ("facts", "level"),
    [
        ({"call_id": "c", "input_dims": "[[2]]", "input_dtypes": '["float"]', **GRID}, "call"),
        ({"call_id": "c", "input_dims": "[[2]]", **GRID}, "launch"),
        ({"call_id": "c", **GRID}, "launch"),
        (GRID, "launch"),
        ({"total_blocks": 6, "threads_per_block": 128}, "total"),
        ({}, "name"),
    ],
)
def test_level(derivers: Derivers, facts: dict[str, Any], level: str) -> None:
    assert signature(**facts)["level"] == level


def test_launch_key_is_equal_for_equal_totals(derivers: Derivers) -> None:
    expected = content_id("k1", "match", 6, 128)
    assert signature(**GRID)["launch_key"] == expected
    assert signature(total_blocks=6, threads_per_block=128)["launch_key"] == expected
    assert signature(total_blocks=6)["launch_key"] is None
    assert signature(name_id="unknown", **GRID)["launch_key"] is None


def test_models_see_call_name_and_launch(derivers: Derivers) -> None:
    row = signature(op="aten::mm", input_dims="[[1]]", bytes=5, **GRID)
    call, name, launch = derivers.asked[-1]
    assert call == work.OpCall("aten::mm", "[[1]]")
    assert (name.category, name.dtype, name.tile_m) == ("GEMM", "fp16", 64)
    assert launch == work.LaunchShape("kernel", (2, 3, 1), (32, 4, 1), 5)
    assert (row["gemm_m"], row["flops"], row["dims_source"], row["total_blocks"]) == (7, 2.0, "op", 6)


def test_version_grows_with_either_deriver(derivers: Derivers) -> None:
    versions = []
    for names, works in ((1, 1), (3, 1), (3, 2)):
        derivers.raise_to(names=names, works=works)
        versions.append(signature()["deriver_version"])
    assert versions == sorted(set(versions))


def test_refresh_renews_only_older_rows(
    warehouse: Warehouse, make_trace: Callable[..., Manifest], derivers: Derivers
) -> None:
    warehouse.commit(make_trace("one"))
    derived = ", ".join([*derive.DERIVED, "total_blocks", "threads_per_block"])
    facts = f"SELECT * EXCLUDE ({derived}) FROM signatures ORDER BY ALL"
    before = warehouse.query(facts).to_pylist()
    told: list[tuple[str, int]] = []
    found = warehouse.refresh(lambda table, rows: told.append((table, rows)))
    assert found == dict(told) == {"kernel_names": 5, "signatures": len(before)}
    assert warehouse.query(facts).to_pylist() == before
    assert warehouse.query("SELECT DISTINCT match_name, gemm_m FROM kernels").to_pylist() == [
        {"match_name": "match", "gemm_m": 7}
    ]
    assert warehouse.refresh() == {"kernel_names": 0, "signatures": 0}
    derivers.raise_to(names=1, works=2)
    assert warehouse.refresh() == {"kernel_names": 0, "signatures": len(before)}
    assert warehouse.refresh(everything=True) == found


def test_failing_refresh_changes_nothing(
    filled: Warehouse, derivers: Derivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = filled.query("FROM kernel_names ORDER BY ALL").to_pylist()

    def fail(*_: Any) -> None:
        message = "no"
        raise ValueError(message)

    monkeypatch.setattr(work, "problem", fail)
    with pytest.raises(ValueError, match="no"):
        filled.refresh()
    assert filled.query("FROM kernel_names ORDER BY ALL").to_pylist() == before


def digest(tag: str, decides: object, made: pl.DataFrame) -> str:
    return content_id(tag, str(decides), str(made.drop("deriver_version").rows()))


def test_other_results_have_a_higher_version(migrated: Path) -> None:
    """Only rows of an older version are renewed: with the same version, databases would keep what they had."""
    stored = Warehouse(migrated)
    names = derive.derive_names(pl.DataFrame(stored.query("SELECT name_id, name, kind FROM kernel_names ORDER BY ALL")))
    facts = pl.DataFrame(stored.query(f"SELECT {', '.join(derive.FACTS)} FROM signatures ORDER BY ALL"))
    rules, models = [*rows_of("rules.csv"), *rows_of("operators.csv")], sorted(work.supported_ops())
    found = {
        kernel_names.__name__: (kernel_names.DERIVER_VERSION, digest("names", rules, names)),
        work.__name__: (work.DERIVER_VERSION, digest("work", models, derive.derive_signatures(facts, names))),
    }
    assert found == MADE, "raise the DERIVER_VERSION of what changed, and write here what is found"


def test_slices_give_the_rows_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["void gemm_64x64_f16(float*)", "Memcpy HtoD", "triton_poi_fused_add_0", "ncclDevKernel_AllReduce()"]
    facts = pl.DataFrame({"name_id": list("abcd"), "name": texts, "kind": ["kernel", "memcpy", "kernel", "kernel"]})
    calls = pl.DataFrame({"signature_id": list("stuvw"), "kind": ["kernel"] * 5, "name_id": [*"dcba", "lost"]})
    names = derive.derive_names(facts)
    signatures = derive.derive_signatures(calls, names)
    assert names["short_name"].n_unique() == len(texts)
    monkeypatch.setattr(derive, "SLICE_ROWS", 2)
    assert derive.derive_names(facts).equals(names)
    assert derive.derive_signatures(calls, names).equals(signatures)
    assert derive.derive_names(facts.clear()).schema == names.schema
    assert derive.derive_signatures(calls.clear(), names).schema == signatures.schema
