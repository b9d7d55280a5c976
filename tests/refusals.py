"""What is refused, as a table: the error, what its sentence says, the call, and the values it is tried with."""

import re

import pytest


def refusals(*rows):
    """A test of rows (error, says, call), or (error, says, call, values) for a call with each of the values.

    says: a regular expression; `{}` in it stands for the value as the learner typed it.
    """
    cases = []
    for error, says, call, *values in rows:
        for given in zip(*values, strict=True) if values else [()]:
            said = says.replace("{}", "".join(re.escape(repr(value)) for value in given))
            cases.append(pytest.param(error, said, call, given, id=says))

    @pytest.mark.parametrize(("error", "says", "call", "given"), cases)
    def test(error, says, call, given):
        with pytest.raises(error, match=says):
            call(*given)

    return test
