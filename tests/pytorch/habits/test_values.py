"""What people put in, take out, and take for a target or a loss."""

from __future__ import annotations

import collections
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from gpipe_edu.pytorch import GPipe
from tests.each import each
from tests.pytorch.bench import Apply
from tests.pytorch.habits.ways import (
    CALLS,
    TRAINS,
    as_plain,
    as_plain_calls,
    batch,
    data,
    do,
    error_of,
    held,
    mlp,
    seeded,
    trained,
    weighed,
)

pytestmark = pytest.mark.slow

STEPS = [way for way in TRAINS if way.steps]

INPUTS = {
    "a_parameter": lambda: nn.Parameter(batch(6)),
    "a_slice": lambda: batch(9)[:, 1:7],
    "every_second_row": lambda: torch.cat([batch(6), batch(6)])[::2],
    "transposed": lambda: batch(6).T.contiguous().T,
    "one_row_expanded": lambda: batch(6)[:1].expand(7, 6),
    "from_numpy": lambda: torch.from_numpy(np.arange(42.0).reshape(7, 6)),
    "with_names_of_its_own": lambda: batch(6).as_subclass(Named),
    "a_view_of_what_requires_a_gradient": lambda: batch(7).requires_grad_(True)[:, :6],
    "negated_lazily": lambda: torch.complex(batch(6), batch(6)).conj().imag,
    "a_single_sample": lambda: batch(6)[:1],
    "huge_and_tiny": lambda: batch(6) * torch.logspace(-30, 30, 6, dtype=torch.float64),
}


class Named(torch.Tensor):
    """A subclass that changes nothing."""


@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
@as_plain
def test_inputs(way, make):
    net = mlp()
    x = make()
    return way.learn(way.wrap(net), x, batch(3)[: len(x)]), held(net)


@as_plain_calls
def test_gradient_of_an_input_that_is_used_elsewhere_too(way):
    x = batch(6).requires_grad_(True)
    (way.wrap(mlp())(x * 2).sum() + x.pow(2).sum()).backward()
    return x.grad


@as_plain
def test_gradient_of_an_input_adds_up(way):
    net, (x, y) = mlp(), data()
    x.requires_grad_(True)
    model = way.wrap(net)
    for _ in range(2):
        way.learn(model, x, y)
    return x.grad


@as_plain_calls
def test_subclass_of_what_comes_out(way):
    return type(way.wrap(mlp())(batch(6).as_subclass(Named)))


SEVERAL = {
    "two": (2, [do(lambda xs: (xs[0] * 2, xs[1].sin())), do(lambda xs: xs[0] + xs[1])]),
    "singleton": (1, [do(lambda xs: (xs[0] * 2,)), do(lambda xs: xs)]),
    "two_out": (2, [do(lambda xs: (xs[0] + xs[1], xs[0])), do(lambda xs: (xs[0].tanh(), xs[1]))]),
    "one_unused": (2, [do(lambda xs: xs[0]), nn.Tanh]),
    "one_passed_by": (2, [do(lambda xs: (xs[0].cos(), xs[1])), do(lambda xs: (xs[0], xs[1]))]),
    "swapped": (2, [do(lambda xs: xs[::-1]), do(lambda xs: xs[0] * xs[1].exp())]),
    "the_same_twice": (1, [do(lambda xs: (xs[0] * 2,) * 2), do(lambda xs: xs[0] * xs[1])]),
    "views_of_one": (1, [do(lambda xs: (xs[0] * 2).chunk(2, 1)), do(lambda xs: xs[0] * xs[1])]),
    "one_without_a_gradient": (1, [do(lambda xs: (xs[0] * 2, xs[0].detach())), do(lambda xs: xs[0] * xs[1])]),
    "one_of_whole_numbers": (1, [do(lambda xs: (xs[0] * 2, xs[0].argmax(1))), do(lambda xs: xs[0] * xs[1][:, None])]),
    "a_mask": (1, [do(lambda xs: (xs[0] * 2, xs[0] > 0)), do(lambda xs: xs[0] * xs[1])]),
    "out_with_whole_numbers": (1, [do(lambda xs: xs[0] * 2), do(lambda x: (x, x.argmax(1)))]),
}


