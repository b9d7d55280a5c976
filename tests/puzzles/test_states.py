"""The numbers that search and hints count with are those of doctor, simulator and memory."""

import pytest
from hypothesis import given

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS
from gpipe_edu.puzzles.position import Position
from gpipe_edu.puzzles.states import StateSpace
from gpipe_edu.timeline.memory import memory_over_time
from tests.amount import examples
from tests.strategies import RANDOM

from .test_par import SIZES, random_level


@pytest.mark.parametrize(("K", "M", "V", "kinds"), [*SIZES, (3, 3, 1, "FBRCIW"), (2, 3, 2, "FBRCIW")])
def test_random_play_ends_when_simulate_says_and_holds_what_memory_says(K, M, V, kinds):
    finished = []

    @examples(20)
    @given(RANDOM)
    def play(rng):
        level, _, _ = random_level(rng, K, M, V, kinds)
        model = StateSpace(level)
        state, rows, held, times = model.start, [[] for _ in range(K)], [[] for _ in range(K)], {}
        while moves := list(model.moves(state)):
            move = rng.choice(moves)
            device = move.action.device
            rows[device].append(move.op)
            held[device].append(state.held[device] + move.action.during * model.sizes[move.micro_batch])
            times[move.op] = (move.start, move.end)
            state = model.after(state, move)
        finished.append(model.done(state))
        if finished[-1]:  # else it is stuck under its cap
            timeline = ge.simulate(ge.Schedule(rows).check(), level.costs)
            assert {span.op: (span.start, span.end) for span in timeline.spans} == times
            levels = memory_over_time(timeline, level.boundary, level.interior, level.costs.sizes or None)
            assert [max(row) for row in held] == [max(amount for _, amount in level_) for level_ in levels]
            assert state.held == (0,) * K

    play()
    assert any(finished)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.key)
@examples(5)
@given(rng=RANDOM)
def test_rows_that_can_run_run_to_their_end(level, rng):
    model, state, rows = StateSpace(level), StateSpace(level).start, [[] for _ in range(level.K)]
    for _ in range(12):
        if moves := list(model.moves(state)):
            move = rng.choice(moves)
            rows[move.action.device].append(move.op)
            state = model.after(state, move)
    played = model.run(rows)
    assert played.rows == rows
    assert played.state.free == state.free


def test_what_cannot_run_stops_its_own_device_only():
    level = LEVELS[1]
    rows = [list(row) for row in ge.gpipe(3, 3).rows]
    rows[1].insert(2, rows[1].pop(3))  # B2 before F2
    played = StateSpace(level).run(rows)
    assert [len(row) for row in played.rows] == [3, 2, 2]
    assert Position(level, rows).problems[0].code == "order"
