"""kerneldb: which GPU kernels ran, how long, with what work and at what energy, in one DuckDB file.

>>> import kerneldb
>>> database = kerneldb.open("kernels.duckdb")
>>> database.ingest(["trace.json.gz"])  # doctest: +SKIP
>>> database.sql("SELECT category, sum(duration_ns) FROM kernels GROUP BY 1").pl()  # doctest: +SKIP

The names are imported on first use, so that `import kerneldb` costs nothing. Errors are in `kerneldb.errors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerneldb.errors import KerneldbError

if TYPE_CHECKING:
    from kerneldb.api import Database, Outcome, Result, open  # noqa: A004 (kerneldb.open is the name users expect)
    from kerneldb.api.planning import Request
    from kerneldb.replay.options import Options

    __version__: str

_LAZY = {
    **dict.fromkeys(("Database", "Outcome", "Result", "open"), "kerneldb.api"),
    "Options": "kerneldb.replay.options",
    "Request": "kerneldb.api.planning",
}

__all__ = ["Database", "KerneldbError", "Options", "Outcome", "Request", "Result", "__version__", "open"]


def __getattr__(name: str) -> Any:
    """Import the public name `name`, or look up the version: `importlib.metadata` is slow to import too (PEP 562)."""
    if name == "__version__":
        return _version()
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, imported or not."""
    return sorted(__all__)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kerneldb")
    except PackageNotFoundError:
        return "0+unknown"
