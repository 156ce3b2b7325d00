"""Loads DuckDB extensions that are on this machine. Nothing is ever fetched from the network."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb

from kerneldb.errors import WarehouseError
from kerneldb.schemas.loader import statement

if TYPE_CHECKING:
    Connection = duckdb.DuckDBPyConnection

INSTALL_NAMES: Final = {"postgres_scanner": "postgres", "sqlite_scanner": "sqlite"}


def load(con: Connection, name: str) -> None:
    """Load the extension `name`: from DuckDB's own folder, else from a wheel `duckdb-extension-…`.

    Raises WarehouseError, which says how to get it, where it is in neither place.
    """
    try:
        con.execute(statement("lake", "load").format(extension=name))
    except duckdb.Error as error:
        file = _of_wheel(name)
        if file is None:
            raise _missing(name) from error
        try:
            con.execute(statement("lake", "load").format(extension="'" + str(file).replace("'", "''") + "'"))
        except duckdb.Error as unfit:
            raise _missing(name, unfit) from unfit


def _of_wheel(name: str) -> Path | None:
    """The binary in the package `duckdb_extension_<name>`, where that is installed."""
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    folders = [] if spec is None else spec.submodule_search_locations or []
    files = (file for folder in folders for file in Path(folder).glob("extensions/*/*.duckdb_extension"))
    return next(files, None)


def _missing(name: str, error: duckdb.Error | None = None) -> WarehouseError:
    installed = INSTALL_NAMES.get(name, name)
    why = "is not installed" if error is None else f"cannot be used ({str(error).splitlines()[0]})"
    return WarehouseError(
        f"a lake needs DuckDB's extension {name}, which {why} for DuckDB {duckdb.__version__}. Offline: "
        f"pip install 'kerneldb[lake-offline]' (DuckDB 1.5.5 with its extensions). With network, once: "
        f"python -c \"import duckdb; duckdb.sql('INSTALL {installed}')\""
    )
