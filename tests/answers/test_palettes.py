"""Colours that stand for something are told apart by people who see fewer of them.

Their sight is simulated as in Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color
Vision Deficiency" (2009), at full severity; the difference is that of CIE 1976 in Lab, of which 2.3 is just seen.
"""

from __future__ import annotations

import itertools
import re
from importlib import resources

import numpy as np
import pytest

from kerneldb.report import charts

LEAST = 10.0
SIGHT = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900],
    ],
}  # fmt: skip
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.95047, 1.0, 1.08883])


def lab(colour: str, sight: str) -> np.ndarray:
    """A colour as somebody sees it."""
    value = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    share = XYZ @ np.clip(np.array(SIGHT[sight]) @ linear, 0, 1) / WHITE
    x, y, z = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def of_script(name: str) -> list[str]:
    """The colours of a constant of `timeline_picture.js`, each once."""
    text = resources.files("kerneldb.report").joinpath("timeline_picture.js").read_text(encoding="utf-8")
    (body,) = re.findall(rf"const {name} = (.*?);", text, re.DOTALL)
    return list(dict.fromkeys(re.findall(r"#[0-9a-f]{6}", body)))


PALETTES = {"charts": list(charts.COLOURS), "timeline": of_script("COLOURS"), "idle times": of_script("IDLE")}


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("palette", PALETTES)
def test_colours_are_told_apart(palette: str, sight: str) -> None:
    colours = PALETTES[palette]
    assert len(colours) > 5
    found = {
        (one, other): float(np.linalg.norm(lab(one, sight) - lab(other, sight)))
        for one, other in itertools.combinations(colours, 2)
    }
    assert {pair: difference for pair, difference in found.items() if difference < LEAST} == {}
