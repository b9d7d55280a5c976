"""An answer made of another by changing its text is like one that was typed."""

import inspect

import pytest

from gpipe_edu.process.packing import pack

from .bank import Bank, changed

OFFSET = 1


def right(x):
    if x < 0:
        raise ValueError("below 0")
    return x + OFFSET


class Right:
    def give(self, x):
        return super().__repr__() and x + OFFSET


def test_the_text_differs_and_names_are_found():
    wrong = changed(right, "adds_more", "x + OFFSET", "x + 2 * OFFSET")
    assert wrong(3) == 5
    assert right(3) == 4
    assert changed(Right, "takes_away", "x + OFFSET", "x - OFFSET")().give(3) == 2


def test_its_lines_can_be_quoted():
    wrong = changed(right, "refuses_0", "x < 0", "x <= 0", "below 0", "not above 0")
    assert "    if x <= 0:\n" in inspect.getsource(wrong)
    assert any("if x <= 0:" in source for source in pack(wrong).sources.values())
    assert any("x - OFFSET" in source for source in pack(changed(Right, "less", "x +", "x -")).sources.values())


def test_a_text_that_is_not_there_once_is_refused():
    with pytest.raises(ValueError, match="is 0 times in right"):
        changed(right, "typo", "y + OFFSET", "y")
    with pytest.raises(ValueError, match="is 3 times in right"):
        changed(right, "vague", "x", "y")


def test_a_bank_changes_its_first_right_answer():
    bank = Bank("ex01/splitting")
    bank.right(right)
    bank.changed("more", "adds_more", "x + OFFSET", "x + 2 * OFFSET")
    assert [(entry.name, entry.slip, entry.function(1)) for entry in bank.entries] == [
        ("right", "", 2),
        ("adds_more", "more", 3),
    ]
