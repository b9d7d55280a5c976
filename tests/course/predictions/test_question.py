"""Questions are found by their key, and every slip, a learner's or a writer's, is named with what is allowed."""

import json
from pathlib import Path

import pytest

import gpipe_edu as ge
from gpipe_edu.base import store
from gpipe_edu.course.predictions import question
from gpipe_edu.course.predictions.choice import Choice
from tests.each import each

GOOD = """
[first]
question = "Which?"
options = ["one", "two"]
answer = "B"
wrong.A = "One is too few."
because = "Two it is."
"""
PICTURED = {
    "bar": """
chart = { schedule = "gpipe", K = 2, M = 2, until = 4 }
longest = 12
answer = 9
near = 1
step = 0.5
low = "Too soon."
high = "Too late."
""",
    "click": """
chart = { schedule = "gpipe", K = 2, M = 2 }
among = "B"
answer = "B1@1"
device = "Wrong device."
other = "Wrong op."
""",
    "curve": """
at = [1, 2, 4]
answer = [0.8, 0.4, 0.2]
across = "M"
up = "bubble"
near = 0.1
low = "Too low."
high = "Too high."
""",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(question, "_folder", lambda: tmp_path)
    (tmp_path / "77.toml").write_text(GOOD, encoding="utf-8")
    return tmp_path


def test_an_entry_becomes_a_question_with_letters(folder):
    found = question.find("77/first")
    assert found == Choice("77/first", "Which?", "Two it is.", {"A": "one", "B": "two"}, "B", {"A": "One is too few."})
    assert [name for name in question.lessons() if not name.startswith("ex")] == ["77"]
    assert question.keys("77") == ["77/first"]


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("first", "lessons with predictions are 77"),
        ("78/first", "lessons with predictions are 77"),
        ("../77/first", "lessons with predictions are 77"),
        ("77", "lesson 77 has first"),
        ("77/frist", 'did you mean "77/first"'),
    ],
)
def test_a_key_that_does_not_exist_is_told_those_that_do(folder, key, told):
    with pytest.raises(ValueError, match=told):
        question.find(key)


def test_what_is_no_key_is_a_type_error(folder):
    with pytest.raises(TypeError, match="must be text"):
        question.find(77)


def test_a_letter_may_be_small_and_have_space_around_it(folder):
    asked = question.find("77/first")
    assert [asked.read(given) for given in ("A", "b", " B ")] == ["A", "B", "B"]


@pytest.mark.parametrize("given", ["C", "", "AB", "one", "1"])
def test_another_option_is_refused_with_those_allowed(folder, given):
    with pytest.raises(ValueError, match="77/first allows A or B"):
        question.find("77/first").read(given)


@pytest.mark.parametrize("given", [1, None, True, ["A"]])
def test_what_is_no_option_is_a_type_error(folder, given):
    with pytest.raises(TypeError, match="must be A or B, as text"):
        question.find("77/first").read(given)


@pytest.mark.parametrize(
    ("slip", "told"),
    [
        ('answer = "B"', "must have answer, because, options, question, wrong"),
        ('wrong.B = "No."', "must tell of A why it is wrong"),
        ('wrong.A = ""', "empty text"),
        ('kind = "guess"', "must be one of choice, bar, click, curve"),
        ('answer = "C"', "must be A or B"),
        ('answer = "b"', "must be A or B"),
        ('options = ["one"]', "2 to 6 texts"),
        ('options = "one two"', "2 to 6 texts"),
        ('options = ["one", " "]', "empty text"),
        ('options = ["one", 2]', "no text"),
        ('because = ""', "empty text"),
        ('optional = "yes"', "must be true or false"),
    ],
)
def test_a_writers_slip_is_named(folder, slip, told):
    field = slip.partition(" ")[0]
    lines = [line for line in GOOD.splitlines() if not line.startswith(field.partition(".")[0])]
    if "must have" not in told:
        lines.append(slip)
    (folder / "77.toml").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match=told):
        question.find("77/first")


def test_a_file_that_is_no_toml_is_named(folder):
    (folder / "77.toml").write_text("[first", encoding="utf-8")
    with pytest.raises(ValueError, match=r"predictions/77\.toml is not valid TOML"):
        question.find("77/first")


def test_every_file_of_predictions_has_its_lesson():
    root = Path(__file__).resolve().parents[3]
    lessons = {file.name[:2] for file in (root / "notebooks").glob("*.ipynb")}
    exercises = {f"ex{file.name.split('_')[1]}" for file in (root / "exercises").glob("exercise_*.ipynb")}
    assert lessons | exercises >= set(question.lessons())


def pictured(folder, kind, changed=""):
    text = PICTURED[kind]
    field = changed.partition(" ")[0]
    kept = [line for line in text.splitlines() if not field or not line.startswith(field)]
    lines = ["[first]", f'kind = "{kind}"', 'question = "Where?"', 'because = "So it is."', *kept, changed]
    (folder / "77.toml").write_text("\n".join(lines), encoding="utf-8")
    return question.find("77/first")


