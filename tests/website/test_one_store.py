"""Pages and the lab keep one learner's file, whichever of them is opened first, in a real browser."""

import pytest

from tests.website.conftest import profile_on_disk
from tests.website.test_lab import put, run, text
from tests.website.visit import SPLIT, open_notebook

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500), pytest.mark.usefixtures("with_lab")]

LESSON = "notebooks/00_start_here.ipynb"
MINE = "notebooks/mine.ipynb"
ASKED = "00/gradients"
SOLVE = """from gpipe_edu.course import check
def clock(K, M):
    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]
check("ex02/clock", clock)"""
KEPT = """
from gpipe_edu.base import store
print(sorted(store.read("predictions")), sorted(key for key, one in store.read("exercises").items() if one["passed"]))
"""
PROGRESS = "from gpipe_edu.course.progress import Progress\nprint(Progress())"
READ = """async (name) => {
  const { content } = await jupyterapp.serviceManager.contents.get(name, { content: true });
  return [content.cells[0].source].flat().join("");
}"""


@pytest.fixture
def profile(site, tmp_path):
    """For each test a browser of its own, in which neither a page nor the lab has been."""
    with profile_on_disk(tmp_path) as found:
        yield found


def test_what_is_done_on_pages_is_seen_in_the_lab_and_back(address, lab_address, open_page):
    """The page makes the database; the lab is opened for the first time then."""
    page, lab = open_page(), open_page()
    answer_a_question(page, address)
    solve_on_its_page(page, address)
    found = run_in_the_lab(lab, lab_address, {"kept": KEPT, "progress": PROGRESS, "solve": SOLVE})
    assert text(found["kept"]) == f"['{ASKED}'] ['ex01/splitting']\n"
    assert "1 of " in text(found["progress"])
    assert is_solved(page, address, "exercise_02_clock", "ex02/clock")
    assert is_solved(page, address, "exercise_01_splitting", "ex01/splitting")

    open_notebook(lab, lab_address, MINE)
    assert lab.evaluate(READ, MINE) == KEPT, "the lab still keeps files"
    assert text(run(lab)["kept"]) == f"['{ASKED}'] ['ex01/splitting', 'ex02/clock']\n"


def test_what_is_done_in_the_lab_first_stays_beside_what_pages_add(address, lab_address, open_page):
    page, lab = open_page(), open_page()
    run_in_the_lab(lab, lab_address, {"solve": SOLVE})
    assert is_solved(page, address, "exercise_02_clock", "ex02/clock")
    answer_a_question(page, address)
    solve_on_its_page(page, address)
    found = run_in_the_lab(lab, lab_address, {"kept": KEPT})
    assert text(found["kept"]) == f"['{ASKED}'] ['ex01/splitting', 'ex02/clock']\n"


def run_in_the_lab(lab, lab_address, cells):
    """Run these cells in a notebook of one's own; their outputs."""
    open_notebook(lab, lab_address, LESSON)
    put(lab, MINE, cells)
    open_notebook(lab, lab_address, MINE)
    return run(lab)


def is_solved(page, address, name, key):
    """Whether an exercise's page says so."""
    page.goto(f"{address}exercises/{name}.html")
    unfold(page)
    page.locator(f'section.cell[data-exercise="{key}"] .solved').wait_for()
    return True


def answer_a_question(page, address):
    """The question ASKED, by a letter."""
    page.goto(f"{address}notebooks/00_start_here.html")
    unfold(page)
    box = page.locator(f"""section.cell:has-text('predict("{ASKED}")') .ge-prediction""")
    box.locator('input[value="A"]').check()
    box.locator("button").click()
    box.locator(".ge-prediction-words > p").first.wait_for()


def unfold(page):
    """All that is folded away until a question is answered."""
    page.evaluate("for (const button of document.querySelectorAll('button.unfold')) button.click()")


def solve_on_its_page(page, address):
    """Exercise 01, by its editor and Check."""
    page.goto(f"{address}exercises/exercise_01_splitting.html")
    answer = page.locator('section.cell[data-exercise="ex01/splitting"]')
    unfold(page)
    answer.locator('[data-do="edit"]').click()
    answer.locator(".cm-content").fill(SPLIT)
    answer.locator('[data-do="check"]').click()
    answer.locator(".solved").wait_for()
