"""Tensile and TensileLite symbols token by token, what each means, and what follows from them."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import polars as pl
import pytest

from kerneldb import derive
from kerneldb.names import decode
from kerneldb.schemas import loader
from kerneldb.warehouse import Warehouse

GEMM = (
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI16x16x16x1_SN_1LDSB1_AMAS3_BL1_BS1_EPS1_GLVWA8_GLVWB8_GRVW8_GSU1_GSUASB_"
    "ISA1151_IU1_K1_KLA_LBSPPA0_LBSPPB128_LPA0_LPB8_LRVW16_MIAV1_MMFGLC_NLCA1_NLCB1_PGR1_PLR0_SIA3_SS1_SU32_SUS256_"
    "SVW4_TT4_64_TLDS1_UMLDSA0_UMLDSB1_USFGROn1_VAW2_VSn1_VW4_VWB2_WSGRA1_WSGRB1_WS32_WG32_4_1_WGM8"
)
"""The GEMM of the gfx1151 document."""
MI200 = (
    "Cijk_Ailk_Bljk_SB_MT128x64x16_MI32x32x2x1_SN_1LDSB1_APM1_ABV0_ACED0_AF0EM1_AF1EM1_AMAS3_ASE_ASGT_ASLT_ASAE01_"
    "ASCE01_ASEM1_AAC0_BL1_BS1_DTLA0_DTLB0_DTVA0_DTVB0_DVO0_ETSP_EPS0_FSSC10_FL0_GRPM1_GRVW4_GSU1_GSUASB_GLS0_ISA90a_"
    "IU1_K1_KLA_LBSPP128_LPA0_LPB4_LDL1_LRVW2_LWPMn1_LDW0_MAC_MIAV0_MDA2_MO40_MMFGLC_NTA0_NTB0_NTC0_NTD0_NEPBS1_NLCA1_"
    "NLCB1_ONLL1_OPLV0_PK0_PAP0_PGR2_PLR9_SIA3_SS1_SU0_SUM0_SUS0_SCIUI1_SPO0_SRVW0_SSO0_SVW2_SNLL0_TSGRA0_TSGRB0_"
    "TT2_32_TLDS1_UMLDSA0_UMLDSB1_USFGROn1_VAW1_VSn1_VW2_WSGRA1_WSGRB1_WS64_WG64_4_1_WGM5"
)
LITE = (
    "Cijk_Alik_Bljk_F8HS_BH_BiasSH_AS_SAB_SAV_UserArgs_MT256x224x128_MI16x16x1_SN_LDSB1_AFC1_AFEM8_AFEM4_ASEM1_CLR1_"
    "GSU0_GSUAMB_MIWT4_14_MO40_PGR2_PLR1_PKA1_WS64_WG64_4_1_WGMXCC1_WGMXCCG0"
)

# (parameter, value, words of its meaning) of each token that the gfx1151 document lists.
DOCUMENT = {
    "MT": ("MacroTile", "128x128x32", "one workgroup computes"),
    "MI": ("MatrixInstruction", "16x16x16x1", "Matrix instruction"),
    "WG": ("WorkGroup", "32_4_1", "number of threads"),
    "TT": ("ThreadTile", "4_64", "per thread"),
    "WS": ("WavefrontSize", "32", "Threads per wave"),
    "1LDSB": ("1LDSBuffer", "1", "One LDS buffer"),
    "BL": ("BufferLoad", "1", "Global reads are buffer instructions"),
    "BS": ("BufferStore", "1", "Stores are buffer instructions"),
    "PGR": ("PrefetchGlobalRead", "1", "next step's tile is read from global memory"),
    "PLR": ("PrefetchLocalRead", "0", "No prefetch from LDS"),
    "GRVW": ("GlobalReadVectorWidth", "8", "per global read"),
    "GLVWA": ("GlobalLoadVectorWidthA", "8", "Elements of A per global read"),
    "GLVWB": ("GlobalLoadVectorWidthB", "8", "Elements of B per global read"),
    "LRVW": ("LocalReadVectorWidth", "16", "per LDS read"),
    "LPA": ("LdsPadA", "0", "padding in the LDS tile of A"),
    "LPB": ("LdsPadB", "8", "padding in the LDS tile of B"),
    "LBSPPA": ("LdsBlockSizePerPadA", "0", "after which a pad follows"),
    "LBSPPB": ("LdsBlockSizePerPadB", "128", "after which a pad follows"),
    "SIA": ("ScheduleIterAlg", "3", "interleaved with single matrix instructions"),
    "SU": ("StaggerU", "32", "spread their start in K"),
    "SUS": ("StaggerUStride", "256", "Bytes between two such positions"),
    "TLDS": ("TransposeLDS", "1", "transposed in LDS"),
    "UMLDSA": ("UnrollMajorLDSA", "0", "does not run fastest"),
    "UMLDSB": ("UnrollMajorLDSB", "1", "K runs fastest"),
    "WSGRA": ("WaveSeparateGlobalReadA", "1", "contiguous part"),
    "WSGRB": ("WaveSeparateGlobalReadB", "1", "contiguous part"),
    "VW": ("VectorWidth", "4", "Contiguous elements"),
    "VWB": ("VectorWidthB", "2", "Contiguous elements of B"),
    "SVW": ("StoreVectorWidth", "4", "per store"),
    "VAW": ("VectorAtomicWidth", "2", "per atomic"),
    "USFGRO": ("UseSgprForGRO", "-1", "automatic"),
    "VS": ("VectorStore", "-1", "automatic"),
    "GSU": ("GlobalSplitU", "1", "no split"),
    "GSUA": ("GlobalSplitUAlgorithm", "SB", "SingleBuffer"),
    "KL": ("KernelLanguage", "A", "Assembly"),
    "K": ("Kernel", "1", "Mark of a kernel"),
    "MIAV": ("MIArchVgpr", "1", "architectural"),
    "MMF": ("MemoryModifierFormat", "GLC", "GLC"),
    "ISA": ("ISA", "1151", "gfx1151"),
    "WGM": ("WorkGroupMapping", "8", "bands of tiles"),
}


@pytest.fixture(scope="module")
def parameters(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse that knows these three names and nothing else."""
    warehouse = Warehouse.create_or_open(tmp_path_factory.mktemp("tensile") / "k.duckdb")
    names = {"name_id": ["gemm", "mi200", "lite"], "name": [GEMM, MI200, LITE], "kind": ["kernel"] * 3}
    derived = derive.derive_names(pl.DataFrame(names))
    with warehouse.connection(read_only=False) as con:
        con.register("derived", derived.to_arrow())
        con.execute("INSERT INTO kernel_names BY NAME SELECT * FROM derived")
    return warehouse


