"""The quiz is GIFT that can be read back: every question, its options, which one is right, and what is told of each."""

import re

import pytest

from gpipe_edu.cli import main
from gpipe_edu.course import question
from gpipe_edu.grading.quiz import INVENTORY, gift, keys

OPTION = re.compile(r"(?<!\\)([=~])((?:\\.|[^\\=~#])*)#((?:\\.|[^\\=~#])*)", re.DOTALL)


def plain(text):
    return re.sub(r"\\([~=#{}:\\])", r"\1", text.strip().replace("\\n", "\n"))


def read(text):
    """What a reader of GIFT finds: {title: (question, [(right, option, feedback)])}. Questions end at blank lines."""
    found = {}
    for block in text.split("\n\n")[1:]:
        title, asked, inside = re.fullmatch(
            r"::((?:\\.|[^\\:])*)::\[markdown\]((?:\\.|[^\\{])*)\{(.*)\}\s*", block, re.DOTALL
        ).groups()
        inside = inside.partition("####")[0]
        found[plain(title)] = plain(asked), [(s == "=", plain(o), plain(f)) for s, o, f in OPTION.findall(inside)]
    return found


def test_the_inventory_has_twelve_questions_that_stand_alone():
    assert len(set(INVENTORY)) == 12
    found = read(gift(INVENTORY, "c"))
    assert list(found) == list(INVENTORY)
    for key, (asked, options) in found.items():
        one = question.find(key)
        assert asked == one.text.strip()
        assert [option for _, option, _ in options] == [text.strip() for text in one.options.values()]
        assert [right for right, _, _ in options].count(True) == 1
        assert all(told for _, _, told in options)


@pytest.mark.parametrize("lesson", [name for name in question.lessons() if keys(name)])
def test_every_lesson_can_be_a_quiz(lesson):
    assert set(read(gift(keys(lesson), "c"))) == set(keys(lesson))


def test_what_has_no_options_is_refused(tmp_path, capsys):
    with pytest.raises(ValueError, match="has no options"):
        gift(["03/bubble-over-m"], "c")
    with pytest.raises(SystemExit) as ended:
        main(["quiz", str(tmp_path / "quiz.gift")])
    assert ended.value.code == 0
    assert "12 questions" in capsys.readouterr().out
    assert (tmp_path / "quiz.gift").read_text(encoding="utf-8").startswith("$CATEGORY: gpipe_edu, inventory")
