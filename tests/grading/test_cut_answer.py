"""An answer is cut out as a kernel would have had it, and nothing is run for that."""

import json
import time

import pytest

from gpipe_edu.course.cut_answer import cut_answer, may_have
from gpipe_edu.course.submitted_notebook import LARGEST, Cell, Refused, read
from gpipe_edu.judge.exercise import all_exercises, find_exercise
from gpipe_edu.judge.guest.statements import make
from tests.each import each

from .classroom import CLOCK, answered, code, notebook, solved

CLOCK_TASK = find_exercise("ex02/clock")


def cells(*texts):
    """Code cells; the one that defines `clock` is the answer's, as in the exercise."""
    ids = ["ex02-clock-answer" if "def clock" in text else "" for text in texts]
    return [Cell("code", text, f"code cell {n}", i) for n, (text, i) in enumerate(zip(texts, ids, strict=True), 1)]


def made(*texts):
    answer = cut_answer(CLOCK_TASK, cells(*texts))
    assert answer.state == "cut", answer
    return answer, make(answer.parts, "clock")


def test_what_it_needs_comes_along_and_nothing_else():
    answer, function = made(
        "import math as m, sys\nimport os",
        "def helper(x):\n    return other(x) + LIMIT",
        "def unused():\n    pass\nother = lambda x: m.floor(x)",
        "LIMIT = 3\nLIMIT += 1",
        "raise SystemExit('this is run')",
        "def clock(K, M):\n    return helper(K)",
    )
    assert function(2.5, 1) == 6
    assert [text for _, _, text in answer.parts] == [
        "import math as m, sys",
        "def helper(x):\n    return other(x) + LIMIT",
        "other = lambda x: m.floor(x)",
        "LIMIT = 3",
        "LIMIT += 1",
        "def clock(K, M):\n    return helper(K)",
    ]


def test_classes_that_help_come_along_with_what_they_are_made_of():
    answer, function = made(
        "from dataclasses import dataclass, field\nfrom enum import Enum\nfrom typing import NamedTuple\nMOST = 7",
        "class Kind(Enum):\n    LONG = MOST\n    SHORT = 1",
        "class Size(NamedTuple):\n    kind: Kind\n    more: int = MOST",
        "@dataclass(order=True)\nclass Job:\n    size: 'Size'\n    seen: list = field(default_factory=list)",
        "class Unused(Enum):\n    LONG = MOST",
        "def clock(K, M):\n    job = Job(Size(Kind(M)))\n    return job.size.kind is Kind.LONG, job.size[1], job.seen",
    )
    assert function(1, 7) == (True, 7, [])
    assert [text for _, _, text in answer.parts if "Unused" in text] == []


def test_it_is_as_a_kernel_had_it_at_the_check():
    _, function = made("n = 1\ndef clock(K, M):\n    return n", "n = 2", 'check("ex02/clock", clock)', "n = 3")
    assert function(1, 1) == 2
    _, function = made("def clock(K, M):\n    return 1", "def clock(K, M):\n    return 2", "check('02-clock', clock)")
    assert function(1, 1) == 2


def test_what_a_loop_a_call_or_a_with_has_made_comes_along():
    answer, function = made(
        "import random\nimport numpy as np\ntable = []\nfor i in range(3):\n    table.append(i)",
        "seen = set()\nseen.add(2)\nrandom.seed(1)\nwith np.errstate(all='ignore'):\n    root = float(np.sqrt(-1))",
        "drawn = []\nfor i in range(3):\n    drawn.append(i)\n    display(i)",
        "cut = [0]\nfor i in range(3):\n    cut.append(1 / i)",
        "def clock(K, M):\n    i = 1\n    return table, seen, root != root, drawn, cut, random.random",
    )
    assert function(1, 1)[:-1] == ([0, 1, 2], {2}, True, [0, 1, 2], [0])
    assert "random.seed(1)" not in [text for _, _, text in answer.parts]
    assert answer.notes == ()


def test_what_a_match_has_bound_comes_along():
    answer, function = made(
        "match [1, 2, 3]:\n    case [first, *others]:\n        pass",
        "match {'K': 4, 'M': 8}:\n    case {'K': four, **rest}:\n        pass",
        "match (5, 6):\n    case (5, int()) as pair if pair:\n        unused = 1\n    case whatever:\n        pass",
        "match 7:\n    case nobody_asks:\n        pass",
        "def clock(K, M):\n    return first, others, four, rest, pair",
    )
    assert function(1, 1) == (1, [2, 3], 4, {"M": 8}, (5, 6))
    assert len(answer.parts) == 4


