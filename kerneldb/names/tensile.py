"""Grammar of Tensile (rocBLAS) and TensileLite (hipBLASLt) symbols, and of their helper kernels.

``C{ijk}_A{free, sum}_B{...}_{types}_{problem flags}_MT{m}x{n}x{depthU}_MI{...}_{parameters}``: after Tensile's
``SolutionStructs.py`` (getNameMin) and TensileLite's ``Naming.py``. A parameter is its name's capitals and digits with
the value behind: integers, ``n1`` for -1, ``1p5`` for 1.5, lists joined by ``_``, capitals of a word (``GSUASB``:
SingleBuffer). What each token means is reference data (`schemas/reference/tensile_tokens.csv`), which also says where a
token ends and its value begins.
"""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING

from kerneldb.names.dtypes import typed
from kerneldb.schemas import loader

if TYPE_CHECKING:
    from kerneldb.names.model import Facts
    from kerneldb.names.structure import Structure

Details = dict[str, str | int | bool]

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
_BYTES = {"fp64": 8, "complex64": 8, "complex128": 16, "fp32": 4, "tf32": 4, "int32": 4, "fp16": 2, "bf16": 2}
_LEAST_ROWS = 16
_TYPE = re.compile("|".join(_TYPES))
_LETTERS = f"(?:{'|'.join(_TYPES)})"
_RUN = re.compile(f"{_LETTERS}+")
_PRODUCT = re.compile(r"C[a-z]+_A([a-z]+)C?_B([a-z]+)C?_(.+)")
_HELPER = re.compile(r"C[a-z]+_([A-Z0-9a-z]+?)_(?:(.*?)_)?(?:PostGSU(\d+)(?:_VW(\d+))?|(G[AB]))$")
_INTEGER = re.compile(r"n?\d+")
_VALUE = re.compile(r"(?:n?\d+(?:p\d+)?(?:_n?\d+)*|[A-Z]*)")
_FRACTION = re.compile(r"(\d+)p(\d+)")

# What comes between the element types and the tile: pattern, parameter, value (None: what the pattern's group holds).
_FLAGS: tuple[tuple[re.Pattern[str], str, str | bool | None], ...] = tuple(
    (re.compile(pattern), parameter, value)
    for pattern, parameter, value in (
        (rf"Bias({_LETTERS}*)", "UseBias", None),
        (r"BiasSrc([ABD])", "BiasSource", None),
        (rf"DBias({_LETTERS}*)", "BiasGradient", None),
        (rf"HA({_LETTERS}?)", "Activation", "hipblaslt_all"),
        (rf"A({_LETTERS}?)", "Activation", "all"),
        (rf"Aux({_LETTERS}*)", "UseE", None),
        (rf"Grad({_LETTERS}*)", "Gradient", None),
        (r"SAB|ScaleAB", "UseScaleAB", "scalar"),
        (r"SABV|ScaleABVec", "UseScaleAB", "vector"),
        (r"SCD|ScaleCD", "UseScaleCD", True),
        (r"SAV|ScaleAlphaVec", "UseScaleAlphaVec", True),
        (r"AmaxD", "OutputAmaxD", True),
        (r"GG", "GroupedGemm", True),
        (r"GB", "GeneralBatched", True),
        (r"SPA", "SparseA", True),
        (r"SPB", "SparseB", True),
        (r"UserArgs", "SupportUserArgs", True),
    )
)
_ALONE = {"SN": ("SN", True), "SE": ("SE", True), "CMS": ("CMS", True)}


@functools.cache
def tokens() -> tuple[str, ...]:
    """All tokens that parameters begin with, longest first."""
    table = loader.reference()["tensile_tokens"]
    rows = zip(table["token"], table["kind"], strict=True)
    known = {str(token) for token, kind in rows if kind not in {"value", "problem", "types", "layout"}}
    return tuple(sorted(known, key=lambda token: (-len(token), token)))


def _types(run: str) -> list[str]:
    """Split ``HHS``, ``BBS``, ``I8II`` into element types (input, output, accumulator)."""
    return [_TYPES[letter] for letter in _TYPE.findall(run)] if _RUN.fullmatch(run) else []


