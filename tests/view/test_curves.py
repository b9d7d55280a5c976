"""Memory curves show the levels of the timeline."""

import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

import gpipe_edu as ge
from gpipe_edu.view.curves import memory_curve


def test_a_stepped_line_per_device_with_its_peak():
    ax = memory_curve(ge.simulate(ge.one_f_one_b(4, 8)), Figure().add_subplot())
    assert [line.get_drawstyle() for line in ax.lines] == ["steps-post"] * 4
    assert [max(line.get_ydata()) for line in ax.lines] == [4, 3, 2, 1]
    assert ax.lines[0].get_label() == "device 0, at most 4"
    assert {line.get_ydata()[-1] for line in ax.lines} == {0}
    assert {max(line.get_xdata()) for line in ax.lines} == {33}


def test_of_many_devices_only_some_are_named_the_last_among_them():
    ax = memory_curve(ge.simulate(ge.gpipe(16, 16)), Figure().add_subplot())
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(ax.lines) == 16
    assert [name.split(",")[0] for name in names] == [f"device {k}" for k in (0, 2, 4, 6, 8, 10, 12, 14, 15)]


def test_sizes_and_their_unit():
    timeline = ge.simulate(ge.gpipe(2, 3, recompute="late"))
    ax = memory_curve(timeline, Figure().add_subplot(), boundary=2, interior=5, unit="MiB")
    assert [max(line.get_ydata()) for line in ax.lines] == [3 * 2 + 5] * 2
    assert ax.get_ylabel() == "activations held, MiB"
    with pytest.raises(ValueError, match="2 stages"):
        memory_curve(timeline, Figure().add_subplot(), interior=[1, 2, 3])


def test_without_axes_a_figure_is_made():
    ax = memory_curve(ge.simulate(ge.gpipe(2, 2)))
    assert pyplot.get_fignums() == [ax.figure.number]
    pyplot.close(ax.figure)
