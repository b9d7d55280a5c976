"""Random edits of the calls of a right pipeline: the check of exercise 05 agrees with rules that are written anew."""

import itertools
import random

import pytest

from gpipe_edu.judge.tasks.ex05_wrapper.calls import Call, LayerCalls, about_recompute, signs

EDITS = 3000


def accepted(signs):
    return not any(sign.shows for sign in signs)


def right_calls(K, M, N):
    """(numbers of the samples, stage) by the clock."""
    bounds = [m * N // M for m in range(M + 1)]
    pieces = [tuple(float(n + 1) for n in range(a, b)) for a, b in itertools.pairwise(bounds)]
    return [(pieces[t - k], k) for t in range(M + K - 1) for k in range(K) if 0 <= t - k < M]


def edited(calls, rng):
    calls = list(calls)
    for _ in range(rng.choice([0, 1, 1, 2])):
        i, j = rng.randrange(len(calls)), rng.randrange(len(calls))
        kind = rng.choice(["swap", "neighbours", "drop", "double", "stage", "sample", "merge", "move"])
        if kind == "swap":
            calls[i], calls[j] = calls[j], calls[i]
        elif kind == "neighbours":
            i = min(i, len(calls) - 2)
            if i >= 0:
                calls[i], calls[i + 1] = calls[i + 1], calls[i]
        elif kind == "drop" and len(calls) > 1:
            del calls[i]
        elif kind == "double":
            calls.insert(j, calls[i])
        elif kind == "stage":
            calls[i] = (calls[i][0], calls[j][1])
        elif kind == "sample":
            calls[i] = (calls[i][0][1:], calls[i][1])
        elif kind == "merge":
            calls[i] = (calls[i][0] + calls[j][0], calls[i][1])
        elif kind == "move" and calls[i][0] != calls[j][0]:  # a sample to another micro-batch, on every stage
            a, b = calls[i][0], calls[j][0]
            new = {a: a[:-1], b: tuple(sorted(b + a[-1:]))}
            calls = [(new.get(piece, piece), k) for piece, k in calls]
    return calls


def legal(calls, K, M, N):
    """Every stage gets the same M pieces, which are the batch cut in order, each once; by tick, in order."""
    pieces = sorted({piece for piece, _ in calls})
    if sorted(calls) != sorted(itertools.product(pieces, range(K))) or len(pieces) != M:
        return False
    if [number for piece in pieces for number in piece] != [float(n + 1) for n in range(N)]:
        return False
    sizes = [len(piece) for piece in pieces]
    ticks = [pieces.index(piece) + k for piece, k in calls]
    return max(sizes) - min(sizes) <= 1 and all(a <= b for a, b in itertools.pairwise(ticks))


def log_of(calls, balance):
    """Layer by layer, as the watched network writes it."""
    starts = [sum(balance[:k]) for k in range(len(balance))]
    return [Call("F", starts[k] + i, piece) for piece, k in calls for i in range(balance[k])]


def test_edited_calls_are_judged_as_by_rules_of_their_own():
    rng, kept = random.Random(5), 0
    for _ in range(EDITS):
        K, M = rng.randint(1, 4), rng.randint(1, 5)
        N = rng.randint(M, 2 * M + 1)
        balance = [rng.randint(1, 3) for _ in range(K)]
        calls = edited(right_calls(K, M, N), rng)
        right = accepted(signs(LayerCalls(log_of(calls, balance), balance, N, M)))
        assert right == legal(calls, K, M, N), (K, M, N, balance, calls)
        kept += right
    assert EDITS / 10 < kept < EDITS * 9 / 10


@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        ("never", lambda m, M: False),
        ("always", lambda m, M: True),
        ("except_last", lambda m, M: m < M - 1),
    ],
)
def test_recomputed_calls_are_those_that_the_mode_names(checkpoint, expected):
    rng, kept = random.Random(6), 0
    for _ in range(EDITS // 3):
        K, M, asked = rng.randint(1, 3), rng.randint(1, 4), rng.randint(0, 2)
        cells = list(itertools.product(range(M), range(K)))
        again = [cell for cell in cells if expected(cell[0], M) != (rng.random() < 0.1)]
        if again and rng.random() < 0.1:
            again.append(rng.choice(again))
        calls = right_calls(K, M, M)
        log = log_of(calls, [1] * K) + [Call("R", k, (float(m + 1),)) for m, k in again]
        truth = again == [cell for cell in cells if expected(cell[0], M)]
        right = accepted(about_recompute(LayerCalls(log, [1] * K, M, M + asked), checkpoint))
        assert right == truth, (K, M, again)
        kept += truth
    assert 50 < kept < EDITS // 3 - 50


def test_a_backward_that_relies_on_what_was_kept_shows_even_where_runs_were_repeated():
    forward = [Call("F", k, (1.0,)) for k in range(2)]
    again = [Call("R", k, (1.0,)) for k in (1, 0)]
    for relied in itertools.product([True, False], repeat=2):
        back = [Call("B", k, (1.0,), again=repeated) for k, repeated in zip((1, 0), relied, strict=True)]
        right = accepted(about_recompute(LayerCalls(forward + again + back, [1, 1], 1, 1), "always"))
        assert right == all(relied)