@pytest.mark.parametrize("kind", SEVERAL)
@as_plain_calls
def test_several_values(way, kind):
    n, layers = SEVERAL[kind]
    inputs = tuple(batch(6, seed=i).requires_grad_(True) for i in range(n))
    outputs = way.wrap(seeded(*layers))(inputs)
    weighed(outputs).backward()
    return outputs, [x.grad for x in inputs]


@as_plain_calls
def test_loss_of_only_one_of_two_outputs(way):
    net = seeded(lambda: nn.Linear(6, 4), Heads)
    _, right = way.wrap(net)(batch(6))
    right.sum().backward()
    return held(net)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(4, 2), nn.Linear(4, 3)

    def forward(self, x):
        return self.left(x), self.right(x)


@as_plain
def test_two_heads_and_two_targets(way):
    net = seeded(lambda: nn.Linear(6, 4), Heads)

    def loss_fn(out, y):
        return F.mse_loss(out[0], y[0]) + F.cross_entropy(out[1], y[1])

    return way.learn(way.wrap(net), batch(6), (batch(2), torch.arange(7) % 3), loss_fn), held(net)


@as_plain
def test_an_encoder_whose_loss_needs_three_outputs(way):
    class Variational(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = nn.Linear(6, 4), nn.Linear(2, 6)

        def forward(self, x):
            mean, spread = self.encode(x).chunk(2, 1)
            return self.decode(mean + 0.1 * spread.exp()), mean, spread

    def loss_fn(out, y):
        made, mean, spread = out
        return F.mse_loss(made, y) - 0.5 * (1 + spread - mean**2 - spread.exp()).sum(1).mean()

    net, x = seeded(nn.Identity, Variational), batch(6)
    return way.learn(way.wrap(net), x, x, loss_fn), held(net)


@as_plain
def test_whole_numbers_between_stages(way):
    net = seeded(lambda: nn.Linear(6, 4), do(lambda x: x.argmax(1)), lambda: nn.Embedding(4, 3))
    return way.learn(way.wrap(net, balance=[2, 1]), batch(6), batch(3)), held(net)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float8_e4m3fn, torch.int16], ids=str)
@as_plain
def test_inputs_of_other_kinds(way, dtype):
    net = seeded(do(lambda x: x.double()), lambda: nn.Linear(6, 3))
    return way.learn(way.wrap(net), batch(6).to(dtype), batch(3)), held(net)


@as_plain
def test_sentences_with_a_mask(way):
    class Encoder(nn.TransformerEncoderLayer):
        def forward(self, xs):
            return super().forward(xs[0], src_key_padding_mask=xs[1]), xs[1]

    def make():
        return Encoder(8, 2, 16, dropout=0.0, batch_first=True)

    net = seeded(make, make, do(lambda xs: xs[0][:, 0]))
    x, mask = batch(5, 8), torch.arange(5) >= torch.arange(1, 8)[:, None]
    return way.learn(way.wrap(net), (x, mask), batch(8)), held(net)


@as_plain
def test_encoder_and_decoder(way):
    class Encoder(nn.TransformerEncoderLayer):
        def forward(self, xs):
            return super().forward(xs[0]), xs[1]

    class Decoder(nn.TransformerDecoderLayer):
        def forward(self, xs):
            return xs[0], super().forward(xs[1], xs[0])

    net = seeded(
        lambda: Encoder(8, 2, 16, dropout=0.0, batch_first=True),
        lambda: Decoder(8, 2, 16, dropout=0.0, batch_first=True),
        lambda: Decoder(8, 2, 16, dropout=0.0, batch_first=True),
        do(lambda xs: xs[1]),
    )
    return way.learn(way.wrap(net), (batch(5, 8), batch(3, 8)), batch(3, 8)), held(net)


