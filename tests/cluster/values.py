"""What the processes of test_values.py do: networks with several tensors between layers, and other mini-batches."""

import copy
import gc
import weakref

import torch
import torch.distributed as dist
from torch import nn

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline
from gpipe_edu.pytorch import Stash, Take

from .jobs import LOSS, apart, data, of_replicas
from .refused import said_by
from .ties import LENGTH, batches, next_words, transformer


class Do(nn.Module):
    """A function of what comes in and of a matrix."""

    def __init__(self, function):
        super().__init__()
        self.function, self.linear = function, nn.Linear(5, 5)

    def forward(self, x):
        return self.function(self.linear, x)


def of(*functions):
    torch.manual_seed(0)
    return nn.Sequential(*map(Do, functions)).double()


def tuples():
    """Values that learn, a mask that does not, and places, which are whole numbers."""

    def first(f, x):
        return torch.tanh(f(x)), x > 0, (x[:, 0] > 0.5).long()

    def between(f, value):
        x, mask, place = value
        return torch.tanh(f(x)) * mask + place.unsqueeze(1), mask, place

    return of(first, *[between] * 4, lambda f, value: f(value[0])), data()[0]


def two_that_learn():
    """Both learn; later one is left behind, and one tensor travels twice."""

    def cross(f, value):
        return torch.tanh(f(value[0]) + value[1]), f(value[1]) * value[0]

    def twice(f, value):
        return f(value[0]), value[1], value[1]

    return of(
        lambda f, x: (f(x), x), cross, cross, twice, lambda f, v: (f(v[1]) + v[2],), lambda f, v: f(v[0])
    ), data()[0]


def dictionaries():
    def between(f, value):
        return {"mask": value["mask"], "x": torch.tanh(f(value["x"])) * value["mask"]}

    return of(lambda f, x: {"x": f(x), "mask": x > 0}, *[between] * 4, lambda f, value: f(value["x"])), data()[0]


def keys_in_another_order():
    """Each rank makes dictionaries with the keys in an order of its own, as a process has those of a set."""

    class Fork(nn.Module):
        def __init__(self):
            super().__init__()
            self.linears = nn.ModuleDict({name: nn.Linear(5, 5) for name in "abc"})

        def forward(self, x):
            names = sorted(self.linears, reverse=dist.get_rank() % 2 == 1)
            return {name: self.linears[name](x) for name in names}

    def join(f, value):
        return f(value["a"]).tanh() + 2 * value["b"] * value["c"]

    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(3) for layer in (Fork(), Do(join)))).double(), data()[0]


def tuple_in():
    return of(lambda f, value: f(value[0]) * value[1], *[lambda f, x: torch.tanh(f(x))] * 5), (data()[0], data()[0] > 0)


def dictionary_in():
    net, (x, mask) = tuple_in()
    net[0].function = lambda f, value: f(value["x"]) * value["mask"]
    return net, {"mask": mask, "x": x}


def skips():
    """One to the next stage, one over all, one inside, and one of two tensors; they cross."""
    torch.manual_seed(0)
    pair = Do(lambda f, x: (f(x), x))
    layers = [
        nn.Sequential(Stash("far"), nn.Linear(5, 5), Stash("pair", pair)),
        nn.Sequential(Stash("near"), nn.Linear(5, 5), Stash("inside"), nn.Tanh(), Take("inside", torch.add)),
        nn.Sequential(Take("near", torch.mul), nn.Linear(5, 5)),
        nn.Tanh(),
        nn.Sequential(nn.Linear(5, 5), Take("pair", lambda x, pair: x + pair[0] * pair[1])),
        nn.Sequential(Take("far", lambda x, far: x + far), nn.Linear(5, 3)),
    ]
    return nn.Sequential(*layers).double(), data()[0]


def off_the_way():
    """Weights whose way to the loss does not pass by the input of their stage, and layers that only pass on."""

    def beside(f, x):
        return torch.tanh(x), f(torch.ones_like(x.detach()))

    def join(f, value):
        return f(value[0]) * value[1]

    return of(beside, join, beside, join, beside, join), data()[0]


def identities():
    torch.manual_seed(0)
    layers = [nn.Linear(5, 5), nn.Identity(), nn.Identity(), nn.Linear(5, 5), nn.Identity(), nn.Identity()]
    return nn.Sequential(*layers).double(), data()[0]