@pytest.mark.parametrize("token", DOCUMENT)
def test_the_documents_tokens_in_sql(parameters: Warehouse, token: str) -> None:
    sql = """
        SELECT parameter, value, concat_ws(' ', value_meaning, meaning) AS meaning, source
        FROM tensile_parameters WHERE name_id = 'gemm' AND token = $token
    """
    (row,) = parameters.query(sql, {"token": token}).to_pylist()
    parameter, value, words = DOCUMENT[token]
    assert (row["parameter"], row["value"]) == (parameter, value)
    assert words in row["meaning"]
    assert "Tensile" in row["source"]


def test_every_token_of_a_name_is_a_row(parameters: Warehouse) -> None:
    """`WG32_4_1` and `TT4_64` are one token each; `HHS`, `BH` (two flags), `Ailk` and `Bljk` count too."""
    sql = "SELECT name_id, count(*)::INTEGER AS n FROM tensile_parameters GROUP BY 1 ORDER BY 1"
    counted = {row["name_id"]: row["n"] for row in parameters.query(sql).to_pylist()}
    lists = {"gemm": 3, "mi200": 3, "lite": 3}
    words = {"gemm": GEMM, "mi200": MI200, "lite": LITE}
    # Cijk is no parameter, BH and SB are two, and so is HAS: an activation, and the type in which it is computed.
    expected = {name: len(words[name].split("_")) - lists[name] for name in words}
    assert counted == expected | {"lite": expected["lite"] + 1}


def test_problem_flags(parameters: Warehouse) -> None:
    sql = "SELECT parameter, value FROM tensile_parameters WHERE name_id = 'lite' AND kind = 'problem'"
    found = {row["parameter"]: row["value"] for row in parameters.query(sql).to_pylist()}
    assert found == {
        "UseBeta": "true",
        "HighPrecisionAccumulate": "true",
        "UseBias": "fp32,fp16",
        "Activation": "all",
        "ActivationComputeType": "fp32",
        "UseScaleAB": "scalar",
        "UseScaleAlphaVec": "true",
        "SupportUserArgs": "true",
    }


def test_a_token_that_stands_twice_sets_two_parameters(parameters: Warehouse) -> None:
    sql = "SELECT token, parameter, value FROM tensile_parameters WHERE name_id = 'lite' AND token ^@ 'AFEM' ORDER BY 1"
    assert [tuple(row.values()) for row in parameters.query(sql).to_pylist()] == [
        ("AFEM", "AssertFree0ElementMultiple", "8"),
        ("AFEM.2", "AssertFree1ElementMultiple", "4"),
    ]


