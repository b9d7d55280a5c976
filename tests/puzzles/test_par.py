"""The search finds what trying everything finds, and says honestly when it has not come to its end."""

import itertools

import pytest
from hypothesis import given

import gpipe_edu as ge
from gpipe_edu.puzzles import Level, find_level, lower_bound, prove, sandbox
from gpipe_edu.puzzles.par import Bounds, _moot
from gpipe_edu.puzzles.position import Position
from gpipe_edu.puzzles.states import StateSpace
from tests.amount import examples
from tests.strategies import RANDOM

from .brute import best_makespan, peak_of

pytestmark = pytest.mark.slow

SIZES = [
    # K, M, V, kinds: at most a few thousand orders each
    (1, 2, 1, "FB"),
    (1, 2, 1, "FRBC"),
    (1, 2, 1, "FIW"),
    (2, 1, 1, "FBRCIW"),
    (2, 2, 1, "FB"),
    (2, 2, 1, "FC"),
    (2, 1, 1, "FIWR"),
    (2, 1, 2, "FB"),
    (3, 1, 1, "FBIW"),
    (1, 1, 3, "FB"),
]


TIMES = (1, 1, 2, 3, 5)


def random_level(rng, K, M, V, kinds):
    """A level of this size, its costs as a plain table, and the time of sending."""
    table = {kind: tuple(rng.choice(TIMES) for _ in range(K * V)) for kind in "FBRCIW"}
    send = rng.choice((0, 0, 1, 3))
    boundary, interior = rng.choice(((0, 1), (1, 2), (1, 1)))
    least = boundary + interior
    cap = rng.choice((None, tuple(least * V + rng.randrange(0, least * M + 1) for _ in range(K))))
    sizes = [rng.choice((1, 2)) for _ in range(M)]
    longer = rng.choice((None, None, sizes, [[rng.choice((1, 1, 3)) for _ in range(M)] for _ in range(K * V)]))
    if cap and longer is sizes:
        cap = tuple(most * max(sizes) for most in cap)
    costs = ge.Costs(**table, send=send, micro_batches=longer)
    level = Level("x", "x", "x", K, M, kinds=kinds, V=V, costs=costs, cap=cap, boundary=boundary, interior=interior)
    return level, table, send


@pytest.mark.parametrize(("K", "M", "V", "kinds"), SIZES)
@examples(6)
@given(rng=RANDOM)
def test_the_best_makespan_is_that_of_trying_every_order(K, M, V, kinds, rng):
    level, table, send = random_level(rng, K, M, V, kinds)
    proof = prove(level)
    assert proof.proved
    assert proof.makespan == best_makespan(level, table, send), level
    if proof.makespan is not None:
        position = Position(level, proof.schedule.rows)
        assert position.complete
        assert position.timeline.end == proof.makespan
        rows = [[tuple(op) for op in row] for row in position.rows]
        assert position.peaks == tuple(peak_of(level, row) for row in rows)


@examples(150)
@given(RANDOM)
def test_the_bound_is_never_above_the_best(rng):
    K, M, V, kinds = rng.choice([*SIZES, (3, 3, 1, "FB"), (2, 3, 1, "FIW"), (2, 2, 2, "FB"), (3, 2, 1, "FRBC")])
    level, _, _ = random_level(rng, K, M, V, kinds)
    proof = prove(level)
    assert proof.proved
    if proof.makespan is not None:
        assert lower_bound(level) <= proof.makespan


def every_state(level, start=None):
    """The best makespan by going through every state that can be reached: no bound, no symmetry, nothing left aside."""
    model = StateSpace(level)
    here, ends = {start or model.start}, []
    while here:
        ends += [max(state.free) for state in here if model.done(state)]
        here = {model.after(state, move) for state in here for move in model.moves(state)}
    return min(ends, default=None)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("K", "M", "V", "kinds"),
    [(2, 3, 1, "FB"), (3, 2, 1, "FB"), (2, 2, 2, "FB"), (2, 2, 1, "FIW"), (2, 1, 2, "FRBC"), (2, 2, 1, "FBIW")],
)
@examples(60)
@given(rng=RANDOM)
def test_what_the_search_leaves_aside_is_never_the_best(K, M, V, kinds, rng):
    level, _, _ = random_level(rng, K, M, V, kinds)
    assert prove(level).makespan == every_state(level), level


