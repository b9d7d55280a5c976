"""What an optimizer or a clip computes from one rank's weights as if they were all is noticed, and nothing else is."""

import warnings
from functools import partial

import pytest
import torch
from torch import nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from gpipe_edu.cluster.optimizer_checks import OptimizerChecks, without_scaler_of_one_rank

from .jobs import LOSS, data, network

pytestmark = pytest.mark.slow


def trained(change, kind=torch.float64, optimizer=torch.optim.SGD, steps=12):
    """The warnings in a training of one rank's weights, in which `change(weights, step, note)` comes before the
    optimizer's step."""
    net, (x, y) = network().to(kind), data()
    weights = list(net.parameters())
    checks, optimizer = OptimizerChecks(weights), optimizer(weights, lr=0.5)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for step in range(1, steps):
            LOSS(net(x.to(kind)), y).backward()
            looks = step & (step - 1) == 0
            checks.note(looks)
            change(weights, step, partial(checks.note, looks))
            optimizer.step()
            optimizer.zero_grad()
    return [said for said in (str(one.message) for one in found) if "gradients" in said]


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16])
def test_a_clip_by_the_norm_of_one_rank_is_noticed_once(kind):
    (said,) = trained(lambda weights, *_: nn.utils.clip_grad_norm_(weights, 0.01), kind)
    assert said.endswith("Call pipeline.clip_grad_norm(0.01) instead, on all ranks")


def scale(weights, factor):
    for weight in weights:
        weight.grad *= factor


def clip_each(weights, *_):
    for weight in weights:
        nn.utils.clip_grad_norm_(weight, 0.01)


def clipped_by_all(weights, step, note):
    nn.utils.clip_grad_norm_(weights, 0.01)
    note()


HONEST = {
    "nothing": lambda *_: None,
    "each weight for itself": clip_each,
    "by value": lambda weights, *_: nn.utils.clip_grad_value_(weights, 0.001),
    "by our own": clipped_by_all,
    "one part": lambda weights, step, note: scale(weights[:2], 0.1),
    "all by one number": lambda weights, *_: scale(weights, 0.25),
    "a scaler that changes": lambda weights, step, note: scale(weights, 2.0 ** -(step // 2)),
    "a rare clip": lambda weights, step, note: nn.utils.clip_grad_norm_(weights, 0.01) if step == 4 else None,
    "gradients left out": lambda weights, *_: scale(weights, 0.0),
    "a share of a norm": lambda weights, step, note: nn.utils.clip_grad_norm_(weights, 0.01 / (1 + 0.1 * step)),
}


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_what_others_do_with_gradients_is_not(name, kind):
    assert trained(HONEST[name], kind) == []


def test_a_loss_that_is_the_first_to_use_a_scaler_of_one_rank_is_refused():
    others = [
        torch.amp.GradScaler("cpu"),
        torch.amp.GradScaler("cpu", enabled=False),
        ShardedGradScaler("cpu", process_group=None),
    ]
    others[0].scale(torch.zeros(()))  # each rank has used it, perhaps; then each is told when it makes a step
    for scaler in others:
        [head] = without_scaler_of_one_rank([scaler.scale])
        head(torch.ones(()))
    [head] = without_scaler_of_one_rank([torch.amp.GradScaler("cpu").scale])
    with pytest.raises(ValueError, match="a GradScaler sees the gradients of one rank"):
        head(torch.ones(()))


def test_hooks_go_with_the_weights_they_are_for():
    from torch.optim.optimizer import _global_optimizer_pre_hooks

    before, checks = len(_global_optimizer_pre_hooks), OptimizerChecks(network().parameters())
    assert len(_global_optimizer_pre_hooks) == before + 1
    del checks
    assert len(_global_optimizer_pre_hooks) == before


def test_a_compiled_step_of_an_optimizer_is_noticed_too():
    def compiled(weights, **settings):
        found = torch.optim.SGD(weights, **settings)
        found.step = torch.compile(found.step, backend="eager")
        return found

    assert len(trained(lambda weights, *_: nn.utils.clip_grad_norm_(weights, 0.01), optimizer=compiled)) == 1
