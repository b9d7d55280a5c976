"""Predictions that are no multiple choice: dragged, clicked and drawn, by hand and by keyboard, in a real browser."""

import json

import pytest

from gpipe_edu.base import store
from gpipe_edu.course.predictions import question
from gpipe_edu.course.predictions.widget import Prediction

pytestmark = pytest.mark.slow

MODEL = """
const state = STATE;
const handlers = [];
const model = {
  get: (name) => state[name],
  send: (content) => kernel(content).then((outcome) => {
    state.outcome = outcome;
    handlers.forEach((handler) => handler());
  }),
  on: (name, handler) => handlers.push(handler),
  off: () => {},
};
render({ model, el: document.getElementById("host") });
"""
PAGE = '<!DOCTYPE html><meta charset="utf-8"><style>{}</style><main id="host"></main><script type="module">{}</script>'
KEYS = {"bar": "01/pipeline-speed", "click": "03/first-backward", "curve": "03/bubble-over-m"}


@pytest.fixture
def shown(open_page, tmp_path, monkeypatch):
    """`shown(kind)`: a page with the question of that kind, whose kernel is this process."""
    monkeypatch.setenv(store.HOME, str(tmp_path / "home"))

    def show(kind):
        widget = Prediction(question.find(KEYS[kind]), None)
        state = {name: getattr(widget, name) for name in ("kind", "question", "asked", "outcome")}
        script = widget._esm.replace("export default { render };", MODEL.replace("STATE", json.dumps(state)))
        path = tmp_path / f"{kind}.html"
        path.write_text(PAGE.format(widget._css, script), encoding="utf-8")

        def answer(content):
            widget._handle_custom_msg(content, [])
            return widget.outcome

        page = open_page()
        page.expose_function("kernel", answer)
        page.goto(path.as_uri())
        page.wait_for_selector(".ge-prediction")
        assert page.is_disabled(".ge-prediction button")
        return page

    return show


def commit(page):
    page.click(".ge-prediction button")
    page.wait_for_selector(".ge-prediction-words p")
    assert page.problems == []
    return page.inner_text(".ge-prediction-words"), page.inner_text(".ge-prediction-title")


def across(page, *points):
    """Press at the first of the points, given as shares of the picture, and drag over the others."""
    box = page.locator(".ge-prediction-picture").bounding_box()
    for number, (x, y) in enumerate(points):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=6)
        if number == 0:
            page.mouse.down()
    page.mouse.up()


def test_a_bar_is_dragged(shown):
    page = shown("bar")
    across(page, (0.9, 0.5), (0.455, 0.5))
    words, title = commit(page)
    assert title == "\u2713 Right"
    assert "it is 5.25" in words
    assert page.is_visible(".ge-prediction-truth")


def test_a_bar_is_moved_by_keyboard(shown):
    page = shown("bar")
    page.focus(".ge-prediction-mine")
    for key in ("Home", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert page.get_attribute(".ge-prediction-mine", "aria-valuenow") == "0.5"
    words, title = commit(page)
    assert title == "\u2717 Not so"
    assert words.startswith("You said 0.5. It is 5.25.")
    page.focus(".ge-prediction-mine")
    page.keyboard.press("End")
    assert page.get_attribute(".ge-prediction-mine", "aria-valuenow") == "0.5", "what is committed stays"


def test_an_op_is_clicked(shown):
    page = shown("click")
    page.click(".ge-prediction-row:nth-child(1) label >> nth=0")
    words, title = commit(page)
    assert title == "\u2717 Not so"
    assert words.startswith("You clicked B3@0. It is B3@3.")
    assert page.inner_text(".ge-prediction-hit") == "B3 \u2713"


def test_an_op_is_chosen_by_keyboard(shown):
    page = shown("click")
    page.focus(".ge-prediction-row:nth-child(4) input >> nth=0")
    page.keyboard.press("Space")
    assert commit(page)[1] == "\u2713 Right"


def test_a_curve_is_drawn_in_one_go(shown):
    page = shown("curve")
    across(page, (0.12, 0.24), (0.3, 0.35), (0.48, 0.49), (0.62, 0.62), (0.77, 0.72), (0.96, 0.77))
    words, title = commit(page)
    assert title == "\u2713 Right", words
    assert page.get_attribute(".ge-prediction-truth", "points")


def test_a_curve_is_drawn_by_keyboard_and_needs_every_point(shown):
    page = shown("curve")
    for number in range(6):
        assert page.is_disabled(".ge-prediction button")
        page.focus(f".ge-prediction-point >> nth={number}")
        page.keyboard.press("ArrowUp")
    words, title = commit(page)
    assert title == "\u2717 Not so"
    assert words.startswith("Your curve runs too high.")
