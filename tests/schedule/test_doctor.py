"""Every way to break a schedule by hand, with the sentence that a learner gets."""

import pytest

import gpipe_edu as ge
from gpipe_edu import Op, Schedule
from gpipe_edu.schedule import CODES, KINDS
from tests.each import each


def first(text):
    """The first problem of the schedule written `text`."""
    return Schedule.parse(text).problems()[0]


EXAMPLES = [
    # code, text, op to look at, what the message must say
    ("out-of-range", "F0 F2 B2 B0\nF0 F2 B2 B0", "F2@0", ["micro-batch 2", "micro-batch 1", "device 0"]),
    ("out-of-range", "F1 B1", "F1@0", ["micro-batch 1", "micro-batch 0", "device 0"]),
    ("out-of-range", "F0 B0\nF0@2 B0@2", "F0@2", ["stage 2", "stage 1", "device 1"]),
    ("split-stage", "F0 B0\nF0 B0 F1 B1 F1@0 B1@0", None, ["stage 0"]),
    ("split-stage", "F0 F1 B1\nF0 F1 B1 B0 B0@0", "B0@0", ["B0@0", "device 1", "device 0", "stage 0"]),
    ("split-stage", "F0 B0\nF0@0 B0@0", None, ["stage 0", "device 0", "device 1"]),
    ("duplicate", "F0 F1 F0 B1 B0\nF0 F1 B1 B0", "F0@0", ["F0@0", "device 0", "twice"]),
    ("duplicate", "F0 B0\nF0 B0 B0 B0", "B0@1", ["B0@1", "device 1", "3 times"]),
    ("mixed", "F0 R0 C0", "C0@0", ["R0@0", "C0@0", "device 0"]),
    ("mixed", "F0 B0 C0", None, ["B0@0", "C0@0", "device 0"]),
    ("mixed", "F0 B0\nF0 B0 W0", None, ["B0@1", "W0@1", "device 1"]),
    ("mixed", "F0 I0 C0", None, ["I0@0", "C0@0", "device 0"]),
    ("mixed", "F0 R0 I0 W0 B0", None, ["B0@0", "I0@0", "device 0"]),
    ("missing", "F0\nF0 B0", "B0@0", ["B0@0", "device 0"]),
    ("missing", "F0 B0\nB0", "F0@1", ["F0@1", "device 1"]),
    ("missing", "F0 R0\nF0 B0", "B0@0", ["B0@0", "device 0"]),
    ("missing", "F0 W0\nF0 B0", "I0@0", ["I0@0", "device 0"]),
    ("missing", "F0 B0\nF0 I0", "W0@1", ["W0@1", "device 1"]),
    ("missing", "F0 F1 B1 B0\nF0 B0", "F1@1", ["F1@1", "device 1"]),
    ("missing", "F0 F1 C0", "C1@0", ["C1@0"]),
    ("missing", "F0 F1 I0 W0", "I1@0", ["I1@0"]),
    ("order", "B0 F0", "B0@0", ["device 0", "B0@0", "F0@0"]),
    ("order", "F0 B0\nF0 B0 R0", "B0@1", ["device 1", "B0@1", "R0@1", "recompute"]),
    ("order", "F0 I0 W0\nF0 W0 I0", "W0@1", ["device 1", "W0@1", "I0@1"]),
    ("order", "R0 F0 B0", "R0@0", ["device 0", "R0@0", "F0@0"]),
    ("order", "C0 F0", "C0@0", ["device 0", "C0@0", "F0@0"]),
    ("order", "F0 I0 R0 W0", "I0@0", ["device 0", "I0@0", "R0@0"]),
    ("order", "F0@1 F0@0 B0@1 B0@0", "F0@1", ["device 0", "F0@1", "F0@0", "stage in front"]),
    ("order", "F0@0 F0@1 B0@0 B0@1", "B0@0", ["device 0", "B0@0", "B0@1", "gradient"]),
]


@each("code, text, op, words", EXAMPLES)
def test_every_slip_gets_its_code_its_op_and_a_sentence_that_names_both(code, text, op, words):
    problem = first(text)
    assert problem.code == code
    if op is not None:
        assert str(problem.op) == op
    assert f"{problem.op}" in problem.message
    for word in words:
        assert word in problem.message


DEADLOCKS = [
    # Two devices that disagree about which micro-batch comes first.
    ("F0 B0 F1 B1\nF0 F1 B1 B0", {"B0@0", "F1@1"}),
    # Two stages on one device, in the wrong order, with the stage between them on another device.
    ("F0@2 F0@0 B0@2 B0@0\nF0@1 B0@1", {"F0@2", "F0@1"}),
    # Backward between the stages of one device.
    ("F0@0 F0@2 B0@0 B0@2\nF0@1 B0@1", {"B0@0", "B0@1"}),
    # The circle leaves out device 0, which merely waits for it.
    ("F0 F1 B0 B1\nF0 B0 F1 B1\nF0 F1 B1 B0", {"B0@1", "F1@2"}),
]


@pytest.mark.parametrize(("text", "circle"), DEADLOCKS)
def test_a_deadlock_names_every_op_of_its_circle(text, circle):
    problems = Schedule.parse(text).problems()
    assert [problem.code for problem in problems] == ["deadlock"]
    message = problems[0].message
    assert message.startswith("deadlock: ")
    for op in circle:
        assert f"{op} on device" in message
    assert str(problems[0].op) in circle


