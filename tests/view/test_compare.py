"""Several timelines on one time axis."""

from xml.etree import ElementTree

import pytest

import gpipe_edu as ge
from gpipe_edu.view.compare import compare


def both():
    return compare(ge.simulate(ge.gpipe(4, 4, recompute="early")), ge.simulate(ge.one_f_one_b(4, 4)))


def test_one_axis_and_the_figures_of_each():
    root = ElementTree.fromstring(both().to_svg())
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert sum(node.get("class") == "axis" for node in root.iter()) == 1
    assert sum("makespan 25 · bubble 36.0%" in text for text in texts) == 1
    assert sum("makespan 21 · bubble 42.9%" in text for text in texts) == 1


def test_it_shows_itself_in_a_notebook():
    pytest.importorskip("matplotlib")
    bundle = both()._repr_mimebundle_()
    assert bundle["text/plain"] == (
        "Gantt(gpipe early recompute, K=4, M=4, makespan=25)\nGantt(1f1b, K=4, M=4, makespan=21)"
    )
    assert both().to_png()[:4] == b"\x89PNG"
    assert "image/png" in bundle


def test_nothing_to_compare_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        compare()


def test_a_schedule_stands_for_its_plan_and_other_things_are_refused():
    plans = [ge.simulate(ge.gpipe(2, 2)), ge.simulate(ge.naive(2, 2))]
    assert compare(ge.gpipe(2, 2), plans[1]).to_svg() == compare(*plans).to_svg()
    with pytest.raises(TypeError, match="got 'gpipe'"):
        compare("gpipe")
