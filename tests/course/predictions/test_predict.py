"""The answer is shown after a commit and never before; the first commit counts, also after a restart."""

import pytest

from gpipe_edu.base import store
from gpipe_edu.course import forget, predict
from gpipe_edu.course.predictions import option_order, question
from tests import processes

KEY = "77/first"
ENTRY = """
[first]
question = "Which *one*?"
options = ["`one`", "two", "three"]
answer = "B"
wrong = { A = "One is too few.", C = "Three is too many." }
because = "The reason is secret."
"""


@pytest.fixture(autouse=True)
def asked(tmp_path, monkeypatch):
    folder = tmp_path / "predictions"
    folder.mkdir()
    (folder / "77.toml").write_text(ENTRY, encoding="utf-8")
    monkeypatch.setattr(question, "_folder", lambda: folder)
    return folder


@pytest.fixture
def as_written(monkeypatch):
    monkeypatch.setattr(option_order, "shuffle", lambda key, items: list(items))


def printed(capsys, *arguments):
    assert predict(*arguments) is None
    return capsys.readouterr().out


def test_the_question_is_shown_without_its_answer(capsys, as_written):
    text = printed(capsys, KEY)
    assert text == printed(capsys, KEY)
    assert all(
        piece in text for piece in ("Which *one*?", "- A. one", "- B. two", "- C. three", f'predict("{KEY}", "A")')
    )
    assert "secret" not in text
    assert "It is" not in text


def test_a_wrong_and_a_right_answer_are_told_apart_and_explained(capsys, as_written):
    assert printed(capsys, KEY, "A") == "You said A. It is B. One is too few. The reason is secret.\n"
    forget(KEY)
    assert printed(capsys, KEY, "b") == "You said B, and B it is. The reason is secret.\n"


def test_the_first_answer_counts_until_it_is_forgotten(capsys, as_written):
    printed(capsys, KEY, "A")
    again = printed(capsys, KEY, "B")
    assert again.startswith("You said A. It is B.")
    assert f'forget("{KEY}")' in again
    assert "the first answer counts" not in printed(capsys, KEY, "A")
    assert "You said A. It is B. One is too few. The reason is secret." in printed(capsys, KEY)
    forget(KEY)
    assert "secret" not in printed(capsys, KEY)
    forget(KEY)


def test_it_is_kept_in_the_learners_file(capsys, as_written):
    printed(capsys, KEY, "A")
    assert store.read("predictions") == {KEY: "A"}


@pytest.mark.parametrize("kept", ["D", 3, None, ["A"], {"A": 1}])
def test_an_answer_that_a_new_edition_does_not_know_may_be_given_again(capsys, as_written, kept):
    with store.change("predictions") as answers:
        answers[KEY] = kept
    assert "secret" not in printed(capsys, KEY)
    assert printed(capsys, KEY, "B").startswith("You said B, and B it is.")


def test_where_nothing_can_be_kept_the_answer_is_shown_all_the_same(capsys, as_written, monkeypatch, tmp_path):
    file = tmp_path / "a file, no folder"
    file.write_text("", encoding="utf-8")
    monkeypatch.setenv(store.HOME, str(file))
    assert "Commit with" in printed(capsys, KEY)
    text = printed(capsys, KEY, "A")
    assert text.startswith("You said A. It is B. One is too few. The reason is secret.")
    assert "could not be kept" in text
    assert store.HOME in text


@pytest.mark.parametrize("wrong", [(KEY, "D"), ("77/other", "A"), ("other", None)])
def test_a_slip_is_an_error_and_keeps_nothing(wrong):
    with pytest.raises(ValueError, match="77"):
        predict(*wrong)
    assert store.read("predictions") == {}


def test_forgetting_what_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match="lesson 77 has first"):
        forget("77/other")


def test_in_a_terminal_it_needs_no_notebook_library():
    program = """
import sys
from gpipe_edu.course.predictions import option_order
from gpipe_edu.course import predict
predict("03/deadlock")
predict("03/deadlock", "C")
print([name for name in ("IPython", "anywidget", "ipywidgets", "markdown_it", "torch") if name in sys.modules])
"""
    lines = processes.printed(program).splitlines()
    assert any(line.startswith("You said C") for line in lines)
    assert lines[-1] == "[]"


def test_each_learner_has_an_order_of_options_that_stays(home, capsys):
    orders = set()
    for number in range(20):
        with store.change("learner") as kept:
            kept["seed"] = str(number)
        text = printed(capsys, KEY)
        assert text == printed(capsys, KEY)
        orders.add(tuple(text.index(option) for option in ("one\n", "two\n", "three\n")))
    assert len(orders) > 3


def test_a_letter_means_the_option_that_the_learner_sees(capsys, monkeypatch):
    monkeypatch.setattr(option_order, "shuffle", lambda key, items: ["C", "A", "B"])
    assert "- A. three\n- B. one\n- C. two\n" in printed(capsys, KEY)
    assert printed(capsys, KEY, "A") == "You said A. It is C. Three is too many. The reason is secret.\n"
    assert store.read("predictions") == {KEY: "C"}, "kept is the letter of the file, which no other order changes"
    assert "(Not B: the first answer counts." in printed(capsys, KEY, "B")
    forget(KEY)
    assert printed(capsys, KEY, "c") == "You said C, and C it is. The reason is secret.\n"


def test_the_order_is_drawn_once_and_kept(home, capsys):
    text = printed(capsys, KEY)
    assert set(store.read("learner")) == {"seed"}
    assert text == printed(capsys, KEY)
