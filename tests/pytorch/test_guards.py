"""What a pipe can't do is refused, in words that say what to do; what looks like misuse but can be right is right."""

import copy
import re
import threading
from collections import namedtuple

import pytest

from tests.processes import PATIENCE, printed

from . import bench

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")
from torch import nn  # noqa: E402

from gpipe_edu.pytorch import GPipe, Stash, Take  # noqa: E402

every_mode = pytest.mark.parametrize("mode", bench.MODES)
X, Y = (part.double() for part in bench.data(7))


# Layers exchanged, and Sequentials that are more than their layers


@every_mode
def test_a_layer_exchanged_after_wrapping_runs(mode):
    net = bench.mlp()
    pipe = GPipe(net, 2, 3, checkpoint=mode)
    pipe.step(X, Y, bench.mse)
    pipe.zero_grad()
    torch.manual_seed(9)
    net[2] = nn.Linear(4, 4)
    pipe._modules["7"] = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    plain = copy.deepcopy(net)
    for way in ("step", "transparent"):
        bench.mse(plain(X), Y).backward()
        bench.train(pipe, X, Y, bench.mse, way)
    bench.assert_same(bench.grads(pipe), bench.grads(plain))


def test_converted_batch_normalizations_are_those_that_run():
    pipe = GPipe(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)), 2, 2)
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(pipe)
    assert isinstance(converted._modules["1"], nn.SyncBatchNorm)
    called = []
    converted._modules["1"].register_forward_pre_hook(lambda *_: called.append(True))
    try:
        converted(X)
    except ValueError as error:  # on a CPU that is all it does
        assert "SyncBatchNorm" in str(error)  # noqa: PT017
    assert called


def test_layers_added_or_removed_are_refused():
    net = bench.mlp()
    pipe = GPipe(net, 2, 2)
    net.append(nn.Tanh())
    with pytest.raises(ValueError, match=r"had 8 layers .* 9 now; .* make a new GPipe"):
        pipe(X)
    del net[-1]  # by which a Sequential takes a new dictionary, and the pipe keeps the old one
    with pytest.raises(ValueError, match="make a new GPipe"):
        pipe(X)
    other = bench.mlp()
    pipe = GPipe(other, 2, 2)
    other[0] = other[6]  # one layer in both stages
    plain = copy.deepcopy(other)
    bench.mse(plain(X), Y).backward()
    pipe.step(X, Y, bench.mse)
    bench.assert_same(bench.grads(other), bench.grads(plain))


def test_hooks_that_the_net_gets_after_wrapping_are_refused_and_those_of_the_pipe_run():
    net, called = bench.mlp(), []
    pipe = GPipe(net, 2, 2)
    pipe.register_forward_hook(lambda *_: called.append(True))
    pipe(X)
    assert called == [True]
    net.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="hooks of its own"):
        pipe(X)


class OwnForward(nn.Sequential):
    def forward(self, x):
        return 2 * super().forward(x)


def with_own(what):
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    if what == "forward":
        net.forward = lambda x: x
    elif what == "parameters":
        net.scale = nn.Parameter(torch.ones(()))
    elif what == "buffers":
        net.register_buffer("scale", torch.ones(()))
    else:
        net.register_forward_hook(lambda *_: None)
    return net


@pytest.mark.parametrize("what", ["forward", "parameters", "buffers", "hooks"])
def test_a_sequential_with_something_of_its_own_is_refused(what):
    with pytest.raises(ValueError, match=rf"{what} of its own.*nn.Sequential\(\*net\)"):
        GPipe(with_own(what), 2, 2)
    with pytest.raises(ValueError, match="a forward of its own"):
        GPipe(OwnForward(nn.Linear(4, 4), nn.Tanh()), 2, 2)


def test_a_sequential_subclass_that_only_builds_its_layers_is_welcome():
    class Net(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(4, 4), nn.Tanh(), with_own("hooks"))
            self.note = "mine"

    bench.compare(Net(), X, Y)


# What a recompute reads


