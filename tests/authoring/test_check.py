"""`exercise check`: each kind of problem is found where it is and nowhere else, with the edit that mends it.

What can be broken at once is broken at once, because judging takes seconds; every line that is printed has to be one
that was expected.
"""

import re

import pytest

from gpipe_edu.teaching.authoring import texts
from tests.solutions.bank import everything

from .clone import BANK, FOLDER, MARKING, MASTER, WRITTEN

pytestmark = pytest.mark.slow

KEY = "ex20/way-back"
SAID = f"{FOLDER}/messages.toml"
CHECK = f"{FOLDER}/check.py"

ANSWERS = """

@BANK.wrong("nameless")
def upwards(K):
    return list(range(K))


@BANK.wrong("lost")
def nothing_is_wrong(K):
    return list(range(K))[::-1]


@BANK.wrong("forward")
def counts_up(K):
    return [*range(K)]


@BANK.right
def not_right(K):
    return [*range(K)]
"""

NEVER_ASKED = """
[predictions.never_asked]
question = "Which?"
options = ["This.", "That."]
answer = "A"
wrong.B = "No."
because = "So it is."
"""

SAME = "Each stage waits for the gradient of the one behind it, so only one order is possible."

BROKEN = [
    ("an empty sentence", SAID, 'success = "', 'success = ""  # "', [f"{SAID}: success is empty. Write"]),
    ("an empty hint", SAID, '    "In which', '    "",\n    # "In which', [f"{SAID}: hints[0] is empty. Write"]),
    ("two hints", SAID, '    "`range(K)`', '    # "`range(K)`', [f"{SAID}: the number of hints is 2, * Write 3"]),
    (
        "a short hint",
        SAID,
        '    "`reversed`',
        '    "Go.",\n    # "`reversed`',
        [f"{SAID}: hints[1] has 3 * Give it 40"],
    ),
    ("a slip without answer", SAID, "[slips]", '[slips]\nunmet = "It is unmet."', [f"{SAID}: * unmet. Add an answer"]),
    ("in the check", CHECK, '    yield Sign("lost"', '    yield Sign("unmet", False)\n    yield Sign("lost"', []),
    (
        "a slip never said",
        SAID,
        "lost = ",
        'unsaid = "It is unsaid."\nlost = ',
        [f"{SAID}: * unsaid. Take the sentence"],
    ),
    (
        "one sentence for two slips",
        SAID,
        'lost = "',
        f'lost = "{SAME}"  # "',
        [f"{SAID}: of other-order * of lost. Say"],
    ),
    (
        "no sentence, and too long",
        SAID,
        'forward = "This',
        f'forward = "{"this " * 60}',
        [f"{SAID}: of forward is said no whole sentence*", f"{SAID}: 39? characters are said of forward. Make it 300"],
    ),
    (
        "answers that get something else",
        BANK,
        "",
        ANSWERS,
        [
            f"{BANK}: an answer names the slip nameless, which has no sentence. Write its sentence",
            f"{BANK} upwards: it should get nameless, and gets forward * -k upwards shows",
            f"{BANK} nothing_is_wrong: it should get lost, and gets passed. Let examine",
            f"{BANK} not_right: it should get passed, and gets forward * Mend check.py, or the answer",
            f"{BANK}: several answers are called counts_up. Give each",
        ],
    ),
    ("a file that nobody uses", f"{FOLDER}/notes.txt", "", "Mine.", [f"{FOLDER}/notes.txt: * Import it in check.py"]),
    ("a module that nobody uses", f"{FOLDER}/old.py", "", "x = 1\n", [f"{FOLDER}/old.py: * Import it in check.py"]),
    ("a module that is used", f"{FOLDER}/used.py", "", "x = 1\n", []),
    (
        "by the check",
        CHECK,
        "from random",
        "from gpipe_edu.judge.tasks.ex20_way_back.used import x\nfrom random",
        [],
    ),
    (
        "a question without the reason",
        SAID,
        "wrong.A = ",
        "# wrong.A = ",
        [f"{SAID} [predictions.way_back]: ex20/way_back has * it must have * wrong. Mend that entry"],
    ),
    ("a question never asked", SAID, "", NEVER_ASKED, [f"{MASTER}: * ex20/never_asked is asked 0 times. Ask it once"]),
    (
        "a solution and a stub that are wrong",
        MASTER,
        "    ### BEGIN SOLUTION\n",
        "    if K:\n        return list(range(K))\n    ### BEGIN SOLUTION\n",
        [
            f"{MASTER} solution: it should get passed, and gets forward * Mend the solution",
            f"{MASTER} stub: it should get unwritten, and gets forward * Put ### BEGIN SOLUTION",
            "exercises/exercise_20_way_back.ipynb: it is not what its master says. Run: gpipe-edu build",
        ],
    ),
    (
        "two checks",
        MASTER,
        '\ncheck("ex20/way-back", way_back)\n',
        '\ncheck("ex20/way-back", way_back)\ncheck("ex20/way-back", way_back)\n',
        [f'{MASTER}: it does not check its answer once. Write check("ex20/way-back", way_back)'],
    ),
    (
        "another id",
        MASTER,
        "ex20-way-back-answer",
        "ex20-answer",
        [f"{MASTER}: no cell with the grade_id * Give the cell"],
    ),
    (
        "other points",
        MARKING,
        '"ex20/way-back" = 2',
        '"ex20/way-back" = 9',
        [f"{MARKING}: ex20/way-back is worth 9 points here and 2 in its master. Give the check cell"],
    ),
    (
        "a promise that is no slip",
        SAID,
        "hints = [",
        'promises = ["nothing"]\nhints = [',
        [f"{SAID}: ex20/way-back promises nothing, which is no slip. Name one that has a sentence"],
    ),
]
"""What is done to a finished exercise: path, old text, new text, and the beginnings of the lines that tell of it."""

