"""Questions are found by their key, and every slip, a learner's or a writer's, is named with what is allowed."""

from pathlib import Path

import pytest

from gpipe_edu.course import question

GOOD = """
[first]
question = "Which?"
options = ["one", "two"]
answer = "B"
because = "Two it is."
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(question, "_folder", lambda: tmp_path)
    (tmp_path / "77.toml").write_text(GOOD, encoding="utf-8")
    return tmp_path


def test_an_entry_becomes_a_question_with_letters(folder):
    found = question.find("77/first")
    assert found == ("77/first", "Which?", {"A": "one", "B": "two"}, "B", "Two it is.")
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
    assert [question.letter(asked, given) for given in ("A", "b", " B ")] == ["A", "B", "B"]


@pytest.mark.parametrize("given", ["C", "", "AB", "one", "1"])
def test_another_option_is_refused_with_those_allowed(folder, given):
    with pytest.raises(ValueError, match="77/first allows A or B"):
        question.letter(question.find("77/first"), given)


@pytest.mark.parametrize("given", [1, None, True, ["A"]])
def test_what_is_no_option_is_a_type_error(folder, given):
    with pytest.raises(TypeError, match="must be A or B, as text"):
        question.letter(question.find("77/first"), given)


@pytest.mark.parametrize(
    ("slip", "told"),
    [
        ('answer = "B"', "must have answer, because, options, question"),
        ('answer = "C"', "must be A or B"),
        ('answer = "b"', "must be A or B"),
        ('options = ["one"]', "2 to 6 texts"),
        ('options = "one two"', "2 to 6 texts"),
        ('options = ["one", " "]', "empty text"),
        ('options = ["one", 2]', "no text"),
        ('because = ""', "empty text"),
    ],
)
def test_a_writers_slip_is_named(folder, slip, told):
    field = slip.partition(" ")[0]
    lines = [line for line in GOOD.splitlines() if not line.startswith(field)]
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
    root = Path(__file__).resolve().parents[2]
    lessons = {file.name[:2] for file in (root / "notebooks").glob("*.ipynb")}
    exercises = {f"ex{file.name.split('_')[1]}" for file in (root / "exercises").glob("exercise_*.ipynb")}
    assert lessons | exercises >= set(question.lessons())
