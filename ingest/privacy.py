"""What a profiler or a program notes under names that say who ran what, and where: it is not stored by default."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PRIVATE: Final = re.compile(
    r"env(ironment)?|cmd(_?line)?|command(_?line)?|arg[sv]|cwd|(working|current|home)_?dir\w*|user(_?name)?|login|account"
    r"|host(_?name)?|\w*(password|secret|credentials?|token|api_?key)",
    re.IGNORECASE,
)


def public(noted: Mapping[str, Any]) -> dict[str, Any]:
    """What may be stored of notes by name: numbers, and what has no private name. A token may be a number, too."""
    return {
        key: value for key, value in noted.items() if isinstance(value, int | float) or not PRIVATE.fullmatch(str(key))
    }
