"""Registers the meter of the tests: for `--import tests.recording.fake_meter`, and for no test module."""

from __future__ import annotations

from kerneldb.replay.measure.energy import meter
from tests.recording.meters import NAME, open_fake

meter.register(NAME, open_fake)
