"""A prediction in real hosts: by keyboard alone, no key reaches the notebook, no answer reaches the page too early."""

import re

import pytest

from gpipe_edu.course.predictions import question

from . import chrome, servers

KEY = "03/deadlock"
CELL = f'from gpipe_edu.course import predict\npredict("{KEY}")'
WORDS = ".ge-prediction-words p"
OTHER = CELL.replace(KEY, "03/loop")
WRONG = "32."  # an option of 03/loop, whose letter is another one for each learner


@pytest.fixture(scope="module", params=["lab", "notebook"])
def host(request, tmp_path_factory):
    if chrome.path() is None:
        pytest.skip("the browser tests need Chromium: apt-get install chromium")
    if request.param == "notebook":
        pytest.importorskip("notebook", reason="this test needs Notebook 7: pip install -r requirements-dev.txt")
    folder = tmp_path_factory.mktemp("course")
    servers.notebook(folder, "asked", CELL, "")
    servers.notebook(folder, "lined_up", OTHER, "print('the answer')")
    with servers.jupyter(folder, request.param) as address:
        yield address, request.param


def checked(page):
    return page.eval_on_selector_all(".ge-prediction input", "all => all.filter(x => x.checked).map(x => x.value)")


def test_it_is_answered_by_keyboard_and_remembered_after_a_restart(host, open_page):
    address, app = host
    asked = question.find(KEY)
    secret = asked.because[:30]
    page = open_page()
    chrome.run_all(page, address, "asked", app)
    page.wait_for_selector(".ge-prediction")
    before = chrome.cells(page)
    assert page.is_disabled(".ge-prediction button")
    page.focus(".ge-prediction input")
    for key in ("j", "a", "b", "d", "d", "ArrowDown"):
        page.keyboard.press(key)
    assert chrome.cells(page) == before
    assert checked(page) == ["B"]
    assert secret not in page.content()
    assert secret not in page.evaluate("() => JSON.stringify(jupyterapp.shell.currentWidget.content.model.toJSON())")
    page.keyboard.press("Enter")
    page.wait_for_selector(WORDS)
    assert re.match(r"You said B(, and B it is|\. It is [AC])\. ", page.inner_text(WORDS))
    assert secret in page.inner_text(WORDS)
    assert page.locator(".ge-prediction input:enabled").count() == 0
    for key in ("a", "d", "d"):
        page.keyboard.press(key)
    assert chrome.cells(page) == before, "keys still stay where the focus is"
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    chrome.run_all(page, address, "asked", app)
    page.wait_for_selector(WORDS)
    assert checked(page) == ["B"]
    assert chrome.our_problems(page) == []


def test_a_commit_after_a_kernel_restart_says_to_run_the_cell_again(host, open_page):
    address, app = host
    page = open_page()
    chrome.run_all(page, address, "lined_up", app, given_back=True)
    page.wait_for_selector(".ge-prediction")
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.check(f'.ge-prediction label:has-text("{WRONG}") input')
    page.click(".ge-prediction button")
    page.wait_for_function("() => document.querySelector('.ge-prediction-hint').innerText.includes('run this cell')")


def test_run_all_gives_back_what_is_lined_up_behind_an_open_question(host, open_page):
    address, app = host
    page = open_page()
    outputs = "() => jupyterapp.shell.currentWidget.content.model.cells.get(1).outputs.length"
    chrome.run_all(page, address, "lined_up", app, given_back=True)
    page.wait_for_selector(".ge-prediction")
    assert page.evaluate(outputs) == 0
    assert "[*]" not in page.inner_text(".jp-Notebook"), "no cell looks as if it ran"
    page.check(f'.ge-prediction label:has-text("{WRONG}") input')
    page.click(".ge-prediction button")
    page.wait_for_selector(WORDS)
    assert page.inner_text(".ge-prediction h4") == "\u2717 Not so"
    chrome.run_all(page, address, "lined_up", app)
    page.wait_for_selector(WORDS)
    assert page.evaluate(outputs) == 1