def test_each_link_of_the_chain_says_who_waits_for_what_and_what_stands_before_it():
    assert first("F0 B0 F1 B1\nF0 F1 B1 B0").message == (
        "deadlock: B0@0 on device 0 waits for B0@1, which device 1 runs after F1@1;\n"
        "          F1@1 on device 1 waits for F1@0, which device 0 runs after B0@0"
    )


def test_a_circle_through_three_devices_has_three_links():
    # Stage 0 and 3 on device 0, 1 on device 1, 2 on device 2: F0@3 stands before F0@0, on which all others wait.
    rows = "F0@3 F0@0 B0@3 B0@0\nF0@1 B0@1\nF0@2 B0@2"
    problem = first(rows)
    assert problem.code == "deadlock"
    for op, device in (("F0@3", 0), ("F0@2", 2), ("F0@1", 1)):
        assert f"{op} on device {device} waits" in problem.message
    assert problem.message.count("waits for") == 3


def test_an_op_never_stands_behind_itself():
    message = first("F0@2 F0@0 B0@2 B0@0\nF0@1 B0@1").message
    assert "F0@1, which device 1 runs after F0@1" not in message
    assert "F0@0, which device 0 runs after F0@2" in message


def test_no_ops_and_devices_without_ops_are_empty():
    assert Schedule([]).problems()[0].code == "empty"
    assert [problem.code for problem in Schedule([[], []]).problems()] == ["empty"]
    lonely = Schedule.parse("F0 B0\n-\n-").problems()
    assert [problem.code for problem in lonely] == ["empty", "empty"]
    assert "device 1" in lonely[0].message
    assert "device 2" in lonely[1].message
    assert lonely[0].op is None


def test_every_code_is_explained_and_every_explained_code_has_an_example():
    shown = {code for code, *_ in EXAMPLES} | {"deadlock", "empty", "unreadable"}
    assert shown == set(CODES)


def test_an_op_on_another_device_is_blamed_where_it_is_not_where_most_ops_are():
    (problem,) = Schedule.parse("F0 F1 B1\nF0 F1 B1 B0 B0@0").problems()
    assert "B0@0 is on device 1" in problem.message
    assert "stage 0 is on device 0" in problem.message


def test_all_problems_of_one_kind_are_listed_and_later_kinds_wait():
    problems = Schedule.parse("F0 F0 F1 F1 B1\nF0 F1 B1 B0").problems()
    assert [(problem.code, str(problem.op)) for problem in problems] == [("duplicate", "F0@0"), ("duplicate", "F1@0")]


def test_the_five_ways_to_finish_a_micro_batch_and_no_others():
    legal = {"B", "RB", "C", "IW", "RIW"}
    letters = "RBCIW"
    for bits in range(1, 32):
        chosen = "".join(kind for bit, kind in enumerate(letters) if bits >> bit & 1)
        order = sorted(chosen, key="RICBW".index)  # R first and W last: an order that suits every legal way
        problems = Schedule([[Op("F", 0, 0), *(Op(kind, 0, 0) for kind in order)]]).problems()
        assert (not problems) == (chosen in legal), chosen
        assert all(problem.code in {"missing", "mixed"} for problem in problems), chosen


def test_the_sentences_use_no_code_words():
    for _, text, _, _ in EXAMPLES:
        message = first(text).message
        assert "\n" not in message
        assert not any(word in message for word in ("None", "Op(", "{", "}", "frozenset"))
        assert len(message) < 250


def test_a_huge_index_is_refused_at_once_not_counted_up_to():
    problems = Schedule([[Op("F", 0, 0), Op("B", 0, 0), Op("F", 10**12, 0)]]).problems()
    assert [problem.code for problem in problems] == ["out-of-range"]
    problems = Schedule([[Op("F", 0, 10**12), Op("B", 0, 10**12)]]).problems()
    assert {problem.code for problem in problems} == {"out-of-range"}


@each(
    "written, ways",
    [
        ("F0 F1 B0", "every stage"),
        ("F0 F1 R0 B0", "every stage, by B, or by R and B"),
        ("F0 F1 F2 R0 B0 C1", "every stage, by B, by R and B, or by C"),
        ("F0 F1 I0 W0 R1 C1", "on a stage by C, by I and W, or by R, I and W"),
    ],
)
def test_what_nobody_has_written_is_not_named(written, ways):
    assert Schedule.parse(written).problems()[0].message.endswith(ways)


def test_every_kind_can_be_missing_its_forward():
    for kind in KINDS:
        if kind != "F":
            assert Schedule([[Op(kind, 0, 0)]]).problems()[0].code == "missing"


def test_simulate_refuses_what_the_doctor_refuses_with_the_same_sentence():
    schedule = Schedule.parse("F0 B0 F1 B1\nF0 F1 B1 B0")
    with pytest.raises(ge.ScheduleError) as error:
        ge.simulate(schedule)
    assert str(error.value) == schedule.problems()[0].message


def test_numbers_from_one_are_one_problem_and_a_gap_is_one_for_each_op():
    [problem] = Schedule.parse("F1 F2 B1 B2\nF1 F2 B2 B1").problems()
    assert problem.message.endswith("micro-batches are numbered 0, 1, 2, ... without gaps. Take 1 from each")
    gaps = Schedule.parse("F0 F2 B0 B2").problems()
    assert [str(one.op) for one in gaps] == ["F2@0", "B2@0"]
    assert not any("Take 1" in one.message for one in gaps)