@as_plain
def test_unpooling_with_the_indices_of_a_pooling(way):
    class Unpool(nn.MaxUnpool2d):
        def forward(self, xs):
            return super().forward(*xs)

    net = seeded(lambda: nn.Conv2d(2, 3, 3, padding=1), lambda: nn.MaxPool2d(2, return_indices=True), lambda: Unpool(2))
    return trained(way, net, batch(2, 4, 4))


@as_plain
def test_state_of_a_recurrent_net_goes_along(way):
    class Steps(nn.GRU):
        def forward(self, xs):
            out, h = super().forward(xs[0], xs[1].transpose(0, 1).contiguous())
            return out, h.transpose(0, 1)

    net = seeded(lambda: Steps(4, 4, batch_first=True), lambda: Steps(4, 4, batch_first=True))
    return way.learn(way.wrap(net), (batch(5, 4), batch(1, 4)), batch(1), weighed), held(net)


class Focal(nn.CrossEntropyLoss):
    def forward(self, out, y):
        return super().forward(out * 2, y)


TARGETS = {
    "cross_entropy": (lambda: torch.arange(7) % 3, F.cross_entropy),
    "smoothed": (lambda: torch.arange(7) % 3, nn.CrossEntropyLoss(label_smoothing=0.1)),
    "probabilities": (lambda: batch(3).softmax(1), nn.CrossEntropyLoss()),
    "nll": (lambda: torch.arange(7) % 3, lambda out, y: F.nll_loss(out.log_softmax(1), y)),
    "nll_module": (lambda: torch.arange(7) % 3, nn.NLLLoss(torch.tensor([1.0, 2, 3]).double())),
    "binary": (lambda: (batch(3) > 0).double(), nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2, 3]).double())),
    "a_class_of_ones_own": (lambda: torch.arange(7) % 3, Focal(ignore_index=0)),
    "huber": (lambda: batch(3), nn.HuberLoss()),
    "l1": (lambda: batch(3), nn.L1Loss()),
    "kl": (lambda: batch(3).softmax(1), lambda out, y: F.kl_div(out.log_softmax(1), y, reduction="batchmean")),
    "margin": (lambda: torch.arange(7) % 3, nn.MultiMarginLoss()),
    "multilabel": (lambda: (batch(3) > 0).double(), nn.MultiLabelSoftMarginLoss()),
    "poisson": (lambda: batch(3).abs(), nn.PoissonNLLLoss()),
    "gaussian": (lambda: batch(3), lambda out, y: F.gaussian_nll_loss(out, y, out.exp())),
    "triplet": (lambda: batch(3), lambda out, y: F.triplet_margin_loss(out, y, -y)),
    "cosine": (lambda: batch(3), lambda out, y: F.cosine_embedding_loss(out, y, torch.ones(len(y)))),
    "two": (lambda: (batch(3), batch(3, seed=4)), lambda out, y: F.mse_loss(out, y[0] * y[1])),
    "partial": (lambda: torch.arange(7) % 3, partial(F.cross_entropy, label_smoothing=0.1)),
    "partial_ignored": (lambda: torch.arange(7) % 3, partial(F.cross_entropy, ignore_index=0)),
    "partial_weighted": (
        lambda: torch.arange(7) % 3,
        partial(F.cross_entropy, weight=torch.ones(3).cumsum(0).double()),
    ),
    "all_of_it": (
        lambda: torch.tensor([-100, 1, 2, 0, 1, -100, 0]),
        nn.CrossEntropyLoss(torch.tensor([1.0, 2, 3]).double(), label_smoothing=0.2),
    ),
    "one_value_per_sample_averaged": (lambda: batch(3), lambda out, y: (out - y).pow(2).sum(1).mean()),
    "a_tensor_of_one_value": (lambda: batch(3), lambda out, y: F.mse_loss(out, y).view(1)),
    "of_two_dimensions": (lambda: batch(3), lambda out, y: F.mse_loss(out, y).view(1, 1)),
}


