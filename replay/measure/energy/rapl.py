"""CPU packages through RAPL: the powercap files of Linux.

`/sys/class/powercap/intel-rapl:N/energy_uj` counts microjoules of package N (AMD's CPUs too), moves about once per
millisecond, and starts again at 0 after `max_energy_range_uj` (Documentation/power/powercap/powercap.rst). Since
Linux 5.10 only root may read it, unless the administrator opens it up (CVE-2020-8694).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from kerneldb.replay.measure.energy.meter import MeterError, NoMeterError, Sample
from kerneldb.replay.measure.energy.readings import Unwrapped, failing_as, timed

FOLDER: Final = Path("/sys/class/powercap")
PACKAGE: Final = re.compile(r"intel-rapl:\d+")
MICRO: Final = 1000.0


class RaplMeter:
    """All CPU packages of this machine together. Raises NoMeterError where there are none, or none may be read."""

    name = "rapl"

    def __init__(self, folder: Path = FOLDER) -> None:
        packages = sorted(path for path in folder.glob("intel-rapl:*") if PACKAGE.fullmatch(path.name))
        if not packages:
            message = f"no RAPL counters in {folder}: not Linux, a virtual machine, or a CPU without them"
            raise NoMeterError(message)
        try:
            # a counter starts again at 0 behind `max_energy_range_uj`, which it still shows
            sizes = [float((path / "max_energy_range_uj").read_text()) + 1 for path in packages]
            self._packages = [(path / "energy_uj", Unwrapped(size)) for path, size in zip(packages, sizes, strict=True)]
            self._total()
        except PermissionError as error:
            message = f"{error.filename} may not be read: run as root, or let the administrator open it up"
            raise NoMeterError(message) from error
        except (OSError, ValueError) as error:
            message = f"RAPL counters in {folder} cannot be read: {error}"
            raise NoMeterError(message) from error

    def energy_mj(self) -> float:
        """The sum over packages. Raises MeterError."""
        with failing_as(MeterError, "RAPL counters cannot be read any more", OSError, ValueError):
            return self._total() / MICRO

    def sample(self) -> Sample:
        """The counter; RAPL reports no more. Raises MeterError."""
        return Sample(*timed(self.energy_mj))

    def close(self) -> None:
        """Nothing is held open."""

    def _total(self) -> float:
        return sum(unwrapped(float(path.read_text())) for path, unwrapped in self._packages)