@pytest.mark.parametrize("kind", ["markdown", "raw"])
@pytest.mark.parametrize("stub", ["", "def clock(K, M):\n    raise NotImplementedError"])
def test_an_answer_in_a_cell_that_does_not_run_is_told(kind, stub):
    text = Cell(kind, "My answer:\n```python\ndef clock(K, M):\n    return []\n```", "code cell 1", "")
    answer = cut_answer(CLOCK_TASK, [*cells("x = 1"), text, *(cells(stub) if stub else [])])
    assert answer.state == ("unwritten" if stub else "missing")
    assert answer.notes[0].startswith(
        f"clock is in a {'Markdown' if kind == 'markdown' else 'raw'} cell after code cell 1"
    )


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_the_answer_s_own_cell_may_be_the_one_that_does_not_run(kind):
    answer = cut_answer(CLOCK_TASK, [Cell(kind, "clock = lambda K, M: []", "code cell 1", "ex02-clock-answer")])
    assert (answer.state, len(answer.notes)) == ("missing", 1)


def test_a_definition_that_fails_is_told():
    answer = cut_answer(CLOCK_TASK, cells("@lost\ndef helper():\n    pass", "def clock(K, M):\n    return helper()"))
    with pytest.raises(NameError, match="lost"):
        make(answer.parts, "clock")


@each("kind", ["chain", "semicolons", "newlines"])
def test_long_hand_ins_are_cut_in_little_time(kind):
    """Each took half a minute once, and four times that at twice the size."""
    n = 12_000
    text = {
        "chain": "\n".join(f"a{i} = a{i + 1}" for i in range(n)),
        "semicolons": ";".join(f"a{i} = a{i + 1}" for i in range(n)),
        "newlines": "\n" * 40_000 + "a0 = 1",
    }[kind]
    began = time.process_time()
    answer = cut_answer(CLOCK_TASK, cells(text, "def clock(K, M):\n    return a0"))
    assert answer.parts[-1][2] == "def clock(K, M):\n    return a0"
    assert len(answer.parts) == {"chain": n, "semicolons": n, "newlines": 1}[kind] + 1
    assert time.process_time() - began < 20


def test_line_numbers_stay_those_of_the_cell():
    answer, function = made("x = 1", "# a comment\n\n\ndef clock(K, M):\n    return 1 / 0")
    with pytest.raises(ZeroDivisionError) as caught:
        function(1, 1)
    last = caught.traceback[-1]
    assert (str(last.frame.code.raw.co_filename), last.lineno + 1) == ("code cell 2", 5)
    assert dict(answer.sources)["code cell 2"].splitlines()[4] == "    return 1 / 0"


@each(
    "text",
    [
        "%matplotlib inline\n!ls\ndef clock(K, M):\n    %time x = 1\n    return 7",
        "%%time\ndef clock(K, M):\n    return 7",
        "files = !ls\nclock?\ndef clock(K, M):\n    return 7",
        "from __future__ import annotations\nx: Unknown = 1\ndef clock(K: Unknown, M):\n    return 7",
        "if True:\n    def clock(K, M):\n        return 7",
        "try:\n    import torch_of_mine\nexcept ImportError:\n    pass\nclock = lambda K, M: 7",
    ],
)
def test_notebook_s_own_python(text):
    _, function = made(text)
    assert function(1, 1) == 7


def test_a_cell_that_is_no_python_spoils_no_other():
    answer, function = made("if this is", "%%bash\nls", "def clock(K, M):\n    return 7")
    assert function(1, 1) == 7
    assert "code cell 1, line 1" in " ".join(answer.notes)
    assert "a cell of %%bash" in " ".join(answer.notes)


def test_an_answer_that_is_no_python_is_broken_at_its_line():
    answer = cut_answer(CLOCK_TASK, cells("x = 1", "def clock(K, M):\n    return [[(t\n"))
    assert answer.state == "broken"
    assert answer.notes[0].startswith("code cell 2, line 2")


@each("key", all_exercises())
def test_a_released_notebook_is_unwritten_and_a_solved_one_whole(key):
    exercise = find_exercise(key)
    unsolved = cut_answer(exercise, read(json.dumps(notebook(exercise.notebook)).encode()))
    assert unsolved.state == ("cut" if exercise.function[0].isupper() else "unwritten")
    assert cut_answer(exercise, read(json.dumps(solved(exercise.notebook)).encode())).state == "cut"


def test_a_cell_written_below_the_check_counts_and_is_told():
    book = notebook("exercise_02_clock")
    book["cells"].append(code(CLOCK))
    answer = cut_answer(CLOCK_TASK, read(json.dumps(book).encode()))
    assert answer.state == "cut"
    assert "after its check cell" in " ".join(answer.notes)


def test_equal_answers_are_one_and_others_are_not():
    first, second = (
        cut_answer(CLOCK_TASK, read(json.dumps(answered({"ex02/clock": CLOCK})).encode())) for _ in range(2)
    )
    other = cut_answer(CLOCK_TASK, read(json.dumps(answered({"ex02/clock": CLOCK.replace("K - 1", "K")})).encode()))
    assert first.digest == second.digest != other.digest


@each(
    "text",
    ["-" * 200_000 + "1", "(" * 5000, "x" + "+x" * 50_000, "\x00", "lambda:" * 20_000 + "1", "f" + ".a" * 50_000],
)
def test_sources_that_break_parsers_break_no_teacher_s(text):
    assert cut_answer(CLOCK_TASK, cells(text)).state == "missing"


