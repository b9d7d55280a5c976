"""PyTorch's pipeline CSV: what people bring is read, what is written is read back, and what is wrong is named."""

import re
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpipe_edu as ge
from gpipe_edu import Op, Schedule
from gpipe_edu.schedule.pipeline_csv import torchtitan_flags
from gpipe_edu.schedule.recompute import with_kinds
from tests.each import each
from tests.recipes import RECIPES, small_schedules
from tests.strategies import RANDOM

FILES = Path(__file__).with_name("files")


def text_of(name):
    return (FILES / f"{name}.csv").read_text(encoding="utf-8")


def read(name):
    return Schedule.parse(text_of(name), name)


@each(
    "name, expected",
    [
        ("compute", "F0@0 F1@0 F0@2 F1@2 B0@2 B0@0 B1@2 B1@0\nF0@1 F1@1 F0@3 B0@3 F1@3 B0@1 B1@3 B1@1"),
        ("compute_spaces", "F0 F1 B0 B1\nF0 B0 F1 B1"),
        ("comms", "F0 F1 B0 B1\nF0 B0 F1 B1"),
        ("batch_p2p", "F0 F1 B0 B1\nF0 B0 F1 B1"),
        ("letters_now", "F0 F1 I0 W0 I1 W1\nF0 I0 F1 I1 W0 W1"),
        ("overlap", str(ge.dual_pipe_v(2, 4))),
        ("zb_h1_2x4", str(ge.zero_bubble(2, 4))),
        ("1f1b_fewer_micro_batches_than_ranks_4x2", str(ge.one_f_one_b(4, 2))),
    ],
)
def test_a_file_is_read_as_what_it_runs(name, expected):
    assert str(read(name).check()) == expected
    assert read(name).name == name


def test_the_letters_of_old_releases_are_read_as_what_they_meant_and_said_aloud():
    with pytest.warns(UserWarning, match="PyTorch before 2.6: its B is read as I") as told:
        assert read("letters_old") == read("letters_now")
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match="BW as B"):
        assert str(Schedule.parse("0F0,0F1,0BW0,0B1,0W1,0SEND_F_RECV_B1")) == "F0 F1 B0 I1 W1"


def test_what_pytorch_prints_of_its_own_1f1b_is_refused_by_name():
    with pytest.raises(ge.ScheduleError, match=r"line 2 has 1F1 to 1F2 and no 1F0: so PyTorch 2\.13 prints") as told:
        read("off_by_one")
    assert "off by one on the last rank; its run uses other code" in str(told.value)
    assert (told.value.problems[0].code, told.value.problems[0].op) == ("missing", Op("F", 0, 1))
    with pytest.raises(ge.ScheduleError, match="0F1 to 0F3 and no 0F0"):
        Schedule.parse("0F1,0B0,0F2,0B1,0F3,0B2")


def test_a_forward_that_is_only_missing_is_the_doctors_to_name():
    assert (
        Schedule.parse("0F0,0F1,0B0,0B1\n1F1,1B0,1B1").problems()[0].message.startswith("F0@1 is missing on device 1")
    )


def test_every_recipe_and_size_is_read_back():
    for schedule in small_schedules(4, 5):
        if any(op.kind == "R" for row in schedule.rows for op in row):
            with pytest.raises(ValueError, match=r"has R\d@0 on device 0, but .* no letter for a recompute"):
                schedule.to_csv()
        else:
            assert Schedule.parse(schedule.to_csv()) == with_kinds(schedule, {"C": "B"}), schedule.name


@pytest.mark.parametrize(
    "changed",
    [
        lambda text: "# made by hand, 0F0 first\n" + text + "# the end\n",
        lambda text: text.replace("\n", "  # a rank\n"),
        lambda text: "\n \n" + text + " , ,\n\n",
        lambda text: "\ufeff" + text.replace("\n", ",,\r\n"),
    ],
)
def test_comments_and_lines_without_cells_are_no_ranks(changed):
    for schedule in (ge.zero_bubble(1, 2), ge.one_f_one_b(2, 4), ge.interleaved(3, 3, V=2)):
        assert Schedule.parse(changed(schedule.to_csv())) == schedule
    with pytest.raises(ge.ScheduleError, match="line 3, cell 2"):
        Schedule.parse("# one\n0F0,0B0\n1F0,?,1B0")


def test_pairs_are_read_and_written():
    for M in (4, 5, 8):
        schedule = ge.dual_pipe_v(2, M)
        assert Schedule.parse(schedule.to_csv()).pairs == schedule.pairs
    assert read("overlap").pairs == ge.dual_pipe_v(2, 4).pairs
    assert not Schedule.parse(ge.dual_pipe_v(2, 4).apart().to_csv()).pairs


AROUND = ["", " ", "0UNSHARD", "3SEND_F0", "1RECV_B12", "2REDUCE_GRAD", "(0SEND_F0;0RECV_B0)BATCH_P2P"]


