"""Source pages: counters of single instructions and source lines, in the layouts that users of ncu published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kerneldb
from kerneldb.errors import UnreadableTraceError
from kerneldb.report import gather
from kerneldb.report.model import Table
from tests.ncu.reading import convert_text

if TYPE_CHECKING:
    from pathlib import Path

COUNTERS = (
    '"Warp Stall Sampling (All Samples)","# Samples","Instructions Executed","Access Size","stall_wait","stall_long_sb"'
)
SASS = (
    "==PROF== Connected to process 9\n"
    '"Kernel Name","void gemm<(bool)1>(float *, float *)",\n'
    f'"#","Address","Source",{COUNTERS}\n'
    '"0","0x7fc48541d900","      IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ","42","42","3,632","-","32","10"\n'
    '"1","0x7fc48541d910","      LDG.E R2, [R4.64] ","130","130","3,632","32","2","128"\n'
    '"Kernel Name","void gemm<(bool)1>(float *, float *)",\n'
    f'"#","Address","Source",{COUNTERS}\n'
    '"0","0x7fc48541d900","      EXIT ","0","0","16","-","0","0"\n'
)
BOTH = (
    '"File Path","/src/gemm.cu"\n"Function Name","gemm(float *)"\n'
    f'"Line No","Source","Address","Source",{COUNTERS}\n'
    '"12","  float v = x[i];","-","-","172","172","7264","-","34","138"\n'
    '"","","0x7fc48541d900","  MOV R1","42","42","3632","-","32","10"\n'
    '"","","0x7fc48541d910","  LDG.E R2","130","130","3632","32","2","128"\n'
    '"13","  y[i] = v;","-","-","1","1","3632","-","1","0"\n'
    '"","","0x7fc48541d920","  STG.E R2","1","1","3632","32","1","0"\n'
    '"File Path","/src/inlined.h"\n"Function Name","gemm(float *)"\n'
    f'"Line No","Source","Address","Source",{COUNTERS}\n'
    '"3","  return a;","-","-","4","4","8","-","4","0"\n'
)
CUDA = '"Kernel Name","gemm(float *)"\n"#","Source","# Samples"\n"1","int i = 0;","10"\n"2","float v = x[i];","70"\n'
COLUMNS = ("kernel_index", "level", "file", "line", "instruction", "address", "text", "value")


def test_instructions(tmp_path: Path) -> None:
    one = convert_text(SASS, tmp_path)
    rows = [row[:-1] for row in one.rows("source_counters", *COLUMNS, "metric") if row[-1] == "# Samples"]
    assert rows == [
        (0, "sass", None, None, 0, 0x7FC48541D900, "IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28]", 42.0),
        (0, "sass", None, None, 1, 0x7FC48541D910, "LDG.E R2, [R4.64]", 130.0),
        (1, "sass", None, None, 0, 0x7FC48541D900, "EXIT", 0.0),
    ]
    assert one.table("source_counters").height == 3 * 5 + 1
    assert one.trace["era"] == "ncu csv source"
    assert one.table("launches").height == 0


def test_lines_and_their_instructions(tmp_path: Path) -> None:
    one = convert_text(BOTH, tmp_path)
    rows = [row[:-1] for row in one.rows("source_counters", *COLUMNS, "metric") if row[-1] == "# Samples"]
    assert rows == [
        (0, "source", "/src/gemm.cu", 12, None, None, "  float v = x[i];", 172.0),
        (0, "sass", "/src/gemm.cu", 12, 0, 0x7FC48541D900, "MOV R1", 42.0),
        (0, "sass", "/src/gemm.cu", 12, 1, 0x7FC48541D910, "LDG.E R2", 130.0),
        (0, "source", "/src/gemm.cu", 13, None, None, "  y[i] = v;", 1.0),
        (0, "sass", "/src/gemm.cu", 13, 2, 0x7FC48541D920, "STG.E R2", 1.0),
        (0, "source", "/src/inlined.h", 3, None, None, "  return a;", 4.0),
    ]


def test_one_view_of_source(tmp_path: Path) -> None:
    rows = convert_text(CUDA, tmp_path).rows("source_counters", *COLUMNS)
    assert rows == [
        (0, "source", None, 1, None, None, "int i = 0;", 10.0),
        (0, "source", None, 2, None, None, "float v = x[i];", 70.0),
    ]


@pytest.mark.parametrize("cut", [20, 40])
def test_a_cut_page(tmp_path: Path, cut: int) -> None:
    with pytest.raises(UnreadableTraceError, match=r"line 8 is cut.*--page source"):
        convert_text(SASS[:-cut], tmp_path)


def test_the_hottest_lines(tmp_path: Path) -> None:
    (tmp_path / "page.csv").write_text(BOTH, encoding="utf-8")
    with kerneldb.open(tmp_path / "k.duckdb") as database:
        database.ingest(tmp_path / "page.csv")
        sql = """SELECT level, line, instruction, samples, round(share_pct, 2) AS share, executed, stall,
                        round(stall_pct, 2) AS stalled
                 FROM source_hotspots WHERE place = 1 ORDER BY level"""
        assert [tuple(row.values()) for row in database.sql(sql)] == [
            ("sass", 12, 1, 130.0, 75.14, 3632.0, "stall_long_sb", 98.46),
            ("source", 12, None, 172.0, 97.18, 7264.0, "stall_long_sb", 80.23),
        ]
        (hot,) = (
            b for s in gather.single(database, ["page"]).sections for b in s.blocks if b.caption == "Hottest lines"
        )
        assert isinstance(hot, Table)
        assert [(row["place"], row["text"], row["stall"]) for row in hot.rows] == [
            ("gemm.cu:12", "  float v = x[i];", "stall_long_sb"),
            ("inlined.h:3", "  return a;", hot.rows[1]["stall"]),
            ("gemm.cu:13", "  y[i] = v;", hot.rows[2]["stall"]),
        ]
        database.remove("page")
        assert list(database.sql("SELECT count(*) AS n FROM source_counters")) == [{"n": 0}]


def test_a_page_of_ptx_has_no_counters(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTraceError, match="a source page without counters, as that of PTX"):
        convert_text('"Line No","Source"\n"1","ld.param.b64 %rd7, [p];"\n', tmp_path)
