"""Reports in ncu's own format, through the real package where it is installed, else through a stand-in for it."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import types
from typing import TYPE_CHECKING

import pytest

from kerneldb.errors import NotATraceError, UnreadableTraceError
from tests.ncu import fake_ncu_report as fake
from tests.ncu.reading import DATA, convert_text, convert_units, printed, values

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.ingest.conversion import Converted

REAL = importlib.util.find_spec("ncu_report") is not None
needs_package = pytest.mark.skipif(not REAL, reason="NVIDIA's package ncu_report is not installed (extra ncu-report)")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[fake.IContext | Exception], Converted]:
    """Reads what the stand-in says of a report."""

    def load(answer: fake.IContext | Exception) -> Converted:
        module = types.ModuleType("ncu_report")
        module.IAction = fake.IAction  # type: ignore[attr-defined]
        module.MsgType_OPTIMIZATION = fake.MsgType_OPTIMIZATION  # type: ignore[attr-defined]
        module.SpeedupType_LOCAL = fake.SpeedupType_LOCAL  # type: ignore[attr-defined]

        def load_report(file_name: str) -> fake.IContext:
            assert file_name.endswith(".ncu-rep")
            if isinstance(answer, Exception):
                raise answer
            return answer

        module.load_report = load_report  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "ncu_report", module)
        return convert_text(b"NVR\x00", tmp_path, "x.ncu-rep")

    return load


def context(*actions: fake.IAction) -> fake.IContext:
    return fake.IContext((fake.IRange(actions),))


FACTS = {
    "gpu__time_duration.sum": fake.IMetric(3456.0, "ns"),
    "sm__cycles_active.avg": fake.IMetric(3101.5, "cycle", (3000.0, 3203.0)),
    "smsp__pcsamp_sample": fake.IMetric(9, "", tuple(range(300))),
    "dram__bytes_op_read.sum": fake.IMetric(2048, "byte"),
    "dram__cycles_elapsed.avg.per_second": fake.IMetric(3.18, "cycle/nsecond"),
    "launch__func_cache_config": fake.IMetric("CachePreferNone"),
    "flop_count_sp.sum": fake.IMetric(None),
    "derived__x": fake.IMetric(float("nan")),
    **{f"launch__{shape}_dim_{axis}": fake.IMetric(4) for shape in ("grid", "block") for axis in "xyz"},
    "launch__stream_id": fake.IMetric(7),
    "launch__device_id": fake.IMetric(0),
    "device__attribute_display_name": fake.IMetric("NVIDIA H200"),
    "device__attribute_compute_capability_major": fake.IMetric(9),
    "device__attribute_compute_capability_minor": fake.IMetric(0),
}
RULE = {
    "name": "Bottleneck",
    "rule_identifier": "SOLBottleneck",
    "section_identifier": "SpeedOfLight",
    "rule_message": {"title": "Small Grid", "message": "too small", "type": fake.MsgType_OPTIMIZATION},
    "speedup_estimation": {"type": fake.SpeedupType_LOCAL, "speedup": 12.5},
}


def test_stand_in(read: Callable[[fake.IContext | Exception], Converted]) -> None:
    state = fake.INvtxState({0: fake.INvtxDomainInfo(("ProfilerStep#1", "decode: a::b"), ("request",))})
    one = read(context(fake.IAction(FACTS, state=state, rules=(RULE,)), fake.IAction({}, kind=1)))
    launch = one.launches.row(0, named=True)
    assert (launch["name"], launch["duration_ns"], launch["grid_x"], launch["stream"]) == (
        "void ns::k(int)",
        3456,
        4,
        7,
    )
    assert (launch["phase"], launch["range_path"]) == ("decode: a::b", "ProfilerStep#1/decode: a::b/request")
    assert one.table("devices").select("name", "arch").rows() == [("NVIDIA H200", "sm_90")]
    found = values(one)
    assert found[0, "dram__bytes_read.sum", None] == (2048, None, 0)
    assert found[0, "dram__cycles_elapsed.avg.per_second", None][0] == pytest.approx(3.18e9)
    assert found[0, "sm__cycles_active.avg", "1"][0] == 3203
    assert found[0, "launch__func_cache_config", None][1] == "CachePreferNone"
    assert [found[0, name, None][1] for name in ("flop_count_sp.sum", "derived__x")] == ["n/a", "nan"]
    rule = one.table("metrics").row(-1, named=True)
    assert (rule["metric"], rule["instance"], rule["value"], rule["unit"]) == (
        "rule:SOLBottleneck",
        "OPT",
        12.5,
        "% local",
    )
    assert one.report("skipped") == {
        "instances of metrics with more than 256 of them": 300,
        "workloads that are not kernels (ranges, graphs)": 1,
    }


def test_counters_of_instructions_and_samples_over_time(
    read: Callable[[fake.IContext | Exception], Converted],
) -> None:
    metrics = FACTS | {
        "inst_executed": fake.IMetric(60, "inst", (20, 40), (4128, 4096)),
        "smsp__pcsamp_warps_issue_stalled_wait": fake.IMetric(5, "", (5,), (4096,)),
        "pmsampling:dram__throughput.avg": fake.IMetric(3.5, "%", tuple(range(300)), tuple(range(300))),
    }
    one = read(context(fake.IAction(metrics, sass=((4096, "LDG.E R2 "), (4128, "FFMA R1")))))
    columns = ("launch_index", "kernel", "level", "file", "line", "instruction", "address", "text", "metric", "value")
    assert one.rows("source_counters", *columns) == [
        (0, "void ns::k(int)", "sass", "gemm.cu", 12, 1, 4128, "FFMA R1", "inst_executed", 20.0),
        (0, "void ns::k(int)", "sass", "gemm.cu", 12, 0, 4096, "LDG.E R2", "inst_executed", 40.0),
        (
            *(0, "void ns::k(int)", "sass", "gemm.cu", 12, 0, 4096, "LDG.E R2"),
            *("smsp__pcsamp_warps_issue_stalled_wait", 5.0),
        ),
    ]
    found = values(one)
    assert found[0, "inst_executed", None][0] == 60
    assert (0, "inst_executed", "0") not in found
    assert found[0, "pmsampling:dram__throughput.avg", "299"][0] == 299


@pytest.mark.parametrize("answer", [fake.IContext(()), context(), RuntimeError("newer"), OSError("gone")])
def test_reports_without_kernels(
    answer: fake.IContext | Exception, read: Callable[[fake.IContext | Exception], Converted]
) -> None:
    with pytest.raises(UnreadableTraceError, match="pip install --upgrade ncu-report"):
        read(answer)


def test_a_report_of_ranges_alone(read: Callable[[fake.IContext | Exception], Converted]) -> None:
    with pytest.raises(NotATraceError, match="ranges of the program or graphs, and no kernel"):
        read(context(fake.IAction(FACTS, kind=fake.IAction.WorkloadType_RANGE)))


@pytest.mark.parametrize("name", ["x.ncu-rep", "X.NCU-REP", "x.ncu-repz"])
def test_without_the_package(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    with pytest.raises(UnreadableTraceError, match=r"pip install ncu-report`.*`ncu --import .* --page raw --csv >"):
        convert_text(b"NVR\x00", tmp_path, name)


@needs_package
def test_that_the_stand_in_is_like_the_package() -> None:
    import ncu_report

    for name in ("IAction", "IMetric", "IContext", "IRange", "INvtxState", "INvtxDomainInfo", "ISourceInfo"):
        mine = {word for word in vars(getattr(fake, name)) if not word.startswith("_")}
        attributes = set(getattr(fake, name).__dataclass_fields__)
        assert mine - attributes <= set(dir(getattr(ncu_report, name)))


@needs_package
def test_the_same_report_as_file_and_as_page(tmp_path: Path) -> None:
    shutil.copy(DATA / "synthetic.ncu-rep", tmp_path / "x.ncu-rep")
    (file,) = convert_units([tmp_path / "x.ncu-rep"], tmp_path / "file")
    page = convert_text(printed("de_DE.raw.csv"), tmp_path)
    whole, rounded = values(file), values(page)
    assert {key for key in whole if key[2] is None} == {key for key in rounded if key[2] is None}
    for key, (value, text, precision) in rounded.items():
        if value is None:
            assert whole[key][1] == text
        else:
            assert whole[key][0] == pytest.approx(value, abs=precision)
    columns = ["signature_id", "duration_ns", "registers", "shared_bytes", "occupancy", "phase", "range_path", "stream"]
    assert file.table("launches").select(columns).equals(page.table("launches").select(columns))


@needs_package
def test_a_damaged_report(tmp_path: Path) -> None:
    whole = (DATA / "synthetic.ncu-rep").read_bytes()
    with pytest.raises(UnreadableTraceError, match="no profiled kernel in this report"):
        convert_text(whole[: len(whole) // 2], tmp_path, "x.ncu-rep")
