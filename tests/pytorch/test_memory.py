"""Bytes of saved activations per device, against a count made here on one device."""

import pytest
import torch
from torch import nn

import gpipe_edu as ge
from gpipe_edu.pytorch import GPipe
from gpipe_edu.timeline.memory import peak_memory

from . import bench

WIDTH, LAYERS, N, M = 32, 4, 48, 6


def stage(layers=LAYERS):
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(layers)))


def saved(layers, x):
    """(bytes of x, bytes of other storages that autograd saves for backward, weights not counted)."""
    weights = {p.untyped_storage().data_ptr() for p in layers.parameters()}
    found, kept = {}, []

    def pack(tensor):
        kept.append(tensor.detach())
        found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    x = x.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layers(x).sum()
    inside = {pointer: size for pointer, size in found.items() if pointer not in weights}
    own = inside.pop(x.untyped_storage().data_ptr(), 0)
    assert own == x.untyped_storage().nbytes()
    return own, sum(inside.values())


def peaks(K=2, micro_batches=M, way="step", **options):
    torch.manual_seed(0)
    net = nn.Sequential(*(stage() for _ in range(K)))
    pipe = GPipe(net, K, micro_batches, measure_memory=True, **options)
    bench.train(pipe, torch.randn(N, WIDTH), torch.randn(N, WIDTH), bench.mse, way)
    return pipe.peak_memory


# The loss of the last stage saves its output and the target as well: the first stages are compared, and stage 0's
# input is a view of the whole batch, whose storage is counted once per micro-batch or once: both are accepted there.
BOUNDARY, INTERIOR = saved(stage(), torch.randn(N // M, WIDTH, dtype=torch.float32))[:2]
BOUNDARY, INTERIOR = 2 * BOUNDARY, 2 * INTERIOR  # the engine runs in float64 here


@bench.every_way
@pytest.mark.parametrize("schedule", ["gpipe", "naive"])
def test_always_keeps_boundaries_and_one_interior(schedule, way):
    held = {"gpipe": M, "naive": 1 if way == "step" else M}[schedule]
    got = peaks(3, schedule=schedule, checkpoint="always", way=way)
    for device in range(2):
        assert got[device] == pytest.approx(held * BOUNDARY + INTERIOR, rel=0.1), device
    assert got[2] < 1.3 * (held * BOUNDARY + INTERIOR)


@bench.every_way
def test_never_keeps_everything(way):
    got = peaks(3, checkpoint="never", way=way)
    for device in range(2):
        assert got[device] == pytest.approx(M * (BOUNDARY + INTERIOR), rel=1e-3)


def test_except_last_keeps_the_last_interior_from_its_forward_on():
    got = peaks(3, checkpoint="except_last")
    for device in range(2):
        assert got[device] == pytest.approx(M * BOUNDARY + INTERIOR, rel=0.1)


def test_1f1b_holds_as_many_as_stages_are_behind():
    gpipe, one = (peaks(4, schedule=name, checkpoint="never") for name in ("gpipe", "1f1b"))
    for device in range(3):
        assert one[device] == pytest.approx(min(M, 4 - device) * (BOUNDARY + INTERIOR), rel=0.1)
        assert one[device] < 0.75 * gpipe[device]


def test_zero_bubble_keeps_until_the_weights_are_done():
    got = peaks(3, schedule="zero_bubble", checkpoint="never")
    assert got[0] == pytest.approx(3 * (BOUNDARY + INTERIOR), rel=0.1)
    assert got[1] == pytest.approx(3 * (BOUNDARY + INTERIOR), rel=0.1)


def test_several_stages_on_a_device_are_counted_together():
    schedule = bench.ge.interleaved(2, M, 2)
    got = peaks(4, schedule=schedule)
    most = bench.ge.simulate(schedule).peak_in_flight
    assert len(got) == 2
    assert got[0] == pytest.approx(most[0] * (BOUNDARY + INTERIOR), rel=0.25)


@pytest.mark.parametrize("mode", bench.MODES)
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_saved_bytes_are_those_on_paper(schedule, mode):
    pipe = GPipe(
        nn.Sequential(*(stage(2) for _ in range(4))), 4, M, schedule=schedule, checkpoint=mode, measure_memory=True
    )
    pipe.step(torch.randn(N, WIDTH), torch.randn(N, WIDTH), bench.mse)
    output = N // M * WIDTH * 8  # of a layer: a stage of two (Linear, Tanh) saves beyond its input the outputs of Tanh
    paper = peak_memory(ge.simulate(pipe.schedule), boundary=output, interior=2 * output)
    assert pipe.peak_memory[:3] == tuple(map(int, paper[:3]))
    assert paper[3] <= pipe.peak_memory[3] <= paper[3] + M * output  # the loss saves its difference


def test_a_second_step_starts_from_nothing():
    torch.manual_seed(0)
    pipe = GPipe(nn.Sequential(stage(), stage()), 2, M, measure_memory=True)
    batch = torch.randn(N, WIDTH), torch.randn(N, WIDTH)
    pipe.step(*batch, bench.mse)
    first = pipe.peak_memory
    pipe.step(*batch, bench.mse)
    assert pipe.peak_memory == first


def test_evaluation_leaves_the_figures_of_the_last_training_step():
    torch.manual_seed(0)
    pipe = GPipe(nn.Sequential(stage(), stage()), 2, M, measure_memory=True)
    x = torch.randn(N, WIDTH)
    pipe.step(x, x, bench.mse)
    before = pipe.peak_memory
    pipe.eval()(x)
    assert pipe.peak_memory == before


def test_measuring_changes_no_gradient():
    for options in bench.variants(2, 3):
        bench.compare(bench.mlp(), *bench.data(7), measure_memory=True, **options)
