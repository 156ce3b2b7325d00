"""A model and the same compiled: which operators became which kernels, though none has the name of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.cli import cli
from tests.conftest import made_once
from tests.why.causes import GEMM, US, Program

if TYPE_CHECKING:
    from pathlib import Path

    from kerneldb.api import Database

LAYERS: Final = 3
POINTWISE: Final = "void at::native::vectorized_elementwise_kernel<4, at::native::{}>(int)"
NORM: Final = ("pow", "mean", "add", "rsqrt", "mul", "mul")
TRITON_NORM: Final = "triton_red_fused_add_mean_mul_pow_rsqrt_0"
TRITON_GATE: Final = "triton_poi_fused_mul_silu_1"


def launch(program: Program, op: str, kernel: str, duration: int, module: str | None, dims: Any = None) -> None:
    """A kernel in an operator, in a module."""
    program.number += 1
    number = program.number + 1
    shape = {"Input Dims": dims, "Input type": ["c10::BFloat16"] * 2, "Concrete Inputs": ["", ""]} if dims else {}
    if module:
        program.trace.frame(f"nn.Module: {module}", program.host - US, 14 * US, {"Python id": number})
    program.trace.op(op, program.host, 8 * US, {"External id": number, **shape})
    program.host += US
    program.kernel(kernel, duration, details={"External id": number})
    program.think(10 * US)


def product(program: Program, sizes: tuple[int, int, int], module: str | None, kernel: str = GEMM) -> None:
    rows, inner, columns = sizes
    launch(program, "aten::mm", kernel, 100 * US, module, [[rows, inner], [inner, columns]])


def eager() -> Program:
    """Layers of a norm, a product, a gated product; the norm takes 60 µs in six kernels, the gate 40 µs in two."""
    program = Program()
    for layer in range(LAYERS):
        for op in NORM:
            launch(program, f"aten::{op}", POINTWISE.format(op), 10 * US, f"RMSNorm_{layer}")
        product(program, (64, 512, 1024), f"Linear_{2 * layer}")
        for op in ("silu", "mul"):
            launch(program, f"aten::{op}", POINTWISE.format(op), 20 * US, f"Gate_{layer}")
        product(program, (64, 1024, 512), f"Linear_{2 * layer + 1}")
        launch(program, "aten::fill_", POINTWISE.format("fill"), 5 * US, f"Gate_{layer}")
    return program


def compiled() -> Program:
    """The same in two kernels of 15 and 12 µs a layer, with other products of the same sizes."""
    program = Program()
    other = "nvjet_hsh_64x128_64x6_1x2_h_bz_NNN"
    for _ in range(LAYERS):
        launch(program, TRITON_NORM, TRITON_NORM, 15 * US, None)
        product(program, (64, 512, 1024), None, other)
        launch(program, TRITON_GATE, TRITON_GATE, 12 * US, None)
        product(program, (64, 1024, 512), None, other)
        launch(program, "aten::fill_", POINTWISE.format("fill"), 5 * US, None)
    return program


def without_products(*, fused: bool) -> Program:
    """Two chains one after the other, with nothing between that stays."""
    program = Program()
    for ops, kernel in ((NORM, TRITON_NORM), (("silu", "mul"), TRITON_GATE)):
        for op in (kernel,) if fused else ops:
            launch(program, op if fused else f"aten::{op}", kernel if fused else POINTWISE.format(op), 10 * US, None)
    return program


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Database:
    def make(path: Path) -> None:
        folder = tmp_path_factory.mktemp("pair")
        for name, program in {
            "eager": eager(),
            "compiled": compiled(),
            "chains": without_products(fused=False),
            "fused": without_products(fused=True),
        }.items():
            program.write(folder / f"{name}.json")
        kerneldb.open(path).ingest(folder)

    return kerneldb.open(made_once(tmp_path_factory, "pair.duckdb", make))


def test_operators_of_modules_became_fused_kernels(pair: Database) -> None:
    norm, gate = pair.fusions("eager", "compiled").rows()
    assert norm == {
        "phase": None,
        "module": "RMSNorm",
        "before": "pow, mean, add, rsqrt, 2 × mul",
        "after": TRITON_NORM,
        "places": LAYERS,
        "n_before": 6 * LAYERS,
        "n_after": LAYERS,
        "total_before_ns": 60 * US * LAYERS,
        "total_after_ns": 15 * US * LAYERS,
        "delta_ns": -45 * US * LAYERS,
    }
    assert (gate["module"], gate["before"], gate["after"]) == ("Gate", "silu, mul", TRITON_GATE)
    assert gate["delta_ns"] == -28 * US * LAYERS


def test_it_reads_backward_as_well(pair: Database) -> None:
    """The other way round: one kernel became several."""
    first, *_ = pair.fusions("compiled", "eager").rows()
    assert (first["before"], first["n_before"], first["n_after"]) == (TRITON_NORM, LAYERS, 6 * LAYERS)
    assert first["delta_ns"] == 45 * US * LAYERS
    whole = [(row["before"], row["n_after"]) for row in pair.fusions("fused", "chains").rows()]
    assert whole == [(TRITON_NORM, 6), (TRITON_GATE, 2)]


def test_names_of_fused_kernels_say_what_is_in_which(pair: Database) -> None:
    found = {row["after"]: row["before"] for row in pair.fusions("chains", "fused").rows()}
    assert found == {TRITON_NORM: "pow, mean, add, rsqrt, 2 × mul", TRITON_GATE: "silu, mul"}


def test_the_same_trace_twice_has_no_changes(pair: Database) -> None:
    assert pair.fusions("eager", "eager").rows() == []


def test_the_command_says_that_there_is_more(pair: Database) -> None:
    words = ["--db", str(pair.path), "diff", "eager", "compiled"]
    assert "--by fusion" in CliRunner().invoke(cli, words).stderr
    shown = CliRunner().invoke(cli, [*words, "--by", "fusion"]).stdout
    assert "2 × mul" in shown
    assert "--by fusion" not in CliRunner().invoke(cli, [*words[:3], "eager", "eager"]).stderr
