"""A pipe as the nn.Module that it is: names, copies, saving, casting, hooks, layers exchanged."""

from __future__ import annotations

import copy
import io
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune

from gpipe_edu.pytorch import GPipe
from tests.pytorch.habits.ways import (
    as_plain,
    as_plain_calls,
    batch,
    data,
    error_of,
    held,
    in_pieces,
    mlp,
    same,
    seeded,
)

pytestmark = pytest.mark.slow


def named() -> nn.Sequential:
    """A net whose layers have names and buffers."""
    torch.manual_seed(0)
    layers = {"first": nn.Linear(6, 4), "norm": nn.BatchNorm1d(4), "act": nn.Tanh(), "last": nn.Linear(4, 3)}
    return nn.Sequential(OrderedDict(layers)).double()


ASKED = {
    "parameters": lambda m: [name for name, _ in m.named_parameters()],
    "buffers": lambda m: [name for name, _ in m.named_buffers()],
    "children": lambda m: [(name, type(child)) for name, child in m.named_children()],
    "modules_inside": lambda m: [name for name, _ in m.named_modules()][1:],
    "keys": lambda m: list(m.state_dict()),
    "keys_with_prefix": lambda m: list(m.state_dict(prefix="model.")),
    "metadata": lambda m: sorted(m.state_dict()._metadata),
    "number_of_weights": lambda m: sum(weight.numel() for weight in m.parameters()),
    "length": len,
    "order": lambda m: [type(layer) for layer in m],
    "first": lambda m: type(m[0]),
    "last": lambda m: type(m[-1]),
    "beyond": lambda m: error_of(lambda: m[9]),
    "by_name": lambda m: m.first.weight.shape,
    "by_unknown_name": lambda m: error_of(lambda: m.nowhere),
    "has_no": lambda m: hasattr(m, "nowhere"),
    "submodule": lambda m: type(m.get_submodule("norm")),
    "parameter": lambda m: m.get_parameter("last.bias").shape,
    "buffer": lambda m: m.get_buffer("norm.running_mean").shape,
    "no_submodule": lambda m: error_of(lambda: m.get_submodule("nowhere")),
    "training": lambda m: (m.training, m.eval().training, m[1].training, m.train().training, m[1].training),
    "mode_of_a_child": lambda m: (m[1].eval().training, m.training, m.train()[1].training),
    "gradients_off": lambda m: [weight.requires_grad for weight in m.requires_grad_(False).parameters()],
    "device": lambda m: next(m.parameters()).device,
    "unknown_mode": lambda m: error_of(lambda: m.train("yes")),
    "slice": lambda m: [type(layer) for layer in m[1:3]],
    "contains": lambda m: m[0] in m,
    "zero_grad_without_gradients": lambda m: m.zero_grad(),
    "strict": lambda m: error_of(lambda: m.load_state_dict({"nowhere": torch.zeros(1)})),
    "wrong_shape": lambda m: error_of(lambda: m.load_state_dict({**m.state_dict(), "last.bias": torch.zeros(9)})),
    "missing": lambda m: m.load_state_dict({}, strict=False).missing_keys,
    "unexpected": lambda m: m.load_state_dict({"nowhere": torch.zeros(1)}, strict=False).unexpected_keys,
    "hashes": lambda m: len({m, m}),
    "equal": lambda m: m == copy.copy(m),
    "true": bool,
    "share_memory": lambda m: m.share_memory()[0].weight.is_shared(),
    "to_itself": lambda m: m.to("cpu") is m and m.cpu() is m,
    "double": lambda m: m.float().double()[0].weight.dtype,
    "type": lambda m: m.type(torch.float32)[0].bias.dtype,
    "to_type": lambda m: (m.to(torch.float16)[0].weight.dtype, m[1].num_batches_tracked.dtype),
    "to_like": lambda m: m.to(torch.ones(1))[0].weight.dtype,
    "bfloat16": lambda m: m.bfloat16()[3].weight.dtype,
    "nobody": lambda m: error_of(lambda: m(batch(6), batch(6))),
    "no_arguments": lambda m: error_of(lambda: m()),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
@as_plain_calls
def test_answers_like_its_net(way, ask):
    return ask(way.wrap(named()))


@as_plain
def test_apply_reaches_each_layer(way):
    net = mlp()
    model = way.wrap(net)
    model.apply(lambda layer: nn.init.constant_(layer.weight, 0.1) if isinstance(layer, nn.Linear) else None)
    return way.learn(model, *data()), held(net)


@pytest.mark.parametrize("assign", [False, True])
@as_plain
def test_state_loaded_midway(way, assign):
    net = mlp()
    model = way.wrap(net)
    way.learn(model, *data())
    model.load_state_dict({name: value * 2 for name, value in mlp().state_dict().items()}, assign=assign)
    model.zero_grad()
    return way.learn(model, *data()), held(net)


@pytest.mark.parametrize(
    "setting", ["set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion"]
)
@as_plain
def test_weights_that_conversions_exchange(way, setting):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    way.learn(model, x, y)
    getattr(torch.__future__, setting)(True)
    try:
        model.float().double()
    finally:
        getattr(torch.__future__, setting)(False)
    model.zero_grad()
    return way.learn(model, x, y), held(net)


@as_plain
def test_state_saved_and_loaded_into_a_new_one(way):
    net, other = mlp(), mlp()
    model, new, file = way.wrap(net), way.wrap(other), io.BytesIO()
    way.learn(model, *data())
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    torch.save(model.state_dict(), file)
    file.seek(0)
    new.load_state_dict(torch.load(file, weights_only=True))
    return way.learn(new, *data()), held(other)


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "torch_save": saved,
}


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("trained_before", [False, True])
@as_plain
def test_copies_train_by_themselves(way, make, trained_before):
    net = mlp()
    model = way.wrap(net)
    if trained_before:
        way.learn(model, *data())
    other = make(model)
    other.zero_grad()
    loss = way.learn(other, *data())
    return loss, [weight.grad for weight in other.parameters()], held(net)


