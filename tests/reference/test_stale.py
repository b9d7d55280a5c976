"""Training without a flush, against ordinary training on models put together from old weights by hand."""

from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.data import digits, minibatches
from gpipe_edu.reference.stale import train_without_flush

K, RATE, STEPS = 3, 0.05, 12


def model(**options):
    return ref.mlp([64, 24, 24, 24, 10], seed=1, **options)


def batches(count=STEPS):
    data = digits()
    return list(minibatches(data.x_train, data.y_train, 32))[:count]


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        for name in b.params:
            np.testing.assert_allclose(a.params[name], b.params[name], rtol=0, atol=1e-12)


def test_a_schedule_that_finishes_each_mini_batch_first_is_plain_sgd():
    ours, theirs = model(dropout=0.2), model(dropout=0.2)
    run = train_without_flush(ours, batches(), ge.naive(K, STEPS), RATE)
    optimizer, losses = ref.SGD(theirs, RATE), []
    for step, (x, y) in enumerate(batches()):
        loss, grads = ref.train_sequential(theirs, x, y, step=step)
        optimizer.step(grads)
        losses.append(loss)
    np.testing.assert_allclose(run.losses, losses, rtol=1e-12)
    assert_same(ours, theirs)
    assert run.versions == (1,) * K


def test_1f1b_takes_the_gradient_at_weights_that_miss_k_minus_1_minus_k_updates():
    ours = model()
    run = train_without_flush(ours, batches(), ge.one_f_one_b(K, STEPS), RATE)
    counts = ge.balance_uniform(len(ours), K)
    cuts = [slice(start, end) for start, end in pairwise([sum(counts[:k]) for k in range(K + 1)])]
    history, losses = [model()], []  # history[t]: every stage after t updates
    for step, (x, y) in enumerate(batches()):
        old = deepcopy([layer for k in range(K) for layer in history[max(0, step - (K - 1 - k))][cuts[k]]])
        loss, grads = ref.train_sequential(old, x, y)
        losses.append(loss)
        history.append(deepcopy(history[-1]))
        ref.SGD(history[-1], RATE).step(grads)
    np.testing.assert_allclose(run.losses, losses, rtol=1e-12)
    assert_same(ours, history[-1])
    assert run.versions == (3, 2, 1)


def test_without_kept_versions_the_result_is_another_one_and_one_version_is_enough():
    kept, mixed = model(), model()
    train_without_flush(kept, batches(), ge.one_f_one_b(K, STEPS), RATE)
    run = train_without_flush(mixed, batches(), ge.one_f_one_b(K, STEPS), RATE, stash=False)
    assert run.versions == (1,) * K
    assert np.abs(kept[0].params["weight"] - mixed[0].params["weight"]).max() > 1e-6
    # One stage is never late, whatever it keeps.
    alone, sgd = model(), model()
    train_without_flush(alone, batches(), ge.one_f_one_b(1, STEPS), RATE, stash=False)
    train_without_flush(sgd, batches(), ge.naive(1, STEPS), RATE)
    assert_same(alone, sgd)


@pytest.mark.parametrize(
    ("schedule", "count", "rate", "says"),
    [
        (ge.zero_bubble(2, 3), 3, RATE, "has the ops F, I, W; without a flush only F and B"),
        (ge.gpipe(2, 3, "late"), 3, RATE, "has the ops C, F"),
        (ge.gpipe(2, 3), 2, RATE, "2 mini-batches and the schedule has 3 micro-batches"),
        (ge.gpipe(2, 3), 3, 0, "learning_rate is 0"),
        (ge.Schedule.parse("B0 F0"), 1, RATE, "B0"),
    ],
)
def test_what_it_cannot_train_with_is_refused(schedule, count, rate, says):
    with pytest.raises(ValueError, match=says):
        train_without_flush(model(), batches(count), schedule, rate)
