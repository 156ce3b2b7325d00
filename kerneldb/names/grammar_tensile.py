"""Grammar of Tensile (rocBLAS) and TensileLite (hipBLASLt) symbols, and of their helper kernels.

``C{ijk}_A{free, sum}_B{...}_{types}_{problem flags}_MT{m}x{n}x{depthU}_MI{...}_{parameters}``: after Tensile's
``SolutionStructs.py`` (getNameMin) and TensileLite's ``Naming.py``. A parameter is its name's capitals and digits with
the value behind: ints, ``n1`` for -1, lists joined by ``_``. The meaning of each token is reference data, not code.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.dtypes import distinct

if TYPE_CHECKING:
    from kerneldb.names.model import Facts
    from kerneldb.names.structure import Structure

_TYPES = {
    "4xi8": "int8",
    "F8B8": "fp8",
    "B8F8": "fp8",
    "F8N": "fp8_e4m3fnuz",
    "B8N": "fp8_e5m2fnuz",
    "F8": "fp8_e4m3",
    "B8": "fp8_e5m2",
    "I8": "int8",
    "F6": "fp6",
    "B6": "bf6",
    "F4": "fp4",
    "S": "fp32",
    "D": "fp64",
    "C": "complex64",
    "Z": "complex128",
    "H": "fp16",
    "B": "bf16",
    "I": "int32",
    "X": "tf32",
}
_TYPE = re.compile("|".join(_TYPES))
_RUN = re.compile(f"(?:{'|'.join(_TYPES)})+")
_PRODUCT = re.compile(r"C[a-z]+_A([a-z]+)C?_B([a-z]+)C?_(.+)")
_HELPER = re.compile(r"C[a-z]+_([A-Z0-9a-z]+?)_(?:(.*?)_)?(?:PostGSU(\d+)(?:_VW(\d+))?|(G[AB]))$")
_NUMERIC = re.compile(r"(\d?[A-Z]+(?:[A-Z0-9]*[A-Z])?)(n?\d+)")
_VALUE = re.compile(r"n?\d+")


def _types(run: str) -> list[str]:
    """Split ``HHS``, ``BBS``, ``I8II`` into element types (input, output, accumulator)."""
    return [_TYPES[letter] for letter in _TYPE.findall(run)] if _RUN.fullmatch(run) else []


def _problem_types(prefix: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """Read the element types in front of ``_MT``; return them and the problem's flags.

    ``HHS_BH``: input, output, accumulator. ``B_BS_BH``: the input alone, then output and accumulator. ``SB``: one type
    with the flag B (uses beta) attached.
    """
    first, rest = prefix[0], prefix[1:]
    if re.fullmatch("[SDCZHI]B", first):
        return tuple(_types(first[0])), ["B", *rest]
    types = _types(first)
    # "BH" (uses beta, high-precision accumulation) would read as two types.
    if len(types) == 1 and rest and _types(rest[0])[1:] and not rest[0].startswith("BH"):
        types, rest = types + _types(rest[0]), rest[1:]
    return distinct(types), rest


def _number(text: str) -> int | str:
    if not _VALUE.fullmatch(text):
        return text
    return -int(text[1:]) if text[0] == "n" else int(text)


def _parameters(words: list[str]) -> dict[str, str | int | bool]:
    """Read the parameters behind the tile: ``WG32_4_1`` is one list, ``USFGROn1`` is -1, ``KLA`` has letters."""
    details: dict[str, str | int | bool] = {}
    last = ""
    for word in words:
        if _VALUE.fullmatch(word) and last:
            details[last] = f"{details[last]}_{word}"
            continue
        match = _NUMERIC.fullmatch(word)
        if match is not None:
            last = match[1]
            details.setdefault(last, _number(match[2]))
        else:
            last = word[:3] if word.startswith("ISA") else word
            details.setdefault(last, word[3:] if word.startswith("ISA") else True)
    return details


def _tile(word: str, facts: Facts) -> None:
    sizes = [int(size) for size in word.split("x") if size.isdecimal()]
    if sizes[2:]:
        facts["tile_m"], facts["tile_n"], facts["tile_k"] = sizes[:3]


def read_tensile(name: Structure) -> Facts:
    """Read a Tensile symbol: a product, or a helper around a product whose sum is split."""
    symbol = name.base
    product = _PRODUCT.match(symbol)
    return _read_helper(symbol) if product is None else _read_product(product)


def _read_product(product: re.Match[str]) -> Facts:
    """Read a product. Column-major: A is transposed unless its free index ``i`` leads, B unless ``l`` (summed) does."""
    problem, _, parameters = product[3].partition("_MT")
    transposed = ("n" if product[1].startswith("i") else "t") + ("n" if product[2].startswith("l") else "t")
    types, flags = _problem_types(problem.split("_"))
    lite = "UserArgs" in flags
    facts: Facts = {
        "library": "hipBLASLt" if lite else "rocBLAS/Tensile",
        "layout": transposed,
        "dtypes": types,
        "dtype": types[0] if types else None,
    }
    words = [word for word in parameters.split("_") if word]
    if parameters:
        _tile(words.pop(0), facts)
    details: dict[str, str | int | bool] = {"problem_flags": "_".join(flags)} if flags else {}
    if words and words[0].startswith("MI") and "x" in words[0]:
        details["MI"] = words.pop(0)[2:]
    details.update(_parameters(words))
    if "Bias" in flags:
        facts["epilogue"] = "bias"
    return _conclude(facts, details)


def _conclude(facts: Facts, details: dict[str, str | int | bool]) -> Facts:
    """Add what follows from parameters: architecture (ISA: major, minor, hexadecimal step) and the split of the sum."""
    if "ISA" in details:
        facts["arch"] = f"gfx{details['ISA']}"
    split = details.get("GSU")
    # GlobalSplitU 0 leaves the split to the launch.
    if isinstance(split, int) and not isinstance(split, bool) and split > 0:
        facts["split_k"] = split > 1
    prefetch = details.get("PGR")
    if isinstance(prefetch, int) and not isinstance(prefetch, bool):
        facts["stages"] = prefetch + 1
    facts["details"] = details
    return facts


def _read_helper(symbol: str) -> Facts:
    """Read ``Cijk_SB_BiasB_ScaleAlphaVec_PostGSU8_VW1`` (adds up a split sum) or ``Cijk_S_GA`` (scales C by beta)."""
    match = _HELPER.match(symbol)
    if match is None:
        return {}
    types = distinct(_types(match[1]))
    facts: Facts = {"dtypes": types, "dtype": types[0] if types else None}
    facts["library"] = "hipBLASLt" if match[2] else "rocBLAS/Tensile"
    facts["details"] = {"problem_flags": match[2]} if match[2] else {}
    if match[5]:
        facts["family"], facts["operation"] = "gemm_epilogue", "scale"
        return facts
    facts["family"], facts["operation"], facts["split_k"] = "splitK_reduce", "splitK_reduce", True
    facts["details"]["GSU"] = int(match[3])
    if match[4]:
        facts["vector_width"] = int(match[4])
    if "Bias" in (match[2] or ""):
        facts["epilogue"] = "bias"
    return facts
