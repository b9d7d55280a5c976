"""The explorer's settings against the recipes, and what they refuse."""

import pytest

import gpipe_edu as ge
from gpipe_edu.schedule.recipes import form_of
from gpipe_edu.view.gantt.settings import Settings, recognise, schedules
from tests.each import each

RECIPES = {
    "naive": ge.naive(3, 2),
    "gpipe": ge.gpipe(4, 8),
    "gpipe late": ge.gpipe(4, 8, recompute="late"),
    "gpipe early": ge.gpipe(4, 8, recompute="early"),
    "1f1b": ge.one_f_one_b(5, 7),
    "interleaved": ge.interleaved(2, 4, 3),
    "zero bubble": ge.zero_bubble(4, 6),
    "combined 1F1B": ge.combined_one_f_one_b(2, 4, 3),
    "interleaved zero bubble": ge.interleaved_zero_bubble(2, 4, 3),
    "zero bubble V": ge.zero_bubble_v(3, 6),
    "DualPipeV": ge.dual_pipe_v(3, 6),
    "breadth first": ge.breadth_first(2, 4, 3),
    "one": ge.gpipe(1, 1),
}


@each("name", RECIPES)
def test_a_recipe_is_recognised_whatever_its_name(name):
    schedule = ge.Schedule(RECIPES[name].rows, name="mine")
    settings = recognise(schedule)
    assert settings.build() == schedule
    assert (schedule.devices, schedule.micro_batches) == (settings.K, settings.M)


def test_a_schedule_of_ones_own_is_no_recipe():
    assert recognise(ge.Schedule.parse("F0 F1 B1 B0\nF0 B0 F1 B1")) is None
    assert recognise(ge.Schedule.parse("F0 B0\n-")) is None
    assert recognise(ge.Schedule([])) is None
    assert recognise(ge.naive(1, 257)) is None
    assert recognise(ge.zero_bubble_v(33, 1)) is None
    assert recognise(ge.breadth_first(2, 1, 9)) is None


@each("schedule", schedules())
@each("recompute", ["none", "late", "early"])
def test_every_choice_can_run_or_is_refused_in_one_sentence(schedule, recompute):
    if form_of(schedule).splits and recompute == "late":
        with pytest.raises(ValueError, match="no checkpointed backward C; choose early recompute or none"):
            Settings(schedule, recompute=recompute)
        return
    timeline = Settings(schedule, recompute=recompute).timeline()
    kinds = {span.op.kind for span in timeline.spans}
    assert ("R" in kinds, "C" in kinds) == (recompute == "early", recompute == "late")
    assert timeline.devices == 4


@each("recompute", ["late", "early"])
def test_recompute_of_gpipe_is_that_of_its_recipe(recompute):
    assert Settings("gpipe", 3, 5, recompute=recompute).build() == ge.gpipe(3, 5, recompute=recompute)


def test_uneven_stages_take_their_costs_so_many_times():
    timeline = Settings("gpipe", 3, 2, F=1, B=2, factors=(1, 3)).timeline()
    times = {(span.op.kind, span.op.stage): span.end - span.start for span in timeline.spans}
    assert times == {("F", 0): 1, ("F", 1): 3, ("F", 2): 1, ("B", 0): 2, ("B", 1): 6, ("B", 2): 2}


def test_transfer_time_delays_what_comes_from_elsewhere():
    assert Settings("gpipe", 2, 1, send=0.5).timeline().makespan == 3 + 3 + 2 * 0.5


def test_what_hides_of_a_block_shortens_a_step_with_blocks():
    assert [Settings("dual_pipe_v", 4, 8, F=0.5, B=1, overlap=each).timeline().makespan for each in (0, 1)] == [27, 22]
    assert Settings("dual_pipe_v", 4, 8, overlap=1, factors=(2,)).costs().overlap == 1
    assert Settings("gpipe", 4, 8, overlap=1).timeline().makespan == Settings("gpipe", 4, 8).timeline().makespan


def test_a_schedule_s_name_is_taken_as_a_terminal_takes_it():
    assert Settings("1F1B", 2, 2) == Settings("1f1b", 2, 2)
    assert Settings("Zero-Bubble").schedule == "zero_bubble"


@each(
    "wish, error, words",
    [
        ({"schedule": "pipedream"}, ValueError, "schedule is 'pipedream'; it must be one of naive, gpipe, 1f1b"),
        ({"schedule": None}, ValueError, "schedule is empty"),
        ({"recompute": "always"}, ValueError, "recompute is 'always'; it must be one of none, late, early"),
        ({"K": 65}, ValueError, "K is 65; choose 1 to 64"),
        ({"K": 0}, ValueError, "K is 0; it must be at least 1"),
        ({"K": 2.5}, TypeError, "K is 2.5; it must be a whole number"),
        ({"M": None}, ValueError, "M is empty; type a number"),
        ({"M": 300}, ValueError, "M is 300; choose 1 to 256"),
        (
            {"schedule": "interleaved", "K": 64, "V": 2},
            ValueError,
            "128 stages; choose a smaller K or V, for at most 64",
        ),
        ({"F": -1}, ValueError, "F is -1; it must be finite and at least 0"),
        ({"B": 1e9}, ValueError, "B is 1e\\+09; choose 0 to 1000"),
        ({"overlap": 1.5}, ValueError, "overlap is 1.5; choose 0 to 1"),
        ({"overlap": None}, ValueError, "overlap is empty; type a number"),
        ({"F": "two"}, TypeError, "F is 'two'; it must be a number"),
        ({"factors": [1, None]}, ValueError, "factors is empty; type a number"),
        ({"factors": [1, -2]}, ValueError, "factors\\[1\\] is -2"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_is_allowed(wish, error, words):
    with pytest.raises(error, match=words) as caught:
        Settings.of(wish)
    assert "\n" not in str(caught.value)


def test_what_is_no_setting_is_left_alone():
    assert Settings.of({"K": 3, "serial": 7, "kept": None}) == Settings(K=3)
