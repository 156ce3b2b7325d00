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


UNKNOWN = (
    "sage_conv_kernel",
    "build_tree_kernel",
    "convert_kernel",
    "convert_vertical_slash_indexes",
    "my_e_kernel",
    "step",
    "softmaximum_flow",
    "softmaxwell_boltzmann",
    "nccl_free_lattice_update",
    "scattering_angle_mc",
    "layer_normals_compute",
    "gemm_free_list_update",
    "copycat_attention_table",
    "void get_group_gemm_starts<cutlass::float_e4m3_t, cutlass::bfloat16_t, float>(int*, float**)",
    "compute_gemm_problem_sizes(int const*, int*)",
    "attention_block_table_update",
)
"""Names that hold a word of a library or a category, and are of neither."""


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_word_alone_makes_no_category(name: str) -> None:
    assert decode(name).category == "OTHER"


@pytest.mark.parametrize("row", known_names(), ids=lambda row: row["name"][:60])
def test_a_librarys_kernel_is_known(row: dict[str, str]) -> None:
    found = decode(row["name"])
    assert (found.category, found.library) == (row["category"], row["library"])
    assert row["dtype"] in {"", found.dtype}
