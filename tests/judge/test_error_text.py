"""What is told of an error of a learner's code."""

import sys

from gpipe_edu.judge.guest.error_text import describe_error
from tests.processes import ROOT


def test_no_error_tells_where_python_and_this_package_are():
    for place in (sys.prefix, sys.base_prefix, ROOT):
        if not str(place).startswith("/usr"):
            error = ImportError(f"cannot import name 'cut' from 'tools' ({place}/lib/tools.py)")
            assert describe_error(error, (), {})[1] == "cannot import name 'cut' from 'tools' (.../lib/tools.py)"
