"""`exercise new` writes an exercise that works at once, and overwrites nothing."""

import re
import shutil

import pytest

from .clone import BANK, MASTER, WRITTEN

pytestmark = pytest.mark.slow


def test_it_writes_folder_master_and_bank_and_says_what_comes_next(fresh):
    for path in WRITTEN:
        assert f"{path}: written" in fresh.printed
        assert (fresh.root / path).is_file()
    assert "gpipe-edu build " in fresh.printed
    assert "gpipe-edu exercise check ex20/way-back " in fresh.printed


def test_what_it_writes_is_checked_built_listed_and_asks_its_question(fresh):
    assert "exercise_20_way_back.ipynb: written" in fresh.run("-m", "gpipe_edu", "build")
    assert "NotImplementedError" in (fresh.root / "exercises/exercise_20_way_back.ipynb").read_text()
    assert "ex20/way-back: passed" in fresh.run(str(fresh.root / MASTER))
    listed = fresh.run("-m", "gpipe_edu", "progress")
    assert any(line.startswith("x  ex20/way-back") for line in listed.splitlines()), listed
    question = "from gpipe_edu.course import predict; predict('ex20/way_back', 'B')"
    assert "gradients start there" in fresh.run("-c", question)
    wrong = "from gpipe_edu.course import check; check('ex20/way-back', lambda K: list(range(K)))"
    assert "only the last stage knows" in fresh.run("-c", wrong, ends=1)


def test_its_bank_is_judged_with_the_others(fresh):
    asked = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/solutions/test_bank.py")
    assert "4 passed" in fresh.run(*asked, "-k", "ex20 and gets_its_verdict")


KEYS = ["20/way", "ex20", "ex7/way", "EX20/way", "ex20/Way", "ex20/1f1b", "ex20/class", "ex20/.."]
TAKEN = {
    "ex20/other": MASTER,
    "ex02/third": "solutions/exercise_02_clock.py",
    "ex21/way-back": BANK.replace("20", "21"),
}
ASKED = """
import sys
from gpipe_edu.teaching.authoring.command import write_new
for key in sys.argv[1:]:
    try:
        print(write_new(key))
    except ValueError as error:
        print(error)
"""


def test_what_is_no_key_is_refused_with_one_that_is(fresh):
    for key, said in zip(KEYS, fresh.run("-c", ASKED, *KEYS).splitlines(), strict=True):
        assert said.startswith(f"the exercise is {key!r}; it must be ex, two digits")
        assert said.endswith("such as ex20/way-back")


def test_what_exists_is_never_overwritten(fresh):
    (fresh.root / TAKEN["ex21/way-back"]).write_text("mine")
    before = files(fresh.root)
    numbers = {path.stem.split("_")[1] for path in (fresh.root / "solutions").glob("exercise_*.py")}
    for path, said in zip(TAKEN.values(), fresh.run("-c", ASKED, *TAKEN).splitlines(), strict=True):
        assert f"{path} exists; take a free number, such as ex" in said
        assert re.search(r"such as ex(\d\d)", said)[1] not in numbers
    assert files(fresh.root) == before


def test_a_refusal_is_a_sentence_in_the_terminal(fresh):
    assert fresh.exercise("new", "ex20/way-back", ends=2).startswith("error: the exercise is 'ex20/way-back', and")


def test_outside_of_a_clone_it_says_where_exercises_are_written(clone):
    for folder, says in {"tests": "tests/solutions/bank/ is not in", "solutions": "solutions/ is not here"}.items():
        shutil.rmtree(clone.root / folder)
        before = files(clone.root)
        for command in ("new", "check"):
            assert says in clone.exercise(command, "ex20/way-back", ends=2)
        assert files(clone.root) == before


def files(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"}
