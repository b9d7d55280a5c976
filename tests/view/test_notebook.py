"""What a notebook shows and stores."""

import base64
import re
import sys

import pytest

import gpipe_edu as ge
from gpipe_edu.timeline import Timeline
from gpipe_edu.view.svg import render
from tests.processes import printed

WITHOUT = """
import sys
sys.modules['matplotlib'] = None
import gpipe_edu as ge
print(ge.gpipe(2, 2)._repr_mimebundle_())
"""


def test_a_timeline_shows_a_png_and_a_line():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    bundle = ge.simulate(ge.gpipe(4, 8))._repr_mimebundle_()
    assert set(bundle) == {"image/png", "text/plain"}
    assert base64.b64decode(bundle["image/png"], validate=True)[:4] == b"\x89PNG"
    assert bundle["text/plain"] == "Gantt(gpipe, K=4, M=8, makespan=33)"
    assert pyplot.get_fignums() == []


def test_bundles_are_deterministic_and_hold_no_address():
    pytest.importorskip("matplotlib")
    one, two = (ge.gpipe(2, 2)._repr_mimebundle_() for _ in range(2))
    assert one == two == ge.simulate(ge.gpipe(2, 2))._repr_mimebundle_()
    assert not re.search(r"0x[0-9a-f]+", one["text/plain"])


def test_the_line_says_when_times_were_measured():
    pytest.importorskip("matplotlib")
    spans = ge.simulate(ge.gpipe(2, 2)).spans
    line = Timeline(spans, 2, source="measured", unit="s")._repr_mimebundle_()["text/plain"]
    assert line == "Gantt(K=2, M=2, makespan=9 s, measured)"


def test_a_schedule_that_cannot_run_says_why():
    schedule = ge.Schedule.parse("F0 B0\nF0")
    (message,) = [problem.message for problem in schedule.problems()]
    bundle = schedule._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/png"}, "it is drawn as far as it goes"
    assert bundle["text/plain"].endswith(f"cannot run:\n{message}")
    assert set(ge.Schedule([])._repr_mimebundle_()) == {"text/plain"}


def test_without_matplotlib_the_chart_is_text():
    out = printed(WITHOUT)
    assert "image/png" not in out
    assert "device 0  F0- F1- " in out


def test_in_a_browser_the_chart_is_svg_and_matplotlib_stays_away(monkeypatch):
    monkeypatch.setattr(sys, "platform", "emscripten")
    monkeypatch.setitem(sys.modules, "gpipe_edu.view.matplotlib_painter", None)
    bundle = ge.simulate(ge.gpipe(2, 2))._repr_mimebundle_()
    assert bundle["image/svg+xml"] == ge.simulate(ge.gpipe(2, 2)).to_svg()
    assert set(bundle) == {"image/svg+xml", "text/plain"}


def test_for_a_page_the_chart_is_svg_that_follows_it(monkeypatch):
    monkeypatch.setenv("GPIPE_EDU_THEME", "page")
    bundle = ge.simulate(ge.gpipe(2, 2))._repr_mimebundle_()
    assert set(bundle) == {"image/svg+xml", "text/plain"}
    assert bundle["image/svg+xml"] == render(ge.simulate(ge.gpipe(2, 2)), theme="page")


def test_importing_the_package_loads_no_plotting_library():
    code = "import sys, gpipe_edu, gpipe_edu.view; print([m for m in ('matplotlib', 'rich') if m in sys.modules])"
    assert printed(code) == "[]\n"