def _problem_types(prefix: list[str]) -> tuple[list[str], list[str], str]:
    """Read the element types in front of ``_MT``; return them, the problem's flags, and the types as written.

    ``HHS_BH``: input, output, accumulator. ``B_BS_BH``: the input alone, then output and accumulator. ``SB``: one type
    with the flag B (uses beta) attached.
    """
    first, rest = prefix[0], prefix[1:]
    if re.fullmatch("[SDCZHI]B", first):
        return _types(first[0]), ["B", *rest], first[0]
    types = _types(first)
    # "BH" (uses beta, high-precision accumulation) would read as two types.
    if len(types) == 1 and rest and _types(rest[0])[1:] and not rest[0].startswith("BH"):
        return types + _types(rest[0]), rest[1:], f"{first}_{rest[0]}"
    return types, rest, first


def _flags(words: list[str]) -> Details:
    """Read the flags of a problem by the parameter that each sets; what no rule knows is listed as `unknown`."""
    found: Details = {}
    unknown = []
    for word in words:
        if re.fullmatch("B?H?", word):
            flags = {"B": "UseBeta", "H": "HighPrecisionAccumulate"}
            found.update({flags[letter]: True for letter in word})
            continue
        matched = next(((rule, match) for rule in _FLAGS if (match := rule[0].fullmatch(word))), None)
        if matched is not None:
            found.update(_flag(*matched))
        elif "Activation" in found and _types(word):
            found["ActivationComputeType"] = _types(word)[0]
        elif re.search(r"\w", word):
            unknown.append(word)
    return found | ({"unknown": " ".join(unknown)} if unknown else {})


def _flag(rule: tuple[re.Pattern[str], str, str | bool | None], match: re.Match[str]) -> Details:
    """One flag: letters of element types behind it are its value, or the type that an activation computes in."""
    _, parameter, value = rule
    letters = match[1] if match.lastindex else ""
    if parameter == "Activation":
        return {parameter: value or True, **({"ActivationComputeType": _TYPES[letters]} if letters else {})}
    if value is not None:
        return {parameter: value}
    matrix = parameter == "BiasSource"  # its letter is a matrix (A, B, D), not a type
    return {parameter: letters if matrix else ",".join(_types(letters)) or True}


def _number(text: str) -> int | str:
    if _INTEGER.fullmatch(text):
        return -int(text[1:]) if text[0] == "n" else int(text)
    return _FRACTION.sub(r"\1.\2", text)


def _joined(words: list[str]) -> list[str]:
    """Put the members of lists back together: ``WG32``, ``4``, ``1`` is one word."""
    joined: list[str] = []
    for word in words:
        if joined and _INTEGER.fullmatch(word):
            joined[-1] += f"_{word}"
        else:
            joined.append(word)
    return joined


def _parameters(words: list[str]) -> Details:
    """Read the parameters behind the tile: ``WG32_4_1`` is one list, ``USFGROn1`` is -1, ``KLA`` is assembly.

    A token that occurs twice (TensileLite's ``AFEM``) is the token and the token with ``.2``.
    """
    details: Details = {}
    unknown = []
    for word in _joined(words):
        found = _ALONE.get(word) or _parameter(word)
        if found is not None:
            token, value = found
            details[f"{token}.2" if token in details else token] = value
        elif re.search(r"\w", word):
            unknown.append(word)
    return details | ({"unknown": " ".join(unknown)} if unknown else {})


@functools.lru_cache(maxsize=8192)
def _parameter(word: str) -> tuple[str, str | int | bool] | None:
    if re.fullmatch(r"ISA[0-9a-f]+", word):
        return "ISA", word[3:]
    for token in tokens():
        if word.startswith(token) and _VALUE.fullmatch(word, len(token)):
            text = word[len(token) :]
            # Leading zeros are an index in front of the value: ASAE01 says that stride 0 is 1.
            return token, (text if text[:1] == "0" and text[1:] else _number(text)) if text else True
    return None


def read_tensile(name: Structure) -> Facts:
    """Read a Tensile symbol: a product, or a helper around a product whose sum is split."""
    product = _PRODUCT.match(name.base.removeprefix("Custom_"))
    return _read_helper(name.base) if product is None else _read_product(product)


