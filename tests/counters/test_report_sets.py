"""Whose counters stand in a report: those of the traces named, by model of GPU; those of the run with a timeline."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import pytest

import kerneldb
from kerneldb.api import Database
from kerneldb.report import gather
from kerneldb.report.model import Report, Section, Table
from kerneldb.warehouse import Warehouse
from tests.counters.captures import DRAM, DURATION, GEMM, MEMORY, SM, Captures, Launch

pytestmark = pytest.mark.again

FULL: Final = {SM: 10.0, MEMORY: 20.0, DRAM: 15.0, DURATION: 700.0}
GPUS: Final = {
    "here": ("NVIDIA H200", "sm_90"),
    "details": (None, "sm_90"),
    "there": ("NVIDIA A100-SXM4-80GB", "sm_80"),
    "timeline": ("NVIDIA H200", "sm_90"),
}


DESCRIBED: Final = """
    INSERT INTO devices BY NAME
    SELECT trace_id, 0 AS device, $gpu::VARCHAR AS name, $arch AS arch FROM traces WHERE traces.name = $trace
"""


@pytest.fixture(scope="module")
def folder(empty_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Database:
    """A folder of files that were ingested as one run: counters of two models of GPU, and a timeline on one of them."""
    made = tmp_path_factory.mktemp("folder")
    warehouse, capture = Warehouse(shutil.copy(empty_file, made)), Captures(made / "spools")
    for number, name in enumerate(("here", "details", "there")):
        counted = Launch(GEMM, 700, counters=FULL | {DURATION: 700.0 + number}, grid=8 + number)
        warehouse.commit(capture(name, (counted,), source="ncu", stated_run="folder"))
    warehouse.commit(capture("timeline", (Launch(GEMM, 700),), stated_run="folder"))
    database = kerneldb.open(warehouse.path)
    for name, (gpu, arch) in GPUS.items():
        database.sql(DESCRIBED, {"trace": name, "gpu": gpu, "arch": arch}, write=True)
    return database


def sets(report: Report) -> dict[str, list[str]]:
    """Title of the section → the traces whose counters stand there."""
    return {
        part.title: [row["trace"] for row in setup(part).rows] for part in report.sections if "classes" in part.title
    }


def setup(section: Section) -> Table:
    (only,) = (block for block in section.blocks if block.caption == "Traces with counters")
    assert isinstance(only, Table)
    return only


@pytest.mark.thorough
def test_a_set_of_counters_brings_no_other_of_its_folder(folder: Database) -> None:
    assert sets(gather.single(folder, ["there"])) == {"Kernel classes": ["there"]}


def test_a_timeline_brings_the_counters_of_its_run_on_its_gpu(folder: Database) -> None:
    assert sets(gather.single(folder, ["timeline"])) == {
        "Kernel classes of NVIDIA H200": ["here"],
        "Kernel classes of a GPU of the chip sm_90": ["details"],
    }


@pytest.mark.thorough
def test_models_of_a_run_stand_apart(folder: Database) -> None:
    report = gather.single(folder, ["folder"])
    assert sets(report) == {
        "Kernel classes of NVIDIA A100-SXM4-80GB": ["there"],
        "Kernel classes of NVIDIA H200": ["here"],
        "Kernel classes of a GPU of the chip sm_90": ["details"],
    }
    titles = [section.title for section in report.sections]
    assert len(set(titles)) == len(titles)


@pytest.mark.thorough
def test_queries_name_every_trace(warehouse: Warehouse, capture: Captures) -> None:
    """However many there are, the query gives the numbers above it."""
    names = [f"set {number:02}" for number in range(12)]
    for number, name in enumerate(names):
        counted = Launch(GEMM, 700, counters=FULL | {DURATION: 700.0 + number})
        warehouse.commit(capture(name, (counted,), source="ncu", stated_run="many"))
    database = kerneldb.open(warehouse.path)
    report = gather.single(database, ["many"])
    (section,) = (part for part in report.sections if part.title == "Kernel classes")
    assert len(setup(section).rows) == len(names)
    for part in report.sections:
        for block in part.blocks:
            found = database.sql(block.sql).rows()
            assert not re.search(r"\bmore \*/", block.sql)
            assert not isinstance(block, Table) or found[: len(block.rows)] == block.rows, block.caption
    classes = next(block for block in section.blocks if block.caption.startswith("Classes"))
    assert [row["n"] for row in database.sql(classes.sql) if row["verdict"] == "all"] == [len(names)]
