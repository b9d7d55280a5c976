"""What is typed in a notebook file has the line numbers that a message about it names."""

import json
import linecache

import pytest

from gpipe_edu.course.notebook_reader import functions


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_a_message_names_the_line_whatever_stands_above_it(tmp_path, end):
    source = end.join(["x = '\x0b\x1c\u2028'", "\x0cy = 2", "def answer():", "    return 1 / 0"])
    cells = [{"cell_type": "code", "source": [source]}]
    (tmp_path / "book.ipynb").write_text(json.dumps({"cells": cells}))
    with pytest.raises(ZeroDivisionError) as caught:
        functions(tmp_path / "book.ipynb")["answer"]()
    frame = caught.traceback[-1]
    assert linecache.getline(str(frame.frame.code.raw.co_filename), frame.lineno + 1).strip() == "return 1 / 0"
