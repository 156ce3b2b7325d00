"""How far apart colours look, to people of normal and of deficient colour vision."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

Vector = tuple[float, float, float]
Matrix = tuple[Vector, Vector, Vector]

VISIONS: Final[Mapping[str, Matrix]] = {
    "normal": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""Severity 1.0, on linear RGB: Machado, Oliveira and Fernandes, A Physiologically-based Model for Simulation of Color
Vision Deficiency, IEEE TVCG 15(6), 2009, and its supplement."""
XYZ_OF_LINEAR: Final[Matrix] = (
    (0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041)
)  # fmt: skip
WHITE: Final[Vector] = (0.95047, 1.0, 1.08883)
EPSILON, KAPPA = 216 / 24389, 24389 / 27


def linear(colour: str) -> Vector:
    """Linear RGB of `#rrggbb`."""
    levels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (level / 12.92 if level <= 0.04045 else ((level + 0.055) / 1.055) ** 2.4 for level in levels)
    return red, green, blue


def _times(matrix: Matrix, vector: Vector) -> Vector:
    first, second, third = (sum(one * other for one, other in zip(row, vector, strict=True)) for row in matrix)
    return first, second, third


def lab(colour: str, vision: str = "normal") -> Vector:
    """CIE L*a*b* of `#rrggbb` as people of a `vision` see it."""
    seen = _times(VISIONS[vision], linear(colour))
    red, green, blue = (min(max(level, 0.0), 1.0) for level in seen)
    shares = (one / white for one, white in zip(_times(XYZ_OF_LINEAR, (red, green, blue)), WHITE, strict=True))
    x, y, z = (math.cbrt(share) if share > EPSILON else (KAPPA * share + 16) / 116 for share in shares)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one: Vector, other: Vector) -> float:
    """CIEDE2000 of two colours in L*a*b*: Sharma, Wu and Dalal, The CIEDE2000 Color-Difference Formula, 2005."""
    mean = (math.hypot(*one[1:]) + math.hypot(*other[1:])) / 2
    grow = 1.5 - 0.5 * math.sqrt(mean**7 / (mean**7 + 25**7))
    (chroma1, hue1), (chroma2, hue2) = (_polar(colour[1] * grow, colour[2]) for colour in (one, other))
    turn = (hue2 - hue1 + 180) % 360 - 180 if chroma1 * chroma2 else 0.0
    light, chroma = (one[0] + other[0]) / 2, (chroma1 + chroma2) / 2
    hue = hue1 + turn / 2 if chroma1 * chroma2 else hue1 + hue2
    weight = (
        1 - 0.17 * _cos(hue - 30) + 0.24 * _cos(2 * hue) + 0.32 * _cos(3 * hue + 6) - 0.20 * _cos(4 * hue - 63)
    )  # fmt: skip
    by_light = (other[0] - one[0]) / (1 + 0.015 * (light - 50) ** 2 / math.sqrt(20 + (light - 50) ** 2))
    by_chroma = (chroma2 - chroma1) / (1 + 0.045 * chroma)
    by_hue = 2 * math.sqrt(chroma1 * chroma2) * math.sin(math.radians(turn / 2)) / (1 + 0.015 * chroma * weight)
    rotation = -2 * math.sqrt(chroma**7 / (chroma**7 + 25**7))
    rotation *= math.sin(math.radians(60 * math.exp(-((((hue % 360) - 275) / 25) ** 2))))
    return math.sqrt(by_light**2 + by_chroma**2 + by_hue**2 + rotation * by_chroma * by_hue)


def _polar(a: float, b: float) -> tuple[float, float]:
    return math.hypot(a, b), math.degrees(math.atan2(b, a)) % 360


def _cos(degrees: float) -> float:
    return math.cos(math.radians(degrees))


def nearest(colours: Mapping[str, str], vision: str) -> tuple[float, str, str]:
    """The two of `colours` that look most alike to people of a `vision`, after their difference."""
    seen = {name: lab(colour, vision) for name, colour in colours.items()}
    return min((difference(seen[one], seen[other]), one, other) for one, other in itertools.combinations(seen, 2))


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2, 1 to 21."""
    first, second = (_times(XYZ_OF_LINEAR, linear(colour))[1] + 0.05 for colour in (one, other))
    return max(first, second) / min(first, second)
