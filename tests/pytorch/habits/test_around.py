"""What stands around a training: autocast, modes, random numbers, threads, processes, profilers, settings."""

from __future__ import annotations

import asyncio
import contextlib
import io
import random
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from tests.each import each
from tests.processes import PATIENCE
from tests.pytorch.bench import Apply
from tests.pytorch.habits.ways import CALLS, TRAINS, as_plain, as_plain_calls, batch, data, do, held, mlp, same, seeded

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@as_plain
def test_autocast(way, dtype):
    net = mlp().float()
    seen = []
    net.append(Apply(lambda x: seen.append(x.dtype) or x))
    x, y = data()
    with torch.autocast("cpu", dtype):
        model = way.wrap(net)
        loss = way.learn(model, x.float(), y.float(), lambda out, y: F.mse_loss(out.float(), y))
    return set(seen), loss.round(decimals=1), net[0].weight.grad.dtype


@as_plain_calls
def test_autocast_switched_off_inside_a_layer(way):
    class Exact(nn.Linear):
        def forward(self, x):
            with torch.autocast("cpu", enabled=False):
                return super().forward(x.float())

    net = nn.Sequential(nn.Linear(6, 4), Exact(4, 3)).float()
    with torch.autocast("cpu", torch.bfloat16):
        return way.wrap(net)(batch(6).float()).dtype


@as_plain_calls
def test_backward_outside_of_autocast(way):
    net = mlp().float()
    with torch.autocast("cpu", torch.bfloat16):
        loss = way.wrap(net)(batch(6).float()).float().sum()
    loss.backward()
    return [weight.grad.dtype for weight in net.parameters()]


@as_plain_calls
def test_default_type_of_new_tensors(way):
    net = seeded(do(lambda x: x + torch.ones(6)), do(lambda x: x * torch.full((6,), 0.1)))
    torch.set_default_dtype(torch.float32)
    try:
        return way.wrap(net)(batch(6))
    finally:
        torch.set_default_dtype(torch.float64)


@as_plain
def test_deterministic_algorithms(way):
    net = mlp()
    torch.use_deterministic_algorithms(True)
    try:
        return way.learn(way.wrap(net), *data()), held(net)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.filterwarnings("ignore:TF32 acceleration:UserWarning")
@as_plain
def test_backend_flags(way):
    net = seeded(lambda: nn.Conv2d(2, 3, 3), nn.ReLU, nn.Flatten, lambda: nn.Linear(12, 3))
    with torch.backends.mkldnn.flags(enabled=False):
        return way.learn(way.wrap(net), batch(2, 4, 4), batch(3)), held(net)


@as_plain
def test_backward_on_one_thread(way):
    net = mlp()
    with torch.autograd.set_multithreading_enabled(False):
        return way.learn(way.wrap(net), *data()), held(net)


@as_plain
def test_saved_tensors_that_may_change(way):
    net = mlp()
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        return way.learn(way.wrap(net), *data()), held(net)


@as_plain
def test_warnings_of_a_layer_are_caught(way):
    net = mlp()
    net[1] = Apply(lambda x: warnings.warn("mine", stacklevel=1) or x)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        way.learn(way.wrap(net), *data())
    return {str(warning.message) for warning in seen}


@as_plain
def test_words_of_a_layer_are_caught(way):
    net, words = mlp(), io.StringIO()
    net[1] = Apply(lambda x: print("mine") or x)
    with contextlib.redirect_stdout(words):
        way.learn(way.wrap(net), *data())
    return set(words.getvalue().split())


@as_plain
def test_attention_kernel_chosen(way):
    net = seeded(do(lambda x: F.scaled_dot_product_attention(x, x, x)), lambda: nn.Linear(8, 3))
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        return way.learn(way.wrap(net), batch(5, 8), batch(5, 3)), held(net)


