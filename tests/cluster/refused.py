"""What the processes of test_refused.py do: nets and losses that would train something else than was meant."""

import copy
import warnings
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline
from tests import losses, wrapped
from tests.pytorch.bench import First

from .jobs import apart, data, network, squares, weights_apart


def said_by(call):
    """The error that a call ends in, "" if in none."""
    try:
        call()
    except (ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def after(change):
    """What a step and a prediction say after `change` to the net that the pipeline was made of."""
    (x, _), net = data(12), network()
    pipeline = Pipeline(net, ge.gpipe(2, 4), squares, x)
    pipeline.step(x, x[:, :3])
    change(net)
    return [said_by(lambda: pipeline.step(x, x[:, :3])), said_by(lambda: pipeline.predict(x))]


def without_net():
    """Whether a pipeline goes on when the net is gone, and what is left of the layers that this rank does not run."""
    from weakref import ref

    (x, _), net = data(12), network()
    layers = [ref(layer) for layer in net]
    pipeline = Pipeline(net, ge.gpipe(2, 4), squares, x)
    del net
    pipeline.step(x, x[:, :3])
    return [layer() is not None for layer in layers]


def other_weight():
    """A parameter put in another's place is trained."""
    (x, _), net = data(12), network()
    pipeline = Pipeline(net, ge.gpipe(2, 4), squares, x)
    for layer in (net[0], net[-1]):
        layer.weight = nn.Parameter(2 * layer.weight.detach())
    single = copy.deepcopy(net)
    squares(single(x), x[:, :3]).backward()
    pipeline.step(x, x[:, :3])
    return apart(pipeline, single)


def loss_without_graph(loss):
    """What a step says, on the rank that has the loss; the others would find out when they next wait for it."""
    (x, _), net = data(12), network()
    pipeline = Pipeline(net, ge.zero_bubble(2, 4), loss, x)
    said = said_by(lambda: pipeline.step(x, x[:, :3]))
    return said, [weight.grad for weight in pipeline.parameters()] if pipeline.last else []


def constant(output, target):
    return torch.tensor(1.0).double()


def detached(output, target):
    return mse_loss(output.detach(), target)


def lazy():
    net = nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.Linear(4, 3)).double()
    return said_by(lambda: Pipeline(net, ge.gpipe(2, 4), squares, data()[0]))


def compiled():
    (x, _), net = data(12), network()
    single, pipeline = copy.deepcopy(net), Pipeline(net, ge.one_f_one_b(2, 4), squares, x)
    squares(single(2 * x), x[:, :3]).backward()
    torch.compile(lambda x, y: pipeline.step(2 * x, y), backend="eager")(x, x[:, :3])
    outputs = torch.compile(lambda x: pipeline.predict(2 * x), backend="eager")(x)
    assert outputs is None or torch.allclose(outputs, single(2 * x))
    return apart(pipeline, single)


def compiled_layers():
    """How far zero bubble is off after a whole backward of the same compiled layers."""
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5)) for _ in range(4)]
    (x, _), single = data(12), nn.Sequential(*copy.deepcopy(blocks)).double()
    squares(single(x), x).backward()
    net = nn.Sequential(*(torch.compile(block, backend="aot_eager") for block in blocks)).double()
    squares(net(x), x).backward()
    net.zero_grad()
    pipeline, apart = Pipeline(net, ge.zero_bubble(2, 4), squares, x), []
    pipeline.step(x, x)
    expected = {name.replace("_orig_mod.", ""): weight.grad for name, weight in single.named_parameters()}
    for name, weight in pipeline.named_parameters():
        apart.append(float((weight.grad - expected[name.replace("_orig_mod.", "")]).abs().max()))
    return max(apart)


class Stored(nn.Module):
    """A checkpoint that stores its products."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(7, 7), nn.Tanh(), nn.Linear(7, 7)).double()

    def forward(self, x):
        aten = torch.ops.aten
        stored = partial(create_selective_checkpoint_contexts, [aten.mm.default, aten.addmm.default])
        return checkpoint(self.layers, x, use_reentrant=False, context_fn=stored)


def selective():
    """What zero bubble says, with its notes, to a selective checkpoint in the last stage, and how far 1F1B is off."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), Stored(), nn.Linear(7, 3)).double()
    (x, _), failed, single = data(12), None, copy.deepcopy(net)
    squares(single(x), x[:, :3]).backward()
    right = Pipeline(copy.deepcopy(net), ge.one_f_one_b(2, 4), squares, x, balance=(2, 2))
    right.step(x, x[:, :3])
    try:
        # With one micro-batch the other rank has all it needs before this one fails.
        Pipeline(net, ge.zero_bubble(2, 1), squares, x, balance=(2, 2)).step(x, x[:, :3])
    except RuntimeError as error:
        failed = error  # and with it the messages under way: gloo drops those that nobody holds
    dist.barrier()
    return "" if failed is None else " ".join(failed.__notes__), apart(right, single)


