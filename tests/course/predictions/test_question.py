"""Questions are found by their key, and every slip, a learner's or a writer's, is named with what is allowed."""

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
        ('kind = "choice"', r"has \['answer', 'because', 'kind'"),
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


def test_the_right_options_say_what_the_simulator_says():
    """The answers stand in files; here they are worked out."""
    slow = ge.Costs(F=0.25, B=0.5)
    assert right("01/pipeline-speed") == f"After {ge.simulate(ge.gpipe(4, 4), slow).makespan:g} units."
    spans = ge.simulate(ge.gpipe(4, 4)).spans
    assert right("00/step-end") == f"After {spans[-1].end:g} units."
    assert max(span.end for span in spans if span.op.kind == "F") == 7
    first = next(span for span in spans if span.op.kind == "B")
    assert right("03/first-backward") == f"`B{first.op.micro_batch}` on device {first.device}."
    assert str(ge.gpipe(4, 4)).splitlines()[1] + "      device 1" in question.find("03/first-backward").text
    single, *shares = (ge.simulate(ge.gpipe(8, M)).bubble_fraction for M in (1, 8, 64))
    assert f"is {single:.1%}".replace("%", " %") in question.find("03/bubble-over-m").text
    assert right("03/bubble-over-m") == "{:.0%} and {:.0%}.".format(*shares).replace("%", " %")


def right(key):
    asked = question.find(key)
    return asked.options[asked.answer]


CHOICES = [question.find(key) for lesson in question.lessons() for key in question.keys(lesson)]
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
