"""The habits: each makes its nets anew, so that every way starts from the same weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_value_, parametrizations, prune
from torch.utils.checkpoint import checkpoint

from tests.injected import Penalized, lines
from tests.pytorch.bench import Apply

from .ways import Way, batch, held, mlp, seeded, trained

CLASSES = torch.arange(7) % 3


def linears(*between: Any) -> nn.Sequential:
    """Four layers of weights, and `between` in the middle of them."""
    return seeded(
        partial(nn.Linear, 6, 8),
        nn.Tanh,
        partial(nn.Linear, 8, 8),
        *between,
        nn.Tanh,
        partial(nn.Linear, 8, 8),
        partial(nn.Linear, 8, 3),
    )


def do(function: Any) -> Any:
    return partial(Apply, function)


# Layers


def relu_in_place(way: Way) -> Any:
    def block(width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(6, width), nn.ReLU(inplace=True))

    return trained(way, seeded(partial(block, 6), partial(block, 6), partial(block, 3)), batch(6), batch(3))


def relu_in_place_first_in_a_stage(way: Way) -> Any:
    net = seeded(*[layer for _ in range(3) for layer in (partial(nn.ReLU, inplace=True), partial(nn.Linear, 6, 6))])
    return trained(way, net, batch(6), batch(6))


def layer_norm(way: Way) -> Any:
    return trained(way, linears(partial(nn.LayerNorm, 8)), batch(6), batch(3))


def group_norm(way: Way) -> Any:
    return trained(way, linears(partial(nn.GroupNorm, 2, 8)), batch(6), batch(3))


def batch_norm(way: Way) -> Any:
    return trained(way, linears(partial(nn.BatchNorm1d, 8)), batch(6, samples=6), batch(3, samples=6))


def batch_norm_of_ragged_batches(way: Way) -> Any:
    return trained(way, linears(partial(nn.BatchNorm1d, 8)), batch(6), batch(3))


def images(samples: int) -> tuple[Any, Any]:
    return batch(2, 4, 4, samples=samples), batch(3, 4, 4, samples=samples)


def convolutions(*between: Any) -> nn.Sequential:
    return seeded(
        partial(nn.Conv2d, 2, 4, 3, padding=1),
        *between,
        nn.ReLU,
        partial(nn.Conv2d, 4, 4, 3, padding=1),
        nn.ReLU,
        partial(nn.Conv2d, 4, 3, 1),
    )


def instance_norm(way: Way) -> Any:
    return trained(way, convolutions(partial(nn.InstanceNorm2d, 4)), *images(7))


def instance_norm_with_statistics(way: Way) -> Any:
    return trained(way, convolutions(partial(nn.InstanceNorm2d, 4, track_running_stats=True)), *images(6))


def instance_norm_with_statistics_of_ragged_batches(way: Way) -> Any:
    return trained(way, convolutions(partial(nn.InstanceNorm2d, 4, track_running_stats=True)), *images(7))


def normed(norm: Callable[[nn.Module], nn.Module]) -> nn.Sequential:
    return seeded(partial(nn.Linear, 6, 8), lambda: norm(nn.Linear(8, 8)), nn.Tanh, partial(nn.Linear, 8, 3))


def spectral_norm(way: Way) -> Any:
    return trained(way, normed(parametrizations.spectral_norm), batch(6), batch(3))


def weight_norm(way: Way) -> Any:
    return trained(way, normed(parametrizations.weight_norm), batch(6), batch(3))


def pruned(way: Way) -> Any:
    net = mlp()
    prune.l1_unstructured(net[2], "weight", amount=0.3)
    return trained(way, net, batch(6), batch(3))


def embedding(way: Way) -> Any:
    net = seeded(
        partial(nn.Embedding, 9, 6, padding_idx=0), partial(nn.Linear, 6, 6), nn.Tanh, partial(nn.Linear, 6, 9)
    )
    tokens = torch.arange(42).view(7, 6) % 9
    return trained(way, net, tokens, tokens.roll(1), lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()))


def sparse_gradients(way: Way) -> Any:
    net = seeded(partial(nn.Embedding, 9, 6, sparse=True), nn.Tanh, partial(nn.Linear, 6, 3))
    model = way.wrap(net, F.mse_loss, torch.arange(7))
    losses = [model.step(torch.arange(7), batch(3)) for _ in range(2)]
    return losses, held(model)


def whole_numbers_between(way: Way) -> Any:
    net = seeded(partial(nn.Linear, 6, 4), do(lambda x: x.argmax(1)), partial(nn.Embedding, 4, 3))
    return trained(way, net, batch(6), batch(3))


def transposed_between(way: Way) -> Any:
    net = seeded(
        partial(nn.Linear, 6, 8),
        do(lambda x: x.view(-1, 2, 4).transpose(1, 2)),
        partial(nn.Linear, 2, 4),
        nn.Flatten,
        partial(nn.Linear, 16, 3),
    )
    return trained(way, net, batch(6), batch(3))


def an_identity_for_a_stage(way: Way) -> Any:
    return trained(way, seeded(partial(nn.Linear, 6, 3), nn.Identity, nn.Identity), batch(6), batch(3))


def expanded_between(way: Way) -> Any:
    net = seeded(
        partial(nn.Linear, 6, 1),
        do(lambda x: x.expand(-1, 4)),
        partial(nn.Linear, 4, 4),
        nn.Tanh,
        partial(nn.Linear, 4, 3),
    )
    return trained(way, net, batch(6), batch(3))


def a_transformer(way: Way) -> Any:
    block = partial(nn.TransformerEncoderLayer, 8, 2, 16, dropout=0.0, batch_first=True)
    return trained(way, seeded(block, block, block), batch(5, 8), batch(5, 8))


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * grad


def a_function_of_ones_own(way: Way) -> Any:
    return trained(way, linears(do(Square.apply)), batch(6), batch(3))


def a_loss_injected_in_a_backward(way: Way) -> Any:
    """With the two lines that the page of limits shows."""
    page = Path(__file__).resolve().parents[3] / "docs" / "cluster_limits.md"
    net = seeded(partial(Penalized, 6, lines(page)), nn.Tanh, partial(Penalized, 6, lines(page)), nn.Tanh)
    net[0].samples = net[2].samples = len(batch(6))
    return trained(way, net, batch(6), batch(6))


class Checkpointed(nn.Sequential):
    def forward(self, x: Any) -> Any:
        return checkpoint(super().forward, x, use_reentrant=False)


def a_checkpoint_inside_a_layer(way: Way) -> Any:
    return trained(way, linears(lambda: Checkpointed(nn.Linear(8, 8), nn.Tanh())), batch(6), batch(3))


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x


def a_buffer_that_counts_calls(way: Way) -> Any:
    return trained(way, linears(Counter), batch(6), batch(3))


def one_activation_used_everywhere(way: Way) -> Any:
    tanh = nn.Tanh()
    return trained(
        way,
        seeded(*[layer for _ in range(3) for layer in (partial(nn.Linear, 6, 6), lambda: tanh)]),
        batch(6),
        batch(6),
    )


def a_weight_that_is_not_used(way: Way) -> Any:
    class Idle(nn.Linear):
        def forward(self, x: Any) -> Any:
            return x

    return trained(way, linears(partial(Idle, 8, 8)), batch(6), batch(3))


def complex_numbers(way: Way) -> Any:
    torch.manual_seed(0)
    net = nn.Sequential(*[nn.Linear(6, 6, dtype=torch.complex128) for _ in range(3)])
    x = torch.complex(batch(6), batch(6, seed=2))
    return trained(way, net, x, x.roll(1), lambda out, y: (out - y).abs().square().mean())


def dropout_of_nothing(way: Way) -> Any:
    return trained(way, linears(partial(nn.Dropout, 0.0)), batch(6), batch(3))


def dropout_while_evaluating(way: Way) -> Any:
    net = linears(partial(nn.Dropout, 0.5)).eval()
    return trained(way, net, batch(6), batch(3))


# Weights


def frozen_first_layers(way: Way) -> Any:
    net = mlp()
    for weight in net[:3].parameters():
        weight.requires_grad_(False)
    model = way.wrap(net, F.mse_loss, batch(6))
    losses = [model.step(batch(6), batch(3)) for _ in range(2)]
    return losses, held(model)


def frozen_last_layers(way: Way) -> Any:
    net = mlp()
    for weight in net[3:].parameters():
        weight.requires_grad_(False)
    model = way.wrap(net, F.mse_loss, batch(6))
    losses = [model.step(batch(6), batch(3)) for _ in range(2)]
    return losses, held(model)


def frozen_between_two_steps(way: Way) -> Any:
    net = mlp()
    model = way.wrap(net, F.mse_loss, batch(6))
    losses = [model.step(batch(6), batch(3))]
    net[2].weight.requires_grad_(False)
    model.zero_grad()
    return [*losses, model.step(batch(6), batch(3))], held(model)


def hooks_on_weights(way: Way) -> Any:
    net = mlp()
    for layer in (net[0], net[-1]):
        layer.weight.register_hook(lambda grad: grad.clamp(-0.01, 0.01))
    return trained(way, net, batch(6), batch(3))


def forward_hooks_on_layers(way: Way) -> Any:
    net = mlp()
    net[2].register_forward_hook(lambda module, inputs, output: 2 * output)
    net[4].register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    return trained(way, net, batch(6), batch(3))


def backward_hooks_on_layers(way: Way) -> Any:
    net = mlp()
    net[2].register_full_backward_hook(lambda module, into, out: (2 * into[0],))
    return trained(way, net, batch(6), batch(3))


def hooks_on_activations(way: Way) -> Any:
    def twice(x: Any) -> Any:
        if x.requires_grad:
            x.register_hook(lambda grad: 2 * grad)
        return x

    return trained(way, linears(do(twice)), batch(6), batch(3))


def a_weight_replaced_by_another(way: Way) -> Any:
    net = mlp()
    model = way.wrap(net, F.mse_loss, batch(6))
    net[2].weight = nn.Parameter(net[2].weight.detach() * 2)
    losses = [model.step(batch(6), batch(3)) for _ in range(2)]
    return losses, held(model)


def a_weight_tied_inside_a_stage(way: Way) -> Any:
    net = seeded(partial(nn.Linear, 6, 6), partial(nn.Linear, 6, 6), *[partial(nn.Linear, 6, 6)] * 2)
    net[1].weight = net[0].weight
    return trained(way, net, batch(6), batch(6))


def names_of_weights(way: Way) -> Any:
    model = way.wrap(mlp(), F.mse_loss, batch(6))
    return dict.fromkeys([name for name, _ in model.named_parameters()], True)


# Training loops


def loop(way: Way, kind: Any, after: Any = None, steps: int = 4, of_net: bool = False, **settings: Any) -> Any:
    net = mlp()
    model = way.wrap(net, F.mse_loss, batch(6))
    optimizer = kind((net if of_net else model).parameters(), **settings)
    losses = []
    for number in range(steps):
        optimizer.zero_grad()
        losses.append(model.step(batch(6, seed=number), batch(3, seed=9)))
        if after:
            after(model)
        optimizer.step()
    return losses, held(model)


def adam(way: Way) -> Any:
    return loop(way, torch.optim.AdamW, lr=0.01, weight_decay=0.1)


def an_optimizer_over_the_net(way: Way) -> Any:
    return loop(way, torch.optim.Adam, of_net=True, lr=0.01)


def clipped_by_value(way: Way) -> Any:
    return loop(way, torch.optim.SGD, lambda model: clip_grad_value_(model.parameters(), 0.01), lr=0.1)


def clipped_by_norm(way: Way) -> Any:
    return loop(way, torch.optim.SGD, lambda model: model.clip_grad_norm(0.01), lr=0.1)


def several_optimizers(way: Way) -> Any:
    model = way.wrap(mlp(), F.mse_loss, batch(6))
    kinds = {True: torch.optim.Adam, False: torch.optim.SGD}
    parts = {one: [w for name, w in model.named_parameters() if name.endswith("bias") == one] for one in kinds}
    optimizers = [kinds[one](part, lr=0.01) for one, part in parts.items() if part]
    losses = []
    for _ in range(3):
        model.zero_grad()
        losses.append(model.step(batch(6), batch(3)))
        for optimizer in optimizers:
            optimizer.step()
    return losses, held(model)


def gradients_added_up(way: Way) -> Any:
    model = way.wrap(mlp(), F.mse_loss, batch(6))
    return [model.step(batch(6, seed=number), batch(3)) for number in range(3)], held(model)


def an_average_of_weights(way: Way) -> Any:
    model = way.wrap(mlp(), F.mse_loss, batch(6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = [copy.deepcopy(weight.detach()) for weight in model.parameters()]
    for _ in range(3):
        model.zero_grad()
        model.step(batch(6), batch(3))
        optimizer.step()
        for mean, weight in zip(average, model.parameters(), strict=True):
            mean.lerp_(weight.detach(), 0.1)
    return {name: mean for (name, _), mean in zip(model.named_parameters(), average, strict=True)}


def evaluated_in_between(way: Way) -> Any:
    net = linears(partial(nn.Dropout, 0.5)).eval()
    model = way.wrap(net, F.mse_loss, batch(6))
    model.train(False)
    model.step(batch(6), batch(3))
    outputs = model.predict(batch(6, seed=5))
    return {} if outputs is None else {"outputs": outputs}, held(model)


def batches_of_other_sizes(way: Way) -> Any:
    model = way.wrap(mlp(), F.mse_loss, batch(6))
    return [model.step(batch(6, samples=n), batch(3, samples=n)) for n in (7, 2, 1, 12)], held(model)


def two_nets_in_turn(way: Way) -> Any:
    models = [way.wrap(mlp(), F.mse_loss, batch(6)), way.wrap(linears(), F.mse_loss, batch(6))]
    losses = [model.step(batch(6, seed=n), batch(3)) for n in range(2) for model in models]
    return losses, *map(held, models)


def inputs_that_want_a_gradient(way: Way) -> Any:
    x = batch(6).requires_grad_()
    model = way.wrap(mlp(), F.mse_loss, x)
    loss = model.step(x, batch(3))
    return loss, held(model), {"x": x.grad} if getattr(model, "first", True) else {}


LOSSES: dict[str, Any] = {
    "binary": (F.binary_cross_entropy_with_logits, lambda: (batch(3) > 0).double(), "mean"),
    "smoothed": (partial(F.cross_entropy, label_smoothing=0.1), lambda: CLASSES, "mean"),
    "weighed": (nn.CrossEntropyLoss(torch.tensor([1.0, 2, 3]).double()), lambda: CLASSES, "mean"),
    "ignored": (nn.CrossEntropyLoss(ignore_index=1), lambda: CLASSES, "mean"),
    "summed": (nn.MSELoss(reduction="sum"), lambda: batch(3), "sum"),
    "kl": (partial(F.kl_div, reduction="batchmean"), lambda: batch(3).softmax(1), "mean"),
    "of one value": (lambda out, y: F.mse_loss(out, y).view(1), lambda: batch(3), "mean"),
    "probabilities": (F.cross_entropy, lambda: batch(3).softmax(1), "mean"),
}


def losses(way: Way, name: str) -> Any:
    loss, make, reduction = LOSSES[name]
    return trained(way, mlp(), batch(6), make(), loss, reduction=reduction)


def shuffled_by_what_dropout_draws_from(way: Way) -> Any:
    """Ranks draw other numbers, since each has other layers."""
    net = seeded(partial(nn.Linear, 6, 8), partial(nn.Dropout, 0.5), partial(nn.Linear, 8, 5), partial(nn.Linear, 5, 3))
    model = way.wrap(net, F.mse_loss, batch(6))
    torch.manual_seed(3)
    for _ in range(2):
        order = torch.randperm(7)
        model.step(batch(6)[order], batch(3)[order])
    return held(model)


# Nets that are none of the usual


def lazy_layers(way: Way) -> Any:
    torch.manual_seed(0)
    net = nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(3)).double()
    return trained(way, net, batch(6), batch(3))


def a_net_without_numbers(way: Way) -> Any:
    with torch.device("meta"):
        net = mlp()
    return trained(way, net, batch(6), batch(3))


def data_parallel_around(way: Way) -> Any:
    return trained(way, nn.DataParallel(mlp()), batch(6), batch(3))