def _read_product(product: re.Match[str]) -> Facts:
    """Read a product. Column-major: A is transposed unless its free index ``i`` leads, B unless ``l`` (summed) does."""
    problem, _, parameters = product[3].partition("_MT")
    transposed = ("n" if product[1].startswith("i") else "t") + ("n" if product[2].startswith("l") else "t")
    types, flags, written = _problem_types(problem.split("_"))
    facts: Facts = {"layout": transposed, **typed(types)}
    details: Details = {"A_indices": f"A{product[1]}", "B_indices": f"B{product[2]}", "types": written}
    if flags:
        details["problem_flags"] = "_".join(flags)
    words = [word for word in parameters.split("_") if word]
    if parameters:
        details["MT"] = tile = words.pop(0)
        sizes = [int(size) for size in tile.split("x") if size.isdecimal()]
        if sizes[2:]:
            facts["tile_m"], facts["tile_n"], facts["tile_k"] = sizes[:3]
    if words and re.fullmatch(r"MI\d+(?:x\d+)+", words[0]):
        details["MI"] = words.pop(0)[2:]
    read = _parameters(words)
    noted = _flags(flags)
    unknown = " ".join(str(part["unknown"]) for part in (noted, read) if "unknown" in part)
    details |= noted | read | ({"unknown": unknown} if unknown else {})
    if "UseBias" in details:
        facts["epilogue"] = "bias"
    return _conclude(facts, details)


def _conclude(facts: Facts, details: Details) -> Facts:
    """Add what follows from parameters: who made it, target, threads, LDS and the split of the sum."""
    lite = "SupportUserArgs" in details or "LDSB" in details or "AFEM" in details
    facts["library"] = "hipBLASLt" if lite else "rocBLAS/Tensile"
    details["generator"] = "TensileLite" if lite else "Tensile"
    if "ISA" in details:
        facts["arch"] = f"gfx{details['ISA']}"
    split = _integer(details, "GSU")
    # GlobalSplitU 0 leaves the split to the launch.
    if split:
        facts["split_k"] = split > 1
    prefetch = _integer(details, "PGR")
    if prefetch is not None:
        facts["pipeline_stages"] = prefetch + 1
    group = str(details.get("WG", "")).split("_")
    if all(part.isdecimal() for part in group):
        details["threads"] = math.prod(map(int, group))
    lds = lds_bytes(facts, details)
    if lds is not None:
        details["lds_bytes"] = lds
    facts["details"] = details
    return facts


def lds_bytes(facts: Facts, details: Details) -> int | None:
    """LDS of a product with one LDS buffer, in bytes: the tiles of A and B with their padding.

    A tile of b = macro-tile x DepthU x element bytes has LdsPad elements of padding after every LdsBlockSizePerPad
    bytes, or after every row where that is 0 (Tensile `SolutionStructs.py`). None where it cannot be known: two
    buffers (whose distance depends on the release), tiles that bypass LDS, or matrix instructions below 16 x 16.
    """
    size = _BYTES.get(facts.get("dtype") or "", 1)
    depth, tiles = facts.get("tile_k"), (facts.get("tile_m"), facts.get("tile_n"))
    single = details.get("1LDSB", details.get("LDSB")) == 1
    direct = any(details.get(token) for token in ("DTVA", "DTVB"))
    rows = str(details.get("MI", "0")).partition("x")[0]
    if not single or direct or depth is None or int(rows) < _LEAST_ROWS:
        return None
    total = 0
    for tile, side in zip(tiles, "AB", strict=True):
        pad = _integer(details, f"LP{side}")
        block = _integer(details, f"LBSPP{side}", "LBSPP")
        if tile is None or pad is None or block is None:
            return None
        plain = tile * depth * size
        total += plain + plain // block * pad * size if block else depth * (tile + pad) * size
    return total


def _integer(details: Details, *names: str) -> int | None:
    """The value of the first token that the name has, where it is a number."""
    value = next((details[name] for name in names if name in details), None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _read_helper(symbol: str) -> Facts:
    """Read ``Cijk_SB_BiasB_ScaleAlphaVec_PostGSU8_VW1`` (adds up a split sum) or ``Cijk_S_GA`` (scales C by beta)."""
    match = _HELPER.match(symbol)
    if match is None:
        return {}
    facts = typed(_types(match[1]))
    facts["library"] = "hipBLASLt" if match[2] else "rocBLAS/Tensile"
    details: Details = {"types": match[1]}
    if match[2]:
        details |= {"problem_flags": match[2], **_flags(match[2].split("_"))}
    facts["details"] = details
    if match[5]:
        facts["family"], facts["operation"] = "gemm_epilogue", "scale"
        return facts
    facts["family"], facts["operation"], facts["split_k"] = "splitK_reduce", "splitK_reduce", True
    details["GSU"] = details["PostGSU"] = int(match[3])
    if match[4]:
        facts["vector_width"] = int(match[4])
        details["VW"] = int(match[4])
    if "Bias" in (match[2] or ""):
        facts["epilogue"] = "bias"
    return facts
