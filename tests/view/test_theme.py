"""Still pictures by night: the ground is dark, what stands on it is readable, ops keep their colours."""

import base64
import re

import pytest
from coloraide import Color

import gpipe_edu as ge
from gpipe_edu.timeline.stuck_schedule import standstill
from gpipe_edu.view import (
    memory_curve,
    panels,
    plot_bars,
    plot_images,
    plot_lines,
    plot_pieces,
    plot_points,
    plot_traffic,
)
from gpipe_edu.view.layout import layout
from gpipe_edu.view.palette import GROUNDS, PAINTS
from gpipe_edu.view.svg import paint, render
from gpipe_edu.view.theme import notebook_theme

PLAN = ge.simulate(ge.gpipe(2, 3, recompute="early"))


@pytest.mark.parametrize("theme", GROUNDS)
def test_every_ink_can_be_read_on_its_paper(theme):
    ground = GROUNDS[theme]
    for ink in (ground.ink, ground.faint, ground.alarm):
        assert Color(ground.paper).contrast(ink) >= 4.5


def test_by_night_the_ground_changes_and_ops_do_not():
    light, dark = render(PLAN, memory=True), render(PLAN, memory=True, theme="dark")
    by_night = GROUNDS["dark"]
    assert f'class="paper" width="100%" height="100%" fill="{by_night.paper}"' in dark
    for kind in "FBR":
        assert PAINTS[kind].fill in light
        assert PAINTS[kind].fill in dark
    for part, colour in GROUNDS["light"]._asdict().items():
        if colour != PAINTS["F"].edge:
            assert colour not in dark, part


def test_what_cannot_run_is_drawn_by_night_too():
    picture = layout(standstill(ge.Schedule.parse("F0 B0 F1 B1\nF0 F1 B1 B0")))
    text = paint(picture, "dark")
    assert GROUNDS["dark"].alarm in text
    assert GROUNDS["light"].alarm not in text


def test_inside_a_page_each_colour_is_both():
    text = render(PLAN, memory=True, theme="page")
    for light, dark in zip(*GROUNDS.values(), strict=True):
        assert f"light-dark({light}, {dark})" in text or light == GROUNDS["light"].alarm
    assert render(PLAN, memory=True) == re.sub(r"light-dark\((.*?), .*?\)", r"\1", text)
    with pytest.raises(ValueError, match="theme is 'night'"):
        render(PLAN, theme="night")


def corner(data):
    """The colour of the first pixel of a PNG."""
    from io import BytesIO

    from matplotlib.image import imread

    return tuple(round(255 * part) for part in imread(BytesIO(data))[0, 0][:3])


def paper(theme):
    return tuple(round(255 * part) for part in Color(GROUNDS[theme].paper).coords())


def test_a_png_has_the_paper_of_its_theme():
    pytest.importorskip("matplotlib")
    for theme in GROUNDS:
        assert corner(ge.compare(PLAN, theme=theme).to_png(50)) == paper(theme)
    assert corner(ge.compare(PLAN).to_png(50)) == paper("light"), "files are for papers and mails"


@pytest.mark.parametrize(
    ("settings", "theme"),
    [
        ('{\n    // Theme\n    "theme": "JupyterLab Dark",\n}', "dark"),
        ('{\n    "theme": "JupyterLab Dark High Contrast"\n}', "dark"),
        ('{"theme": "JupyterLab Light"}'.replace("{", "{\n"), "light"),
        ('{\n    // "theme": "JupyterLab Dark"\n}', "light"),
        ("\xff", "light"),
        (None, "light"),
    ],
)
def test_a_notebook_shows_pictures_in_the_theme_its_reader_has_chosen(settings, theme, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTERLAB_SETTINGS_DIR", str(tmp_path))
    if settings is not None:
        file = tmp_path / "@jupyterlab/apputils-extension/themes.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_bytes(settings.encode("latin-1"))
    assert notebook_theme() == theme
    pytest.importorskip("matplotlib")
    assert corner(base64.b64decode(PLAN._repr_mimebundle_()["image/png"])) == paper(theme)


def plots():
    """One of each, on figures of their own."""
    up = {"across": "x", "up": "y", "title": "a title"}
    plot_lines([1, 2], {name: [3, 4] for name in "abcdef"}, limits={"a": 3.5}, tenfold=True, **up)
    plot_bars(["a", "b"], {"low": [1, 2], "high": [3, 4]}, limit=3, numbers="{:g}", **up)
    plot_points({"a": (1, 2), "b": (3, 4)}, named=["a", "b"], **up)
    plot_pieces({1: [3], 2: [2, 1]}, **up)
    plot_images({"row": [[[0, 1]], [[1, 0]]]}, names=["one", "two"], title="images", across="x")
    plot_traffic([("", 0, 1, 100), ("8x8", 0, 2, 1024)], title="sent")
    memory_curve(ge.simulate(ge.gpipe(4, 3)))
    for ax in panels(2):
        plot_lines([1, 2], {"a": [3, 4], "b": [4, 5]}, ax=ax, **up)


@pytest.mark.parametrize(("chosen", "theme"), [("JupyterLab Dark", "dark"), ("JupyterLab Light", "light")])
def test_plots_of_lessons_can_be_read_by_day_and_by_night(chosen, theme, tmp_path, monkeypatch):
    mpl = pytest.importorskip("matplotlib")
    from matplotlib import pyplot
    from matplotlib.colors import to_hex
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    file = tmp_path / "@jupyterlab/apputils-extension/themes.jupyterlab-settings"
    file.parent.mkdir(parents=True)
    file.write_text(f'{{\n    "theme": "{chosen}"\n}}')
    monkeypatch.setenv("JUPYTERLAB_SETTINGS_DIR", str(tmp_path))
    paper = GROUNDS[theme].paper
    with mpl.rc_context({"backend": "agg"}):
        plots()
        figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
        pyplot.close("all")
    assert len(figures) == 8
    for figure in figures:
        assert to_hex(figure.get_facecolor()) == paper.lower()
        figure.draw_without_rendering()
        for ax in figure.axes:
            assert to_hex(ax.get_facecolor()) == paper.lower() or not ax.get_frame_on()
        for words in figure.findobj(Text):
            if words.get_text() and words.get_visible() and not words.get_bbox_patch():
                assert Color(paper).contrast(to_hex(words.get_color())) >= 4.5, words.get_text()
        for line in figure.findobj(Line2D):
            assert Color(paper).contrast(to_hex(line.get_color())) >= 1.4 + 1.4 * (theme == "dark"), line


def test_a_plot_on_a_figure_of_ones_own_takes_its_paper(monkeypatch):
    pytest.importorskip("matplotlib")
    from matplotlib.colors import to_hex
    from matplotlib.figure import Figure

    monkeypatch.setattr("gpipe_edu.view.paper.notebook_theme", lambda: "dark")
    ax = Figure().add_subplot()
    plot_lines([1, 2], {"a": [3, 4]}, across="x", up="y", ax=ax)
    assert to_hex(ax.xaxis.label.get_color()) == GROUNDS["light"].ink
    assert to_hex(ax.get_facecolor()) == GROUNDS["light"].paper.lower()


def test_another_theme_is_refused():
    with pytest.raises(ValueError, match="theme is 'pink'"):
        ge.compare(PLAN, theme="pink")
    with pytest.raises(ValueError, match="theme is 'auto'; for a still picture"):
        render(PLAN, theme="auto")
