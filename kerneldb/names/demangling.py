"""Itanium demangling of kernel symbols.

``cxxfilt`` calls the C++ runtime's own ``__cxa_demangle``: exact, and some hundred times faster than the pure-Python
``itanium-demangler``, which also lacks many productions that PyTorch symbols use (lambdas in template arguments).
The pure one stays as the second choice where no C++ runtime can be loaded; past both, the name is returned as it was.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CLONE = re.compile(r"\s*\[clone [^\]]*\]$")
_HSA_SUFFIX = re.compile(r"\.(?:kd|num_vgpr|num_agpr|numbered_sgpr|private_seg_size|uses_vcc|uses_flat_scratch)$")
# Element types that older C++ runtimes do not know, each with a builtin in its place. A stand-in must be a
# builtin too: those take no part in the back references (S_, S0_, ...) of the mangling, vendor types would shift them.
_STAND_INS = (("DF16b", "g", "__float128", "__bf16"), ("DF16_", "e", "long double", "_Float16"))


def strip_suffixes(name: str) -> str:
    """Drop what loaders add behind a symbol: ``.kd`` (HSA kernel descriptor), ``[clone .kd]``, ``.num_vgpr``."""
    if name.endswith("]") and "[clone " in name:
        name = _CLONE.sub("", name)
    return _HSA_SUFFIX.sub("", name) if "." in name[-20:] else name


def _runtime_demangler() -> Callable[[str], str] | None:
    """Return the C++ runtime's demangler, or None where ``cxxfilt`` finds no runtime."""
    try:
        import cxxfilt
    except (ImportError, OSError, AttributeError):
        return None
    invalid: type[Exception] = cxxfilt.InvalidName

    def demangle_by_runtime(symbol: str) -> str:
        try:
            return str(cxxfilt.demangle(symbol))
        except (invalid, UnicodeError):
            return symbol

    return demangle_by_runtime


def _pure_demangler() -> Callable[[str], str] | None:
    """Return ``itanium-demangler``'s parser as a function of one symbol, or None where it is not installed."""
    try:
        from itanium_demangler import parse
    except ImportError:
        return None

    def demangle_purely(symbol: str) -> str:
        try:
            return str(parse(symbol) or symbol)
        except (ValueError, NotImplementedError, AttributeError, IndexError, TypeError, RecursionError):
            return symbol

    return demangle_purely


@cache
def _demangler() -> Callable[[str], str]:
    """Return the best demangler that loads here; without any, names stay as they are."""
    return _runtime_demangler() or _pure_demangler() or str


def _with_stand_ins(symbol: str) -> str:
    """Demangle a symbol that names an element type the C++ runtime does not know."""
    swapped = symbol
    for code, stand_in, _, _ in _STAND_INS:
        swapped = swapped.replace(code, stand_in)
    text = _demangler()(swapped)
    if text == swapped:
        return symbol
    for _, _, printed, meant in _STAND_INS:
        text = text.replace(printed, meant)
    return text


def demangle(name: str) -> str:
    """Return readable C++ text for an Itanium-mangled symbol (``_Z...``); any other name unchanged.

    Loader suffixes (``.kd``, ``[clone ...]``) of a mangled symbol are dropped. A symbol that cannot be demangled (cut
    short by a profiler, say) is returned as it was.
    """
    if not name.startswith(("_Z", "__Z")):
        return name
    symbol = strip_suffixes(name)
    symbol = symbol[1:] if symbol.startswith("__Z") else symbol
    text = _demangler()(symbol)
    if text == symbol and "DF16" in symbol:
        text = _with_stand_ins(symbol)
    return name if text == symbol else text