@given(st.sampled_from(sorted(RECIPES)), st.integers(1, 6), st.integers(1, 9), RANDOM)
def test_no_blank_and_no_message_changes_what_is_read(name, K, M, random):
    schedule = RECIPES[name](K, M)
    if any(op.kind in "RC" for row in schedule.rows for op in row):
        return
    lines = []
    for row in schedule.rows:
        cells = []
        for op in row:
            cells += random.choices(AROUND, k=random.randrange(3))
            blank = " " * random.randrange(2)
            cells.append(f"{blank}{op.stage}{op.kind}{op.micro_batch}{blank}")
        lines.append(",".join(cells))
    text = random.choice(["\n", "\r\n"]).join(lines)
    assert Schedule.parse(random.choice(["", "\ufeff", "\n"]) + text + random.choice(["", "\n", "\n\n"])) == schedule


def test_it_is_written_to_a_file_and_returned(tmp_path):
    text = ge.zero_bubble(2, 4).to_csv(tmp_path / "zb.csv")
    assert (tmp_path / "zb.csv").read_bytes().decode() == text == text_of("zb_h1_2x4")
    assert ge.one_f_one_b(4, 2).to_csv() == text_of("1f1b_fewer_micro_batches_than_ranks_4x2")


def test_a_c_is_written_as_a_backward_since_the_stage_recomputes():
    assert ge.gpipe(2, 2, "late").to_csv() == ge.gpipe(2, 2).to_csv()


def test_what_cannot_run_is_not_written(tmp_path):
    with pytest.raises(ge.ScheduleError, match="B0@0 is missing"):
        Schedule.parse("F0").to_csv(tmp_path / "no.csv")
    assert not (tmp_path / "no.csv").exists()


@each(
    "text, says",
    [
        ("0F0,0B0\n1F0,1X0,1B0", 'line 2, cell 2: cannot read "1X0"'),
        ("0F0,,0B\n", 'line 1, cell 3: cannot read "0B"'),
        ("\n0F0,0R0,0B0\n", 'line 2, cell 2: cannot read "0R0"'),
        ("0F0,0f1", 'cannot read "0f1".*Did you mean "0F1"'),
        ("0F0;0B0", 'line 1, cell 1: cannot read "0F0;0B0".*Did you mean "0F0,0B0"'),
        ("0F0 0B0", 'line 1, cell 1: cannot read "0F0 0B0".*Did you mean "0F0,0B0"'),
        ("0F0,(0F1;0SEND_F0)OVERLAP_F_B", "line 1, cell 2"),
        ("0F0,(0F1;0B0)BATCH_P2P", "line 1, cell 2"),
        ("0F0,(0F1;0B0)TOGETHER", "line 1, cell 2"),
        ("0F0,()OVERLAP_F_B", "line 1, cell 2"),
        ("0F0,0F١", "line 1, cell 2"),
        ("0F0,0F9999999999", "line 1, cell 2"),
        ("0F0,0BW0\n1F0,1I0,1W0", "line 1, cell 2 is 0BW0, as PyTorch before 2.6 .* line 2, cell 2 is 1I0"),
    ],
)
def test_what_is_no_cell_is_named_by_line_and_cell(text, says):
    with pytest.raises(ge.ScheduleError, match=says) as told:
        Schedule.parse(text)
    assert [problem.code for problem in told.value.problems] == ["unreadable"]


def test_a_line_without_ops_between_others_is_a_rank_without_ops():
    assert Schedule.parse("0F0,0B0\n\n1F0,1B0").problems()[0].message.startswith("device 1 has no ops")
    assert Schedule.parse(",,\n0F0,0B0").problems()[0].message.startswith("device 0 has no ops")


def test_what_a_spreadsheet_adds_is_no_mistake():
    assert Schedule.parse('\ufeff"0F0" , "0B0",\r\n"1F0","1B0",,\r\n') == ge.naive(2, 1)


def test_a_name_with_a_blank_is_one_word_of_torchtitans():
    assert torchtitan_flags(ge.naive(2, 1).rows, "my plan.csv").endswith("_csv 'my plan.csv'")


def test_the_written_form_stays_what_it_is():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for schedule in small_schedules(2, 2):
            assert Schedule.parse(str(schedule)) == schedule


@each(
    "schedule, dealt",
    [
        (ge.one_f_one_b(4, 2), "PipelineScheduleSingle"),
        (ge.zero_bubble(1, 2), "PipelineScheduleSingle"),
        (ge.interleaved(2, 4, 2), "PipelineScheduleMulti"),
        (ge.breadth_first(2, 4, 3), "PipelineScheduleMulti"),
        (ge.interleaved_zero_bubble(2, 4, 3), "PipelineScheduleMulti"),
        (ge.zero_bubble_v(3, 4), "ZBVZeroBubble"),
        (ge.dual_pipe_v(2, 4), "ZBVZeroBubble"),
        (Schedule.parse("F0@1 B0@1\nF0@0 B0@0"), ""),
    ],
)
def test_torchtitan_is_told_how_stages_are_dealt(schedule, dealt):
    told = torchtitan_flags(schedule.rows, "my.csv")
    assert re.findall(r"pipeline_parallel_schedule (\w+)", told) == ([dealt] if dealt else [])
    if dealt:
        assert f"pipeline_parallel_degree {schedule.devices} " in told
        assert told.endswith("--parallelism.pipeline_parallel_schedule_csv my.csv")
