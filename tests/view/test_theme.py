"""Still pictures by night: the ground is dark, what stands on it is readable, ops keep their colours."""

import base64

import pytest
from coloraide import Color

import gpipe_edu as ge
from gpipe_edu.timeline.standstill import standstill
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


def test_another_theme_is_refused():
    with pytest.raises(ValueError, match="theme is 'pink'"):
        ge.compare(PLAN, theme="pink")
    with pytest.raises(ValueError, match="theme is 'auto'; for a still picture"):
        render(PLAN, theme="auto")