@examples(200)
@given(RANDOM)
def test_a_device_that_could_start_a_w_at_once_is_not_taken_to_wait(rng):
    """Bounds that are too high show only where nearly every device waits: found among many random levels."""
    level, _, _ = random_level(rng, 2, 2, 2, "FIW")
    proof = prove(level)
    if proof.schedule is not None:
        swapped = neighbours(level, proof.schedule)
        assert min(swapped, default=proof.makespan) >= proof.makespan


def neighbours(level, schedule):
    """Makespans of all schedules that differ from this one by two ops that changed places."""
    for device, row in enumerate(schedule.rows):
        for a, b in itertools.combinations(range(len(row)), 2):
            rows = [list(other) for other in schedule.rows]
            rows[device][a], rows[device][b] = rows[device][b], rows[device][a]
            position = Position(level, rows)
            if position.complete:
                yield position.timeline.end


def test_states_that_differ_only_in_what_is_on_its_way_are_two():
    level = Level("x", "x", "x", 2, 2)
    model = StateSpace(level)
    state = model.start
    for _ in range(2):
        state = model.after(state, next(move for move in model.moves(state) if move.action.stage == 0))
    later = state._replace(journeys=(state.journeys[0]._replace(output=9.0), state.journeys[1]))
    bounds, seen = Bounds(model), {}
    assert not _moot(bounds, later, seen)
    assert not _moot(bounds, state, seen)
    assert _moot(bounds, state, seen)
    assert _moot(bounds, later, seen)
    assert _moot(bounds, state._replace(journeys=state.journeys[::-1]), seen)


@examples(40)
@given(RANDOM)
def test_from_the_middle_of_a_board_it_finds_the_best_way_on(rng):
    level, _, _ = random_level(rng, 2, 3, 1, "FB")
    model = StateSpace(level)
    state = model.start
    for _ in range(5):
        if moves := list(model.moves(state)):
            state = model.after(state, rng.choice(moves))
    assert prove(level, start=state).makespan == every_state(level, state)


@pytest.mark.parametrize(("K", "M"), [(2, 3), (3, 3), (3, 5), (4, 4), (4, 8)])
def test_closed_forms_are_optimal_where_they_say_so(K, M):
    assert prove(sandbox_of(K, M, "FB")).makespan == ge.formulas.makespan(K, M)
    assert prove(sandbox_of(K, M, "FB", cap=tuple(K - k for k in range(K)))).makespan == ge.formulas.makespan(K, M)
    if M >= K:
        assert prove(sandbox_of(K, M, "FIW")).makespan <= ge.formulas.makespan_zero_bubble(K, M)


def sandbox_of(K, M, kinds, **more):
    return Level("x", "x", "x", K, M, kinds=kinds, costs=ge.Costs(F=1, B=2), **more)


def test_a_level_without_any_schedule_is_proved_to_have_none():
    level = Level("x", "x", "x", 1, 1, V=2, cap=(1,))
    proof = prove(level)
    assert (proof.proved, proof.makespan, proof.schedule) == (True, None, None)
    assert str(proof).startswith("proved: no schedule can do it")


def test_a_search_that_runs_out_of_time_claims_nothing():
    level = sandbox(8, 16, cap=4)
    proof = prove(level, seconds=0)
    assert not proof.proved
    assert proof.makespan is None
    assert proof.bound >= lower_bound(level)
    assert str(proof).startswith("not proved in time")


def test_the_proof_counts_what_it_looked_at():
    proof = prove(find_level("recompute-early"))
    assert proof.states > 100
    assert f"{proof.states:,} states" in str(proof)
