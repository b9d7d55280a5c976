"""A prediction in real hosts: by keyboard alone, no key reaches the notebook, no answer reaches the page too early."""

import re

import pytest

from gpipe_edu.base.store import HOME
from gpipe_edu.course.predictions import question
from tests.amount import third

from . import chrome

pytestmark = pytest.mark.slow

KEY = "03/deadlock"
WORDS = ".ge-prediction-words p"
OTHER = "03/loop"
WRONG = "32."  # an option of 03/loop, whose letter is another one for each learner


@pytest.fixture(params=third(["lab", "notebook"]))
def host(request):
    return request.getfixturevalue(request.param)


def asking(name, key, *cells):
    """A notebook with that question, whose learner has answered none."""
    home = f"import os\nos.environ['{HOME}'] = os.path.abspath('{name}')"
    return name, f'{home}\nfrom gpipe_edu.course import predict\npredict("{key}")', *cells


def checked(page):
    return page.eval_on_selector_all(".ge-prediction input", "all => all.filter(x => x.checked).map(x => x.value)")


def test_it_is_answered_by_keyboard_and_remembered_after_a_restart(host):
    secret = question.find(KEY).because[:30]
    page = host.run_all(*asking("asked", KEY, ""))
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
    host.run_all("asked")
    page.wait_for_selector(WORDS)
    assert checked(page) == ["B"]
    assert chrome.our_problems(page) == []


def test_a_commit_after_a_kernel_restart_says_to_run_the_cell_again(host):
    page = host.run_all(*asking("restarted", OTHER, "print('the answer')"), given_back=True)
    page.wait_for_selector(".ge-prediction")
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.check(f'.ge-prediction label:has-text("{WRONG}") input')
    page.click(".ge-prediction button")
    page.wait_for_function("() => document.querySelector('.ge-prediction-hint').innerText.includes('run this cell')")


def test_run_all_gives_back_what_is_lined_up_behind_an_open_question(host):
    outputs = "() => jupyterapp.shell.currentWidget.content.model.cells.get(1).outputs.length"
    page = host.run_all(*asking("lined_up", OTHER, "print('the answer')"), given_back=True)
    page.wait_for_selector(".ge-prediction")
    assert page.evaluate(outputs) == 0
    assert "[*]" not in page.inner_text(".jp-Notebook"), "no cell looks as if it ran"
    page.check(f'.ge-prediction label:has-text("{WRONG}") input')
    page.click(".ge-prediction button")
    page.wait_for_selector(WORDS)
    assert page.inner_text(".ge-prediction-title") == "\u2717 Not so"
    host.run_all("lined_up")
    page.wait_for_selector(WORDS)
    assert page.evaluate(outputs) == 1
