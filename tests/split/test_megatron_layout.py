"""Megatron-LM's layout string, read as the layers of each stage."""

import pytest

from gpipe_edu.split import balance_of_layout, layout_of_balance
from tests.each import each


@each(
    "layout, expected",
    [
        ("Et*3|(tt|)*29,m|L", (3, *[2] * 29, 0, 0)),
        ("Et*2|(tt|)*5t|tmL", (2, *[2] * 5, 1, 1)),
        ("Ett|(tt|)*6L", (2, *[2] * 6, 0)),
        ("E,t*4|t*4|t*4,L", (4, 4, 4)),
        ("Et|(t|)*30tL", (1,) * 32),
        ("E|(t|t|)*2L", (0, 1, 1, 1, 1, 0)),
        ("EL", (0,)),
    ],
)
def test_blocks_of_each_stage(layout, expected):
    assert balance_of_layout(layout) == expected


@each(
    "layout, says",
    [
        ("", "has no layer"),
        ("tE|L", "has 1 t, 1 E, 1 L; it must have one E at the beginning"),
        ("Et|mt|L", "then every t, then every m"),
        ("Et|tLL", "2 L"),
        ("Etx|L", "has 'x'; it may have E embedding"),
        ("E(t(t)*2|)*2L", "has '\\('"),
        ("Et*999999999|L", "999,999,999 letters long"),
    ],
)
def test_a_layout_that_megatron_refuses_is_refused(layout, says):
    with pytest.raises(ValueError, match=says):
        balance_of_layout(layout)


def test_a_layout_is_text():
    with pytest.raises(TypeError, match="it must be text"):
        balance_of_layout([["E", "t"], ["L"]])


def test_a_balance_is_written_as_the_layout_that_is_read_as_it():
    for blocks in ((3, 2, 2, 3), (0, 1, 7, 0), (12, 12), (1, 0, 4)):
        assert balance_of_layout(layout_of_balance(blocks)) == blocks
    assert layout_of_balance((3, 2, 2, 3)) == "Et*3|tt|tt|t*3L"
    with pytest.raises(ValueError, match="blocks has 1 stages"):
        layout_of_balance((4,))
