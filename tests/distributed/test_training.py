"""A pipeline of processes against one device: loss, gradients, order of ops and messages."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

import gpipe_edu as ge
from gpipe_edu.distributed import train_processes

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("preloaded_python")]


def run_stage(k, K, stage, ops, shapes, pieces, loss_fn):
    held, handles, total = {}, [], 0.0
    for kind, m, _ in ops:
        if kind == "F":
            x = pieces[m] if k == 0 else torch.empty(shapes[m], dtype=torch.float64)
            if k > 0:
                dist.recv(x, k - 1)
            held[m] = x, stage(x.requires_grad_())
            if k < K - 1:
                handles.append(dist.isend(held[m][1].detach(), k + 1))
        else:
            x, out = held.pop(m)
            gradient = None
            if k == K - 1:
                out = loss_fn(out, pieces[m]) * len(x) / sum(n for n, *_ in shapes)
                total += out.item()
            else:
                gradient = torch.empty_like(out)
                dist.recv(gradient, k + 1)
            out.backward(gradient)
            if k > 0:
                handles.append(dist.isend(x.grad, k - 1))
    for handle in handles:
        handle.wait()
    return total


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 6), nn.Tanh(), nn.Linear(6, 4)).double()


@pytest.mark.parametrize("schedule", [ge.gpipe(2, 3), ge.one_f_one_b(3, 4)], ids=str)
def test_it_equals_one_device(schedule):
    net, x, y = network(), torch.randn(11, 5).double(), torch.randint(0, 4, (11,))
    loss_fn = nn.CrossEntropyLoss()
    result = train_processes(run_stage, net, schedule, x, y, loss_fn, steps=2)
    assert all(weight.grad is None for weight in net.parameters()), "the network itself stays as it is"
    loss = loss_fn(net(x), y)
    loss.backward()
    assert abs(result.loss - loss.item()) < 1e-12
    for found, weight in zip(result.grads, net.parameters(), strict=True):
        assert torch.allclose(found, weight.grad, rtol=0, atol=1e-12)
    K, M = schedule.stages, schedule.micro_batches
    assert result.timeline.measured
    assert tuple(tuple(span.op for span in result.timeline.row(k)) for k in range(K)) == schedule.rows
    sizes = sorted(shape[0] for source, target, shape in result.sent if source == 0)
    assert sizes == sorted(len(piece) for piece in ge.split_batch(x, M))
    assert len(result.sent) == 2 * (K - 1) * M


@pytest.mark.parametrize(
    ("schedule", "N", "words"),
    [
        (ge.gpipe(2, 3, "late"), 9, "F and B only"),
        (ge.gpipe(1, 3), 9, "at least two"),
        (ge.interleaved(2, 4, 2), 9, "one stage for each process"),
        (ge.gpipe(6, 3), 9, "too few for 6 stages"),
        (ge.gpipe(2, 3), 2, "2 samples are too few"),
    ],
)
def test_what_it_cannot_run_is_refused(schedule, N, words):
    with pytest.raises(ValueError, match=words):
        train_processes(run_stage, network(), schedule, torch.zeros(N, 5), torch.zeros(N), nn.MSELoss())


def test_a_function_that_runs_nothing_is_told():
    with pytest.raises(ValueError, match="no op was measured"):
        train_processes(
            lambda *_: None, network().float(), ge.gpipe(2, 2), torch.zeros(4, 5), torch.zeros(4), nn.MSELoss()
        )