@pytest.mark.parametrize("kind", TARGETS)
@as_plain
def test_targets_and_losses(way, kind):
    make, loss_fn = TARGETS[kind]
    net = mlp()
    return way.learn(way.wrap(net), batch(6), make(), loss_fn).sum(), held(net)


SUMS = {
    "sum": (lambda: batch(3), nn.MSELoss(reduction="sum")),
    "entropy": (lambda: torch.arange(7) % 3, nn.CrossEntropyLoss(reduction="sum")),
    "partial": (lambda: batch(3), partial(F.mse_loss, reduction="sum")),
    "own": (lambda: batch(3), lambda out, y: (out - y).abs().sum()),
}


@pytest.mark.parametrize("kind", SUMS)
@as_plain
def test_losses_that_are_sums(way, kind):
    make, loss_fn = SUMS[kind]
    net = mlp()
    return way.learn(way.wrap(net), batch(6), make(), loss_fn, reduction="sum"), held(net)


@as_plain
def test_pixels_of_which_some_are_ignored(way):
    net = seeded(lambda: nn.Conv2d(2, 4, 3, padding=1), nn.ReLU, lambda: nn.Conv2d(4, 3, 1))
    y = torch.arange(7 * 16).view(7, 4, 4) % 4 - 1
    y[:3] = -1
    return way.learn(way.wrap(net), batch(2, 4, 4), y, nn.CrossEntropyLoss(ignore_index=-1)), held(net)


@as_plain
def test_words_of_a_language_model(way):
    net = seeded(lambda: nn.Embedding(9, 6), lambda: nn.Linear(6, 6), nn.Tanh, lambda: nn.Linear(6, 9))
    tokens = torch.arange(42).view(7, 6) % 9

    def loss_fn(out, y):
        return F.cross_entropy(out.flatten(0, 1), y.flatten())

    return way.learn(way.wrap(net), tokens[:, :-1], tokens[:, 1:], loss_fn), held(net)


@each("way", STEPS)
def test_accuracy_from_the_outputs_of_a_step(way):
    model, x, y = way.wrap(mlp()), batch(6), torch.arange(7) % 3
    with torch.no_grad():
        expected = mlp()(x)
    loss, outputs = model.step(x, y, F.cross_entropy, return_outputs=True)
    assert torch.equal(outputs.argmax(1) == y, expected.argmax(1) == y)
    assert not outputs.requires_grad
    assert not loss.requires_grad


@as_plain
def test_batches_of_a_loader(way):
    net = mlp()
    model = way.wrap(net)
    return [way.learn(model, *pair) for pair in DataLoader(TensorDataset(*data()), batch_size=3)], held(net)


@as_plain
def test_batches_that_worker_processes_load(way):
    net = mlp()
    model = way.wrap(net)
    loader = DataLoader(TensorDataset(*data()), batch_size=4, num_workers=1, multiprocessing_context="fork")
    return [way.learn(model, *pair) for pair in loader], held(net)


@as_plain_calls
def test_output_is_the_callers_to_change(way):
    net = seeded(lambda: nn.Linear(6, 4), nn.Tanh, lambda: nn.Linear(4, 3))
    out = way.wrap(net)(batch(6))
    out.mul_(2)
    out[0] = 1.0
    F.relu_(out).sum().backward()
    return held(net)


@as_plain_calls
def test_what_an_output_is(way):
    net = mlp()
    model, x = way.wrap(net), batch(6)
    out = model(x)
    with torch.no_grad():
        quiet = model(x)
    frozen = model.requires_grad_(False)(x)
    return [
        (o.requires_grad, o.is_leaf, o.grad_fn is None, o.dtype, o.shape, o.is_contiguous())
        for o in (out, quiet, frozen)
    ]


