"""The fills stay apart for colour-blind readers and in grey print; all colour science here is written anew."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gpipe_edu.schedule import KINDS
from gpipe_edu.view.palette import PAINTS, label_colour

# Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
PAIRS = list(itertools.combinations("FBRW", 2))


def linear(colour: str) -> np.ndarray:
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> tuple[float, float, float]:
    ratio = TO_XYZ @ np.clip(rgb, 0, 1) / (TO_XYZ @ np.ones(3))
    x, y, z = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def ciede2000(one: tuple[float, float, float], two: tuple[float, float, float]) -> float:
    (l1, a1, b1), (l2, a2, b2) = one, two
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    stretch = 1 + 0.5 * (1 - math.sqrt(mean**7 / (mean**7 + 25**7)))
    a1, a2 = a1 * stretch, a2 * stretch
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1, h2 = math.degrees(math.atan2(b1, a1)) % 360, math.degrees(math.atan2(b2, a2)) % 360
    turn = h2 - h1
    if c1 * c2 == 0:
        turn = 0
    elif turn > 180:
        turn -= 360
    elif turn < -180:
        turn += 360
    delta_h = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2))
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    if c1 * c2 == 0:
        hue = h1 + h2
    elif abs(h1 - h2) <= 180:
        hue = (h1 + h2) / 2
    else:
        hue = (h1 + h2 + (360 if h1 + h2 < 360 else -360)) / 2
    t = (
        1
        - 0.17 * math.cos(math.radians(hue - 30))
        + 0.24 * math.cos(math.radians(2 * hue))
        + 0.32 * math.cos(math.radians(3 * hue + 6))
        - 0.20 * math.cos(math.radians(4 * hue - 63))
    )
    s_l = 1 + 0.015 * (light - 50) ** 2 / math.sqrt(20 + (light - 50) ** 2)
    s_c, s_h = 1 + 0.045 * chroma, 1 + 0.015 * chroma * t
    bend = 30 * math.exp(-(((hue - 275) / 25) ** 2))
    r_t = -math.sin(math.radians(2 * bend)) * 2 * math.sqrt(chroma**7 / (chroma**7 + 25**7))
    terms = ((l2 - l1) / s_l, (c2 - c1) / s_c, delta_h / s_h)
    return math.sqrt(sum(term**2 for term in terms) + r_t * terms[1] * terms[2])


@pytest.mark.parametrize(
    ("one", "two", "difference"),
    [  # from the test data of Sharma, Wu and Dalal 2005
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((50, 2.49, -0.001), (50, -2.49, 0.0011), 7.2195),
        ((22.7233, 20.0904, -46.694), (23.0331, 14.973, -42.5619), 2.0373),
        ((2.0776, 0.0795, -1.135), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_ciede2000_agrees_with_published_pairs(one, two, difference):
    assert ciede2000(one, two) == pytest.approx(difference, abs=1e-4)


@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_fills_differ_under_colour_blindness(blindness, one, two):
    seen = [lab(BLINDNESS[blindness] @ linear(PAINTS[kind].fill)) for kind in (one, two)]
    assert ciede2000(*seen) >= 18


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_fills_differ_in_grey_print(one, two):
    lightness = [lab(linear(PAINTS[kind].fill))[0] for kind in (one, two)]
    assert abs(lightness[0] - lightness[1]) >= 19


@pytest.mark.parametrize("kind", PAINTS)
def test_labels_have_the_contrast_of_wcag_aa(kind):
    luminance = sorted(float(TO_XYZ[1] @ linear(colour)) for colour in (PAINTS[kind].fill, label_colour(kind)))
    assert (luminance[1] + 0.05) / (luminance[0] + 0.05) >= 4.5


def test_every_kind_can_be_painted():
    assert set(PAINTS) | {"C"} == set(KINDS)


def test_an_input_gradient_looks_like_the_backward_it_is_half_of():
    assert PAINTS["I"] == PAINTS["B"]


def test_only_the_recompute_has_dots_and_an_outline_of_its_own():
    assert [kind for kind, paint in PAINTS.items() if paint.dotted] == ["R"]
    assert [kind for kind, paint in PAINTS.items() if paint.edge != "#FFFFFF"] == ["R"]
