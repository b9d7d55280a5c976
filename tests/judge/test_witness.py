"""What a step is seen to run and to keep, on functions of which both are known."""

import gc
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from gpipe_edu import reference as ref  # noqa: E402
from gpipe_edu.judge.networks import items_of  # noqa: E402
from gpipe_edu.judge.tasks.ex04_checkpoint.perform import CheckpointQuestion, perform  # noqa: E402
from gpipe_edu.judge.traced_runs import Trail  # noqa: E402
from gpipe_edu.process.asking import asking  # noqa: E402

STAGES = [[*items_of(ref.mlp([4, 4], seed=seed)), None] for seed in (0, 1)]  # Linear, Tanh
X = np.random.default_rng(0).normal(size=(3, 4))


def seen(forward, **changes):
    """What came, which layers ran in the forward and the backward, and which outputs stayed."""
    trail = Trail(Random(1), np.pad(X, [(0, 0), (0, 1)]))
    asked = CheckpointQuestion(STAGES, trail.stamp(X), [True, False])._replace(**changes)
    with asking(trail):
        found = perform(forward, **asked._asdict())
    if isinstance(found, dict):
        return found
    runs, reruns = ([run.place for _, run in trail.of("F", phase)] for phase in ("forward", "backward"))
    return trail, runs, reruns, [(k, i) for k, i, _ in found.kept]


def plain(stages, x, again):
    return stages[1](stages[0](x))


def test_a_plain_forward_keeps_every_output_but_the_answer():
    _, runs, reruns, kept = seen(plain)
    assert runs == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert reruns == []
    assert kept == [(0, 0), (0, 1), (1, 0)]


def test_a_checkpointed_stage_keeps_its_input_and_runs_again():
    _, _, reruns, kept = seen(lambda stages, x, again: checkpoint(stages[1], stages[0](x), use_reentrant=False))
    assert reruns == [(1, 0), (1, 1)]
    assert kept == [(0, 0), (0, 1)]
    _, _, reruns, kept = seen(lambda stages, x, again: stages[1](checkpoint(stages[0], x, use_reentrant=False)))
    assert reruns == [(0, 0), (0, 1)]
    assert kept == [(0, 1), (1, 0)]


def test_a_backward_tells_which_run_it_relied_on():
    trail, *_ = seen(lambda stages, x, again: stages[1](checkpoint(stages[0], x, use_reentrant=False)))
    again = {number for number, _ in trail.of("F", "backward")}
    relied = {run.place: run.sources <= again for _, run in trail.of("B", "backward")}
    assert relied == {(0, 0): True, (0, 1): True, (1, 0): False, (1, 1): False}


def test_a_list_that_holds_an_output_is_noticed():
    held = []

    def hoards(stages, x, again):
        held.append(stages[0][0](x).detach())
        return checkpoint(stages[1], stages[0][1](held[0]), use_reentrant=False)

    assert (0, 0) in seen(hoards)[3]


def test_under_no_grad_nothing_stays():
    trail, _, _, kept = seen(plain, trains=False, graph=False)
    assert kept == []
    assert [run.seen[0] for _, run in trail.of("F", "forward")] == [False] * 4


def test_no_tensor_is_no_answer():
    for output, slip, came in (([X], "no-tensor", "a list"), (None, "no-return", "None")):
        refused = {"slip": slip, "expected": "a tensor", "came": came}
        assert seen(lambda stages, x, again, output=output: output) == refused


def test_a_stamp_names_the_run_and_the_sample_it_is_from():
    trail = Trail(Random(1))
    x = trail.stamp(np.zeros((3, 2)))
    trail(("forward",))
    given = trail(("F", 0, x[1:, -1], "seen"))
    assert trail(("B", 0, [*given, 0.5])) is None
    first, back = trail.runs
    assert (first.samples, first.sources, first.seen) == ((2.0, 3.0), {-1}, ("seen",))
    assert (back.samples, back.sources) == ((2.0, 3.0, 0.5), {0, None})
    with pytest.raises(ValueError, match="no question"):
        trail(("other",))


def test_afterwards_the_collector_looks_at_everything_again():
    def fails(stages, x, again):
        raise ValueError("in the middle")

    seen(plain)
    with pytest.raises(ValueError, match="in the middle"):
        seen(fails)
    assert gc.get_freeze_count() == 0