class Doubles(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.tanh else out


@as_plain
def test_functions_changed_by_a_mode(way):
    net = seeded(lambda: nn.Linear(6, 4), do(lambda x: torch.tanh(x)), lambda: nn.Linear(4, 3))
    model = way.wrap(net)
    with Doubles():
        return way.learn(model, *data()), held(net)


def noisy():
    return seeded(lambda: nn.Linear(6, 8), nn.Dropout, lambda: nn.Linear(8, 8), nn.Dropout, lambda: nn.Linear(8, 3))


NOISE = {
    "dropout": noisy,
    "inplace_dropout": lambda: seeded(
        lambda: nn.Linear(6, 8), lambda: nn.Dropout(0.5, inplace=True), lambda: nn.Linear(8, 3)
    ),
    "dropout_of_channels": lambda: seeded(
        do(lambda x: x.view(-1, 3, 2)), nn.Dropout1d, nn.Flatten, lambda: nn.Linear(6, 3)
    ),
    "alpha": lambda: seeded(lambda: nn.Linear(6, 8), nn.AlphaDropout, lambda: nn.Linear(8, 3)),
    "gumbel": lambda: seeded(
        lambda: nn.Linear(6, 8), do(lambda x: F.gumbel_softmax(x, hard=True)), lambda: nn.Linear(8, 3)
    ),
    "reparameterized": lambda: seeded(
        lambda: nn.Linear(6, 8),
        do(lambda x: torch.distributions.Normal(x[:, :4], x[:, 4:].exp()).rsample()),
        lambda: nn.Linear(4, 3),
    ),
    "exponential": lambda: seeded(do(lambda x: x * torch.empty_like(x).exponential_()), lambda: nn.Linear(6, 3)),
    "fractional_pool": lambda: seeded(
        do(lambda x: x.view(-1, 1, 6).repeat(1, 6, 1)[:, None]),
        lambda: nn.FractionalMaxPool2d(2, output_size=2),
        nn.Flatten,
        lambda: nn.Linear(4, 3),
    ),
    "recurrent_dropout": lambda: seeded(
        do(lambda x: x.view(-1, 3, 2)),
        lambda: Last(nn.LSTM(2, 4, 2, dropout=0.5, batch_first=True)),
        lambda: nn.Linear(4, 3),
    ),
    "path_dropped_by_item": lambda: seeded(
        lambda: nn.Linear(6, 8), do(lambda x: x if torch.rand(()).item() < 0.5 else x * 2), lambda: nn.Linear(8, 3)
    ),
}


class Last(nn.Module):
    def __init__(self, recurrent):
        super().__init__()
        self.recurrent = recurrent

    def forward(self, x):
        return self.recurrent(x)[0][:, -1]


@pytest.mark.parametrize("kind", NOISE)
def test_recompute_draws_what_the_forward_drew(kind):
    """Whatever is recomputed, and in whatever order ops run: the same seed gives the same numbers."""
    found = []
    for way in TRAINS:
        net = NOISE[kind]()
        model = way.wrap(net)
        torch.manual_seed(7)
        found.append(([way.learn(model, *data()) for _ in range(2)], held(net)))
    for other in found[1:]:
        same(other, found[0])


@each("way", TRAINS)
def test_same_seed_same_numbers_and_another_step_other_ones(way):
    model = way.wrap(noisy())
    losses = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        losses.append([way.learn(model, *data()).item() for _ in range(2)])
    assert losses[0] == losses[1] != losses[2]
    assert losses[0][0] != losses[0][1]


@each("way", TRAINS)
def test_random_state_saved_and_restored(way):
    model = way.wrap(noisy())
    state = torch.get_rng_state()
    first = way.learn(model, *data())
    torch.set_rng_state(state)
    assert way.learn(model, *data()) == first


@each("way", CALLS)
def test_forked_random_state_is_left_as_it_was(way):
    model = way.wrap(noisy())
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    with torch.random.fork_rng():
        model(batch(6)).sum().backward()
    assert torch.rand(1) == expected


@as_plain
def test_net_without_noise_draws_nothing(way):
    torch.manual_seed(3)
    net = mlp()
    torch.manual_seed(3)
    way.learn(way.wrap(net), *data())
    return torch.rand(3), random.Random(1).random()


@as_plain_calls
def test_dropout_in_eval_mode(way):
    model = way.wrap(noisy()).eval()
    torch.manual_seed(3)
    return model(batch(6)), torch.rand(1)


@as_plain
def test_training_in_another_thread(way):
    net = mlp()
    model = way.wrap(net)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(way.learn, model, *data()).result(60), held(net)


@as_plain
def test_two_models_trained_by_two_threads(way):
    nets = mlp(), mlp(6, 4, 3)
    models = [way.wrap(net) for net in nets]
    with ThreadPoolExecutor(2) as pool:
        losses = list(pool.map(lambda model: [way.learn(model, *data()) for _ in range(5)], models, timeout=PATIENCE))
    return losses, [held(net) for net in nets]


@as_plain_calls
def test_one_model_asked_by_several_threads(way):
    model = way.wrap(mlp()).eval()

    def answer(seed):
        with torch.no_grad():
            return model(batch(6, seed=seed))

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(answer, range(6), timeout=PATIENCE))


@as_plain
def test_training_in_a_coroutine(way):
    net = mlp()
    model = way.wrap(net)

    async def train():
        return way.learn(model, *data())

    return asyncio.run(train()), held(net)


@as_plain
def test_training_in_a_generator(way):
    net = mlp()
    model = way.wrap(net)

    def train():
        while True:
            yield way.learn(model, *data())

    losses = train()
    return next(losses), next(losses), held(net)


@as_plain
def test_traced_by_a_debugger(way):
    net = mlp()
    lines = []
    threading.settrace(lambda frame, event, arg: lines.append(event) and None)
    try:
        return way.learn(way.wrap(net), *data()), held(net)
    finally:
        threading.settrace(None)


@as_plain
def test_number_of_threads_is_given_back(way):
    before = torch.get_num_threads()
    way.learn(way.wrap(mlp()), *data())
    return torch.get_num_threads() == before
