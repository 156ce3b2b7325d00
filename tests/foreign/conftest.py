"""The database with hostile texts, made once."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.conftest import made_once
from tests.foreign.texts import spread
from tests.warehouse.conftest import migrated

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["migrated"]


@pytest.fixture(scope="module")
def hostile(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with traces of all profilers, and the texts in all text columns of all tables."""

    def make(path: Path) -> None:
        shutil.copyfile(migrated, path)
        assert spread(path) > 350

    return made_once(tmp_path_factory, "hostile-texts.duckdb", make)