@as_plain
def test_shallow_copy_shares_its_weights(way):
    net = mlp()
    model = copy.copy(way.wrap(net))
    return way.learn(model, *data()), held(net)


@as_plain
def test_net_itself_still_works(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    way.learn(model, x, y)
    F.mse_loss(net(x), y).backward()
    return held(net)


@as_plain
def test_net_wrapped_twice(way):
    net = mlp()
    one, other = way.wrap(net), way.wrap(net, K=3)
    way.learn(one, *data())
    return way.learn(other, *data()), held(net)


@as_plain_calls
def test_two_pipes_share_the_layers_of_a_net(way):
    net = mlp(6, 8, 8, 8, 3)
    front, back = way.wrap(net[:4]), way.wrap(net[4:])
    back(front(batch(6))).pow(2).sum().backward()
    return held(net)


@as_plain_calls
def test_pipe_as_a_layer_of_a_pipe(way):
    net = mlp()
    around = seeded(lambda: nn.Linear(4, 6), nn.Tanh)
    model = way.wrap(nn.Sequential(*around, way.wrap(net)))
    model(batch(4)).pow(2).sum().backward()
    return held(net), held(around)


@as_plain
def test_layer_exchanged(way):
    net = mlp()
    model = way.wrap(net)
    way.learn(model, *data())
    torch.manual_seed(5)
    net[2] = nn.Linear(8, 8).double()
    model.zero_grad()
    return way.learn(model, *data()), held(net)


@as_plain
def test_layer_exchanged_by_set_submodule(way):
    net = named()
    model = way.wrap(net).eval()
    torch.manual_seed(5)
    model.set_submodule("last", nn.Linear(4, 3).double())
    return way.learn(model, *data()), held(net)


@as_plain
def test_layer_exchanged_by_its_name(way):
    net = named()
    model = way.wrap(net).eval()
    torch.manual_seed(5)
    model.last = nn.Linear(4, 3).double()
    return way.learn(model, *data()), held(net)


@as_plain
def test_weight_exchanged(way):
    net = mlp()
    model = way.wrap(net)
    way.learn(model, *data())
    net[0].weight = nn.Parameter(net[0].weight.detach() * 2)
    model.zero_grad()
    return way.learn(model, *data()), held(net)


@as_plain
def test_head_exchanged_for_another_number_of_classes(way):
    net = mlp()
    model = way.wrap(net)
    way.learn(model, *data())
    torch.manual_seed(5)
    net[4] = nn.Linear(8, 2).double()
    model.zero_grad()
    return way.learn(model, batch(6), batch(2)), held(net)


@as_plain
def test_batch_norm_folded_into_the_layer_in_front(way):
    net = named()
    model = way.wrap(net).eval()
    folded = nn.utils.fusion.fuse_linear_bn_eval(net[0], net[1])
    net[0], net[1] = folded, nn.Identity()
    return way.learn(model, *data()), held(net)


@in_pieces
def test_all_batch_norms_exchanged(way):
    net = named()
    model = way.wrap(net)
    way.learn(model, *data())
    net.norm = nn.GroupNorm(2, 4).double()
    model.zero_grad()
    return way.learn(model, *data()), held(net)


@as_plain
def test_pruning_since_the_pipe_stands(way):
    net = mlp()
    model = way.wrap(net)
    weights = [(net[i], "weight") for i in (0, 2, 4)]
    prune.global_unstructured(weights, prune.L1Unstructured, amount=0.5)
    way.learn(model, *data())
    for layer, name in weights:
        prune.remove(layer, name)
    model.zero_grad()
    return way.learn(model, *data()), held(net)


# Hooks on layers: one call per micro-batch, so they are compared with the net run on one after the other.


def calls(way, register):
    """What hooks on a layer see of two batches, without the order of threads."""
    net, seen = mlp(), []
    model = way.wrap(net)
    handle = register(net, seen)
    with_hook = way.learn(model, *data()), held(net)
    handle.remove()
    without = way.learn(model, *data()), held(net)
    return with_hook, without, sorted(tensor.sum().item() for tensor in seen)


def once(seen, value):
    """A recompute runs a layer again: what it sees then is what it saw."""
    if not any(torch.equal(value, other) for other in seen):
        seen.append(value)


def doubled_backward(out):
    if out.requires_grad:
        out.register_hook(lambda gradient: gradient * 2)


HOOKS = {
    "forward": lambda net, seen: net[2].register_forward_hook(lambda m, a, out: once(seen, out.detach())),
    "forward_pre": lambda net, seen: net[2].register_forward_pre_hook(lambda m, a: once(seen, a[0].detach())),
    "forward_changes": lambda net, seen: net[2].register_forward_hook(lambda m, a, out: out * 2),
    "on_an_activation": lambda net, seen: net[4].register_forward_hook(lambda m, a, out: doubled_backward(out)),
    "backward": lambda net, seen: net[2].register_full_backward_hook(lambda m, i, o: seen.append(o[0])),
    "backward_at_the_input": lambda net, seen: net[0].register_full_backward_hook(lambda m, i, o: seen.append(o[0])),
}


@pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")
@pytest.mark.parametrize("register", HOOKS.values(), ids=HOOKS)
@in_pieces
def test_hooks_on_a_layer(way, register):
    return calls(way, register)


@as_plain_calls
def test_hooks_on_the_model(way):
    seen = []
    net = mlp()
    model = way.wrap(net)
    model.register_forward_pre_hook(lambda m, a: (a[0] * 2,))
    model.register_forward_hook(lambda m, a, out: out + 1)
    model.register_full_backward_pre_hook(lambda m, o: (o[0] * 2,))
    model.register_full_backward_hook(lambda m, i, o: seen.append((i[0], o[0])))
    x = batch(6).requires_grad_(True)
    model(x).sum().backward()
    return seen, x.grad, held(net)


@as_plain_calls
def test_activations_collected_by_a_hook(way):
    net, kept = mlp(), []
    net[2].register_forward_hook(lambda m, a, out: kept.append(out.detach()))
    model = way.wrap(net)
    with torch.no_grad():
        model(batch(6))
    return torch.cat(kept)


@as_plain
def test_hooks_for_every_module(way):
    net = mlp()
    model = way.wrap(net)
    handle = nn.modules.module.register_module_forward_hook(
        lambda m, a, out: out * 1.5 if isinstance(m, nn.Linear) else None
    )
    try:
        return way.learn(model, *data()), held(net)
    finally:
        handle.remove()


@in_pieces
def test_backward_hooks_for_every_module(way):
    seen = []
    handle = nn.modules.module.register_module_full_backward_hook(lambda m, i, o: seen.append(type(m).__name__))
    try:
        way.learn(way.wrap(mlp()), batch(6).requires_grad_(True), batch(3))
    finally:
        handle.remove()
    return seen.count("Linear"), seen.count("Tanh")


@as_plain
def test_hooks_taken_off(way):
    net, seen = mlp(), []
    model = way.wrap(net)
    handles = [w.register_post_accumulate_grad_hook(lambda w: seen.append(w.shape)) for w in model.parameters()]
    way.learn(model, *data())
    for handle in handles:
        handle.remove()
    way.learn(model, *data())
    return len(seen)


@as_plain_calls
def test_hooks_around_a_state(way):
    model = way.wrap(named())
    model.register_state_dict_pre_hook(lambda m, *_: m.norm.running_mean.fill_(3))
    model.register_state_dict_post_hook(lambda m, state, *_: state.__delitem__("last.bias"))
    model.register_load_state_dict_pre_hook(lambda m, state, *_: state.setdefault("last.bias", torch.ones(3).double()))
    model.register_load_state_dict_post_hook(lambda m, keys: nn.Module.zero_grad(m) or keys.missing_keys.clear())
    state = model.state_dict()
    model.load_state_dict(dict(state))
    return dict(state), model[3].bias.detach()


class Extra(nn.Linear):
    words = "new"

    def get_extra_state(self):
        return {"words": self.words}

    def set_extra_state(self, state):
        self.words = state["words"]


@as_plain_calls
def test_extra_state_of_a_layer(way):
    net = nn.Sequential(Extra(6, 4), Extra(4, 3))
    net[0].words = "old"
    state = way.wrap(net).state_dict()
    other = nn.Sequential(Extra(6, 4), Extra(4, 3))
    way.wrap(other).load_state_dict(state)
    return list(state), other[0].words, other[1].words


@as_plain
def test_attribute_of_a_layer_changed_between_steps(way):
    net = seeded(lambda: nn.Linear(6, 4), lambda: nn.LeakyReLU(0.1), lambda: nn.Linear(4, 3))
    model = way.wrap(net)
    way.learn(model, *data())
    net[1].negative_slope = 0.5
    return way.learn(model, *data()), held(net)


@as_plain
def test_forward_of_a_layer_replaced(way):
    net = mlp()
    model = way.wrap(net)
    plain = net[2].forward
    net[2].forward = lambda x: plain(x) * 2
    return way.learn(model, *data()), held(net)


@as_plain
def test_weights_loaded_through_vectors_between_steps(way):
    net = mlp()
    model = way.wrap(net)
    way.learn(model, *data())
    with torch.no_grad():
        for weight in net.parameters():
            weight.set_(weight.detach().clone() * 0.5)
    model.zero_grad()
    return way.learn(model, *data()), held(net)


@pytest.mark.parametrize(
    "arguments",
    [
        {"partitions": np.int64(2), "micro_batches": np.int64(3)},
        {"micro_batches": 3, "balance": torch.tensor([3, 3])},
        {"micro_batches": 3, "balance": np.array([3, 3])},
        {"partitions": 2, "micro_batches": 3, "devices": ["cpu:0"]},
        {"partitions": 2, "micro_batches": 3, "devices": (torch.device("cpu"),)},
    ],
    ids=str,
)
def test_numbers_and_devices_of_other_kinds(arguments):
    net, expected = mlp(), mlp()
    GPipe(net, **arguments).step(*data(), F.mse_loss)
    F.mse_loss(expected(data()[0]), data()[1]).backward()
    same(held(net), held(expected))


NOT_A_PIPE = {
    "a_class": (lambda: GPipe(nn.Sequential, 1, 3), TypeError, "Sequential"),
    "a_pipe": (lambda: GPipe(GPipe(mlp(), 2, 3), 2, 3), TypeError, "Sequential"),
    "words": (lambda: GPipe(mlp(), "2", 3), TypeError, "partitions"),
    "truth": (lambda: GPipe(mlp(), True, 3), TypeError, "partitions"),
    "unknown_device": (lambda: GPipe(mlp(), 2, 3, devices=["gpu"]), (ValueError, RuntimeError), "gpu"),
    "meta_weights": (
        lambda: GPipe(nn.Sequential(nn.Linear(6, 3, device="meta")), 1, 3),
        (ValueError, NotImplementedError),
        "meta",
    ),
    "parameter_of_its_own": (lambda: with_parameter(), (ValueError, TypeError), "layer"),
    "data_parallel_step": (
        lambda: nn.DataParallel(GPipe(mlp(), 2, 3)).step(*data(), F.mse_loss),
        AttributeError,
        "step",
    ),
    "moved_to_meta": (lambda: GPipe(mlp(), 2, 3).to("meta"), (ValueError, TypeError), "meta|devices"),
    "emptied": (lambda: GPipe(mlp(), 2, 3).to_empty(device="meta"), (ValueError, TypeError), "meta|devices"),
    "sliced_and_set": (lambda: GPipe(mlp(), 2, 3).__setitem__(0, nn.ReLU()), (TypeError, AttributeError), "."),
}


def appended():
    net = mlp()
    pipe = GPipe(net, 2, 3)
    net.append(nn.Tanh())
    return pipe(batch(6))


def deleted():
    net = mlp()
    pipe = GPipe(net, 2, 3)
    del net[1]
    return pipe(batch(6))


def with_parameter():
    net = mlp()
    net.register_parameter("scale", nn.Parameter(torch.ones(1)))
    return GPipe(net, 2, 3)


@pytest.mark.parametrize("kind", NOT_A_PIPE)
def test_what_is_no_pipe(kind):
    make, error, words = NOT_A_PIPE[kind]
    with pytest.raises(error, match=words):
        make()
