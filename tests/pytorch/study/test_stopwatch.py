"""What a stopwatch notes of a pipeline that somebody wrote in one thread."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch.study.timing import watch
from tests.solutions.bank.ex05_wrapper import Plain


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))


def watched(net, M=4, mode="except_last"):
    pipe = Plain(net, [2, 2, 1], M, mode)
    with watch(net, [2, 2, 1]) as calls:
        pipe(torch.ones(8, 6)).sum().backward()
    return calls


@pytest.mark.parametrize(
    ("mode", "row"),
    [
        ("never", "F0 F1 F2 F3 B3 B2 B1 B0"),
        ("except_last", "F0 F1 F2 F3 B3 C2 C1 C0"),
        ("always", "F0 F1 F2 F3 C3 C2 C1 C0"),
    ],
)
def test_calls_are_noted_in_their_order_with_what_was_recomputed(net, mode, row):
    calls = watched(net, mode=mode)
    assert [" ".join(f"{op.kind}{op.micro_batch}" for op in ops) for ops in calls.schedule.rows] == [row] * 3
    assert calls.schedule.problems() == []


def test_measured_calls_take_turns_and_replayed_ones_take_as_long_each(net):
    calls = watched(net)
    measured, replayed = calls.measured_timeline("one"), calls.replayed_timeline("three")
    assert (measured.source, replayed.source) == ("measured", "replayed")
    for before, after in pairwise(measured.spans):
        assert before.end <= after.start
    assert measured.spans[0].start == 0
    times = {span.op: span.end - span.start for span in measured.spans}
    assert all(span.end - span.start == pytest.approx(times[span.op]) for span in replayed.spans)
    assert len(times) == len(replayed.spans) == 2 * 3 * 4
    assert replayed.makespan < measured.makespan


def test_the_stopwatch_leaves_nothing_behind(net):
    watched(net)
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in net)


def test_what_cannot_be_watched_is_refused(net):
    with pytest.raises(ValueError, match=r"balance is \[2, 2\], and net has 5 layers"), watch(net, [2, 2]):
        pass
    with watch(net, [5]) as calls:
        net(torch.ones(2, 6))
    with pytest.raises(RuntimeError, match="no backward was seen"):
        calls.measured_timeline("forward only")
