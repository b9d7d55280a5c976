"""Everybody has puzzles of their own, with a best that is proven, and nobody else's answer is worth much there."""

import csv
import itertools
import os
import re

import pytest

from gpipe_edu.cli import main
from gpipe_edu.puzzles.par import prove
from gpipe_edu.schedule.recipes import RECIPES
from gpipe_edu.teaching.handouts.personal import FILE, answers, puzzles, read, share_earned
from tests.amount import fewer

STUDENTS = [f"student {number}" for number in range(fewer(40))]
FIRST = STUDENTS[0]


@pytest.fixture(scope="module")
def drawn():
    found, taken = {}, set()
    for name in STUDENTS:
        found[name] = puzzles("a secret word", name, 3, taken)
        taken |= {one.frame for one in found[name]}
    return found


@pytest.fixture(scope="module")
def best(drawn):
    return {name: [_solved(one) for one in found] for name, found in drawn.items()}


def _solved(one):
    """A best answer: the solver's, with the micro-batches renamed so that they come in the puzzle's order."""
    return _renamed(str(prove(one.level, 60).schedule), one)


def _renamed(text, one):
    """`text` with the micro-batches, in the order of their first F, called what they are called in `one`."""
    row = text.split("\n", 1)[0]
    names = dict(zip(re.findall(r"F(\d+)", row), one.order, strict=False))
    return re.sub(r"(?<=[FB])\d+", lambda found: str(names.get(found[0], found[0])), text)


def test_they_are_distinct_and_follow_from_secret_and_name(drawn):
    assert len({one for found in drawn.values() for one in found}) == 3 * len(drawn)
    assert puzzles("a secret word", FIRST, 1) == drawn[FIRST][:1]
    assert puzzles("another secret", FIRST, 1) != drawn[FIRST][:1]


def test_the_best_earns_everything_and_no_schedule_with_a_name_does(drawn, best):
    for name, found in drawn.items():
        for one, text in zip(found, best[name], strict=True):
            assert share_earned(one, text)[0] == 1
            for recipe in ("naive", "gpipe", "1f1b"):
                assert share_earned(one, str(RECIPES[recipe](one.K, one.M)))[0] < 1


def test_nobody_else_s_answers_earn_a_tenth_in_whichever_order_they_are_handed_in(drawn, best):
    for name, own in drawn.items():
        for other in drawn.keys() - {name}:
            assert sum(max(share_earned(one, text)[0] for text in best[other]) for one in own) / len(own) < 0.1


def test_a_neighbour_s_answers_earn_under_a_tenth_on_average_even_with_the_micro_batches_renamed(drawn, best):
    shares = [
        share_earned(one, _renamed(text, one))[0]
        for name in drawn
        for other in drawn.keys() - {name}
        for one, text in zip(drawn[name], best[other], strict=True)
    ]
    assert sum(shares) / len(shares) < 0.1


def test_the_order_in_which_the_micro_batches_come_is_kept(drawn, best):
    one, text = drawn[FIRST][0], best[FIRST][0]
    other = one._replace(order=one.order[::-1])
    share, said = share_earned(other, text)
    assert share == 0
    assert " ".join(map(str, one.order)) in said
    assert " ".join(map(str, other.order)) in said
    assert share_earned(other, _renamed(text, other))[0] == 1


def test_a_class_that_has_used_up_the_orders_is_told():
    sizes = [(K, M) for K in (2, 3, 4, 5) for M in (3, 4, 5, 6) if K * M <= 20]
    taken = {(K, order) for K, M in sizes for order in itertools.permutations(range(M)) if (K, M) not in sizes[:2]}
    assert {(one.K, one.M) for one in puzzles("a secret word", FIRST, 2, taken)} == set(sizes[:2])
    with pytest.raises(ValueError, match=r"needs 3 puzzles of different sizes, and orders .* are left for 2"):
        puzzles("a secret word", FIRST, 3, taken)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no answer"),
        ("F0 " * 5000, "too long"),
        ("nonsense", "nonsense"),
        ("F0\nF0\nF0\nF0\nF0\nF0", "device"),
        ("import os", ""),
    ],
)
def test_what_is_no_schedule_earns_nothing_and_is_told_why(drawn, text, told):
    share, said = share_earned(drawn[FIRST][0], text)
    assert share == 0
    assert told in said
    assert said


def test_answers_stand_apart_by_blank_lines():
    for end in ("\n", "\r", "\r\n"):
        assert answers("# mine\nF0 B0\nF0 B0\n\n\n F1 \n".replace("\n", end)) == ["F0 B0\nF0 B0", " F1"]


def test_sheets_are_written_once_and_marked(tmp_path, capsys):
    roster = tmp_path / "roster.csv"
    roster.write_text("First name,Last name\nAda,L\n../x,=1+1\n")
    (tmp_path / "secret").write_text("a secret word")
    command = ["personal", str(roster), str(tmp_path / "sheets"), "--secret", str(tmp_path / "secret"), "--count", "1"]

    def run(*more, ends=0):
        with pytest.raises(SystemExit) as ended:
            main([*command, *more])
        assert ended.value.code == ends
        return capsys.readouterr()

    run()
    kept = (tmp_path / "sheets" / FILE).read_text()
    roster.write_text("First name,Last name\nAda,L\n../x,=1+1\nBob,B\n")
    assert "1 of 1 sheets" in run().out
    asked = read(tmp_path / "sheets" / FILE)
    assert kept.splitlines()[1] in (tmp_path / "sheets" / FILE).read_text()
    assert len(list((tmp_path / "sheets").glob("*.html"))) == 3
    assert "par" not in (tmp_path / "sheets" / "Ada L.html").read_text().replace("parse", "")
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "Ada L.txt").write_text(_solved(asked["Ada L"][0]))
    os.mkfifo(tmp_path / "answers" / "Bob B.txt")
    run("--answers", str(tmp_path / "answers"))
    with (tmp_path / "sheets" / "personal.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["student"]: row["share"] for row in rows} == {"Ada L": "1.000", "../x =1+1": "0.000", "Bob B": "0.000"}
    assert "Bob B.txt is no regular file" in next(row["remark"] for row in rows if row["student"] == "Bob B")
    (tmp_path / "secret").write_text("short")
    assert "8 or more" in run(ends=2).err