class Codebook(nn.Module):
    """Keeps a buffer that every forward moves, and that its output depends on."""

    def __init__(self, move, when=lambda x: True):
        super().__init__()
        self.linear, self.move, self.when = nn.Linear(4, 4), move, when
        self.register_buffer("codes", torch.ones(4))

    def forward(self, x):
        out = self.linear(x) * self.codes.clone()
        if self.when(x):
            self.move(self, out.detach().mean(0))
        return out


def assign(layer, mean):
    layer.codes = layer.codes * 0.5 + mean


def in_place(layer, mean):
    layer.codes.mul_(0.5).add_(mean)


def through_data(layer, mean):
    layer.codes.data.copy_(layer.codes * 0.5 + mean)


BUFFERS = {
    "spectral_norm": lambda: torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
    "old spectral_norm": lambda: torch.nn.utils.spectral_norm(nn.Linear(4, 4)),
    "assigned": lambda: Codebook(assign),
    "in place": lambda: Codebook(in_place),
    "through .data": lambda: Codebook(through_data),
    "now and then": lambda: Codebook(in_place, when=lambda x: x[0, 0] > 0),
    "instance norm": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 2)), nn.InstanceNorm1d(2, track_running_stats=True), nn.Flatten()
    ),
}


@pytest.mark.filterwarnings("ignore:.*spectral_norm.*")
@pytest.mark.parametrize("way", ["step", "transparent"])
@pytest.mark.parametrize("name", BUFFERS)
def test_a_recompute_sees_the_buffers_that_its_forward_saw(name, way):
    results = []
    for mode in ("never", "always"):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), BUFFERS[name](), nn.Tanh(), BUFFERS[name]())
        pipe = GPipe(net, 2, 4, checkpoint=mode)
        for _ in range(2):
            bench.train(pipe, *bench.data(8), bench.mse, way)
        results.append(bench.grads(net) | {key: value.clone() for key, value in net.named_buffers()})
    bench.assert_same(results[1], results[0])


@every_mode
@pytest.mark.parametrize("what", ["input", "weight"])
def test_a_change_in_place_between_forward_and_backward_is_right_or_refused(what, mode):
    net, x = bench.mlp(), X.clone()
    pipe, plain = GPipe(net, 2, 3, checkpoint=mode), copy.deepcopy(net)
    loss, expected = bench.mse(pipe(x), Y), bench.mse(plain(X), Y)
    with torch.no_grad():
        (x if what == "input" else net[2].weight).mul_(2)
    expected.backward()
    with pytest.raises(RuntimeError, match=r"in ?place"):
        loss.backward()
    assert all(weight.grad is None for weight in net.parameters())


# Memory, derivatives, transforms


class InPlace(nn.Module):
    """Changes what sigmoid has saved for its backward."""

    def forward(self, x):
        out = torch.sigmoid(x)
        out.mul_(2)
        return out


@every_mode
@pytest.mark.parametrize("measure", [False, True])
def test_autograds_own_error_for_a_change_in_place_is_heard(measure, mode):
    pipe = GPipe(nn.Sequential(nn.Linear(4, 4), InPlace()), 2, 2, checkpoint=mode, measure_memory=measure)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        pipe.step(X, Y, bench.mse)


def test_a_second_derivative_is_refused():
    x = X.clone().requires_grad_()
    loss = bench.mse(GPipe(bench.mlp(), 2, 2)(x), Y)
    with pytest.raises(RuntimeError, match=r"create_graph=True.*nn.Sequential\(\*pipe.children\(\)\)"):
        torch.autograd.grad(loss, x, create_graph=True)


def test_a_step_without_gradients_is_refused():
    pipe = GPipe(bench.mlp(), 2, 2)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode(), pytest.raises(RuntimeError, match=r"no_grad.*pipe\(x\)"):
            pipe.step(X, Y, bench.mse)


