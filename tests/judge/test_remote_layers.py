"""What the judge computes for layers, and what it knows of their runs."""

from random import Random

import numpy as np
import pytest

from gpipe_edu import gpipe
from gpipe_edu import reference as ref
from gpipe_edu.judge.guest.networks import build_network
from gpipe_edu.judge.networks import items_of
from gpipe_edu.judge.remote_layers import AskedLayers, with_other_weights
from gpipe_edu.judge.tasks.ex04_stage.check import OpByOp
from gpipe_edu.judge.tasks.ex10_processes.step_run import OwnRuns
from gpipe_edu.process.asking import asking
from gpipe_edu.schedule.recompute import with_kinds

LAYERS = ref.mlp([3, 4, 2], activation="tanh", seed=1)
X, DY = np.random.default_rng(0).normal(size=(5, 3)), np.random.default_rng(1).normal(size=(5, 2))


def test_outputs_and_gradients_are_those_of_the_judges_weights():
    torch = pytest.importorskip("torch")
    from gpipe_edu.judge.guest.remote_layers import build_asked

    items = items_of(LAYERS)
    real, net = build_network(items), build_asked(with_other_weights(items, Random(2)))
    with asking(AskedLayers(dict(enumerate(LAYERS)))):
        ours, theirs = net(torch.from_numpy(X)), real(torch.from_numpy(X))
        for output in (ours, theirs):
            output.backward(torch.from_numpy(DY))
    assert torch.allclose(ours, theirs)
    for mine, other in zip(net.parameters(), real.parameters(), strict=True):
        assert torch.allclose(mine.grad, other.grad)
        assert mine.shape == other.shape
        assert not torch.allclose(mine, other)


def test_a_backward_names_the_run_that_it_relied_on():
    asked = AskedLayers({"a": LAYERS[0]})
    asked(("step",))
    first, y = asked(("F", "a", X, None))
    dy = np.ones_like(y)
    again, _ = asked(("F", "a", X, None))
    for place, run, x in (("a", again, X), ("a", first, X), ("a", first, X + 1), ("a", 17, X), ("a", 2, X)):
        asked(("B", place, run, dy, (x,)))
    backwards = [run for run in asked.runs if run.kind == "B"]
    assert [(run.of, run.as_it_was) for run in backwards] == [
        (again, True),
        (first, True),
        (first, False),
        (-1, False),
        (-1, False),  # no forward
    ]
    with pytest.raises(ValueError, match="no question"):
        asked(("other", "a"))


def test_each_step_has_its_own_weights():
    other = ref.mlp([3, 4, 2], activation="tanh", seed=7)
    asked = AskedLayers(*(dict(enumerate(layers)) for layers in (LAYERS, other)))
    outputs = [asked(("F", 0, X, None))[1]]  # before the first step
    for _ in range(2):
        asked(("step",))
        outputs.append(asked(("F", 0, X, None))[1])
    assert np.array_equal(outputs[0], outputs[1])
    assert np.array_equal(outputs[2], other[0].forward(X)[0])
    assert list(asked.runs_of(1)) == [2]


def test_a_training_op_by_op_is_that_of_one_device():
    y, schedule = np.arange(5) % 2, with_kinds(gpipe(1, 2), {"B": "C"})
    run = OpByOp(LAYERS, [0, 3], [(X, y)], schedule)
    engine, op, told = ref.stage.Stage(LAYERS, lambda m: LAYERS, keeps=lambda m: False), None, []
    came, held = None, 0
    while op := run(("next", came, held)):
        method, k, m, value = op
        told.append((method, k, m))
        came = engine.forward(m, value) if method == "forward" else engine.checkpointed_backward(m, value)
        held = engine.held_bytes
    assert told == [("forward", 0, 0), ("forward", 0, 1), ("backward", 0, 1), ("backward", 0, 0)]
    loss, grads = ref.train_sequential(LAYERS, X, y)
    assert run.loss == pytest.approx(loss)
    assert ref.gradient_difference(engine.grads, grads) < 1e-12
    assert run.held == [[72, 120, 72, 0]]


def test_an_output_that_no_op_can_take_ends_it():
    run = OpByOp(LAYERS, [0, 3], [(X, np.zeros(5, int))], with_kinds(gpipe(1, 2), {"B": "C"}))
    run(("next", None, 0))
    assert run(("next", np.zeros((3, 7)), 0)) is None
    assert (run.expected, run.misshapen) == ("shape (3, 2)", "shape (3, 7)")


def test_a_process_gets_the_layers_of_its_own_stage_only():
    ran = OwnRuns(LAYERS, [0, 2, 3])
    for k in (0, 1):
        ran((k, ("step",)))
    run, y = ran((0, ("F", 0, X, None)))
    ran((0, ("B", 0, run, y, (X,))))
    assert [ran.of_last_step(k) for k in (0, 1)] == [[("F", 0), ("B", 0)], []]
    with pytest.raises(KeyError):
        ran((0, ("F", 2, y, None)))
