"""A lecture is one file made from a plan that fits its lesson. How it shows itself: tests/browser/test_lecture.py."""

import re
import tomllib

import pytest

from gpipe_edu.cli import main
from gpipe_edu.course.building import places
from gpipe_edu.teaching.lecture.outline import numbers, read
from gpipe_edu.teaching.lecture.slides import html

each = pytest.mark.parametrize("number", numbers())


def test_the_lectures_are_those_of_four_lessons():
    assert numbers() == ["01", "03", "05", "09"]


@each
def test_it_has_words_pictures_and_votes_and_no_address(number):
    lecture = read(number)
    assert lecture.slides[0].vote is None
    assert sum(slide.vote is not None for slide in lecture.slides) >= 3
    assert sum(bool(slide.charts) for slide in lecture.slides) >= 1
    assert len({slide.title for slide in lecture.slides}) == len(lecture.slides)
    text = html(lecture)
    assert set(re.findall(r"https?://([\w.]+)", text)) <= {"www.w3.org"}  # names of formats, which nobody asks for


@pytest.mark.parametrize(
    ("slide", "told"),
    [
        ('title = "x"\nvote = "03/lop"', 'did you mean "03/loop"'),
        ('title = "x"\nvote = "03/loop"\ncode = "sched-loop"', "slide 1 has"),
        ('title = "x"\ncode = "no-such-cell"', "no code cell"),
        ('title = "x"\npicture = [{ schedule = "gpip", K = 2, M = 2 }]', "must be one of"),
        ('words = "x"', "slide 1 has"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_by_its_slide(tmp_path, slide, told):
    (tmp_path / "lectures").mkdir()
    (tmp_path / "notebooks").symlink_to(places.ROOT / "notebooks")
    (tmp_path / "lectures" / "03.toml").write_text(f'title = "t"\nminutes = 45\n[[slide]]\n{slide}\n')
    with pytest.raises(ValueError, match=told):
        read("03", tmp_path)
    with pytest.raises(ValueError, match="there is no lecture '04'; there are 03"):
        read("04", tmp_path)


def test_a_cell_of_the_lesson_is_shown_as_it_is(tmp_path):
    (tmp_path / "lectures").mkdir()
    (tmp_path / "notebooks").symlink_to(places.ROOT / "notebooks")
    plan = 'title = "t"\nminutes = 45\n[[slide]]\ntitle = "x"\ncode = "sched-first-picture"\n'
    (tmp_path / "lectures" / "03.toml").write_text(plan)
    assert "ge.gantt(plan)" in html(read("03", tmp_path))


def test_plans_hold_nothing_that_is_not_read():
    for number in numbers():
        plan = tomllib.loads((places.ROOT / "lectures" / f"{number}.toml").read_text(encoding="utf-8"))
        assert set(plan) == {"title", "minutes", "slide"}


def test_the_command_writes_it_and_refuses_what_it_cannot(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["lecture", "03", str(tmp_path / "03.html")])
    assert ended.value.code == 0
    assert (tmp_path / "03.html").stat().st_size > 100_000
    for arguments, told in (
        (["99", "x.html"], "there is no lecture '99'"),
        (["03", "no/where.html"], "does not exist"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["lecture", *arguments])
        assert ended.value.code == 2
        assert told in capsys.readouterr().err