FRESH = [
    *(f"{path}:*: a TODO is left: * Do it" for path in WRITTEN[2:]),
    "exercises/exercise_20_way_back.ipynb: it is not what its master says. Run: gpipe-edu build",
    f'{MARKING}: ex20/way-back has no points. Add "ex20/way-back" = 2 under [points]',
    f"{BANK}: the number of its misconceptions is 3. Write at least 8",
    f"{BANK}: the number of its right answers is 1. Write at least 2",
    f"{BANK}: no right answer has a dataclass for a helper. Use a dataclass",
    f"{BANK}: no right answer has an Enum for a helper. Use an Enum",
    f"{BANK}: no right answer has a NamedTuple for a helper. Use a NamedTuple",
    "docs/course.md: the table of exercises has no row for exercise_20_way_back. Add: | [20",
]


def tells(line, beginning):
    """Whether a line begins so; a * stands for anything."""
    return re.match(".*".join(map(re.escape, beginning.split("*"))).replace(r"\?", "."), line) is not None


def assert_told(output, beginnings):
    """Each beginning is that of a line, and no line has none."""
    *lines, last = output.splitlines()
    assert [one for one in beginnings if not any(tells(line, one) for line in lines)] == []
    assert [line for line in lines if not any(tells(line, one) for one in beginnings)] == []
    assert re.search(rf": {len(lines)} problems? \(\d+ s\)$", last)


def test_a_finished_exercise_is_all_well(finished):
    assert re.fullmatch(r"1 exercise, 10 answers: all well \(\d+ s\)\n", finished.exercise("check", KEY))


def test_a_new_one_is_told_all_that_is_left_to_do(fresh):
    assert_told(fresh.exercise("check", KEY, ends=1), FRESH)


def test_each_thing_that_is_broken_is_told_with_what_mends_it(finished_to_break):
    for _, path, old, new, _ in BROKEN:
        finished_to_break.edit(path, old, new)
    told = finished_to_break.exercise("check", KEY, ends=1)
    assert_told(told, [beginning for *_, expected in BROKEN for beginning in expected])


def test_what_cannot_be_listed_is_told_before_all_else(clone):
    folder = "gpipe_edu/judge/tasks/"
    clone.edit(f"{folder}ex02_clock/messages.toml", "title =", "title")
    clone.edit(f"{folder}ex03_accumulation/messages.toml", "title =", "titel =")
    clone.edit(f"{folder}ex06_partition/messages.toml", "hints = [", 'hints = "None."\nothers = [')
    (clone.root / f"{folder}ex07_1f1b/check.py").unlink()
    expected = [
        "ex02_clock/messages.toml: it is no TOML: * Mend that line",
        "ex03_accumulation/messages.toml: it has no title. Add title",
        "ex03_accumulation/messages.toml: titel is nothing that an exercise has. Take it away",
        "ex06_partition/messages.toml: hints has another form. Write hints as",
        "ex06_partition/messages.toml: others is nothing that an exercise has. Take it away",
        "ex07_1f1b: there is no check.py. Write check.py",
    ]
    assert_told(clone.exercise("check", "ex01/splitting", ends=1), [folder + one for one in expected])


def test_what_cannot_be_loaded_is_told_and_not_judged(clone):
    keys = ("ex01/splitting", "ex03/accumulation", "ex06/partition", "ex08/batchnorm", "ex09/cap")
    clone.edit("gpipe_edu/judge/tasks/ex01_splitting/check.py", "from __future__", "from __past__")
    clone.edit("tests/solutions/bank/ex03_accumulation.py", "BANK = ", "BANK = 1 / 0  # ")
    (clone.root / "solutions/exercise_06_partition.py").unlink()
    clone.edit("solutions/exercise_08_batchnorm.py", "    ### END SOLUTION\n", "")
    clone.edit("solutions/exercise_09_recompute.py", 'check("ex09/cap"', 'check("ex09/cap')
    expected = [
        "gpipe_edu/judge/tasks/ex01_splitting/check.py: it can't be used (ModuleNotFoundError: * Mend it",
        "tests/solutions/bank/ex03_accumulation.py: it can't be used (ZeroDivisionError: * Mend it",
        "solutions/exercise_06_partition.py: it can't be used (FileNotFoundError: * Mend it",
        "solutions/exercise_08_batchnorm.py: it can't be used (ValueError: * Mend it",
        "solutions/exercise_09_recompute.py: it can't be used (SyntaxError: * Mend it",
    ]
    assert_told(clone.exercise("check", *keys, ends=1), expected)


def test_a_key_that_does_not_exist_is_refused_with_one_that_does(finished):
    assert 'did you mean "ex20/way-back"?' in finished.exercise("check", "ex20/wayback", ends=2)


def test_a_shared_sentence_that_no_answer_meets_is_told():
    without = [entry for entry in everything() if entry.slip != "no-return"]
    (problem,) = texts.shared_slips(without)
    assert str(problem).startswith("gpipe_edu/judge/messages.toml: no answer of any bank meets the shared slip no-")
