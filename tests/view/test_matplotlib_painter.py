"""The same picture with matplotlib, without touching figures of the caller."""

import itertools

import matplotlib as mpl
import pytest
from matplotlib import pyplot
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import gpipe_edu as ge
from gpipe_edu.view.layout import layout
from gpipe_edu.view.matplotlib_painter import draw, to_png
from gpipe_edu.view.palette import PAINTS


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    pyplot.close("all")


def areas(ax):
    return {c.get_label(): c for c in ax.collections if isinstance(c, PolyCollection)}


@pytest.mark.parametrize("recompute", [None, "late", "early"])
def test_it_paints_the_boxes_of_the_layout(recompute):
    timeline = ge.simulate(ge.gpipe(4, 4, recompute=recompute))
    painted = areas(draw(timeline, width=1000))
    picture = layout(timeline, width=1000)
    for kind in {part.kind for box in picture.boxes for part in box.parts}:
        wanted = [(p.x, b.y, p.width) for b in picture.boxes for p in b.parts if p.kind == kind]
        wanted += [(p.x, s.y, p.width) for s in picture.swatches for p in s.parts if p.kind == kind]
        boxes = [path.get_extents() for path in painted[kind].get_paths()]
        got = [(box.x0, box.y0, box.width) for box in boxes]
        assert list(itertools.chain(*got)) == pytest.approx(list(itertools.chain(*wanted)))
        assert to_hex(painted[kind].get_facecolor()[0]).upper() == PAINTS[kind].fill
    assert painted["bubble"].get_hatch() == "///"
    if recompute:
        assert set(painted["R"].get_hatch()) == {"."}


def test_it_writes_all_words_and_labels():
    timeline = ge.simulate(ge.gpipe(4, 8))
    picture = layout(timeline)
    written = sorted(text.get_text() for text in draw(timeline).texts)
    labels = [box.label for box in picture.boxes if box.label]
    assert written == sorted([*labels, *(words.text for words in picture.words)])


def test_given_axes_are_used_and_pyplot_is_left_alone():
    ax = Figure(figsize=(8, 3)).add_subplot()
    assert ge.simulate(ge.gpipe(4, 8)).plot(ax) is ax
    assert pyplot.get_fignums() == []


def test_on_short_axes_the_chart_shrinks_but_stays_as_wide_as_they_are():
    ax = Figure(figsize=(8, 1.5)).add_axes((0, 0, 1, 1))
    draw(ge.simulate(ge.gpipe(8, 8)), ax)
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    assert (right - left) / (bottom - top) == pytest.approx(8 / 1.5, rel=0.15)


def test_without_axes_a_figure_of_fitting_size_is_made():
    timeline = ge.simulate(ge.gpipe(4, 8))
    ax = timeline.plot(width=800)
    assert pyplot.get_fignums() == [ax.figure.number]
    assert ax.figure.get_size_inches() * 100 == pytest.approx([800, layout(timeline, width=800).height])


def test_png_is_deterministic_has_its_size_and_leaves_no_figure():
    timeline = ge.simulate(ge.gpipe(4, 8))
    png = to_png(timeline, width=600, memory=True, critical_path=True, dpi=100)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(png[16:20]) == 600
    assert png == to_png(timeline, width=600, memory=True, critical_path=True, dpi=100)
    assert pyplot.get_fignums() == []


def test_a_notebooks_own_settings_do_not_move_the_picture():
    plain = to_png(ge.simulate(ge.gpipe(2, 2)))
    for name in ("figure.constrained_layout.use", "figure.autolayout"):
        with mpl.rc_context({name: True}):
            assert to_png(ge.simulate(ge.gpipe(2, 2))) == plain