TRANSFORMS = {
    "torch.jit.trace": lambda pipe: torch.jit.trace(pipe, X),
    "torch.func": lambda pipe: torch.func.grad(lambda x: pipe(x).sum())(X),
    "vmap": lambda pipe: torch.vmap(pipe)(X[:, None]),
    "torch.export": lambda pipe: torch.export.export(pipe, (X,)),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_refused_in_plain_words(name):
    with pytest.raises(Exception, match=re.escape("nn.Sequential(*pipe.children())")):
        TRANSFORMS[name](GPipe(bench.mlp(), 2, 2))


# What travels, and what is averaged


Pair = namedtuple("Pair", "a b")


REFUSED = {
    "NamedTuple": (
        lambda: (nn.Linear(4, 4), bench.Apply(lambda x: Pair(x, x)), bench.Apply(lambda p: p.a)),
        "plain tuple",
    ),
    "None in a skip": (
        lambda: (nn.Linear(4, 4), Stash("a", bench.Apply(lambda x: None)), nn.Tanh(), Take("a", lambda x, _: x)),
        r'Stash\("a"\) keeps .* NoneType',
    ),
    "lazy": (lambda: (nn.LazyLinear(4), nn.LazyLinear(4)), r"no_grad\(\): pipe\(x\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_travel_or_be_measured_is_refused(name):
    layers, telling = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=telling):
        GPipe(nn.Sequential(*layers()), 2, 2, measure_memory=True).step(X, Y, bench.mse)


def test_outputs_without_samples_belong_into_a_step():
    net = nn.Sequential(nn.Linear(4, 4), bench.Apply(lambda x: (x**2).mean()))
    pipe = GPipe(net, 2, 3)
    with pytest.raises(ValueError, match="after the pipe"):
        pipe(X)
    torch.testing.assert_close(pipe.step(X, Y, lambda out, _: out), net(X).detach())


def test_a_layer_without_weights_may_stand_in_several_stages():
    relu = nn.ReLU()
    bench.compare(nn.Sequential(nn.Linear(4, 4), relu, nn.Linear(4, 4), relu), X, Y)


class StashFirst(nn.Module):
    """Holds a Take in front of the Stash that it runs first."""

    def __init__(self):
        super().__init__()
        self.take, self.stash = Take("a", torch.add), Stash("a")

    def forward(self, x):
        return self.take(torch.tanh(self.stash(x)))


def test_the_order_of_stash_and_take_is_that_of_the_forward():
    bench.compare(nn.Sequential(nn.Linear(4, 4), StashFirst(), nn.Linear(4, 4)), X, Y)


CLASSES = torch.tensor([0, 1, -100, -100, 2, 1, 0])
LOSSES = {
    "ignored": nn.CrossEntropyLoss(),
    "weighted": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0]).double()),
    "smoothed": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0]).double(), label_smoothing=0.1),
    "function": nn.functional.cross_entropy,
    "another number": nn.CrossEntropyLoss(ignore_index=1),
}


@pytest.mark.parametrize("schedule", ["gpipe", "zero_bubble"])
@pytest.mark.parametrize("name", LOSSES)
def test_what_cross_entropy_ignores_does_not_count_in_the_mean(name, schedule):
    """Also where a micro-batch has nothing else."""
    classes = CLASSES.clamp(0) if name == "another number" else CLASSES
    bench.compare(bench.mlp(), X, classes, LOSSES[name], micro_batches=5, schedule=schedule)


# Threads, failures, processes


