"""The meters, on libraries and files made up here: what they read, and what they say where there is nothing to read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kerneldb.gpus.clocks import reasons
from kerneldb.replay.measure.energy import meter
from kerneldb.replay.measure.energy.meter import (
    AmdMeter,
    Meter,
    MeterError,
    NoMeterError,
    NvidiaMeter,
    RaplMeter,
    Sample,
    Sampler,
    Unwrapped,
    open_meter,
)


class NvmlError(Exception):
    pass


class FakeNvml(ModuleType):
    """As much of pynvml as the meter asks for, over two boards."""

    NVMLError = NvmlError
    NVML_SUCCESS = 0
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_TEMPERATURE_GPU = 0
    NVML_FI_DEV_POWER_AVERAGE = 185
    NVML_POWER_SCOPE_MEMORY = 2

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.counter = 1000
        self.lost = False
        self.memory_power = 41_500
        self.boards = {0: "GPU-aaaa", 1: "GPU-bbbb"}

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return self._board(self.boards.get(index))

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return self._board(uuid if uuid in self.boards.values() else None)

    def _board(self, name: str | None) -> str:
        if name is None:
            message = "Not Found"
            raise NvmlError(message)
        return name

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:  # noqa: N802
        if self.lost:
            message = "GPU is lost"
            raise NvmlError(message)
        return self.counter + (0 if handle == "GPU-aaaa" else 5000)

    def nvmlDeviceGetPowerUsage(self, _: str) -> int:  # noqa: N802
        return 126_900

    def nvmlDeviceGetClockInfo(self, _: str, kind: int) -> int:  # noqa: N802
        return {1: 1980, 2: 3201}[kind]

    def nvmlDeviceGetTemperature(self, *_: Any) -> int:  # noqa: N802
        return 41

    def nvmlDeviceGetUtilizationRates(self, _: str) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(gpu=97, memory=31)

    def nvmlDeviceGetCurrentClocksEventReasons(self, _: str) -> int:  # noqa: N802
        return 0x24

    def nvmlDeviceGetFieldValues(self, _: str, fields: list[tuple[int, int]]) -> list[SimpleNamespace]:  # noqa: N802
        assert fields == [(185, 2)]
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=self.memory_power))]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return fake


def test_an_nvidia_board_tells_everything(nvml: FakeNvml) -> None:
    found = open_meter("cuda:0")
    sample = found.sample()
    assert (found.name, found.energy_mj()) == ("nvml", 1000.0)
    assert (sample.energy_mj, sample.power_w, sample.memory_power_w) == (1000.0, 126.9, 41.5)
    assert (sample.sm_mhz, sample.memory_mhz, sample.temperature_c) == (1980, 3201, 41)
    assert (sample.gpu_util_pct, sample.memory_util_pct) == (97.0, 31.0)
    assert sample.throttle == "software power cap, software thermal slowdown"
    assert abs(sample.epoch_ns - time.time_ns()) < 10**10


def test_what_a_board_does_not_tell_is_none(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: str, *rest: Any) -> Any:
        message = "Not Supported"
        raise NvmlError(message)

    for name in ("nvmlDeviceGetFieldValues", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetUtilizationRates"):
        monkeypatch.setattr(nvml, name, refuse, raising=False)
    monkeypatch.delattr(FakeNvml, "nvmlDeviceGetCurrentClocksEventReasons")
    sample = NvidiaMeter("cuda:0").sample()
    assert (sample.power_w, sample.memory_power_w, sample.gpu_util_pct, sample.throttle) == (None, None, None, None)
    assert sample.sm_mhz == 1980


def test_an_older_driver_has_another_name_for_why_clocks_are_low(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(handle: str) -> int:
        message = "Function Not Found"
        raise NvmlError(message)

    monkeypatch.setattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", unknown, raising=False)
    monkeypatch.setattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", lambda _: 0x4, raising=False)
    assert NvidiaMeter("cuda:0").sample().throttle == "software power cap"


@pytest.mark.parametrize(
    ("visible", "device", "uuid", "energy"),
    [
        ("", "cuda:1", None, 6000.0),
        ("1", "cuda:0", None, 6000.0),
        ("GPU-bbbb,GPU-aaaa", "cuda:0", None, 6000.0),
        ("1", "cuda:0", "GPU-aaaa", 1000.0),
        ("", "cuda", None, 1000.0),
    ],
)
def test_the_board_is_the_one_that_torch_means(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, visible: str, device: str, uuid: str | None, energy: float
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert NvidiaMeter(device, uuid).energy_mj() == energy


def test_a_board_that_is_lost_is_an_error_of_the_meter(nvml: FakeNvml) -> None:
    found = NvidiaMeter("cuda:0")
    nvml.lost = True
    with pytest.raises(MeterError, match="GPU is lost"):
        found.energy_mj()
    with pytest.raises(NoMeterError, match="no energy counter for cuda:0: GPU is lost"):
        NvidiaMeter("cuda:0")
    with pytest.raises(NoMeterError, match="does not know cuda:7"):
        NvidiaMeter("cuda:7")


def test_reasons_have_names() -> None:
    assert reasons(0x8C) == ("software power cap", "hardware slowdown", "hardware power brake")


class SmiError(Exception):
    pass


class FakeSmi(ModuleType):
    """As much of amdsmi as the meter asks for."""

    AmdSmiException = SmiError
    AmdSmiTemperatureType = SimpleNamespace(HOTSPOT=1)
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT=0)
    AmdSmiClkType = SimpleNamespace(GFX=1, MEM=5)

    def __init__(self) -> None:
        super().__init__("amdsmi")
        self.count: dict[str, Any] = {"energy_accumulator": 10**9, "counter_resolution": 15.3, "timestamp": 1}

    def amdsmi_init(self) -> None: ...

    def amdsmi_get_processor_handles(self) -> list[str]:
        return ["first", "second"]

    def amdsmi_get_energy_count(self, _: str) -> dict[str, Any]:
        if not self.count:
            message = "not supported in a guest"
            raise SmiError(message)
        return self.count

    def amdsmi_get_power_info(self, _: str) -> dict[str, Any]:
        return {"current_socket_power": "N/A", "average_socket_power": 310}

    def amdsmi_get_gpu_activity(self, _: str) -> dict[str, Any]:
        return {"gfx_activity": 99, "umc_activity": "N/A"}

    def amdsmi_get_temp_metric(self, *_: Any) -> int:
        return 55

    def amdsmi_get_clock_info(self, _: str, kind: int) -> dict[str, Any]:
        return {"clk": {1: 2100, 5: 1300}[kind]}


@pytest.fixture
def smi(monkeypatch: pytest.MonkeyPatch) -> FakeSmi:
    fake = FakeSmi()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setitem(sys.modules, "amdsmi", fake)
    for name in ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return fake


def test_an_amd_gpu_counts_in_steps_of_its_resolution(smi: FakeSmi) -> None:
    found = open_meter("cuda:1")
    sample = found.sample()
    assert found.name == "amdsmi"
    assert found.energy_mj() == pytest.approx(15.3e6)
    assert (sample.power_w, sample.temperature_c, sample.sm_mhz, sample.memory_mhz) == (310.0, 55.0, 2100.0, 1300.0)
    assert (sample.gpu_util_pct, sample.memory_util_pct) == (99.0, None)


def test_the_counter_of_older_releases_has_another_name(smi: FakeSmi) -> None:
    smi.count = {"power": 2000, "counter_resolution": 15.3}
    assert AmdMeter("cuda:0").energy_mj() == pytest.approx(30.6)


def test_amd_gpus_without_counter_say_so(smi: FakeSmi, monkeypatch: pytest.MonkeyPatch) -> None:
    found = AmdMeter("cuda:0")
    smi.count = {}
    with pytest.raises(MeterError, match="not supported in a guest"):
        found.energy_mj()
    with pytest.raises(NoMeterError, match=r"no pynvml.*; AMD SMI has no energy counter for cuda:0"):
        open_meter("cuda:0")
    with pytest.raises(NoMeterError, match="lists 2 devices"):
        AmdMeter("cuda:2")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1,5")
    with pytest.raises(NoMeterError, match="does not know cuda:1"):
        AmdMeter("cuda:1")


def test_without_libraries_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    with pytest.raises(NoMeterError, match=r"pip install nvidia-ml-py; .*pip install amdsmi"):
        open_meter("cuda:0")


def package(folder: Path, number: int, energy_uj: int, most: int = 262_143_328_850) -> Path:
    path = folder / f"intel-rapl:{number}"
    path.mkdir()
    (path / "energy_uj").write_text(f"{energy_uj}\n")
    (path / "max_energy_range_uj").write_text(f"{most}\n")
    return path


def test_packages_are_added_and_counted_on_when_they_start_again(tmp_path: Path) -> None:
    first, second = package(tmp_path, 0, 900, most=999), package(tmp_path, 1, 5_000_000)
    package(tmp_path / "intel-rapl:0", 7, 1)  # a domain inside of a package is part of it
    found = RaplMeter(tmp_path)
    begun = found.energy_mj()
    (first / "energy_uj").write_text("100")
    (second / "energy_uj").write_text("5002000")
    assert found.energy_mj() - begun == pytest.approx(2.2)
    (first / "energy_uj").write_text("50")
    assert found.energy_mj() - begun == pytest.approx(3.15)
    assert found.sample().energy_mj == pytest.approx(begun + 3.15)


def test_rapl_says_why_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(NoMeterError, match="no RAPL counters"):
        RaplMeter(tmp_path)
    path = package(tmp_path, 0, 900)
    found = RaplMeter(tmp_path)
    (path / "energy_uj").write_text("nonsense")
    with pytest.raises(MeterError, match="any more"):
        found.energy_mj()
    (path / "energy_uj").unlink()
    with pytest.raises(NoMeterError, match="cannot be read"):
        RaplMeter(tmp_path)


def test_counters_that_only_root_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, 0, 900)

    def refused(path: Path, *rest: Any) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", refused)
    with pytest.raises(NoMeterError, match="may not be read: run as root"):
        RaplMeter(tmp_path)


def test_a_counter_may_turn_over_more_than_once() -> None:
    count = Unwrapped(1000)
    assert [count(raw) for raw in (900, 100, 50, 50, 999)] == [900, 1100, 2050, 2050, 2999]


class Still:
    """A meter that counts its readings, and fails at the last."""

    name = "still"

    def __init__(self, fails_after: int = 10**9) -> None:
        self.read = 0
        self._fails_after = fails_after

    def energy_mj(self) -> float:
        return float(self.read)

    def sample(self) -> Sample:
        self.read += 1
        if self.read > self._fails_after:
            message = "gone"
            raise MeterError(message)
        return Sample(0, 0, float(self.read))

    def close(self) -> None: ...


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_a_sampler_notes_the_stage() -> None:
    with Sampler(Still(), 0.001) as sampler:
        wait_for(lambda: len(sampler.samples) >= 2)
        sampler.stage = "decode"
        wait_for(lambda: sampler.samples[-1][0] == "decode")
    stages = [stage for stage, _ in sampler.samples]
    assert stages[0] is None
    assert stages[-1] == "decode"
    assert [one.energy_mj for _, one in sampler.samples] == [float(number + 1) for number in range(len(stages))]


def test_a_sampler_ends_where_its_meter_fails() -> None:
    with Sampler(Still(fails_after=3), 0.001) as sampler:
        wait_for(lambda: sampler.failure is not None)
    assert (sampler.failure, len(sampler.samples)) == ("gone", 3)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Installs a distribution whose entry point is given."""

    def install(entry: str) -> None:
        info = tmp_path / "rig_meter-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rig-meter\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[kerneldb.meters]\nrig = {entry}\n")
        (tmp_path / "rig_meter.py").write_text(
            "from tests.energy.test_meters import Still\n"
            "def open_meter(device, uuid):\n"
            "    return Still() if device == 'cuda:3' else None\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))

    yield install
    sys.modules.pop("rig_meter", None)


def test_a_distribution_may_bring_a_meter(installed: Callable[[str], None], nvml: FakeNvml) -> None:
    installed("rig_meter:open_meter")
    assert open_meter("cuda:3").name == "still"
    assert open_meter("cuda:0").name == "nvml"


def test_a_meter_that_cannot_be_loaded_is_named(installed: Callable[[str], None]) -> None:
    installed("rig_meter:nothing")
    with pytest.raises(NoMeterError, match="'rig'"):
        open_meter("cpu")


def test_a_registered_meter_is_asked_first(nvml: FakeNvml) -> None:
    def opener(device: str, uuid: str | None) -> Meter | None:
        return Still() if device == "cuda:0" else None

    meter.register("mine", opener)
    try:
        assert open_meter("cuda:0").name == "still"
        assert open_meter("cuda:1").name == "nvml"
    finally:
        meter.unregister("mine")
    assert open_meter("cuda:0").name == "nvml"
