"""Plots of lessons show the values they are given, at their places, and refuse what does not fit."""

import itertools

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from gpipe_edu.view import panels, plot_bars, plot_images, plot_lines, plot_pieces, plot_points, plot_traffic


@pytest.fixture
def ax():
    with mpl.rc_context({"backend": "agg"}):
        yield Figure().add_subplot()


def test_lines_are_where_they_belong_with_limits_and_dots(ax):
    lines = {"one": [3, 2, 1], "two": [1, 4, 9]}
    plot_lines([1, 2, 4], lines, across="M", up="time", doubling=True, limits={"one": 0.5}, dots={"two": 4}, ax=ax)
    one, limit, two, dot = ax.get_lines()
    assert (list(one.get_xdata()), list(one.get_ydata())) == ([1, 2, 4], [3, 2, 1])
    assert set(limit.get_ydata()) == {0.5}
    assert limit.get_color() == one.get_color() != two.get_color()
    assert (list(dot.get_xdata()), list(dot.get_ydata())) == ([4], [9])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "4"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("M", "time")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]


def test_bars_stand_side_by_side_or_on_each_other(ax):
    plot_bars(["a", "b"], {"low": [1, 2], "high": [3, 4]}, up="MB", stacked=True, limit=8, ax=ax)
    assert [(bar.get_y(), bar.get_height()) for bar in ax.patches] == [(0, 1), (0, 2), (1, 3), (2, 4)]
    assert set(ax.get_lines()[0].get_ydata()) == {8}
    beside = Figure().add_subplot()
    plot_bars(["a", "b"], {"low": [1, 2], "high": [3, 4]}, up="MB", ax=beside)
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in beside.patches)
    assert all(right <= left + 1e-9 for (_, right), (left, _) in itertools.pairwise(spans))


def test_the_eight_parts_of_a_planned_step_have_a_colour_each(ax):
    plot_bars(["a"], {name: [1] for name in "abcdefgh"}, up="seconds", stacked=True, ax=ax)
    assert len({bar.get_facecolor() for bar in ax.patches}) == 8


def test_points_are_where_they_belong_and_those_asked_for_have_names(ax):
    plot_points({"a": (1, 2), "b": (3, 4)}, across="x", up="y", named=["b"], ax=ax)
    assert ax.collections[0].get_offsets().tolist() == [[1, 2], [3, 4]]
    assert [(text.get_text(), text.xy) for text in ax.texts] == [("b", (3, 4))]


def test_names_stand_beside_their_dots_and_hide_neither_dots_nor_names(ax):
    points = {"in the middle": (4, 2), "right of it": (4.6, 2.1), "at the end": (9, 9)}
    plot_points(points, across="x", up="y", named=list(points), ax=ax)
    names = [text.get_window_extent() for text in ax.texts]
    dots = [ax.transData.transform(place) for place in points.values()]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(names, 2))
    assert not any(name.contains(*dot) for name in names for dot in dots)
    assert all(ax.bbox.x0 <= name.x0 and name.x1 <= ax.bbox.x1 for name in names), "beyond lie the axis' numbers"
    assert [text.xy for text in ax.texts] == list(points.values())


def test_a_curve_that_runs_away_leaves_the_others_to_be_seen(ax):
    plot_lines([1, 2], {"a": [0, 1], "b": [1, 1e6]}, across="x", up="y", within=(-2, 2), ax=ax)
    assert ax.get_ylim() == (-2, 2)


def test_what_was_measured_stands_as_markers_on_the_planned_line(ax):
    plot_lines([1, 2], {"a": [3, 4]}, across="x", up="y", against={"a": [3.5, 4.5]}, ax=ax)
    planned, measured = ax.get_lines()
    assert (planned.get_markevery(), measured.get_linestyle()) == ([], "None")
    assert planned.get_marker() == measured.get_marker(), "by which the legend names both"
    assert list(measured.get_ydata()) == [3.5, 4.5]
    assert planned.get_color() == measured.get_color()
    assert len(ax.get_lines()) == 2


def test_a_curve_that_others_lie_on_is_wide_and_first_in_the_legend(ax):
    plot_lines([1, 2], {"a": [3, 4], "b": [3, 4]}, across="x", up="y", under=["a"], ax=ax)
    a, b = ax.get_lines()
    alone = Figure().add_subplot()
    plot_lines([1, 2], {"b": [3, 4]}, across="x", up="y", ax=alone)
    assert b.get_color() == alone.get_lines()[0].get_color()
    assert a.get_linewidth() > 2 * b.get_linewidth()
    assert a.get_zorder() <= b.get_zorder()


def test_curves_of_many_points_are_told_apart_by_a_few_markers(ax):
    plot_lines(range(200), {"a": range(200), "b": range(200)}, across="x", up="y", ax=ax)
    a, b = ax.get_lines()
    assert a.get_marker() != b.get_marker()
    assert a.get_markevery() == b.get_markevery() == 20


def test_whole_steps_have_whole_numbers(ax):
    plot_lines(range(20), {"a": range(20)}, across="training step", up="y", ax=ax)
    assert all(float(place).is_integer() for place in ax.get_xticks())
    halves = Figure().add_subplot()
    plot_lines([step / 2 for step in range(20)], {"a": range(20)}, across="x", up="y", ax=halves)
    assert len(halves.get_xticks()) > 3


def test_powers_of_ten_do_not_begin_at_zero(ax):
    plot_lines([1, 2], {"a": [1e-9, 4]}, across="x", up="y", tenfold=True, ax=ax)
    assert ax.get_yscale() == "log"
    assert ax.get_ylim()[0] > 0
    near = Figure().add_subplot()
    plot_lines([1, 2], {"a": [0.03, 0.5]}, across="x", up="y", tenfold=True, ax=near)
    labels = [label.get_text() for label in near.get_yticklabels()]
    assert {"0.05", "0.1", "0.2"} <= set(labels), "one power of ten alone tells little"