@pytest.mark.parametrize(
    ("kind", "given", "kept", "right", "told"),
    [
        ("bar", 9, 9, True, "You said 9, and 9 it is."),
        ("bar", 9.6, 9.5, True, "that is close: it is 9"),
        ("bar", 5, 5, False, "You said 5. It is 9. Too soon."),
        ("bar", 11, 11, False, "Too late."),
        ("click", "b1@1", "B1@1", True, "`B1@1` it is"),
        ("click", "B0@1", "B0@1", False, "You clicked `B0@1`. It is `B1@1`. Wrong op."),
        ("click", "B1@0", "B1@0", False, "Wrong device."),
        ("curve", (0.8, 0.5, 0.2), [0.8, 0.5, 0.2], True, "close to the right one"),
        ("curve", [0.4, 0.3, 0], [0.4, 0.3, 0], False, "Too low."),
        ("curve", [1, 1, 1], [1, 1, 1], False, "Too high."),
    ],
)
def test_what_is_dragged_clicked_or_drawn_is_judged_with_its_own_reason(folder, kind, given, kept, right, told):
    asked = pictured(folder, kind)
    assert asked.kind == kind
    assert asked.read(given) == kept
    assert asked.knows(kept)
    assert asked.right(kept) is right
    assert told in asked.explain(kept)


@pytest.mark.parametrize("kind", PICTURED)
def test_neither_a_page_nor_a_terminal_gets_the_answer_of_a_picture_before_the_commit(folder, kind):
    asked = pictured(folder, kind)
    shown = json.dumps(asked.page())
    assert "So it is." not in shown + asked.offer()
    if kind == "bar":
        assert max(box["end"] for box in asked.page()["boxes"]) <= 4
    if kind == "curve":
        assert "0.4" not in shown
    assert f'predict("{asked.key}", ' in asked.offer()
    assert asked.right(asked.read(asked.solution()))


@pytest.mark.parametrize(
    ("kind", "given", "error"),
    [
        ("bar", "9", TypeError),
        ("bar", True, TypeError),
        ("bar", 13, ValueError),
        ("bar", -1, ValueError),
        ("click", 1, TypeError),
        ("click", "F0@0", ValueError),
        ("click", "B5@0", ValueError),
        ("curve", 0.5, TypeError),
        ("curve", [0.5, "x", 1], TypeError),
        ("curve", [0.5, 0.5], ValueError),
        ("curve", [0.5, 0.5, 2], ValueError),
    ],
)
def test_an_answer_that_a_picture_does_not_allow_is_refused(folder, kind, given, error):
    asked = pictured(folder, kind)
    assert not asked.knows(given)
    with pytest.raises(error, match=r"77/first|must be"):
        asked.read(given)


@pytest.mark.parametrize(
    ("kind", "changed", "told"),
    [
        ("bar", "answer = 20", "must lie between"),
        ("bar", 'near = "1"', "must be a number"),
        ("bar", 'low = " "', "empty text"),
        ("click", 'answer = "F0@0"', "allows"),
        ("curve", "answer = [0.8, 0.4]", "wants 3 numbers"),
    ],
)
def test_a_writers_slip_in_a_picture_is_named(folder, kind, changed, told):
    with pytest.raises(ValueError, match=told):
        pictured(folder, kind, changed)


def test_the_charts_of_pictured_questions_say_what_the_simulator_says():
    """The answers stand in files; here they are worked out."""
    slow = ge.Costs(F=0.25, B=0.5)
    assert question.find("01/pipeline-speed").answer == ge.simulate(ge.gpipe(4, 4), slow).makespan
    assert question.find("00/step-end").answer == ge.simulate(ge.gpipe(4, 4)).makespan
    backwards = [span for span in ge.simulate(ge.gpipe(4, 4)).spans if span.op.kind == "B"]
    assert question.find("03/first-backward").answer == str(backwards[0].op)
    drawn = question.find("03/bubble-over-m")
    assert list(drawn.answer) == [round(ge.simulate(ge.gpipe(4, M)).bubble_fraction, 3) for M in drawn.at]


CHOICES = [
    asked
    for lesson in question.lessons()
    for asked in map(question.find, question.keys(lesson))
    if isinstance(asked, Choice)
]
CHANCE = sum(1 / len(asked.options) for asked in CHOICES)


@pytest.mark.parametrize("letter", "ABC")
def test_who_always_says_the_same_letter_is_right_as_often_as_by_chance(home, letter):
    learners = 50
    hits = 0
    for number in range(learners):
        with store.change("learner") as kept:
            kept["seed"] = str(number)
        hits += sum(asked.shuffle().solution() == letter for asked in CHOICES)
    chance = sum(1 / len(asked.options) for asked in CHOICES if letter in asked.options)  # with two options, none is C
    spread = (chance / learners) ** 0.5  # of the mean over learners; options are drawn for each anew
    assert abs(hits / learners - chance) < 3 * spread


@each("pick", [min, max])
def test_the_length_of_an_option_gives_no_answer_away(pick):
    hits = sum(pick(asked.options, key=lambda name: len(asked.options[name])) == asked.answer for asked in CHOICES)
    assert hits < CHANCE + 2 * CHANCE**0.5