SPLIT = "Cijk_BBS_BiasSB_HAS_SAV_PostGSU8_VW4"
PLAIN_SPLIT = "Cijk_SB_PostGSU4_VW2"


def test_helpers_of_split_sums_are_tensile_kernels(tmp_path: Path) -> None:
    warehouse = Warehouse.create_or_open(tmp_path / "k.duckdb")
    names = {"name_id": ["a", "b", "c"], "name": [SPLIT, PLAIN_SPLIT, "splitKreduce_kernel"], "kind": ["kernel"] * 3}
    derived = derive.derive_names(pl.DataFrame(names))
    with warehouse.connection(read_only=False) as con:
        con.register("derived", derived.to_arrow())
        con.execute("INSERT INTO kernel_names BY NAME SELECT * FROM derived")
    sql = """
        SELECT operation, generator, split_u, vector_width_a, activation_compute_type, macro_tile_m
        FROM tensile_kernels ORDER BY name_id
    """
    assert [tuple(row.values()) for row in warehouse.query(sql).to_pylist()] == [
        ("splitK_reduce", "TensileLite", 8, 4, "fp32", None),
        ("splitK_reduce", "Tensile", 4, 2, None, None),
    ]


def test_generators_are_told_apart(parameters: Warehouse) -> None:
    rows = parameters.query("SELECT name_id, generator, layout, isa FROM tensile_kernels ORDER BY 1").to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("gemm", "Tensile", "nn", "gfx1151"),
        ("lite", "TensileLite", "tn", None),
        ("mi200", "Tensile", "nn", "gfx90a"),
    ]


def test_no_symbol_of_the_collection_has_an_unknown_token(shared_data: Path) -> None:
    text = gzip.decompress((shared_data / "rocprof" / "tensile_symbols.txt.gz").read_bytes()).decode()
    symbols = text.split()
    assert len(symbols) == 270
    assert [symbol for symbol in symbols if "unknown" in decode(symbol).details] == []
    threads = [decode(symbol).details.get("threads") for symbol in symbols if "_WG" in symbol]
    assert set(threads) <= {64, 128, 256, 512}


def test_unknown_tokens_are_listed() -> None:
    details = decode("Cijk_Ailk_Bljk_HHS_BH_Zap_MT128x128x32_MI16x16x16x1_SN_1LDSB1_ZZZ7_QQ_WG32_4_1").details
    assert details["unknown"] == "Zap ZZZ7 QQ"
    assert details["WG"] == "32_4_1"
    assert "unknown" not in decode("Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_..._WG32_4_1_...").details


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        (GEMM, 17408),  # 128*32*2 + 128*32*2 + (8192/128)*8*2
        (MI200, 12800),  # 128*16*4 + 64*16*4 + (4096/128)*4*4
        (GEMM.replace("1LDSB1", "1LDSB0"), None),
        (GEMM.replace("LBSPPB128", "LBSPPB0"), 128 * 32 * 2 + 32 * (128 + 8) * 2),
        (GEMM.replace("MI16x16x16x1", "MI4x4x4x16"), None),
        (GEMM.replace("LPB8_", ""), None),
        (GEMM.replace("_MIAV1", "_DTVA1_MIAV1"), None),
    ],
)
def test_lds(symbol: str, expected: int | None) -> None:
    assert decode(symbol).details.get("lds_bytes") == expected


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("Cijk_SB_GG_BiasB_HAS_ScaleAB_ScaleAlphaVec_PostGSU16_VW1", {"PostGSU": 16, "VW": 1, "UseBias": "bf16"}),
        ("Cijk_SB_DBiasS_BiasSrcD_GradB_HAS_ScaleAlphaVec_PostGSU2_VW4.kd", {"BiasSource": "D", "Gradient": "bf16"}),
        ("Cijk_II8_GG_HAI_ScaleAlphaVec_PostGSU4_VW2", {"GroupedGemm": True, "ActivationComputeType": "int32"}),
    ],
)
def test_helpers(symbol: str, expected: dict[str, object]) -> None:
    details = decode(symbol).details
    assert {key: details.get(key) for key in expected} == expected
    assert "unknown" not in details


def test_the_table_is_sound(root: Path) -> None:
    with (root / "schemas" / "reference" / "tensile_tokens.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    keys = [(row["token"], row["kind"]) for row in rows]
    assert len(keys) == len(set(keys))
    assert all(row["parameter"] and row["meaning"].endswith(".") and row["source"] for row in rows)
    kinds = {"number", "flag", "list", "word", "predicate", "shape", "types", "layout", "problem", "value"}
    assert {row["kind"] for row in rows} == kinds
    assert loader.reference()["tensile_tokens"]["token"] == [row["token"] for row in rows]
