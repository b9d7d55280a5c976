"""What is refused, as a table: the error, what its sentence says, the call, and the values it is tried with."""

import re

import pytest

from tests.each import each


def refusals(*rows):
    """A test of rows (error, says, call), or (error, says, call, values) for a call with each of the values.

    says: a regular expression; `{}` in it stands for the value as the learner typed it.
    """
    cases = []
    for error, says, call, *values in rows:
        for given in zip(*values, strict=True) if values else [()]:
            said = says.replace("{}", "".join(re.escape(repr(value)) for value in given))
            cases.append((said, error, call, given))

    @each("says, error, call, given", cases)
    def test(says, error, call, given):
        with pytest.raises(error, match=says):
            call(*given)

    return test