class Rotated(nn.Module):
    """A block that asks a layer which all blocks have, as a rotary embedding is."""

    def __init__(self, common):
        super().__init__()
        self.common, self.linear = common, nn.Linear(5, 5)

    def forward(self, x):
        return torch.tanh(self.linear(self.common(x)))


def one_layer_for_all(write, ranks):
    """What the second step says where all stages have one layer with a buffer; how far gradients are off."""
    (x, _), common = data(12), Masked(torch.tensor([1.0, 0, 2, 1, 1]).double(), write)
    torch.manual_seed(0)
    net = nn.Sequential(*(Rotated(common) for _ in range(4))).double()
    schedule = ge.one_f_one_b(2, 4) if ranks == 2 else ge.interleaved(1, 4, 2)
    single = copy.deepcopy(net)
    group = [dist.new_group([rank]) for rank in range(2)][dist.get_rank()] if ranks == 1 else None
    pipeline = Pipeline(net, schedule, squares, x, group=group)
    squares(single(x), x).backward()
    pipeline.step(x, x)
    off = apart(pipeline, single)
    return said_by(lambda: pipeline.step(x, x)), off


def of_one_rank():
    """What this rank is told when it clips for itself, when all clip together, and of LBFGS."""
    (x, _), said = data(12), {}
    ways = {
        "local": lambda pipeline: nn.utils.clip_grad_norm_(pipeline.parameters(), 0.01),
        "common": lambda pipeline: pipeline.clip_grad_norm(0.01),
    }
    for name, clip in ways.items():
        pipeline = Pipeline(network(), ge.one_f_one_b(2, 4), squares, x)
        optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.5)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for _ in range(5):
                pipeline.zero_grad()
                pipeline.step(x, x[:, :3])
                clip(pipeline)
                optimizer.step()
        said[name] = [str(one.message) for one in found]
    lbfgs = torch.optim.LBFGS(pipeline.parameters())
    said["LBFGS"] = said_by(lambda: lbfgs.step(lambda: pipeline.step(x, x[:, :3])))
    return said


def scaled(make, *, ready=False, unscaled=False, fused=False, overflows=2):
    """What this rank is told in five steps with a scaler by `make` that scales the loss, and how far weights and scale
    are from one device's with PyTorch's plain one, where gradients of the first layer overflow in one of the steps.

    ready: whether every rank has called its `scale`. unscaled: whether gradients are unscaled before the clip.
    """

    def trained(net, scaler, step, clip, weights):
        counts = iter(range(5))
        net[0].weight.register_hook(lambda grad: grad * torch.inf if next(counts) == overflows else grad)
        optimizer = torch.optim.SGD(weights(), lr=0.1, momentum=0.9, fused=fused)
        for _ in range(5):
            optimizer.zero_grad()
            step()
            if unscaled:
                scaler.unscale_(optimizer)
                clip(0.1)
            scaler.step(optimizer)
            scaler.update()
        return scaler.get_scale()

    (x, _), net, single = data(12), network(), network()
    known = {"init_scale": 8.0, "growth_interval": 2}
    plain, scaler = torch.amp.GradScaler("cpu", **known), make("cpu", **known)
    clip = partial(nn.utils.clip_grad_norm_, list(single.parameters()))
    scale = trained(
        single, plain, lambda: plain.scale(squares(single(x), x[:, :3])).backward(), clip, single.parameters
    )
    pipeline = Pipeline(net, ge.one_f_one_b(2, 4), lambda output, y: scaler.scale(squares(output, y)), x)
    if ready:
        scaler.scale(torch.zeros(()))
    step = partial(pipeline.step, x, x[:, :3])
    try:
        mine = trained(net, scaler, step, pipeline.clip_grad_norm, pipeline.parameters)
    except ValueError as error:
        if not ready:
            raise  # while the first rank waits for a gradient
        return str(error), 0
    return weights_apart(pipeline, single), mine - scale


class Masked(nn.Module):
    """Adds a mask that others have, too; may write to it."""

    def __init__(self, mask, write=None):
        super().__init__()
        self.register_buffer("mask", mask)
        self._write = write

    def forward(self, x):
        if self._write is not None and self.training:
            self._write(self)
        return x + self.mask


def add_in_place(layer):
    layer.mask.add_(1)


def hold_another(layer):
    layer.mask = layer.mask + 1


def hold_it_in_another_type(layer):
    layer.mask = layer.mask.to(torch.float64 if layer.mask.dtype == torch.float32 else torch.float32)


