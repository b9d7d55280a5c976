"""Chores: work once forward and twice backward, in the thread of the stage, and exact gradients all the same."""

import threading

import torch
from torch import nn

from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.study.timing import Chore, nap


def test_once_forward_and_twice_backward():
    calls = []
    out = Chore(lambda: calls.append("work"))(torch.ones(2, 3, requires_grad=True))
    assert len(calls) == 1
    out.sum().backward()
    assert len(calls) == 3


def test_it_is_a_layer_with_exact_gradients():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    chore = Chore(lambda: None)
    (chore(x) ** 2).sum().backward()
    assert torch.equal(chore(x), x)
    assert torch.equal(x.grad, 2 * x)
    assert chore.weight.grad == 2 * (x**2).sum()


def test_in_a_pipeline_each_stage_works_in_its_own_thread():
    seen = [[], []]
    net = nn.Sequential(*(Chore(lambda k=k: seen[k].append(threading.get_ident())) for k in range(2)))
    GPipe(net, 2, 4, checkpoint="never", devices=["cpu"]).step(torch.ones(4, 1), torch.ones(4, 1), nn.MSELoss())
    assert [len(names) for names in seen] == [12, 12]
    assert set(seen[0]).isdisjoint(seen[1])
    assert len(set(seen[0])) == len(set(seen[1])) == 1


def test_a_nap_takes_its_time():
    pipe = GPipe(nn.Sequential(Chore(nap)), 1, 1, checkpoint="never", devices=["cpu"])
    pipe.step(torch.ones(1, 1), torch.ones(1, 1), nn.MSELoss())
    forward, backward = pipe.timeline.spans
    assert forward.end - forward.start >= 0.0099
    assert backward.end - backward.start >= 0.0199
