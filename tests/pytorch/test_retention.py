"""What stays behind: nothing after a step, and a micro-batch no longer than until its backward."""

import gc
import weakref

import pytest
from torch import nn

from gpipe_edu.pytorch import GPipe

from . import bench


class Watched(nn.Module):
    """Keeps weak references to what it returns, which the next layer saves for its backward."""

    def __init__(self):
        super().__init__()
        self.made = []

    def forward(self, x):
        out = x * 2
        self.made.append(weakref.ref(out))
        return out


class Fails(nn.Module):
    on = False

    def forward(self, x):
        if self.on:
            raise KeyError("now")
        return x


def watched():
    def block():
        return nn.Sequential(nn.Linear(4, 4), Watched(), nn.Linear(4, 4), Watched())

    return nn.Sequential(block(), block(), Fails())


def alive(net):
    gc.collect()
    made = [ref for layer in (*net[0], *net[1]) if isinstance(layer, Watched) for ref in layer.made]
    return sum(ref() is not None for ref in made)


@pytest.mark.parametrize("options", [found for found in bench.variants(2, 3) if found["partitions"] == 2])
def test_nothing_of_a_step_is_kept(options):
    net = watched()
    pipe = GPipe(net, balance=[1, 2], **options)
    x, y = bench.data(7)
    inputs = [weakref.ref(x), weakref.ref(y)]
    pipe.step(x, y, bench.mse)
    del x, y
    assert alive(net) == 0
    assert [ref() for ref in inputs] == [None, None], "the batch lives on after its step"
    loss = bench.mse(pipe(bench.data(7)[0]), bench.data(7)[1])
    loss.backward()
    assert alive(net) == 0, "after backward, before the loss is deleted"
    del loss
    pipe.eval()(bench.data(7)[0])
    assert alive(net) == 0
    pipe.train()


@pytest.mark.parametrize("mode", bench.MODES)
def test_nothing_is_kept_of_a_forward_without_backward_or_of_a_failed_step(mode):
    net = watched()
    pipe = GPipe(net, 2, 3, balance=[1, 2], checkpoint=mode)
    x, y = bench.data(7)
    output = pipe(x)
    held = alive(net)
    assert (held > 0) == (mode != "always")
    del output
    assert alive(net) == 0, "its output is gone, so no backward can come"
    net[2].on = True
    with pytest.raises(KeyError):
        pipe.step(x, y, bench.mse)
    assert alive(net) == 0


def test_activations_go_as_the_backward_proceeds():
    """After its backward a micro-batch is released, not at the end of the step."""
    counts = []

    class Count(nn.Module):
        def forward(self, x):
            counts.append([sum(ref() is not None for ref in watch.made) for watch in (net[0][1], net[0][3])])
            return x

    # One whose tensor is saved for backward, and one that makes the output of its stage.
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 4), Watched(), nn.Linear(4, 4), Watched()), Count())
    GPipe(net, 2, 6, schedule="naive", checkpoint="never").step(*bench.data(12), bench.mse)
    assert max(map(max, counts)) <= 1


@pytest.mark.parametrize("schedule", ["gpipe", "zero_bubble"])
@pytest.mark.parametrize("fails_in", ["forward", "backward"])
def test_a_failed_step_is_gone_before_any_collection(schedule, fails_in):
    """What is out of memory cannot wait for Python's collector."""

    class Tears(nn.Module):
        def forward(self, x):
            mine = x * 1
            watched.made.append(weakref.ref(mine))
            if fails_in == "forward":
                raise KeyError("now")
            x.register_hook(lambda gradient: 1 / 0)
            return mine

    watched = Watched()
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), watched, nn.Linear(4, 4), Tears()), nn.Tanh())
    pipe = GPipe(net, 3, 3, schedule=schedule, checkpoint="never")
    gc.collect()
    gc.disable()
    try:
        with pytest.raises((KeyError, ZeroDivisionError)) as caught:
            pipe.step(*bench.data(7), bench.mse)
        del caught
        assert len(watched.made) > 1
        assert [ref() for ref in watched.made if ref() is not None] == []
    finally:
        gc.enable()
