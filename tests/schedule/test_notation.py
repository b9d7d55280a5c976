"""The written form: what a learner types, read back exactly, and refused with line and word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpipe_edu as ge
from gpipe_edu import Op, Schedule
from tests.each import each
from tests.recipes import recompute_and_split, small_schedules


def test_every_recipe_survives_being_written_and_read():
    for schedule in [*small_schedules(4, 5), recompute_and_split(3, 3)]:
        assert Schedule.parse(str(schedule)) == schedule, schedule.name


@given(st.lists(st.lists(st.builds(Op, st.sampled_from("FBRCIW"), st.integers(0, 120), st.integers(0, 4)))))
def test_any_rows_survive_being_written_and_read_legal_or_not(rows):
    assert Schedule.parse(str(Schedule(rows))) == Schedule(rows)


def test_the_written_form_of_the_simplest_pipeline():
    assert str(ge.gpipe(2, 2)) == "F0 F1 B1 B0\nF0 F1 B1 B0"
    assert str(ge.gpipe(2, 2, "early")) == "F0 F1 R1 B1 R0 B0\nF0 F1 R1 B1 R0 B0"
    assert str(ge.one_f_one_b(2, 2)) == "F0 F1 B0 B1\nF0 B0 F1 B1"


def test_the_stage_is_named_only_on_devices_that_hold_another_than_their_own():
    lines = str(Schedule([[Op("F", 0, 0)], [Op("F", 0, 1), Op("F", 0, 3)], [Op("F", 0, 0)], []])).splitlines()
    assert lines == ["F0", "F0@1 F0@3", "F0@0", "-"]


def test_a_word_without_a_stage_belongs_to_the_stage_of_its_line():
    schedule = Schedule.parse("F0 F1\nF0@0 B12")
    assert schedule.rows == ((Op("F", 0, 0), Op("F", 1, 0)), (Op("F", 0, 0), Op("B", 12, 1)))


def test_blank_lines_and_comments_do_not_count_as_devices():
    text = "\n# a schedule\n\nF0 B0   # the first device\n   \n\tF0\tB0\n# the end\n"
    assert Schedule.parse(text) == ge.naive(2, 1)


def test_a_dash_is_a_device_without_ops():
    assert Schedule.parse("F0 B0\n-").rows == ((Op("F", 0, 0), Op("B", 0, 0)), ())


def test_no_text_at_all_is_a_schedule_without_devices():
    assert Schedule.parse("").rows == ()
    assert str(Schedule([])) == ""


def test_a_schedule_that_was_read_keeps_the_name_it_is_given():
    assert Schedule.parse("F0 B0", name="mine").name == "mine"


@each(
    "word", ["X0", "F", "0F", "F-1", "F0@", "F0@x", "F0@-1", "F0,", "F0,F1", "F1.5", "FF0", "F0@1@2", "@1", "F٣", "F²"]
)
def test_an_unreadable_word_is_named_with_its_line_counted_as_an_editor_counts(word):
    with pytest.raises(ge.ScheduleError) as error:
        Schedule.parse(f"# title\nF0 B0\n\nF0 {word} B0")
    assert "line 4" in str(error.value)
    assert f'"{word}"' in str(error.value)
    assert [problem.code for problem in error.value.problems] == ["unreadable"]


def test_small_letters_get_the_advice_to_use_capitals():
    with pytest.raises(ge.ScheduleError, match='Did you mean "F0@1"'):
        Schedule.parse("f0@1")


def test_an_unknown_letter_gets_those_met_so_far_and_no_advice_about_capitals():
    with pytest.raises(ge.ScheduleError, match=r"a letter \(F, B\) and") as error:
        Schedule.parse("X0")
    assert "capitals" not in str(error.value)
    with pytest.raises(ge.ScheduleError, match=r"a letter \(F, B, I, W\) and"):
        Schedule.parse("F0 I0 X0 W0")


def test_the_first_row_after_three_quotation_marks_is_line_1():
    with pytest.raises(ge.ScheduleError, match="line 1: cannot read"):
        Schedule.parse("\nF0 X0\nF0 B0\n")
    with pytest.raises(ge.ScheduleError, match="line 2: cannot read"):
        Schedule.parse("\nF0 B0\nF0 X0\n")


def test_an_absurdly_long_number_is_refused_rather_than_tried():
    with pytest.raises(ge.ScheduleError, match="cannot read"):
        Schedule.parse("F" + "9" * 5000)


@pytest.mark.parametrize("text", [None, 3, ["F0 B0"], b"F0 B0", ge.naive(1, 1)])
def test_what_is_not_text_is_a_type_error_that_says_what_came(text):
    with pytest.raises(TypeError) as error:
        Schedule.parse(text)
    assert type(text).__name__ in str(error.value) or repr(text) in str(error.value)


@pytest.mark.parametrize(
    "line", ["F0, F1, B1, B0", "F0,F1,B1,B0", "f0 f1 b1 b0", "[F0 F1 B1 B0]", "'F0', 'F1', 'B1', 'B0'"]
)
def test_a_line_whose_meaning_is_clear_is_refused_with_the_line_to_write(line):
    with pytest.raises(ge.ScheduleError, match='Did you mean "F0 F1 B1 B0"'):
        ge.Schedule.parse(line)


@pytest.mark.parametrize("line", ["F0 B0 / F0 B0", "F0 B0|F0 B0", "f0 b0; f0 b0"])
def test_devices_that_stand_on_one_line_are_told_to_stand_on_a_line_each(line):
    with pytest.raises(ge.ScheduleError, match=r'Did you mean "F0 B0" and on the next line "F0 B0"\?$'):
        ge.Schedule.parse(line)
    with pytest.raises(TypeError, match=r"Did you mean ge\.Schedule\.parse\('F0 B0\\nF0 B0'\)\?$"):
        ge.simulate(line)


def test_a_line_whose_meaning_is_not_clear_gets_no_guess():
    for line in ("F0 F B1", "X0 F1", "0F 1F"):
        with pytest.raises(ge.ScheduleError) as refused:
            ge.Schedule.parse(line)
        assert "Did you mean" not in str(refused.value)


@pytest.mark.parametrize("draw", [ge.gantt, ge.compare, ge.simulate])
def test_text_in_a_schedule_s_place_is_refused_with_the_call_to_write(draw):
    with pytest.raises(TypeError, match=r"Did you mean ge\.Schedule\.parse\('F0 B0'\)\?"):
        draw("F0 B0")
    with pytest.raises(TypeError) as refused:
        draw("gpipe")
    assert "Did you mean" not in str(refused.value)
