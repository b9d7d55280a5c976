"""What stands around a call holds for what a pipe runs on its own threads, as it does on one device."""

import contextvars
import copy
import threading

import pytest

from . import bench

torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")
from torch import nn  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.profiler import ProfilerActivity, _ExperimentalConfig, profile  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from gpipe_edu.pytorch import GPipe  # noqa: E402

every_mode = pytest.mark.parametrize("mode", bench.MODES)
X, Y = (part.double() for part in bench.data(8))
K, M = 2, 4


def train(model, way="transparent"):
    if way == "step" and isinstance(model, GPipe):
        return model.step(X, Y, bench.mse)
    loss = bench.mse(model(X), Y)
    loss.backward()
    return loss.detach()


def profiled(model, way, **options):
    with profile(activities=[ProfilerActivity.CPU], acc_events=True, **options) as found:
        train(model, way)
    return {event.key: event.count for event in found.key_averages()}


@bench.every_way
def test_a_profiler_sees_the_ops_of_all_stages(way):
    pipe = GPipe(bench.mlp(), K, M, checkpoint="never")
    counts = profiled(pipe, way)
    assert counts["aten::addmm"] == 4 * M, "one per linear layer and micro-batch"
    assert counts["TanhBackward0"] == 4 * M


def test_a_profiler_of_all_threads_leaves_them_running_at_the_same_time():
    threads = set()
    net = bench.mlp()
    for layer in (net[0], net[6]):
        layer.register_forward_pre_hook(lambda *_: threads.add(threading.current_thread().name))
    all_threads = _ExperimentalConfig(profile_all_threads=True)
    counts = profiled(GPipe(net, K, M, checkpoint="never"), "step", experimental_config=all_threads)
    assert counts["aten::addmm"] >= 4 * M
    assert threads == {"stage worker 0", "stage worker 1"}


@bench.every_way
@every_mode
def test_a_flop_counter_counts_what_one_device_does_and_what_is_recomputed(way, mode):
    net = bench.mlp()
    counts = []
    for model in (copy.deepcopy(net), GPipe(net, K, M, checkpoint=mode)):
        with FlopCounterMode(display=False) as counter:
            train(model, way)
        counts.append(counter.get_total_flops())
    plain, ours = counts
    forward = 4 * 2 * 8 * 4 * 4  # layers, multiply and add, samples, in, out
    again = {"never": 0, "except_last": forward * (M - 1) // M, "always": forward}[mode]
    # A stage always computes its input's gradient, but nobody asked for that of X.
    assert ours == plain + again


class Names(TorchDispatchMode):
    """Notes what PyTorch does, as a logger of the user's would."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("kind", "name"), [(Names, "aten.tanh.default"), (Functions, "linear")])
@bench.every_way
def test_modes_of_the_users_see_every_op(kind, name, way):
    net = bench.mlp().append(nn.Dropout(0.5))
    with kind() as mode:
        train(GPipe(net, K, M, checkpoint="never"), way)
    assert mode.names.count(name) == 4 * M


@bench.every_way
@every_mode
@pytest.mark.parametrize("measure", [False, True])
def test_saved_tensor_hooks_pack_what_a_stage_saves(way, mode, measure):
    """Also what a recompute saves, behind the end of the `with`."""
    net, packed, unpacked = bench.mlp(), [], []

    def pack(tensor):
        packed.append(tensor)
        return tensor.clone()

    def unpack(tensor):
        unpacked.append(tensor)
        return 1 * tensor

    results = []
    for model in (copy.deepcopy(net), GPipe(net, K, M, checkpoint=mode, measure_memory=measure)):
        packed.clear()
        unpacked.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            if way == "step" and isinstance(model, GPipe):
                model.step(X, Y, bench.mse)
            else:
                loss = bench.mse(model(X), Y)
        if way == "transparent" or not isinstance(model, GPipe):
            loss.backward()
        assert sum(tensor.shape[1:] == (4,) for tensor in unpacked) >= 4, "four tanh"
        results.append(bench.grads(model))
    bench.assert_same(*results)
    if measure:
        assert model.peak_memory[0] > 0


class Reading(nn.Module):
    """Multiplies by what a context variable says."""

    variable = contextvars.ContextVar("factor")

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * self.variable.get()


@bench.every_way
@every_mode
def test_context_variables_are_those_of_the_forward_in_a_recompute_too(way, mode):
    def work():
        results = []
        for model in models:
            Reading.variable.set(3.0)
            if way == "step" and isinstance(model, GPipe):
                model.step(X, Y, bench.mse)
            else:
                loss = bench.mse(model(X), Y)
                Reading.variable.set(5.0)
                loss.backward()
            results.append(bench.grads(model))
        bench.assert_same(*results)

    net = nn.Sequential(Reading(), Reading())
    models = (copy.deepcopy(net), GPipe(net, K, M, checkpoint=mode))
    contextvars.copy_context().run(work)


class Making(nn.Module):
    """Makes a tensor where PyTorch makes them by default, and notes where that is."""

    def __init__(self):
        super().__init__()
        self.linear, self.made = nn.Linear(4, 4), []

    def forward(self, x):
        self.made.append(torch.empty(2).device.type)
        return self.linear(x)


@bench.every_way
def test_the_default_device_is_that_of_the_caller(way):
    pipe = GPipe(nn.Sequential(Making(), Making()), K, M, checkpoint="always")
    if way == "step":
        with torch.device("meta"):
            pipe.step(X, Y, bench.mse)
    else:
        with torch.device("meta"):
            output = pipe(X)
        bench.mse(output, Y).backward()
    assert [layer.made for layer in pipe] == [["meta"] * 2 * M] * K
    train(pipe, way)
    assert pipe[0].made[2 * M :] == ["cpu"] * 2 * M


def test_a_default_device_for_good_leaves_the_stages_running_at_the_same_time():
    net, threads = bench.mlp(), set()
    net[0].register_forward_pre_hook(lambda *_: threads.add(threading.current_thread().name))
    torch.set_default_device("cpu")
    try:
        GPipe(net, K, M).step(X, Y, bench.mse)
    finally:
        torch.set_default_device(None)
    assert threads == {"stage worker 0"}


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("mode", bench.MODES)
def test_a_checkpoint_around_a_pipe_gives_the_gradients_of_one_device(mode, reentrant):
    def train(net):
        x = X.clone().requires_grad_()
        output = torch.utils.checkpoint.checkpoint(lambda z: net(torch.sin(z)).exp(), x, use_reentrant=reentrant)
        output.sum().backward()
        return [x.grad, *(weight.grad for weight in net.parameters())]

    net = bench.mlp()
    expected = train(copy.deepcopy(net))
    torch.testing.assert_close(bench.within(lambda: train(GPipe(net, K, M, checkpoint=mode))), expected)


def test_a_pipe_called_by_its_own_layer_is_refused_where_there_is_one_thread_only():
    pipe = GPipe(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), K, M)
    pipe[1].register_forward_hook(lambda layer, x, out: pipe(x[0]))
    with Names(), pytest.raises(RuntimeError, match="its own layers"):
        pipe(X)
