"""Whether a text is a schedule, and which."""

from pathlib import Path

import pytest

import gpipe_edu as ge
from gpipe_edu.schedule import looks_like_schedule, read_schedule_text
from tests.each import each
from tests.recipes import small_schedules

FILES = sorted(Path(__file__).with_name("files").iterdir())


def test_the_written_form_is_a_schedule_and_read_as_one():
    for schedule in small_schedules(3, 3):
        assert looks_like_schedule(str(schedule))
        assert read_schedule_text(str(schedule), schedule.name) == schedule


@pytest.mark.filterwarnings("ignore:The file has the letters")
def test_every_csv_is_a_schedule():
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        assert looks_like_schedule(text), file.name
        if file.stem == "off_by_one":
            with pytest.raises(ge.ScheduleError, match="off by one"):
                read_schedule_text(text)
        else:
            assert read_schedule_text(text, file.stem).name == file.stem


@each(
    "text, expected",
    [
        ("f0 f1 b0 w0 b1 w1\nrf0 f0 b0 sb0 w0 f1 b1 w1", "F0 F1 I0 W0 I1 W1\nF0 I0 W0 F1 I1 W1"),
        ("1 1 2 2 -2 -2 -1 -1\n1 1 2 2 -2 -2 -1 -1", str(ge.breadth_first(2, 2, 2))),
        ("[[1, 1, -1, -1],\n [1, -1, 1, -1]]", str(ge.one_f_one_b(2, 2))),
    ],
)
def test_orders_of_others_are_schedules_too(text, expected):
    assert looks_like_schedule(text)
    assert str(read_schedule_text(text)) == expected


@each(
    "text, says",
    [
        ("F0 B0\nF0 X0", 'line 2: cannot read "X0"'),
        ("# mine\nF0 F1 B1 B0\n-", "device 1 has no ops"),
        ("F0 B0\nB0 F0", "device 1 runs B0@1 before F0@1"),
        ("0F0,0B0\n1F0", "B0@1 is missing on device 1"),
        ("1 -1 0", r"order\[0\]\[2\] is 0"),
        ("f0 b0 w0\nf0 b0 y0", 'line 2: cannot read "y0"'),
    ],
)
def test_a_broken_schedule_is_a_schedule_and_gets_a_sentence(text, says):
    assert looks_like_schedule(text)
    with pytest.raises(ge.ScheduleError, match=says):
        read_schedule_text(text)


@each(
    "text",
    [
        "",
        "hello world, this is A1 text",
        '{"traceEvents": [{"ph": "X", "ts": 1}]}',
        '{"forward-0-start": 0.5}',
        "[1, 2, 3]",
        "time,value\n0.1,2e5\n",
        "- a list\n- of things",
        "#!/bin/sh\ntorchrun --nproc-per-node 2",
        "\x00\x01\x02",
    ],
)
def test_other_files_are_none(text):
    assert not looks_like_schedule(text)
