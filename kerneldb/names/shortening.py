"""Short names for tables: no return type, no parameters, no namespaces; the functor kept, its wrappers dropped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.dtypes import element_type
from kerneldb.names.functors import unwrap
from kerneldb.names.gemm import GEMVX_TEMPLATE
from kerneldb.names.structure import call, parse, split_args

if TYPE_CHECKING:
    from kerneldb.names.structure import Structure

LIMIT = 60
# Template arguments that say nothing to a reader of a table.
_DULL = re.compile(
    r"array|Array|TrivialOffsetCalculator|OffsetCalculator|LoadWith|StoreWith|TensorListMetadata|TensorListScalarList|"
    r"cublasGemv|cublasGemm|T\d+$|Params|unsigned int$"
)
_FLASH = re.compile(r"(?:Flash_\w*traits)<(\d+),(\d+),(\d+),.*?,(\w+),")
_CUTLASS_SYMBOL = re.compile(r"cutlass\w*_(?:tensorop|simt|\d+)_?\w*")
_TENSILE_END = re.compile(r"(_MT[\dx]+(?:_MI[\dx]+)?)_.*")
_XMMA_END = re.compile(r"(_tilesize[\dx]+).*?(_split_k)?(?:_kernel.*|$)")


def _clip(text: str) -> str:
    return text if len(text) <= LIMIT else text[: LIMIT - 1] + "…"


def _symbol(base: str) -> str:
    """Shorten a C symbol: library symbols end behind their tile, for what follows are tuning parameters."""
    if len(base) <= LIMIT:
        return base
    if base.startswith("Cijk_"):
        return _clip(_TENSILE_END.sub(r"\1", base).replace("_UserArgs", ""))
    return _clip(_XMMA_END.sub(r"\1\2", base))


def _argument(text: str) -> str:
    """Shorten one template argument: a number or type stays, a functor loses its wrappers and its own arguments."""
    if element_type(text) is not None or ("<" not in text and "::" not in text):
        return text
    base, args = call(text)
    if base == "ReduceOp":
        inner = next((arg for arg in args[1:] if element_type(arg) is None), base)
        return _argument(inner)
    if base == "OpaqueType":
        return text
    return unwrap(text)[0].split("::", 1)[0] or base.split("::", 1)[0]


def shorten(name: Structure) -> str:
    """Return the short form of a parsed name, at most `LIMIT` characters.

    A text that is no symbol stays as it is, on one line: a word of it would look like another kernel.
    """
    if name.canonical.startswith("_Z"):
        inner = name.args[0].split("::") if name.args else []
        telling = next((word for word in inner if word[:1].isupper()), None)  # a class, not one of its namespaces
        return _clip(f"{name.base}<{telling}, …>" if telling else name.base)
    if not name.args:
        return _symbol(" ".join(name.base.split())) if name.base.strip() else _clip(name.canonical)
    first = name.args[0].split("<")[0]
    if name.base.startswith("Kernel") and _CUTLASS_SYMBOL.fullmatch(first):
        return _symbol(first)
    if name.base == "kernel" and "cublasGemv" in name.canonical and name.args[GEMVX_TEMPLATE:]:
        return f"gemvx::kernel<{name.args[2]}, {name.args[GEMVX_TEMPLATE]}>"
    flash = _FLASH.search(name.canonical)
    if flash is not None:
        tile = ", ".join(split_args(flash[0].partition("<")[2])[:3])
        return _clip(f"{name.base}<{tile}>")
    return _fit(name.base, [_argument(arg) for arg in name.args if not _DULL.match(arg)])


def _fit(base: str, args: list[str]) -> str:
    """Drop arguments from the end until the name fits; an ellipsis at the end says that some are missing."""
    whole = f"{base}<{', '.join(args)}>" if args else base
    if len(whole) <= LIMIT:
        return whole
    text = f"{base}<"
    for arg in args:
        if len(text) + len(arg) + len(", …>") > LIMIT:
            break
        text += f"{arg}, "
    return text + "…>" if len(text) + 2 <= LIMIT else _clip(base)


def short_name(name: str) -> str:
    """Return a short, readable form of a kernel's printed name, at most 60 characters."""
    return shorten(parse(name))
