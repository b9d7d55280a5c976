"""Every answer that a page offers is judged as the question's file has it: as it is packed, and clicked in a browser.

All questions of the course stand on pages of their own here, made as those of the site are; `test_pages.py` reads what
is packed into the site's pages, each notebook having been run.
"""

import json
import re
from html import unescape

import nbformat
import pytest

from gpipe_edu.base import store
from gpipe_edu.course.predictions import question
from gpipe_edu.course.predictions.widget import Prediction
from tests.amount import third
from website import cells, in_page, pages, without_kernel

from .asked import entries, misjudged, on_page

pytestmark = pytest.mark.slow

ENTRIES = entries()
ORDERS = ["", "one learner", "another", "a third"]
"""Seeds, each with options in another order."""

COMMIT = """async (round) => {
  const forms = [...document.querySelectorAll("form.ge-prediction")];
  const asked = forms.map((form, i) => [form, i]).filter(([form]) => form.querySelectorAll("input").length > round);
  for (const [form] of asked) {
    form.querySelectorAll("input")[round].click();
    form.requestSubmit();
  }
  return asked.map(([, i]) => i);
}"""
ANSWERED = "(forms) => forms.every((i) => document.querySelectorAll('.ge-prediction-words')[i].textContent)"
SEEN = """(forms) => forms.map((i) => {
  const form = document.querySelectorAll("form.ge-prediction")[i];
  const inputs = [...form.querySelectorAll("input")];
  const having = (name) => inputs
    .filter((input) => input.closest("label").classList.contains(`ge-prediction-${name}`))
    .map((input) => input.value);
  return {
    title: form.querySelector(".ge-prediction-title").textContent,
    checked: inputs.filter((input) => input.checked).map((input) => input.value),
    text: inputs.filter((input) => input.checked).map((input) => input.closest("label").children[2]?.textContent),
    right: having("right"),
    wrong: having("wrong"),
    words: form.querySelector(".ge-prediction-words").innerText,
  };
})"""


def test_the_files_are_those_that_the_course_reads():
    assert sorted(ENTRIES) == sorted(key for lesson in question.lessons() for key in question.keys(lesson))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", ORDERS)
def test_every_answer_is_judged_as_its_file_has_it(home, seed):
    asked = on_page(page_of(ENTRIES, seed))
    assert [each["key"] for each in asked] == [*ENTRIES]
    assert [fault for each in asked for fault in misjudged(each, ENTRIES[each["key"]])] == []


def test_options_come_in_another_order_for_another_seed(home):
    shown = [[each["options"] for each in on_page(page_of(ENTRIES, seed))] for seed in ORDERS[1:3]]
    assert shown[0] != shown[1]


def test_every_option_is_clicked_and_the_chosen_one_stays_chosen(home, tmp_path, open_page):
    clicked = third([*ENTRIES])
    file = tmp_path / "site" / "notebooks" / "asked.html"
    written = page_of(clicked, "one learner")
    expected = {each["key"]: each["answers"] for each in on_page(written)}
    page, judged = open_page(), 0
    write(file, written)
    for turn in range(100):
        reopen(page, file)
        forms = page.evaluate(COMMIT, turn)
        if not forms:
            break
        page.wait_for_function(ANSWERED, arg=forms)
        seen = page.evaluate(SEEN, forms)
        for form, found in zip(forms, seen, strict=True):
            said = expected[clicked[form]][turn]
            assert found["title"] == ("✓ Right" if said["right"] else "✗ Not so")
            assert found["checked"] == [said["given"]], f"{said['given']} of {clicked[form]} was chosen"
            assert found["right"] == [said["solution"]]
            assert found["wrong"] == ([] if said["right"] else [said["given"]])
            assert bare(found["words"]) == bare(unescape(re.sub(r"<[^>]+>", "", said["words"])))
            judged += 1
        page.reload()
        page.wait_for_function(ANSWERED, arg=forms)
        assert page.evaluate(SEEN, forms) == seen, "a page that is opened again"
        if turn < 3:  # what is kept is the option, not its letter in one build
            write(file, page_of(clicked, "another"))
            page.reload()
            page.wait_for_function(ANSWERED, arg=forms)
            later = page.evaluate(SEEN, forms)
            assert [(each["text"], each["title"]) for each in later] == [(each["text"], each["title"]) for each in seen]
            write(file, written)
    assert judged == sum(len(each) for each in expected.values()) > 0
    assert page.problems == []


def test_an_answer_that_a_question_no_longer_has_leaves_it_open(home, tmp_path, open_page):
    file = tmp_path / "site" / "notebooks" / "asked.html"
    write(file, page_of(["03/loop", "03/bubble-over-m"], ""))
    page = open_page()
    page.goto(file.as_uri())
    page.evaluate(KEEP, json.dumps({"predictions": {"03/loop": "F", "03/bubble-over-m": [1, 1]}}))
    assert page.evaluate("indexedDB.databases().then((all) => all.length)") == 1, "where pages keep it"
    page.reload()
    for form in (0, 1):
        assert page.locator("form.ge-prediction").nth(form).locator("button").is_visible()
        assert page.locator(".after").nth(form).is_hidden()
    assert page.problems == []


FORGET = """async () => {
  for (const { name } of await indexedDB.databases()) {
    await new Promise((done) => (indexedDB.deleteDatabase(name).onsuccess = done));
  }
}"""

KEEP = """(content) => new Promise((done) => {
  const request = indexedDB.open(`JupyterLite Storage - ${new URL("../lab/", location).pathname}`);
  request.onsuccess = () => {
    const table = request.result.transaction("files", "readwrite").objectStore("files");
    table.put({ content }, "gpipe_edu/progress.json").onsuccess = () => (request.result.close(), done());
  };
})"""


def page_of(keys, seed):
    """A page of the site with these questions, in the order that `seed` gives."""
    with store.change("learner") as kept:
        kept["seed"] = seed or "0"
    notebook = nbformat.v4.new_notebook()
    for key in keys:
        asked = without_kernel._question(Prediction(question.find(key).shuffle(), None))
        output = nbformat.v4.new_output("display_data", {"text/html": asked})
        notebook.cells.append(nbformat.v4.new_code_cell(f'predict("{key}")', outputs=[output]))
        notebook.cells.append(nbformat.v4.new_markdown_cell("What follows."))
    body = in_page.notebook(cells.html(notebook, "notebooks/asked.ipynb", {}), "../", with_python=False)
    template = (pages.HERE / "template.html").read_text(encoding="utf-8")
    return template.format(title="asked", up="../", page="asked", banner="", body=body, next="")


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    assets = file.parent.parent / "assets"
    if not assets.exists():
        assets.mkdir()
        in_page.write_assets(assets)
        pages.write_scripts(assets, [])


def reopen(page, file):
    """The page as one sees it who has not answered yet."""
    if page.url != file.as_uri():
        page.goto(file.as_uri())
    page.evaluate(FORGET)
    page.reload()


def bare(text):
    return " ".join(text.split())