class Rotary(nn.Module):
    """Turns pairs of numbers by angles that it holds."""

    def __init__(self):
        super().__init__()
        angles = torch.arange(1.0, 4.0).double()
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * self.cos - b * self.sin, a * self.sin + b * self.cos], dim=-1)


class Turned(nn.Module):
    """A block; all blocks have one `rotary`."""

    def __init__(self, rotary):
        super().__init__()
        self.linear, self.rotary = nn.Linear(6, 6).double(), rotary

    def forward(self, x):
        return x + self.rotary(self.linear(x)).tanh()


def one_rotary(schedule, folder):
    """How far gradients of two steps are from one device's where all blocks share a module that is only read, and the
    names of this rank's buffers. Saved, or loaded if something is saved."""
    from gpipe_edu.cluster import saving

    x, rotary = torch.randn(12, 6, generator=torch.Generator().manual_seed(1)).double(), Rotary()
    torch.manual_seed(0)
    net = nn.Sequential(*(Turned(rotary) for _ in range(4)))
    single, pipeline = copy.deepcopy(net), Pipeline(net, schedule, squares, x)
    optimizer = torch.optim.SGD(pipeline.parameter_groups(), lr=0.0)
    done = saving.load(folder, pipeline, optimizer)
    for _ in range(2):
        squares(single(x), x).backward()
        pipeline.step(x, x)
    saving.save(folder, pipeline, optimizer, done + 1)
    return apart(pipeline, single), [name for name, _ in pipeline.named_buffers()], done


def shared_buffer(write):
    """What the second step, and then a prediction, say where two ranks have one mask; how far gradients are off."""
    (x, _), mask = data(12), torch.tensor([1.0, 0, 2, 1, 1]).double()
    torch.manual_seed(0)
    linear = [nn.Linear(5, 5).double() for _ in range(4)]
    net = nn.Sequential(linear[0], Masked(mask), linear[1], linear[2], Masked(mask, write), linear[3])
    single, pipeline = copy.deepcopy(net), Pipeline(net, ge.gpipe(2, 4), squares, x)
    squares(single(x), x).backward()
    pipeline.step(x, x)
    off = apart(pipeline, single)
    return said_by(lambda: pipeline.step(x, x)), said_by(lambda: pipeline.predict(x)), off


def time_first(make, transpose):
    """What a pipeline says when it is made of recurrent layers or attention that take time first; how far off it is."""
    torch.manual_seed(0)
    (x, y), layers = (torch.randn(7, 6, 8).double() for _ in range(2)), [make() for _ in range(4)]
    if transpose:
        layers = [nn.Sequential(Transposed(), layer, Transposed()) for layer in layers]
    net = nn.Sequential(*layers).double()
    single = copy.deepcopy(net)
    squares(single(x), y).backward()

    def train():
        pipeline = Pipeline(net, ge.one_f_one_b(2, 4), squares, x)
        pipeline.step(x, y)
        return apart(pipeline, single)

    off = []
    return said_by(lambda: off.append(train())), off


class Transposed(nn.Module):
    def forward(self, x):
        return x.transpose(0, 1)


def lstm():
    return First(nn.LSTM(8, 8))


def encoder():
    return nn.TransformerEncoderLayer(8, 2, 16, 0.0)


def eight_bits(kind):
    """How far gradients are from one device's where weights wrap others."""
    single, pipeline = wrapped.net(kind), Pipeline(wrapped.net(kind), ge.one_f_one_b(2, 4), squares, data()[0])
    x = data()[0]
    squares(single(x), x).backward()
    pipeline.step(x, x)
    expected = dict(single.named_parameters())
    trained = {name: weight.grad for name, weight in pipeline.named_parameters() if weight.requires_grad}
    return max(float((grad - expected[name].grad).abs().max()) for name, grad in trained.items())


def loss_of_the_whole():
    """What a step says of a loss with a mask for the mini-batch, with its notes."""
    (x, _), mask = data(12), torch.ones(12, 3).double()
    pipeline = Pipeline(network(), ge.gpipe(1, 4), lambda output, y: ((output - y) * mask).square().mean(), x)
    try:
        pipeline.step(x, x[:, :3])
    except RuntimeError as error:
        return "\n".join(error.__notes__)
    return ""


def told_of_losses(found, steps=1, **options):
    """The warnings of steps with each of some losses, on this rank."""
    said = {}
    for name, (loss, y) in found.items():
        pipeline = Pipeline(losses.net(), ge.one_f_one_b(2, losses.M), loss, losses.NUMBERS, **options)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(steps):
                pipeline.step(losses.NUMBERS, y)
        said[name] = [str(one.message) for one in told]
    return said