def test_what_is_below_zero_is_shown(ax):
    plot_points({"a": (1, -2), "b": (2, 4)}, across="x", up="y", ax=ax)
    assert ax.get_ylim()[0] < -2


@pytest.mark.parametrize("stacked", [False, True])
def test_a_bar_has_its_number(ax, stacked):
    plot_bars(["a", "b"], {"low": [1, 2], "high": [3, 4]}, up="MB", stacked=stacked, numbers="{:.1f}", ax=ax)
    assert [text.get_text() for text in ax.texts] == ["1.0", "2.0", "3.0", "4.0"]


def test_places_that_double_are_named(ax):
    plot_points({"a": (1, 2), "b": (32, 4)}, across="M", up="y", doubling=True, ax=ax)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "32"]


@pytest.fixture
def pyplot():
    with mpl.rc_context({"backend": "agg"}):
        from matplotlib import pyplot

        yield pyplot
        pyplot.close("all")


def test_images_stand_in_rows_with_their_names(pyplot):
    plot_images({"noisy": [[[0, 1]], [[1, 0]]], "clean": [[[1, 1]], [[0, 0]]]}, title="digits")
    axes = pyplot.gcf().axes
    assert [ax.get_ylabel() for ax in axes] == ["noisy", "", "clean", ""]
    assert [ax.get_images()[0].get_array().tolist() for ax in axes] == [[[0, 1]], [[1, 0]], [[1, 1]], [[0, 0]]]
    assert [ax.get_title() for ax in axes] == [""] * 4
    plot_images({"": [[[0, 1]], [[1, 0]]]}, names=[3, 7])
    assert [ax.get_title() for ax in pyplot.gcf().axes] == ["3", "7"]
    with pytest.raises(ValueError, match="'names' has 1 values, and there are 2 places"):
        plot_images({"": [[[0, 1]], [[1, 0]]]}, names=[3])
    with pytest.raises(ValueError, match="'b' has 1 values, and there are 2 places"):
        plot_images({"a": [[[0]], [[1]]], "b": [[[0]]]})


def test_pieces_stand_end_to_end_and_the_first_row_is_on_top(ax):
    plot_pieces({1: [3], 2: [2, 1], 3: [2, 1, 0]}, across="sample", up="M", ax=ax)
    boxes = [[tuple(path.get_extents().bounds) for path in row.get_paths()] for row in ax.collections]
    assert [[(x, width) for x, _, width, _ in row] for row in boxes] == [[(0, 3)], [(0, 2), (2, 1)], [(0, 2), (2, 1)]]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "2", "3"]
    assert [y + height / 2 for row in boxes for _, y, _, height in row[:1]] == pytest.approx([0, 1, 2])
    bottom, top = ax.get_ylim()
    assert top < 0 < 2 < bottom


def test_traffic_goes_from_stage_to_stage_and_skips_in_bows_over_them(ax):
    plot_traffic([("", 0, 1, 100), ("", 1, 2, 50), ("8x8", 0, 2, 1024)], title="sent", ax=ax)
    arrows = [text for text in ax.texts if isinstance(text, Annotation)]
    assert [(text.xyann, text.xy) for text in arrows] == [((0, 0), (1, 0)), ((1, 0), (2, 0)), ((0, 0), (2, 0))]
    widths = [text.arrow_patch.get_linewidth() for text in arrows]
    assert widths[1] < widths[0] < widths[2]
    words = {text.get_text(): text.get_position() for text in ax.texts if not isinstance(text, Annotation)}
    assert set(words) == {"100", "50", "8x8: 1,024", "stage 0", "stage 1", "stage 2"}
    assert words["8x8: 1,024"][1] > words["100"][1]
    with pytest.raises(ValueError, match="nothing is sent"):
        plot_traffic([], ax=ax)


def test_panels_share_their_scale(pyplot):
    left, right = panels(2)
    plot_lines([1, 2], {"a": [1, 2]}, across="x", up="y", ax=left)
    plot_lines([1, 2], {"a": [5, 9]}, across="x", up="y", ax=right)
    assert left.get_ylim() == right.get_ylim()
    assert left.get_ylim()[0] == 0
    assert left.get_ylim()[1] >= 9
    assert len(panels(1)) == 1


def test_what_does_not_fit_is_refused(ax):
    with pytest.raises(ValueError, match="'one' has 2 values, and there are 3 places"):
        plot_lines([1, 2, 3], {"one": [1, 2]}, across="x", up="y", ax=ax)
    with pytest.raises(ValueError, match="'two' is to be marked but has no line"):
        plot_lines([1], {"one": [1]}, across="x", up="y", dots={"two": 1}, ax=ax)
    with pytest.raises(ValueError, match="'one' has 1 values"):
        plot_bars(["a", "b"], {"one": [1]}, up="y", ax=ax)
    with pytest.raises(ValueError, match="9 bars for each label were given, and there are 8 colours"):
        plot_bars(["a"], {name: [1] for name in "abcdefghi"}, up="y", ax=ax)
    with pytest.raises(ValueError, match="no point 'b'; the points are a"):
        plot_points({"a": (1, 2)}, across="x", up="y", named=["b"], ax=ax)


def test_a_limit_that_runs_through_a_bar_s_number_leaves_it_readable(ax):
    plot_bars(["16", "1"], {"weight": [0.0125, 0.2]}, up="weight", limit=1 / 65, numbers="{:.4f}", ax=ax)
    assert all(words.get_path_effects() for words in ax.texts)
