"""What a step is seen to run and to keep, on functions of which both are known."""

import gc

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from gpipe_edu import reference as ref  # noqa: E402
from gpipe_edu.exercises.networks import items_of  # noqa: E402
from gpipe_edu.harness.ex04_checkpoint import perform  # noqa: E402

STAGES = [[*items_of(ref.mlp([4, 4], seed=seed)), None] for seed in (0, 1)]  # Linear, Tanh
X = np.random.default_rng(0).normal(size=(3, 4))


def seen(forward, **changes):
    given = {"stages": STAGES, "x": X, "dy": X, "again": [True, False]}
    found = perform(forward, **{**given, **changes})
    return found, [(k, i) for k, i, _ in found.kept]


def plain(stages, x, again):
    return stages[1](stages[0](x))


def test_a_plain_forward_keeps_what_autograd_saves():
    found, kept = seen(plain)
    assert found.runs == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found.reruns == []
    assert kept == [(0, 1)]  # the last output is the answer; a Linear saves its input, a Tanh its output


def test_a_checkpointed_stage_keeps_its_input_and_runs_again():
    found, kept = seen(lambda stages, x, again: checkpoint(stages[1], stages[0](x), use_reentrant=False))
    assert found.reruns == [(1, 0), (1, 1)]
    assert kept == [(0, 1)]
    found, kept = seen(lambda stages, x, again: stages[1](checkpoint(stages[0], x, use_reentrant=False)))
    assert found.reruns == [(0, 0), (0, 1)]


def test_a_list_that_holds_an_output_is_noticed():
    held = []

    def hoards(stages, x, again):
        held.append(stages[0][0](x))
        return stages[1](stages[0][1](held[0]))

    assert seen(hoards)[1] == [(0, 0), (0, 1)]


def test_under_no_grad_nothing_stays():
    found, kept = seen(plain, trains=False, graph=False)
    assert kept == []
    assert found.blind == [0, 1]
    assert not found.has_graph


def test_no_tensor_is_no_answer():
    asked = {"stages": STAGES, "x": X, "dy": X, "again": [True, True]}
    for output, slip, came in (([X], "no-tensor", "a list"), (None, "no-return", "None")):
        refused = {"slip": slip, "expected": "a tensor", "came": came}
        assert perform(lambda stages, x, again, output=output: output, **asked) == refused


def test_afterwards_the_collector_looks_at_everything_again():
    def fails(stages, x, again):
        raise ValueError("in the middle")

    seen(plain)
    with pytest.raises(ValueError, match="in the middle"):
        seen(fails)
    assert gc.get_freeze_count() == 0
