"""What was sent arrives, and what was cut or altered on the way is refused."""

import random
import string
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS, find_level, read, sandbox, share
from gpipe_edu.puzzles.position import Position
from gpipe_edu.puzzles.score import score
from gpipe_edu.puzzles.share import _check

from .solutions import SOLUTIONS, solved


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.key)
@given(data=st.data())
def test_any_board_of_a_level_arrives_as_it_was(level, data):
    row = st.lists(st.sampled_from(list(level.ops())), max_size=30).map(tuple)
    rows = data.draw(st.tuples(*[row] * level.K))
    assert read(share(level, rows)) == (level, rows)


def test_a_sandbox_brings_its_sizes():
    for sizes in ({}, {"K": 2, "M": 3}, {"K": 3, "M": 5, "V": 2, "B": 2.5, "send": 0.25, "cap": 7}):
        level = sandbox(**sizes)
        rows = tuple((ge.Op("F", 0, device),) for device in range(level.K))
        assert read(share(level, rows)) == (level, rows)


def test_the_largest_sandbox_can_be_shared():
    level = sandbox(K=16, M=64)
    rows = ge.gpipe(16, 64).rows
    assert read(share(level, rows)) == (level, rows)


def test_strings_are_short():
    assert len(share(find_level("1f1b"), solved("1f1b").rows)) < 45
    assert all(
        len(share(level, solved(level.key).rows)) < 3 * len(SOLUTIONS[level.key].split()) + 30 for level in LEVELS
    )


def test_every_single_change_cut_and_swap_is_refused():
    rng = random.Random(0)
    letters = string.ascii_letters + string.digits + "-_:,."
    for key in SOLUTIONS:
        text = share(find_level(key), solved(key).rows)
        wrong = {text[:at] for at in range(len(text))} | {text[at:] for at in range(1, len(text))}
        wrong |= {text[:at] + text[at + 1 :] for at in range(len(text))}
        for at in range(len(text)):
            for letter in rng.sample(letters, 12):
                wrong.add(text[:at] + letter + text[at + 1 :])
                wrong.add(text[:at] + letter + text[at:])
            other = rng.randrange(len(text))
            swapped = list(text)
            swapped[at], swapped[other] = swapped[other], swapped[at]
            wrong.add("".join(swapped))
        wrong.discard(text)
        for edit in wrong:
            with pytest.raises(ValueError, match="share string"):
                read(edit)


def test_blanks_and_line_breaks_of_a_mail_do_not_matter():
    text = share(find_level("1f1b"), solved("1f1b").rows)
    assert read(f"  {text[:15]}\n {text[15:]}\n") == read(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "this is no share string: it begins with ''"),
        ("hello", "this is no share string: it begins with 'hello'"),
        ("gpipe2:1f1b:AA:AAAAAA", "is of version 'gpipe2'; this program reads 'gpipe1'"),
        ("gpipe1:1f1b:K-9pdCzj8ohIPw", "was cut or altered: its checksum does not fit; copy it again, whole"),
        ("gpipe1:" + "A" * 200_000, "was cut or altered"),
    ],
)
def test_what_is_no_share_string_is_refused_with_a_reason(text, says):
    with pytest.raises(ValueError, match=says):
        read(text)


def forged(level_code, letters):
    """A string whose checksum fits, whatever it says."""
    body = f"gpipe1:{level_code}:{letters}"
    return f"{body}:{_check(body)}"


@pytest.mark.parametrize("key", ["1f1b", "memory-wall", "sandbox,3,3,1,2,0,"])
def test_a_forged_string_of_another_level_does_not_solve_it(key):
    letters = share(find_level("pipelining"), solved("pipelining").rows).split(":")[2]
    with suppress(ValueError):
        level, rows = read(forged(key, letters))
        assert not score(Position(level, rows)).solved


@pytest.mark.parametrize(
    ("code", "letters", "says"),
    [
        ("nowhere", "AA", "level is 'nowhere'; it must be one of"),
        ("sandbox,4", "AA", "a sandbox that cannot be"),
        ("sandbox,99,4,1,2,0,", "AA", "sandbox K is 99; it must be at most 16"),
        ("sandbox,4,4,1,nan,0,", "AA", "finite"),
        ("1f1b", "", "does not hold a board"),
        ("1f1b", "AA", "does not hold a board"),
        ("1f1b", "!!", "does not hold a board"),
        ("1f1b", "_" * 5, "does not hold a board"),
    ],
)
def test_a_forged_string_that_makes_no_sense_is_refused(code, letters, says):
    with pytest.raises(ValueError, match=says):
        read(forged(code, letters))


def test_ops_that_a_level_does_not_have_cannot_be_shared():
    with pytest.raises(ValueError, match="F9@0 cannot be shared: the level 'Pipelining' has no such op"):
        share(find_level("pipelining"), ((ge.Op("F", 9, 0),), (), ()))
    with pytest.raises(TypeError, match="share string is None"):
        read(None)