@each("data", [b"", b"{", b"[]", b"3", b'{"cells": 3}', b"\xff\x00\x01", b"[" * 100_000, b'{"a": 1}'])
def test_what_is_no_notebook_is_refused(data):
    with pytest.raises(Refused):
        read(data)


def test_what_is_too_large_is_not_parsed():
    with pytest.raises(Refused, match="20 MB"):
        read(b" " * (LARGEST + 1))
    with pytest.raises(Refused, match="characters of code"):
        read(json.dumps({"cells": [code("x = 1\n" * 200_000)]}).encode())


def test_other_encodings_formats_and_damaged_cells_are_read():
    book = answered({"ex02/clock": CLOCK})
    text = json.dumps(book)
    encoded = [text.encode(name) for name in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be")]
    for data in (*encoded, text.replace("\\n", "\\r\\n").encode()):
        assert cut_answer(CLOCK_TASK, read(data)).state == "cut"
    old = {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "input": CLOCK}, 3, {"cell_type": "code"}]}]}
    assert cut_answer(CLOCK_TASK, read(json.dumps(old).encode())).state == "cut"
    for cell in book["cells"]:  # metadata lost
        cell["metadata"] = None
    assert cut_answer(CLOCK_TASK, read(json.dumps(book).encode())).state == "cut"


@each("end", ["\n", "\r", "\r\n"])
def test_a_line_ends_where_python_ends_it_and_nowhere_else(end):
    lines = [
        "x = '\x0b\x1c\x1d\x1e\x85\u2028'",
        "\x0cy = 2  # \u2029",
        "",
        f"{CLOCK.partition(':')[0]}:",
        "    return 1 / 0",
    ]
    book = {"cells": [code(end.join(lines))]}
    for data, name in ((json.dumps(book).encode(), "code cell 1"), (end.join(lines).encode(), "clock.py")):
        answer = cut_answer(CLOCK_TASK, read(data, name))
        with pytest.raises(ZeroDivisionError) as caught:
            make(answer.parts, "clock")(1, 1)
        (line,) = answer.pack().lines([(name, caught.traceback[-1].lineno + 1, "clock")])
        assert (line.number, line.text) == (5, "return 1 / 0")


def test_an_error_in_a_python_file_shows_its_line_whichever_cell_it_is_in():
    """Only so a refusal and an unwritten stub are told from what broke."""
    for name in ("clock", "helper"):
        texts = [
            "import math",
            "def clock(K, M):\n    return helper()",
            "def helper():\n    assert math.pi > 4",
            "x = 1",
        ]
        texts[1] = texts[1] if name == "helper" else "def clock(K, M):\n    assert math.pi > 4"
        text = "\n".join(f"# %%\n{one}" for one in texts)
        answer = cut_answer(CLOCK_TASK, read(text.encode(), "clock.py"))
        with pytest.raises(AssertionError) as caught:
            make(answer.parts, "clock")(1, 1)
        number = caught.traceback[-1].lineno + 1
        assert text.splitlines()[number - 1] == "    assert math.pi > 4"
        (line,) = answer.pack().lines([("clock.py", number, name)])
        assert (line.number, line.text) == (number, "assert math.pi > 4")


@each("nothing", ["\n" * 400_000, " " * 400_000 + "x y"])
def test_a_cell_of_nothing_is_looked_through_once(nothing):
    """It took many minutes, for each task."""
    found = read(json.dumps({"cells": [code(nothing), code(CLOCK)]}).encode())
    assert may_have(CLOCK_TASK, found)
    assert cut_answer(CLOCK_TASK, found).state == "cut"


def test_half_a_pair_of_surrogates_is_as_if_it_had_been_typed_escaped():
    texts = [
        "%%ba\ud800sh\nls",
        "%ti\udfffme",
        f"y = '\ud800'\n# \udc80\n{CLOCK}\n    return y".replace("return [", "y; ["),
    ]
    answer = cut_answer(CLOCK_TASK, read(json.dumps({"cells": list(map(code, texts))}).encode()))
    assert make(answer.parts, "clock")(1, 1) == "\ud800"
    assert answer.notes == (r"code cell 1: a cell of %%ba\ud800sh is no Python, and was left out",)
    json.dumps(answer, ensure_ascii=False).encode()


def test_what_is_no_cell_is_passed_over():
    cells = [{**code(""), "source": source} for source in (3, None, {"a": 1}, True, [["x"]])]
    cells += [
        3,
        None,
        [],
        {},
        {"cell_type": ["code"], "source": ["x"]},
        {**code("y = 1"), "metadata": {"nbgrader": {"grade_id": [3]}}},
    ]
    found = read(json.dumps({"cells": [*cells, code(CLOCK)]}).encode())
    assert [(cell.source, cell.name) for cell in found if cell.source] == [
        ("y = 1", "code cell 6"),
        (CLOCK, "code cell 7"),
    ]
    old = {"worksheets": [3, {}, {"cells": 3}, {"cells": [code(CLOCK)]}]}
    assert [cell.source for cell in read(json.dumps(old).encode())] == [CLOCK]