@pytest.mark.parametrize("way", ["step", "transparent"])
def test_several_threads_train_one_pipe(way):
    net = bench.mlp()
    plain, pipe, threads, failed = copy.deepcopy(net), GPipe(net, 2, 3), [], []

    def work(seed):
        try:
            for step in range(5):
                bench.train(pipe, *bench.data(7, seed=10 * seed + step), bench.mse, way)
        except BaseException as error:
            failed.append(error)

    for seed in range(4):
        for step in range(5):
            x, y = bench.data(7, seed=10 * seed + step)
            bench.mse(plain(x), y).backward()
        threads.append(threading.Thread(target=work, args=(seed,), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not failed
    assert not any(thread.is_alive() for thread in threads)
    bench.assert_same(bench.grads(net), bench.grads(plain))


def test_a_pipe_that_calls_itself_is_refused():
    pipe = GPipe(bench.mlp(), 2, 2)
    pipe.step(X, Y, bench.mse)
    with pytest.raises(RuntimeError, match=r"copy.deepcopy\(pipe\)"):
        bench.within(lambda: pipe.step(X, Y, lambda out, y: bench.mse(out, pipe(y))))
    bench.within(lambda: pipe.step(X, Y, bench.mse))


def test_a_hook_may_call_the_pipe():
    net, called = bench.mlp(), []
    pipe = GPipe(net, 2, 2)
    net[0].weight.register_post_accumulate_grad_hook(lambda _: called.append(pipe(X)))
    bench.within(lambda: pipe.step(X, Y, bench.mse))
    assert len(called) == 1


class Fails(nn.Module):
    def forward(self, x):
        raise self.error


@pytest.mark.parametrize("way", ["step", "transparent"])
def test_a_failure_is_heard_before_the_next_op(way):
    net, forwards = nn.Sequential(bench.Sleep(0.05), Fails()), []
    net[0].register_forward_hook(lambda *_: forwards.append(1))
    net[1].error = KeyError("mine")
    pipe = GPipe(net, 2, 400, checkpoint="never")
    with pytest.raises(KeyError):
        bench.train(pipe, *bench.data(400), bench.mse, way)
    assert len(forwards) < 400


class Stubborn(Exception):
    def add_note(self, note):
        raise TypeError("no notes")


def test_an_exception_that_takes_no_note_comes_through():
    net = nn.Sequential(nn.Linear(4, 4), Fails(), nn.Linear(4, 4))
    net[1].error = Stubborn("mine")
    pipe = GPipe(net, 3, 2)
    with pytest.raises(Stubborn, match="mine"):
        bench.within(lambda: pipe.step(X, Y, bench.mse))
    net[1].error = KeyError("mine")
    net[1].error.__notes__ = "not a list"
    with pytest.raises(KeyError):
        bench.within(lambda: pipe.step(X, Y, bench.mse))


def test_a_forked_child_has_workers_of_its_own():
    said = printed(
        """
        import os, torch
        from torch import nn
        from gpipe_edu.pytorch import GPipe
        pipe, x = GPipe(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), 2, 2), torch.randn(4, 4)
        with torch.no_grad():
            expected = pipe(x)
        child = os.fork()
        with torch.no_grad():
            same = torch.equal(pipe(x), expected)
        if child == 0:
            try:  # PyTorch may refuse a backward in a forked child, and then says so itself
                pipe.step(x, x, nn.functional.mse_loss)
            except RuntimeError as error:
                same = same and "fork" in str(error)
            os._exit(0 if same else 1)
        print(os.waitpid(child, 0)[1], same)
    """,
    )
    assert said.strip() == "0 True"


def test_data_parallel_training_averages_the_gradients_of_both_ranks():
    said = printed(
        """
        import copy, os, sys, tempfile, torch, torch.distributed as dist
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel
        from gpipe_edu.pytorch import GPipe
        place = tempfile.mkdtemp()
        rank = 0 if os.fork() else 1  # before any thread is there
        torch.set_default_dtype(torch.float64)
        dist.init_process_group("gloo", init_method=f"file://{place}/meet", rank=rank, world_size=2)
        torch.manual_seed(0)
        mse, x, y = nn.functional.mse_loss, torch.randn(12, 4), torch.randn(12, 4)
        net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4).eval(), nn.Tanh(), nn.Linear(4, 4))
        plain = copy.deepcopy(net)
        mse(plain(x), y).backward()
        half = slice(6 * rank, 6 * rank + 6)
        for mode in ("never", "always"):
            mine = copy.deepcopy(net)
            ddp = DistributedDataParallel(GPipe(mine, 2, 3, checkpoint=mode))
            for _ in range(2):
                ddp.zero_grad()
                mse(ddp(x[half]), y[half]).backward()
            for a, b in zip(mine.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-10)
        dist.barrier()
        dist.destroy_process_group()
        if rank == 0:
            print("right", os.wait()[1])
        """,
    )
    assert said.strip() == "right 0"


def test_weights_without_numbers_are_refused():
    with torch.device("meta"):
        net = bench.mlp()
    told = re.escape("0.weight is on the device meta, where it has no numbers; give the net some first: net.to_empty")
    with pytest.raises(ValueError, match=told):
        GPipe(net, 2, 3)
    net = bench.mlp()
    pipe = GPipe(net, 2, 3)
    net[2] = nn.BatchNorm1d(4, affine=False, device="meta")
    with pytest.raises(ValueError, match=r"2\.running_mean is on the device meta"):
        pipe(X)
    assert GPipe(bench.mlp().to("meta").to_empty(device="cpu"), 2, 3)(X).shape == X.shape


def test_fsdp_around_a_pipe_or_in_a_stage_is_refused():
    said = printed(
        """
        import os, tempfile, warnings, torch, torch.distributed as dist
        from torch import nn
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
        from gpipe_edu.pytorch import GPipe
        warnings.simplefilter("ignore")
        dist.init_process_group("gloo", init_method=f"file://{tempfile.mkdtemp()}/meet", rank=0, world_size=1)
        mesh, cpu, x = init_device_mesh("cpu", (1,)), torch.device("cpu"), torch.randn(8, 4)

        def layers():
            return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh())

        def old(module):
            return FullyShardedDataParallel(module, device_id=cpu, use_orig_params=True)

        def new(module):
            return fully_shard(module, mesh=mesh)

        def in_a_stage(shard):
            net = layers()
            net[2] = shard(net[2])
            return GPipe(net, 2, 4)

        def in_a_stage_later(shard):
            pipe = GPipe(layers(), 2, 4)
            pipe(x).sum().backward()
            shard(pipe[2])
            return pipe

        for shard in (old, new):
            cases = {
                "around": lambda: shard(GPipe(layers(), 2, 4)),
                "under": lambda: GPipe(shard(layers()), 2, 4),
                "in a stage": lambda: in_a_stage(shard),
                "later": lambda: in_a_stage_later(shard),
            }
            for name, make in cases.items():
                try:
                    make()(x)
                    print(name, "went on")
                except ValueError as error:
                    print(name, str(error)[:33])
        dist.destroy_process_group()
        """,
    )
    expected = [f"{name} FSDP (fully_shard, FullyShardedDa" for name in ("around", "under", "in a stage", "later")]
    assert said.splitlines() == 2 * expected


@bench.every_way
def test_weights_that_are_computed_once_for_all_micro_batches_are_refused(way):
    parametrized = torch.nn.utils.parametrizations.weight_norm
    pipe = GPipe(nn.Sequential(parametrized(nn.Linear(4, 4)), parametrized(nn.Linear(4, 4))), 2, 2)
    with (
        torch.nn.utils.parametrize.cached(),
        pytest.raises(RuntimeError, match="graph of its own; call the pipe outside"),
    ):
        bench.train(pipe, X, Y, bench.mse, way)
    bench.train(pipe, X, Y, bench.mse, way)


def test_running_statistics_that_are_not_there_yet_are_not_deferred():
    net = nn.Sequential(nn.Linear(4, 4), nn.LazyBatchNorm1d(), nn.Linear(4, 4))
    pipe = GPipe(net, 2, 2, deferred_batch_norm=True)
    with pytest.raises(ValueError, match=r"run one first: net.eval\(\)\(x\)"):
        pipe.step(X, Y, bench.mse)
    net.eval()(X)
    net.train()
    pipe.step(X, Y, bench.mse)
    assert net[1].num_batches_tracked == 1


def test_forward_mode_and_batches_of_gradients_are_refused():
    pipe, x = GPipe(bench.mlp(), 2, 2), X.clone().requires_grad_()
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="forward-mode"):
        pipe(X)
    output = pipe(x)
    with pytest.raises(RuntimeError, match="is_grads_batched"):
        torch.autograd.grad(output, x, torch.ones(3, *output.shape, dtype=output.dtype), is_grads_batched=True)


@bench.every_way
def test_a_layer_that_replaces_its_parameter_in_its_forward_is_refused(way):
    class Replacing(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 4))

        def forward(self, x):
            self.weight = nn.Parameter(self.weight.detach() * 2)
            return x @ self.weight

    net = nn.Sequential(Replacing(), nn.Linear(4, 4))
    before = net[0].weight
    with pytest.raises(RuntimeError, match="another parameter in place of its 'weight'"):
        bench.train(GPipe(net, 2, 1), X, Y, bench.mse, way)
    assert net[0].weight is before
