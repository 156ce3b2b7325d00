"""Runs tests that were written for files on lakes: pytest -p lake_plugin, with this folder in PYTHONPATH.

Every path of a database that is no DuckDB file becomes the SQLite catalog of a lake, so a test that makes, opens or
copies one works with a lake and does not know it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerneldb.warehouse import Warehouse, lakes, upkeep
from kerneldb.warehouse.place import Place

DUCKDB = b"DUCK"
SUFFIXES = (".duckdb", ".db")
PLACE_OF = Place.of
CREATE_OR_OPEN = Warehouse.create_or_open


def _is_duckdb(path: Path) -> bool:
    return path.is_file() and path.read_bytes()[8:12] == DUCKDB


def _as_lake(given: str | Path | Place) -> Place:
    place = PLACE_OF(given)
    if isinstance(given, Place) or place.is_lake or place.path.suffix not in SUFFIXES or _is_duckdb(place.path):
        return place
    return Place(place.path, "sqlite", str(place.path.absolute()))


class _Templates:
    """An empty lake, made when the first test wants one."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kerneldb-lakes-"))

    def copy(self, path: Path) -> None:
        template = self.folder / "empty.sqlite"
        if not template.exists():
            upkeep.init(Place.of(f"ducklake:sqlite:{template}"), str(self.folder / "data"), 30)
            lakes.close_all()
        shutil.copy(template, path)


def pytest_configure(config: pytest.Config) -> None:
    templates = _Templates()

    def create_or_open(path: str | Path | Place, lock_timeout: float = 30.0) -> Warehouse:
        place = Place.of(path)
        if place.is_lake and not place.exists():
            templates.copy(place.path)
        return CREATE_OR_OPEN(path, lock_timeout)

    config.stash[pytest.StashKey[Any]()] = templates
    Place.of = _as_lake  # type: ignore[method-assign,assignment]
    Warehouse.create_or_open = create_or_open  # type: ignore[method-assign,assignment]
    config.add_cleanup(lambda: shutil.rmtree(templates.folder, ignore_errors=True))


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    lakes.close_all()
