"""Numbers in locales, units, NVTX cells and metric names."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldb.ingest.ncu import kernels
from kerneldb.ingest.ncu.kernels import METRIC, canonical
from kerneldb.ingest.ncu.numbers import Evidence, Style, base_unit
from kerneldb.schemas import loader

GERMAN = Style(".", ",")


def style_of(*texts: str) -> Style:
    evidence = Evidence()
    for text in texts:
        evidence.see(text)
    return evidence.style()


@pytest.mark.parametrize(
    ("texts", "style"),
    [
        (("478214", "437.440000", "PolicySpread", "n/a"), Style(",", ".")),
        (("478,214",), Style(",", ".")),
        (("8.192", "77,06"), GERMAN),
        (("150.109.880.320",), GERMAN),
        (("1.234,56",), GERMAN),
        (("478 214", "77,06"), Style(" ", ",")),
        (("478\u202f214",), Style(" ", ",")),
        (("478'214", "77.06"), Style("'", ".")),
        (("4,78,214",), Style(",", ".")),
        (("8.192", "77.06"), Style(",", ".")),
        (("0.123",), Style(",", ".")),
        ((), Style(",", ".")),
    ],
)
def test_style(texts: tuple[str, ...], style: Style) -> None:
    assert style_of(*texts) == style


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (("8.192", "12"), r"`8\.192` may be 8192 or 8 and 192/1000"),
        (("77,06", "77.06"), "contradict"),
        (("1.234.567", "9,876,543"), "contradict"),
        (("4 321", "1,234,567"), "contradict"),
    ],
)
def test_that_an_open_style_is_refused(texts: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        style_of(*texts)


@pytest.mark.parametrize(
    ("style", "text", "exponent", "expected"),
    [
        (Style(), "6.75", 3, (6750.0, 5.0)),
        (Style(), "345.14", 9, (345140000000.0, 5e6)),
        (Style(), "54,207,744", 0, (54207744.0, 0.5)),
        (GERMAN, "437.440000", 3, (437440.0, 5e-4)),
        (GERMAN, "-8.192", 0, (-8192.0, 0.5)),
        (GERMAN, "77,06", 0, (77.06, 0.005)),
        (Style(" ", ","), "1\u00a0234,5", 0, (1234.5, 0.05)),
        (Style(), "1.5e+06", 0, (1500000.0, 50000.0)),
        (Style(), "nan", 0, None),
        (Style(), "1e999", 0, None),
        (Style(), "9" * 400, 0, None),
        (Style(), "0x1f", 0, None),
        (Style(), "", 0, None),
    ],
)
def test_read(style: Style, text: str, exponent: int, expected: tuple[float, float] | None) -> None:
    found = style.read(text, exponent)
    assert found == expected if expected is None else found == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("style", [Style(), GERMAN, Style(" ", ","), Style("'", ".")])
@given(st.lists(st.integers(0, 10**15), max_size=20), st.integers(0, 10**9))
def test_that_printed_numbers_read_back(style: Style, whole: list[int], hundredths: int) -> None:
    def printed(text: str) -> str:
        return text.translate(str.maketrans({",": style.group, ".": style.decimal}))

    texts = [printed(f"{number:,}") for number in whole] + [printed(f"{hundredths / 100:,.2f}")]
    found = style_of(*texts)
    read = [found.read(text) for text in texts]
    assert [one and one[0] for one in read] == [*map(float, whole), hundredths / 100]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("usecond", (3, "ns")),
        ("us", (3, "ns")),
        ("second", (9, "ns")),
        ("Mbyte", (6, "byte")),
        ("Gbyte/s", (9, "byte/s")),
        ("Gbyte/second", (9, "byte/s")),
        ("byte/second", (0, "byte/s")),
        ("Kbyte/block", (3, "byte/block")),
        ("Kbyte/cycle", (3, "byte/cycle")),
        ("Ghz", (9, "hz")),
        ("cycle/nsecond", (9, "hz")),
        ("cycle/usecond", (6, "hz")),
        ("cycle/second", (0, "hz")),
        ("sector/us", (6, "sector/s")),
        ("%", (0, "%")),
        ("%/Kbyte", (0, "%/Kbyte")),
        ("register/thread", (0, "register/thread")),
        ("sectors", (0, "sector")),
        ("", (0, None)),
        ("furlong", (0, "furlong")),
    ],
)
def test_base_unit(printed: str, expected: tuple[int, str | None]) -> None:
    assert base_unit(printed) == expected


def test_stack() -> None:
    cell = (
        '123  "<default domain>:outer: a::b:none:none:none:none:none:none" '
        ' "CCCL:cub::Reduce:none:none:none:none:REGISTERED:cub::Reduce" '
        ' "MINE:load:int32:7:ARGB:0xff:ASCII:load" '
    )
    assert kernels.stack(cell) == ["outer: a::b", "cub::Reduce", "load"]
    assert kernels.stack("") == []


def test_started() -> None:
    assert kernels.started(' "3:<default domain>:run:x:none:none:none:none:none:none" ') == ["run:x"]
    assert kernels.started("0:<default domain>:compute:profile:none:none:none:none:none:none") == ["compute:profile"]


def test_phase_is_below_the_step() -> None:
    assert kernels.phase_of(["ProfilerStep#3", "decode", "layer"]) == "decode"
    assert kernels.phase_of(["ProfilerStep#3"]) is None


@pytest.mark.parametrize(
    ("place", "metric"),
    [
        (("Memory Throughput", "Memory Workload Analysis"), "dram__bytes.sum.per_second"),
        (
            ("Memory Throughput", "GPU Speed Of Light Throughput"),
            "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        ),
        (("SOL SM", "GPU Speed Of Light"), "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        (("Compute (SM) [%]", "GPU Speed Of Light Throughput"), "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        (("dram__bytes_op_read.sum", "Command line profiler metrics"), "dram__bytes_read.sum"),
        (("dram__bytes_op_write.sum.per_second",), "dram__bytes_write.sum.per_second"),
        (("dram__throughput.avg.pct_of_peak_sustained_elapsed",), "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
        (("DRAM Frequency (dram__cycles_elapsed.avg.per_second)", "X"), "dram__cycles_elapsed.avg.per_second"),
        (("SM Busy", "Compute Workload Analysis"), "SM Busy"),
        (
            ("SM Frequency", "GPU Speed Of Light Roofline Chart", "Single Precision Roofline"),
            "sm__cycles_elapsed.avg.per_second",
        ),
        (
            ("Theoretical Tensor Operations", "R", "DRAM Roofline (Src:fp16 Dst:fp32 Sparsity:off)"),
            "sm__ops_path_tensor_src_fp16_dst_fp32_sparsity_off.sum.peak_sustained",
        ),
    ],
)
def test_canonical(place: tuple[str, ...], metric: str) -> None:
    assert canonical(*place) == metric


@pytest.mark.parametrize(("capability", "kind"), [("8.0", "lg"), ("9.0", "lgds"), ("12.0", "lgds")])
def test_that_l1_rooflines_depend_on_the_capability(capability: str, kind: str) -> None:
    section = "GPU Speed Of Light Hierarchical Roofline Chart (Single Precision)"
    metric = canonical("Theoretical L1/TEX Cache Bytes Accessible", section, "L1 Roofline (Global/Local)", capability)
    assert metric == f"derived__l1tex__lsu_writeback_bytes_mem_{kind}.sum.peak_sustained"


def test_the_table_of_aliases() -> None:
    table = loader.reference()["metric_aliases"]
    rows = list(zip(table["alias"], table["metric"], table["tool"], table["source"], strict=True))
    assert len({row[:2] for row in rows}) == len(rows) > 400
    assert all(all(row) for row in rows)
    assert {metric for _, metric, _, _ in rows if not METRIC.fullmatch(str(metric))} == set()


@given(st.text("aB1_.: é-", max_size=30))
def test_that_metrics_are_found_as_the_pattern_finds_them(text: str) -> None:
    found = METRIC.search(text)
    assert kernels.metric_in(text) == (found and found[0])


@pytest.mark.parametrize("part", ["a", "_", "a_", "a.", "a__!", "sm__"])
def test_that_long_names_take_no_long_time(part: str) -> None:
    """A search for the pattern from each letter on took 10 s for 40,000 of them."""
    began = time.process_time()
    canonical(part * (1_000_000 // len(part)))
    assert time.process_time() - began < 2
