"""What the processes of test_ties.py do: networks whose stages share weights, trained by ranks and by one device."""

import copy
from itertools import pairwise

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline
from gpipe_edu.cluster.saving import load, save

from .jobs import LOSS, apart, data, of_replicas, weights_apart
from .jobs import optimizer_of as jobs_optimizer
from .refused import said_by

WORDS, LENGTH, WIDTH = 11, 4, 8


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)

    def forward(self, words):
        return self.word(words) + self.place(torch.arange(words.shape[1], device=words.device))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.around, self.within = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.net = nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH))

    def forward(self, x):
        seen = self.around(x)
        x = x + self.attention(seen, seen, seen, need_weights=False)[0]
        return x + self.net(self.within(x))


def transformer(blocks):
    """A small GPT, whose embedding is its head."""
    torch.manual_seed(0)
    net = nn.Sequential(Embed(), *(Block() for _ in range(blocks)), nn.Linear(WIDTH, WORDS, bias=False)).double()
    nn.init.normal_(net[0].word.weight, std=0.3)
    net[-1].weight = net[0].word.weight
    return net


def next_words(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def batches(steps, N=7):
    """Sentences, and what comes next: for each word the word that is 3 further on."""
    generator = torch.Generator().manual_seed(3)
    words = [torch.randint(0, WORDS, (N, LENGTH), generator=generator) for _ in range(steps)]
    return [(x, (x + 3) % WORDS) for x in words]


ADAM = {"lr": 0.01}


def optimizer_of(kind, weights):
    made = {"adam": (torch.optim.Adam, ADAM), "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9})}
    make, settings = made[kind]
    return make(weights, **settings)


def trained(schedules, kind, steps):
    """For each schedule: how far weights are from one device's after so many steps, and the tied weight's bytes."""
    blocks, given, found = max(schedule.stages for schedule in schedules) + 1, batches(steps), []
    single = transformer(blocks)
    optimizer = optimizer_of(kind, single.parameters())
    losses = []
    for x, y in given:
        optimizer.zero_grad()
        losses.append(next_words(single(x), y))
        losses[-1].backward()
        nn.utils.clip_grad_norm_(single.parameters(), 0.8)
        optimizer.step()
    assert losses[-1] < losses[0] * 0.8, "it learns"
    for schedule in schedules:
        pipeline = Pipeline(transformer(blocks), schedule, next_words, given[0][0])
        optimizer = optimizer_of(kind, pipeline.parameters())
        off = 0.0
        for (x, y), expected in zip(given, losses, strict=True):
            pipeline.zero_grad()
            mine = pipeline.step(x, y)
            pipeline.clip_grad_norm(0.8)
            optimizer.step()
            off = max(off, 0.0 if mine is None else abs(float(mine) - float(expected)))
        tied = dict(pipeline.named_parameters()).get("0.word.weight")
        copy_here = None if tied is None else tied.detach().numpy().tobytes()
        found.append((max(off, weights_apart(pipeline, single)), copy_here))
    return found


def several():
    """Five layers of one width: the first and the third have one weight, and the second is the fourth."""
    torch.manual_seed(0)
    twice = nn.Linear(5, 5)
    net = nn.Sequential(nn.Linear(5, 5), twice, nn.Linear(5, 5), nn.Tanh(), twice, nn.Linear(5, 3)).double()
    net[2].weight = net[0].weight
    return net


def gradients(schedule, steps=3):
    """How far gradients, added up over some steps, are from one device's, and their norm; names of this rank."""
    (x, y), net = data(), several()
    single, pipeline = copy.deepcopy(net), Pipeline(net, schedule, LOSS, x)
    for _ in range(steps):
        LOSS(single(x), y).backward()
        pipeline.step(x, y)
    off = apart(pipeline, single)
    expected = nn.utils.clip_grad_norm_(single.parameters(), 0.1)
    norm = pipeline.clip_grad_norm(0.1)
    names = [name for name, _ in pipeline.named_parameters()]
    return {"apart": max(off, apart(pipeline, single)), "norm": abs(float(norm - expected)), "names": names}


class Transposed(nn.Module):
    """The weight of another layer, the way back."""

    def __init__(self, layer):
        super().__init__()
        self.weight = layer.weight

    def forward(self, x):
        return x @ self.weight


def autoencoder(*widths):
    """What the encoder's layers hold, the decoder's hold in the opposite order."""
    torch.manual_seed(0)
    there = [nn.Linear(one, other) for one, other in pairwise(widths)]
    return nn.Sequential(*there, *map(Transposed, reversed(there))).double()


def in_opposite_order(schedules, copies=1):
    """For each schedule, of three steps of SGD: how far weights and norms are from one device's, and the copies."""
    x, found = torch.randn(12, 6, generator=torch.Generator().manual_seed(3)).double(), []
    single, norms = autoencoder(6, 5, 4, 3), []
    optimizer = torch.optim.SGD(single.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        F.mse_loss(single(x), x).backward()
        norms.append(nn.utils.clip_grad_norm_(single.parameters(), 0.2))
        optimizer.step()
    for schedule in schedules:
        pipeline, mine = of_replicas(schedule, autoencoder(6, 5, 4, 3), F.mse_loss, x, copies=copies)
        optimizer, off = torch.optim.SGD(pipeline.parameters(), lr=0.1), 0.0
        part = slice(mine * 12 // copies, (mine + 1) * 12 // copies)
        for norm in norms:
            pipeline.zero_grad()
            pipeline.step(x[part], x[part], of=12)
            off = max(off, abs(float(pipeline.clip_grad_norm(0.2) - norm)))
            optimizer.step()
        held = {name: weight.detach().numpy().tobytes() for name, weight in pipeline.named_parameters()}
        found.append((max(off, weights_apart(pipeline, single)), held))
    return found


def untie(net, rank):
    net[2].weight = nn.Parameter(net[2].weight.detach().clone())


def tie_another(net, rank):
    net[3].weight = net[1].weight


def hold_another(net, rank):
    net[0].weight = net[2].weight = nn.Parameter(2 * net[0].weight.detach())


def freeze_one_copy(net, rank):
    net[0].weight.requires_grad_(rank > 0)


def freeze(net, rank):
    net[0].weight.requires_grad_(False)


def fill(net, rank):
    with torch.no_grad():
        net[0].weight.mul_(2)


def after(change):
    """What a step says, and a prediction, after `change` to a net whose layers 0 and 2 are tied; how far it is off."""
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(5, 5) for _ in range(4))).double()
    net[2].weight = net[0].weight
    (x, _), single = data(), copy.deepcopy(net)
    pipeline, rank = Pipeline(net, ge.gpipe(2, 4), F.mse_loss, x), dist.get_rank()
    pipeline.step(x, x)
    F.mse_loss(single(x), x).backward()
    change(net, rank)
    change(single, 0)
    said = [said_by(lambda: pipeline.step(x, x)), said_by(lambda: pipeline.predict(x))]
    F.mse_loss(single(x), x).backward()
    return said, None if any(said) else apart(pipeline, single)


def hooks(schedule):
    """What hooks on the tied weight see in two steps, on this rank: how often, and how far from one device's."""
    (x, y), net, seen = data(), several(), {"here": [], "single": []}
    single = copy.deepcopy(net)
    single[1].weight.register_hook(lambda grad: seen["single"].append(grad.clone()))
    net[1].weight.register_hook(lambda grad: seen["here"].append(grad.clone()))
    pipeline = Pipeline(net, schedule, LOSS, x)
    for _ in range(2):
        LOSS(single(x), y).backward()
        pipeline.step(x, y)
    pairs = zip(seen["here"], seen["single"], strict=False)
    return len(seen["here"]), max((float((one - other).abs().max()) for one, other in pairs), default=0.0)


def replicas(schedule, reductions, kind=torch.float64, N=13):
    """Steps of two or three replicas with parts of the samples: gradients after each that adds up, and the copies."""
    (x, y), net = data(), several().to(kind)
    x = x.to(kind)
    single, copies = copy.deepcopy(net), dist.get_world_size() // schedule.devices
    pipeline, mine = of_replicas(schedule, net, LOSS, x, copies=copies)
    part, off, held = slice(mine * N // copies, (mine + 1) * N // copies), 0.0, []
    for reduce in reductions:
        LOSS(single(x), y).backward()
        pipeline.step(x[part], y[part], of=N, reduce=reduce)
        if reduce:
            off = max(off, apart(pipeline, single))
            held.append({name: w.grad.double().numpy().tobytes() for name, w in pipeline.named_parameters()})
    return off, held


def unused():
    """The last layer shares a weight that its samples never reach; on one device it has the first layer's gradient."""

    class Idle(nn.Linear):
        def forward(self, x):
            return x

    (x, y), net = data(), nn.Sequential(nn.Linear(5, 5), nn.Tanh(), Idle(5, 5), nn.Linear(5, 3)).double()
    net[2].weight = net[0].weight
    single, pipeline = copy.deepcopy(net), Pipeline(net, ge.gpipe(2, 4), LOSS, x)
    LOSS(single(x), y).backward()
    pipeline.step(x, y)
    missing = [name for name, weight in pipeline.named_parameters() if weight.grad is None]
    for name, weight in pipeline.named_parameters():
        expected = dict(single.named_parameters())[name].grad
        assert weight.grad is None or float((weight.grad - expected).abs().max()) < 1e-12
    return missing


def sparse():
    """An embedding with sparse gradients, tied to a head, whose gradients are dense."""
    (x, y), net = batches(1)[0], transformer(2)
    net[0].word.sparse = True
    single, pipeline = copy.deepcopy(net), Pipeline(net, ge.one_f_one_b(2, 3), next_words, x)
    next_words(single(x), y).backward()
    pipeline.step(x, y)
    return apart(pipeline, single)


def resumed(schedule, folder, steps, copies, zero):
    """Trains up to so many steps from `folder` on, saving each: losses, and the tied weight's bytes on this rank."""
    given, net = batches(steps, N=6), transformer(4)
    pipeline, mine = of_replicas(schedule, net, next_words, given[0][0], copies=copies)
    optimizer = jobs_optimizer(pipeline, zero)
    losses = []
    for step in range(load(folder, pipeline, optimizer), steps):
        x, y = (part[mine * 6 // copies : (mine + 1) * 6 // copies] for part in given[step])
        pipeline.zero_grad()
        loss = pipeline.step(x, y, of=6)
        optimizer.step()
        total = torch.zeros(1, dtype=torch.float64) if loss is None else loss.reshape(1)
        dist.all_reduce(total)
        losses.append(float(total))
        save(folder, pipeline, optimizer, step + 1)
    tied = dict(pipeline.named_parameters()).get("0.word.weight")
    return losses, None if tied is None else tied.detach().numpy().tobytes()


def by_kind(pipeline, rank):
    """No decay for an embedding, as many training scripts choose."""
    found = {True: [], False: []}
    for layer in pipeline.layers.values():
        for weight in layer.parameters():
            found[isinstance(layer, nn.Embedding)].append(weight)
    return torch.optim.AdamW(
        [{"params": found[True], "weight_decay": 0.0}, {"params": found[False], "weight_decay": 0.5}], lr=0.1
    )


def by_name(pipeline, rank):
    found = {True: [], False: []}
    for name, weight in pipeline.named_parameters():
        found[name == "0.weight"].append(weight)
    return torch.optim.AdamW([{"params": found[True], "weight_decay": 0.0}, {"params": found[False]}], lr=0.1)


def by_rank(pipeline, rank):
    return (torch.optim.SGD if rank else torch.optim.Adam)(pipeline.parameters(), lr=0.1)


def one_only(pipeline, rank):
    return torch.optim.SGD([{"params": list(pipeline.parameters()) if rank else []}], lr=0.1)


def of_rates_that_part(pipeline, rank):
    """From the third step on."""
    optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.1)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    optimizer.register_step_post_hook(lambda *_: optimizer.param_groups[0].update(lr=0.1 + 0.1 * rank))
    return optimizer


def by_hand(pipeline, rank):
    """An optimizer of ones own, which steps one rank's copy only."""

    class Own:
        def step(self):
            with torch.no_grad():
                for weight in pipeline.parameters() if rank else ():
                    weight -= 0.1 * weight.grad

    return Own()


def stepped(choose):
    """What each of five steps says where `choose` makes each rank's optimizer, and how far the weights are off."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WORDS, bias=False)).double()
    net[2].weight = net[0].weight
    (x, y), said = batches(1)[0], []
    pipeline = Pipeline(net, ge.one_f_one_b(2, 3), next_words, x, balance=(1, 2))
    optimizer = choose(pipeline, dist.get_rank())
    for _ in range(5):
        pipeline.zero_grad()
        said.append(said_by(lambda: pipeline.step(x, y)))
        if said[-1]:
            break
        optimizer.step()
    return said