@as_plain_calls
def test_identity_net_does_not_share_memory_by_surprise(way):
    x = batch(6)
    out = way.wrap(seeded(do(lambda x: x + 0), nn.Identity))(x)
    out.zero_()
    return x


# What plain PyTorch takes and a pipe can't: (what goes in, the words of the error).
Point = collections.namedtuple("Point", "x y")
NOT_TAKEN = {
    "numpy": (lambda: np.ones((7, 6)), TypeError, "ndarray"),
    "list": (lambda: [batch(6)], TypeError, "list"),
    "dictionary": (lambda: {"x": batch(6)}, TypeError, "dict"),
    "nothing": (lambda: None, TypeError, "NoneType|None"),
    "number": (lambda: 3.0, TypeError, "float"),
    "words": (lambda: "hello", TypeError, "str"),
    "named_tuple": (lambda: Point(batch(6), batch(6)), TypeError, "Point"),
    "tuple_in_a_tuple": (lambda: (batch(6), (batch(6),)), TypeError, "tuple"),
    "none_in_a_tuple": (lambda: (batch(6), None), TypeError, "None"),
    "no_tensors": (lambda: (), (TypeError, ValueError), "empty|tensor"),
    "no_samples": (lambda: batch(6)[:0], ValueError, "sample"),
    "one_number": (lambda: torch.tensor(3.0), ValueError, "sample"),
    "unequal": (lambda: (batch(6), batch(6)[:3]), ValueError, "same number"),
    "sparse": (lambda: batch(6).to_sparse(), (TypeError, ValueError), "dense"),
    "nested": (lambda: torch.nested.nested_tensor([batch(6)[0]]), (TypeError, ValueError), "nested"),
    "meta": (lambda: batch(6).to("meta"), (TypeError, ValueError, RuntimeError), "meta"),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("kind", NOT_TAKEN)
@pytest.mark.parametrize("steps", [False, True])
def test_inputs_that_a_pipe_refuses(kind, steps):
    make, error, words = NOT_TAKEN[kind]
    pipe = GPipe(mlp(), 2, 3)
    with pytest.raises(error, match=words):
        pipe.step(make(), batch(3), F.mse_loss) if steps else pipe(make())
    pipe.step(*data(), F.mse_loss)


NOT_PASSED_ON = {
    "nothing": (lambda x: None, TypeError, "None"),
    "number": (lambda x: 3.0, TypeError, "float"),
    "words": (lambda x: "hello", TypeError, "str"),
    "list": (lambda x: [x], TypeError, "list"),
    "dictionary": (lambda x: {"x": x}, TypeError, "dict"),
    "named_tuple": (lambda x: Point(x, x), TypeError, "Point"),
    "none_in_a_tuple": (lambda x: (x, None), TypeError, "None"),
    "numpy": (lambda x: x.detach().numpy(), TypeError, "ndarray"),
    "empty_tuple": (lambda x: (), (TypeError, ValueError), "tuple|tensor"),
    "generator": (lambda x: (part for part in x), TypeError, "generator"),
}


@each("last", [False, True])
@each("kind", NOT_PASSED_ON)
def test_outputs_that_a_stage_may_not_have(kind, last):
    function, error, words = NOT_PASSED_ON[kind]
    layers = [nn.Linear(6, 6), Apply(function)] if last else [Apply(function), nn.Linear(6, 6)]
    pipe = GPipe(nn.Sequential(*layers).double(), 2, 3)
    with pytest.raises(error, match=words):
        pipe(batch(6))


UNLIKE = {
    "length": lambda x: x[:, : len(x)],
    "how_many": lambda x: (x,) * len(x),
    "tuple_or_not": lambda x: (x,) if len(x) == 3 else x,
}


@each("way", CALLS)
@pytest.mark.parametrize("kind", UNLIKE)
def test_outputs_whose_form_depends_on_the_number_of_samples(way, kind):
    with pytest.raises(ValueError, match=r"micro-batch 0 .* micro-batch 1"):
        way.wrap(seeded(lambda: nn.Linear(6, 6), do(UNLIKE[kind])))(batch(6))


@as_plain_calls
def test_rows_that_a_layer_leaves_out(way):
    net = seeded(lambda: nn.Linear(6, 6), do(lambda x: x[x[:, 0] > 0]), lambda: nn.Linear(6, 3))
    out = way.wrap(net)(batch(6))
    out.sum().backward()
    return out, held(net)


NO_STEP = {
    "floats": (lambda out, y: F.mse_loss(out, y).item(), TypeError, "float"),
    "nothing": (lambda out, y: None, TypeError, "None"),
    "pairs": (lambda out, y: (F.mse_loss(out, y), out), TypeError, "tuple"),
    "one_per_sample": (lambda out, y: (out - y).pow(2).mean(1), (TypeError, ValueError), "one value"),
    "detached": (lambda out, y: F.mse_loss(out.detach(), y), (TypeError, ValueError, RuntimeError), "detach|grad"),
    "predicted": (lambda out, y: (out.argmax(1) == 1).double().mean(), (ValueError, RuntimeError), "detach|argmax"),
    "complex": (lambda out, y: F.mse_loss(out, y) * 1j, (TypeError, ValueError, RuntimeError), "complex|real"),
    "whole": (lambda out, y: out.argmax(1).sum(), (TypeError, ValueError, RuntimeError), "argmax|float|grad"),
}


@each("way", STEPS)
@pytest.mark.parametrize("kind", NO_STEP)
def test_losses_that_no_step_can_use(way, kind):
    loss_fn, error, words = NO_STEP[kind]
    pipe, (x, y) = way.wrap(mlp()), data()
    with pytest.raises(error, match=words):
        pipe.step(x, y, loss_fn)
    assert all(weight.grad is None for weight in pipe.parameters())


NO_TARGET = {
    "too_few": (lambda: batch(3)[:5], ValueError, "7"),
    "too_many": (lambda: torch.cat([batch(3)] * 2), ValueError, "14"),
    "number": (lambda: 3, (TypeError, ValueError), "int"),
    "words": (lambda: "cat", (TypeError, ValueError), "str"),
    "scalar": (lambda: torch.tensor(1.0), TypeError, "sample"),
    "nothing": (lambda: None, TypeError, "NoneType"),
    "list": (lambda: [batch(3)], TypeError, "list"),
    "dictionary": (lambda: {"y": batch(3)}, TypeError, "dict"),
    "with_a_gradient": (lambda: batch(3).requires_grad_(True), ValueError, "detach"),
    "numpy": (lambda: np.ones((7, 3)), TypeError, "ndarray|torch"),
}


@each("kind", NO_TARGET)
def test_targets_that_do_not_fit(kind):
    make, error, words = NO_TARGET[kind]
    with pytest.raises(error, match=words):
        GPipe(mlp(), 2, 3).step(batch(6), make(), F.mse_loss)


NOT_SAID = {
    "reduction_unknown": {"reduction": "average"},
    "reduction_none": {"reduction": None},
    "other_than_the_losss": {"loss_fn": partial(F.mse_loss, reduction="sum")},
    "too_few_weights": {"reduction": [1.0]},
    "weights_of_words": {"reduction": ["a", "b", "c"]},
}


@pytest.mark.parametrize("kind", NOT_SAID)
def test_reductions_that_are_none(kind):
    with pytest.raises((TypeError, ValueError), match="reduction"):
        GPipe(mlp(), 2, 3).step(*data(), **({"loss_fn": F.mse_loss} | NOT_SAID[kind]))


@each("way", CALLS)
def test_errors_of_shape_and_kind_are_pytorchs_own(way):
    for x in (batch(5), batch(6).float(), batch(6).long()):
        found, expected = (error_of(lambda model=model, x=x: model(x)) for model in (way.wrap(mlp()), mlp()))
        assert found is expected
