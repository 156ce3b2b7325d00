"""The database with hostile texts, made once."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.conftest import made_once
from tests.foreign.texts import spread
from tests.warehouse.conftest import filled_file, migrated

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["filled_file", "migrated"]


@pytest.fixture(scope="module")
def hostile(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with traces of all profilers, and the texts in all text columns of all tables."""

    def make(path: Path) -> None:
        shutil.copyfile(migrated, path)
        assert spread(path) > 350

    return made_once(tmp_path_factory, "hostile-texts.duckdb", make)


@pytest.fixture(scope="module")
def small(filled_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with three small traces, which screens show at once."""

    def make(path: Path) -> None:
        shutil.copyfile(filled_file, path)
        spread(path)

    return made_once(tmp_path_factory, "hostile-small.duckdb", make)
