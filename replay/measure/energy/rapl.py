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
from kerneldb.replay.measure.energy.readings import Span, Unwrapped

FOLDER: Final = Path("/sys/class/powercap")
PACKAGE: Final = re.compile(r"intel-rapl:\d+")
MICRO: Final = 1000.0


class RaplMeter:
    """All CPU packages of this machine together. Raises NoMeterError where there are none, or none may be read."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.name = "rapl"
        packages = sorted(path for path in folder.glob("intel-rapl:*") if PACKAGE.fullmatch(path.name))
        if not packages:
            message = f"no RAPL counters in {folder}: not Linux, a virtual machine, or a CPU without them"
            raise NoMeterError(message)
        try:
            self._packages = [(path / "energy_uj", Unwrapped(_range(path))) for path in packages]
            self._total()
        except PermissionError as error:
            message = f"{error.filename} may not be read: run as root, or let the administrator open it up"
            raise NoMeterError(message) from error
        except (OSError, ValueError) as error:
            message = f"RAPL counters in {folder} cannot be read: {error}"
            raise NoMeterError(message) from error

    def energy_mj(self) -> float:
        """The sum over packages. Raises MeterError."""
        try:
            return self._total() / MICRO
        except (OSError, ValueError) as error:
            message = f"RAPL counters cannot be read any more: {error}"
            raise MeterError(message) from error

    def sample(self) -> Sample:
        """The counter; RAPL tells no more. Raises MeterError."""
        span = Span()
        energy = self.energy_mj()
        return Sample(*span.middle(), energy)

    def close(self) -> None:
        """Nothing is held open."""

    def _total(self) -> float:
        return sum(unwrapped(float(path.read_text())) for path, unwrapped in self._packages)


def _range(package: Path) -> float:
    """Counts until the counter starts again: it reaches `max_energy_range_uj` and then shows 0."""
    return float((package / "max_energy_range_uj").read_text()) + 1