def channels_last():
    torch.manual_seed(0)
    layers = [nn.Conv2d(2, 3, 3, padding=1), *(nn.Conv2d(3, 3, 3, padding=1) for _ in range(4))]
    net = nn.Sequential(*layers, nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    net = net.double().to(memory_format=torch.channels_last)
    return net, torch.randn(13, 2, 4, 4).double().to(memory_format=torch.channels_last)


def lazily_changed():
    """Conjugated and negated only when read, on the way there and, as gradients, on the way back."""

    def first(f, x):
        return torch.complex(f(x), x).conj(), torch._neg_view(f(x))

    def between(f, value):
        z, r = value[0].conj(), torch._neg_view(value[1])
        return (z * torch.complex(f(r).tanh(), r)).conj(), torch._neg_view(f(r).tanh())

    def last(f, value):
        z, r = value[0].conj(), torch._neg_view(value[1])
        return f(z.real + z.imag + r)

    return of(first, *[between] * 4, last), data()[0]


NETWORKS = {
    "tuples": tuples,
    "two that learn": two_that_learn,
    "dictionaries": dictionaries,
    "keys in another order": keys_in_another_order,
    "a tuple in": tuple_in,
    "a dictionary in": dictionary_in,
    "skips": skips,
    "off the way": off_the_way,
    "identities": identities,
    "lazily changed": lazily_changed,
    "channels last": channels_last,
}


def differences(name, schedules):
    """For each schedule how far gradients of two steps, which add up, and a prediction are from one device's."""
    (net, x), y, found = NETWORKS[name](), data()[1], []
    single = copy.deepcopy(net)
    for _ in range(2):
        expected = LOSS(single(x), y)
        expected.backward()
    for schedule in schedules:
        pipeline = Pipeline(copy.deepcopy(net), schedule, LOSS, x)
        for _ in range(2):
            mine = pipeline.step(x, y)
        off = 0.0 if mine is None else abs(float(mine) - float(expected))
        for weight in (
            *pipeline.parameters(),
            *single.parameters(),
        ):  # ours has zeros where another stage uses no gradient
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
        outputs = pipeline.predict(x)
        if outputs is not None:
            off = max(off, float((outputs - single(x)).abs().max()))
        found.append(max(off, apart(pipeline, single)))
    return found


def lengths(schedule):
    """Mini-batches of several lengths and numbers of samples: how far from one device's; how many engines are kept."""
    single, off = transformer(5), 0.0
    pipeline = Pipeline(transformer(5), schedule, next_words, batches(1)[0][0])
    sizes = [(7, 4), (7, 2), (3, 4), (7, 4), (1, 1), *((N, length) for N in (2, 4, 5) for length in (1, 2, 3)), (7, 4)]
    for N, length in sizes:
        x, y = (part[:N, :length] for part in batches(1, max(N, 7))[0])
        loss = next_words(single(x), y)
        loss.backward()
        mine = pipeline.step(x, y)
        off = max(off, 0.0 if mine is None else abs(float(mine - loss)), apart(pipeline, single))
        outputs = pipeline.predict(x[:2])
        if outputs is not None:
            off = max(off, float((outputs - single(x[:2])).abs().max()))
    kept = len(pipeline._engines)
    try:
        pipeline.step(torch.zeros(7, LENGTH + 1, dtype=torch.long)[:, :, None], torch.zeros(7, dtype=torch.long))
        said = ""
    except ValueError as error:
        said = str(error)
    return {"apart": off, "kept": kept, "sizes": len(set(sizes)), "said": said}


def let_go(schedule):
    """Whether a pipeline and the engine of its step are gone when nobody holds the pipeline, before garbage is
    collected."""
    x, y = batches(1)[0]
    gc.collect()
    gc.disable()
    try:
        pipeline = Pipeline(transformer(5), schedule, next_words, x)
        pipeline.step(x, y)
        held = [weakref.ref(pipeline), weakref.ref(pipeline._engine(pipeline._boundaries[0], (2, 2, 2, 1)))]
        assert len(pipeline._engines) == 1
        del pipeline
        return [one() is None for one in held]
    finally:
        gc.enable()


def another_form():
    """What a rank says where a layer gives a tuple in training, and one tensor in evaluation."""

    class Both(nn.Linear):
        def forward(self, x):
            return (super().forward(x), x) if self.training else super().forward(x)

    net = nn.Sequential(nn.Linear(5, 5), Both(5, 3)).double()
    pipeline = Pipeline(net, ge.gpipe(2, 4), lambda output, y: LOSS(output[0], y), data()[0])
    pipeline.step(*data())
    pipeline.train(False)
    return said_by(lambda: pipeline.predict(data()[0]))


def sent_of_skips(schedule, far):
    """The bytes of a step, and of a prediction, that each rank sends to each other one, behind the first step."""
    torch.manual_seed(0)
    layers = [nn.Linear(5, 5) for _ in range(schedule.stages)]
    if far:
        layers[0] = nn.Sequential(nn.Linear(5, 5), Stash("far", Do(lambda f, x: f(x).repeat(1, 100))))
        layers[-1] = nn.Sequential(Take("far", lambda x, far: x + far[:, -5:]), nn.Linear(5, 3))
    pipeline = Pipeline(nn.Sequential(*layers).double(), schedule, LOSS, data()[0])
    pipeline.step(*data())
    pipeline.predict(data()[0])
    found, send = [], vars(dist.ProcessGroup)["send"]

    def counted(group, tensors, to, tag):
        learned = [one for one in tensors if one.is_floating_point()]  # not what ranks agree about
        if learned:
            sent[to] = sent.get(to, 0) + sum(one.nbytes for one in learned)
        return send.__get__(group)(tensors, to, tag)

    dist.ProcessGroup.send = counted
    try:
        for run in (lambda: pipeline.step(*data()), lambda: pipeline.predict(data()[0])):
            sent = {}
            run()
            found.append(sent)
    finally:
        dist.ProcessGroup.send = send
    return found


def skips_of_replicas(schedule):
    """Two replicas with 7 and 6 samples: how far gradients are from one device's."""
    (net, x), y = skips(), data()[1]
    single = copy.deepcopy(net)
    LOSS(single(x), y).backward()
    pipeline, mine = of_replicas(schedule, net, LOSS, x)
    part = slice(0, 7) if mine == 0 else slice(7, 13)
    pipeline.step(x[part], y[part], of=len(x))
    return apart(pipeline, single)
