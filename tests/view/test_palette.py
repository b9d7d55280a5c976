"""The fills stay apart for colour-blind readers and in grey print, by the formulas of a library of colour science."""

import itertools

import pytest
from coloraide import Color

from gpipe_edu.schedule import KINDS
from gpipe_edu.view.palette import PAINTS, label_colour
from tests.each import each

PAIRS = list(itertools.combinations("FBRW", 2))


@each("blindness", ["none", "protan", "deutan", "tritan"])
@each("one, two", PAIRS)
def test_fills_differ_under_colour_blindness(blindness, one, two):
    fills = [Color(PAINTS[kind].fill) for kind in (one, two)]
    seen = fills if blindness == "none" else [fill.filter(blindness, method="machado") for fill in fills]
    assert seen[0].delta_e(seen[1], method="2000") >= 18


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_fills_differ_in_grey_print(one, two):
    lightness = [Color(PAINTS[kind].fill).convert("lab-d65")["l"] for kind in (one, two)]
    assert abs(lightness[0] - lightness[1]) >= 19


@pytest.mark.parametrize("kind", PAINTS)
def test_labels_have_the_contrast_of_wcag_aa(kind):
    assert Color(PAINTS[kind].fill).contrast(label_colour(kind), method="wcag21") >= 4.5


def test_every_kind_can_be_painted():
    assert set(PAINTS) | {"C"} == set(KINDS)


def test_an_input_gradient_looks_like_the_backward_it_is_half_of():
    assert PAINTS["I"] == PAINTS["B"]


def test_only_the_recompute_has_dots_and_an_outline_of_its_own():
    assert [kind for kind, paint in PAINTS.items() if paint.dotted] == ["R"]
    assert [kind for kind, paint in PAINTS.items() if paint.edge != "#FFFFFF"] == ["R"]
