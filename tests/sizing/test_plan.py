"""A plan against closed forms, against the timeline it stands for, and against what the PyTorch engine counts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpipe_edu as ge
from gpipe_edu.sizing import STATES, BytesPerParameter, Job, Machine, Plan, mlp, presets, transformer
from gpipe_edu.sizing.costs import OVERLAP
from gpipe_edu.sizing.model import LayerSize, Model
from gpipe_edu.sizing.plan import RECOMPUTES, SCHEDULES, ZERO
from gpipe_edu.timeline import peak_memory
from tests.amount import examples
from tests.each import each

EVEN = Model("16 equal layers", 8, tuple(LayerSize(f"{index}", 100, 1000, 8, 8) for index in range(16)))
DEVICES = Machine(devices=8, memory=1e6, speed=1000)
EVEN_JOB = Job(EVEN, 64, DEVICES)


@each("K", [2, 4, 8])
@each("M", [1, 4, 32])
def test_equal_layers_give_the_closed_forms(K, M):
    F = 64 // M * 16 // K  # a second per layer and sample
    none, full, stage = (Plan(EVEN_JOB, 1, K, M, mode, schedule="gpipe") for mode in ("none", "full", "stage"))
    assert none.balance == (16 // K,) * K
    assert none.step == pytest.approx(ge.formulas.makespan(K, M, F, 2 * F))
    assert none.bubble == pytest.approx(ge.formulas.bubble_fraction(K, M))
    # A whole stage is recomputed while its gradient is on its way, a layer only when it has come.
    assert stage.step == pytest.approx(ge.formulas.makespan_early(K, M, F, 2 * F))
    assert full.step == pytest.approx(ge.formulas.makespan(K, M, F, 3 * F))
    numbers = 64 * 8 * 4  # bytes of one layer's output for the mini-batch
    assert set(none.activations) == {numbers + 16 / K * numbers}
    assert set(stage.activations) == {ge.formulas.peak_memory(16, K, M, boundary=numbers, layer=numbers)}
    assert set(full.activations) == {16 / K * numbers + numbers / M}
    assert none.state == (16 * 100 * 16 // K,) * K
    assert none.memory == tuple(16 * 100 * 16 / K + held for held in none.activations)


def test_a_cut_of_one_s_own_is_planned():
    own, even = (Plan(EVEN_JOB, 1, 4, 8, balance=balance) for balance in ((1, 5, 5, 5), None))
    assert own.balance == (1, 5, 5, 5)
    assert own.state == tuple(100 * 16 * layers for layers in (1, 5, 5, 5))
    assert own.step > even.step == Plan(EVEN_JOB, 1, 4, 8, balance=[4] * 4).step
    assert own.activations[0] == 4 * (1 + 1) * 8 * 8 * 4  # of 4 micro-batches: the input and one layer, 8 samples each
    with pytest.raises(ValueError, match="3 stages with 16 layers in all; it must have 4 stages with 16"):
        Plan(EVEN_JOB, 1, 4, 8, balance=(6, 5, 5))
    with pytest.raises(ValueError, match=r"balance\[0\] is 0"):
        Plan(EVEN_JOB, 1, 4, 8, balance=(0, 6, 5, 5))


def test_a_device_alone_holds_one_micro_batch_at_a_time():
    plan = Plan(EVEN_JOB, 1, 1, 4, "none")
    assert plan.step == 64 * 16 * 3
    assert plan.activations == (16 * 8 * 4 * (1 + 16),)


def test_the_largest_micro_batch_sets_time_and_memory():
    ragged, even = (Plan(EVEN_JOB._replace(batch=N), 1, 4, 8, "none") for N in (57, 64))  # 8 and 7s, and 8s
    assert (ragged.step, ragged.activations) == (even.step, even.activations)
    halves = Plan(EVEN_JOB._replace(batch=101), 2, 4, 8, "none")  # 51 samples a replica, 7 in the largest micro-batch
    assert halves.samples == 7


def test_a_fixed_cost_per_layer_puts_the_best_M_inside_the_range():
    job = EVEN_JOB._replace(machine=DEVICES._replace(overhead=2))
    steps = [Plan(job, 1, 4, M, "none").step for M in (1, 2, 4, 8, 16, 32, 64)]
    # F = 4 (64/M + 2): M=1: 4*264*3, M=8: 11*40*3, M=16: 19*24*3, M=64: 67*12*3
    assert steps[0] == 4 * 264 * 3
    assert steps[3:5] == [11 * 40 * 3, 19 * 24 * 3]
    assert steps[6] == 67 * 12 * 3
    assert steps.index(min(steps)) == 3


def test_a_message_keeps_its_link_busy_for_the_bytes_of_the_widest_cut():
    machine = DEVICES._replace(link=64 * 8 * 4 / 5)
    free, slow = (Plan(EVEN_JOB._replace(machine=one), 1, 4, 1, "none") for one in (DEVICES, machine))
    assert slow.step == free.step + 6 * 5  # three boundaries, there and back
    assert Plan(EVEN_JOB._replace(machine=machine, activation=2), 1, 4, 1, "none").step == free.step + 6 * 2.5
    late = Plan(EVEN_JOB._replace(machine=machine._replace(latency=1)), 1, 4, 1, "none")
    assert late.step == free.step + 6 * (5 + 1)
    wide = EVEN._replace(layers=(*(layer._replace(output=24) for layer in EVEN.layers[:4]), *EVEN.layers[4:]))
    assert Plan(EVEN_JOB._replace(model=wide, machine=machine), 1, 4, 1, "none").step == free.step + 6 * 15


@examples(50)
@given(st.sampled_from(SCHEDULES), st.integers(2, 4), st.integers(1, 8), st.sampled_from((1e2, 1e3, 1e4)))
def test_no_step_is_shorter_than_what_one_link_carries(schedule, K, M, link):
    plan = Plan(EVEN_JOB._replace(machine=DEVICES._replace(link=link)), 1, K, M, schedule=schedule)
    assert plan.step >= M * plan.costs.link
    assert plan.costs.link == plan.samples * 8 * 4 / link


def test_stages_in_different_nodes_send_over_the_network():
    machine = Machine(8, 1e6, 1000, link=100, network=10, node=4)
    job = EVEN_JOB._replace(machine=machine)
    bytes_each = 16 * 8 * 4
    assert Plan(job, 1, 4, 4, "none").costs.link == bytes_each / 100
    assert Plan(job, 1, 8, 4, "none").costs.link == bytes_each / 10
    assert Plan(job, 2, 4, 2, "none").costs.link == bytes_each / 10


def ring(count, devices, bandwidth):
    """Half an all-reduce, step by step: in each of the n - 1 steps everybody sends an n-th to the next."""
    return sum(count / devices / bandwidth for _ in range(devices - 1))


@each("zero", ZERO)
@each("schedule", ["gpipe", "breadth_first"])
def test_replicas_wait_for_what_no_work_hides(zero, schedule):
    """Bytes and rings counted here, one stage and one micro-batch at a time."""
    state = BytesPerParameter(weight=2, gradient=4, optimizer=12)
    job = EVEN_JOB._replace(machine=DEVICES._replace(link=1.0), state=state)
    for D, K in [(1, 4), (2, 4), (4, 2), (8, 1)]:
        plan = Plan(job, D, K, 2, schedule=schedule, zero=zero)
        stages, visits = len(plan.balance), 2 if schedule == "breadth_first" and K > 1 else 1
        parameters, forward = 1600 // stages, plan.samples * 16 / stages
        weights, gradients = ring(2 * parameters, D, 1.0), ring(4 * parameters, D, 1.0)
        gathers = weights / visits if zero == 3 else 0
        scatters = gradients / visits if zero >= 2 else 0
        table, backward = plan.costs.table(stages), 2 * forward
        assert table["F"] == pytest.approx((forward + max(0, gathers - OVERLAP * forward),) * stages)
        assert table["B"] == pytest.approx((backward + max(0, gathers + scatters - OVERLAP * backward),) * stages)
        V = stages // K
        left = max(0, {0: 2, 1: 1}.get(zero, 0) * V * gradients - OVERLAP * V * backward)
        left += V * weights if zero in (1, 2) else 0
        assert plan.exposed == pytest.approx((left,) * K)
        assert plan.step == pytest.approx(plan.timeline.makespan + left)


@each("zero", ZERO)
def test_zero_spreads_state_and_has_little_whole_at_a_time(zero):
    state = BytesPerParameter(weight=2, gradient=4, optimizer=12)
    for D, K in [(1, 4), (2, 4), (4, 2), (8, 1)]:
        plan = Plan(EVEN_JOB._replace(state=state), D, K, 2, zero=zero)
        mine, two_layers = 1600 // K, 200 * (1 - 1 / D)
        assert plan.optimizer == (mine * 12 / (D if zero else 1),) * K
        assert plan.gradients == pytest.approx((mine * 4 / D + 4 * two_layers if zero >= 2 else mine * 4,) * K)
        assert plan.weights == pytest.approx((mine * 2 / D + 2 * two_layers if zero == 3 else mine * 2,) * K)
    whole = Plan(EVEN_JOB._replace(state=state), 2, 4, 2, zero=3, schedule="breadth_first")
    assert whole.weights == pytest.approx((2 * (200 + 200 / 2),) * 4)  # one of a device's two stages is there


def test_replicas_in_several_nodes_reduce_within_and_then_between():
    machine = Machine(16, 1e6, 1000, link=100, network=10, node=4)
    assert machine.ring(800, 4) == pytest.approx(ring(800, 4, 100))
    assert machine.ring(800, 16) == pytest.approx(ring(800, 4, 100) + ring(800 / 4, 4, 10))
    assert machine.ring(800, 8, apart=2) == pytest.approx(ring(800, 2, 100) + ring(800 / 2, 4, 10))
    assert machine.ring(800, 4, apart=4) == pytest.approx(ring(800, 4, 10))
    late = machine._replace(latency=2).ring(800, 16)
    assert late == pytest.approx(machine.ring(800, 16) + (3 + 3) * 2)
    assert machine.ring(800, 1) == 0
    assert machine._replace(link=None, network=None).ring(800, 16) == 0


def test_a_slowed_machine_takes_as_many_times_as_long():
    machine = Machine(8, 1e9, 1e9, 1e-5, link=1e7, latency=1e-5, network=1e6, node=4, bandwidth=1e8)
    job = Job(transformer(6, 32, 16, 300), 24, machine)
    slowed = job._replace(machine=machine.slowed(1.7))
    for zero in ZERO:
        plan, other = (Plan(one, 2, 4, 3, zero=zero) for one in (job, slowed))
        assert other.step == pytest.approx(1.7 * plan.step)
        assert other.mfu == pytest.approx(plan.mfu / 1.7)
        assert other.memory == plan.memory


def test_a_tensor_group_shares_everything_and_talks_in_every_layer():
    shared = EVEN._replace(layers=tuple(layer._replace(shared=16) for layer in EVEN.layers))
    machine = DEVICES._replace(link=1e3, devices=16)
    job = Job(shared, 64, machine)
    alone, group = (Plan(job, 1, 4, 8, tensor=tensor) for tensor in (1, 4))
    talk = 4 * ring(8 * 16 * 4, 4, 1e3) * 2  # an all-reduce for each of the stage's layers
    assert group.costs.table(4)["F"] == pytest.approx([f / 4 + talk for f in alone.costs.table(4)["F"]])
    assert group.costs.table(4)["B"] == pytest.approx([b / 4 + talk for b in alone.costs.table(4)["B"]])
    assert [4 * held for held in group.memory] == pytest.approx(alone.memory)
    assert group.costs.link == alone.costs.link / 4


def test_1f1b_holds_less_at_the_same_time():
    ours, theirs = (Plan(EVEN_JOB, 1, 4, 16, schedule=name) for name in ("gpipe", "1f1b"))
    assert theirs.step == ours.step
    assert [16 * held / ours.activations[0] for held in theirs.activations] == [4, 3, 2, 1]


@examples(60)
@given(
    st.sampled_from(SCHEDULES),
    st.sampled_from(("none", "stage")),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(0, 9),
)
def test_planned_activations_are_those_of_the_timeline(schedule, recompute, K, M, seed):
    layers = tuple(
        layer._replace(stored=1 + (7 * i + seed) % 13, output=1 + (5 * i + seed) % 7)
        for i, layer in enumerate(EVEN.layers)
    )
    plan = Plan(Job(EVEN._replace(layers=layers), 18, DEVICES, activation=1), 1, K, M, recompute, schedule=schedule)
    bounds = [sum(plan.balance[:k]) for k in range(len(plan.balance))]
    boundaries = [plan.samples * (layers[start - 1].output if start else 8) for start in bounds]
    insides = [
        plan.samples * sum(layer.stored for layer in layers[start : start + count])
        for start, count in zip(bounds, plan.balance, strict=True)
    ]
    exact = peak_memory(plan.timeline, boundaries, insides)
    assert plan.activations == pytest.approx(exact)


def test_selective_recompute_throws_the_scores_away_and_makes_them_again():
    fused, stored = (transformer(4, 64, 32, 100, heads=4, fused=each) for each in (True, False))
    jobs = [Job(model, 8, DEVICES, activation=2) for model in (fused, stored)]
    without, kept, selective = (
        Plan(job, 1, 2, 2, mode)
        for job, mode in zip((jobs[0], *jobs[1:] * 2), ("none", "none", "selective"), strict=True)
    )
    n, scores = 4, 5 * 4 * 32 * 32  # bytes of a block and sample: 5 a s^2
    more = [held - bare for held, bare in zip(kept.activations, without.activations, strict=True)]
    blocks = [
        sum(1 <= layer <= 4 for layer in range(start, start + count))
        for start, count in ((0, kept.balance[0]), (kept.balance[0], kept.balance[1]))
    ]
    in_flight = (2, 1)
    assert more == [n * scores * count * held for count, held in zip(blocks, in_flight, strict=True)]
    # Only the block at work has its scores.
    assert [held - bare for held, bare in zip(selective.activations, without.activations, strict=True)] == [
        n * scores
    ] * 2
    again = n * 4 * 32 * 32 * 64 / 1000  # 4 s^2 h operations
    slower = [b - a for a, b in zip(kept.costs.table(2)["B"], selective.costs.table(2)["B"], strict=True)]
    assert slower == pytest.approx([again * count for count in blocks])


@each("schedule", ["gpipe", "1f1b"])
@each("recompute, checkpoint", [("none", "never"), ("stage", "always")])
def test_planned_activations_are_what_the_engine_counts(schedule, recompute, checkpoint):
    torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")
    from torch import nn

    from gpipe_edu.pytorch import GPipe

    widths = [64, *[96] * 7, 10]
    plan = Plan(Job(mlp(widths), 50, DEVICES), 1, 4, 4, recompute, schedule=schedule)
    layers = [nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in pairwise(widths[:-1])]
    net = nn.Sequential(*layers, nn.Linear(96, 10))
    pipe = GPipe(net, 4, 4, plan.balance, schedule=schedule, checkpoint=checkpoint, measure_memory=True)
    pipe.step(torch.randn(50, 64), torch.zeros(50, dtype=torch.long), nn.CrossEntropyLoss())
    # 50 samples are cut 13, 13, 12, 12 and planned as 13 each, which is at most 1/12 too much.
    for planned, counted in zip(plan.activations, pipe.peak_memory, strict=True):
        assert 0.97 < planned / counted < 1.09


@each("schedule", SCHEDULES)
@each("recompute", RECOMPUTES)
def test_no_step_is_shorter_than_its_bound(schedule, recompute):
    model = transformer(6, 32, 16, 300, heads=2, fused=False)
    job = Job(model, 24, Machine(8, 1e9, 1e9, 1e-5, link=1e7, latency=1e-5, bandwidth=1e8))
    for D, K, M in [(1, 1, 24), (1, 4, 6), (2, 3, 5), (2, 4, 1), (4, 2, 3)]:
        for zero in ZERO:
            plan = Plan(job, D, K, M, recompute, schedule=schedule, zero=zero)
            assert plan.bound <= plan.step * (1 + 1e-12)
            assert plan.floor <= plan.step * (1 + 1e-12)


@each("schedule", ["1f1b", "interleaved", "zero_bubble", "interleaved_zero_bubble"])
def test_the_bound_is_the_step_where_stages_are_even_and_links_free(schedule):
    for K, M in ((2, 4), (4, 8), (8, 16), (4, 2)):
        if M >= K or schedule in ("1f1b", "zero_bubble"):
            plan = Plan(EVEN_JOB, 1, K, M, schedule=schedule)
            assert plan.bound == pytest.approx(plan.step)


@each("schedule", SCHEDULES)
@each("recompute", RECOMPUTES)
def test_the_parts_of_a_step_are_the_step(schedule, recompute):
    model = transformer(6, 32, 16, 300, heads=2, fused=False)
    job = Job(model, 24, Machine(16, 1e9, 1e9, 1e-5, link=1e7, latency=1e-5, bandwidth=1e8))
    for zero in ZERO:
        plan = Plan(job, 2, 2, 3, recompute, schedule=schedule, zero=zero, tensor=2, context=2)
        assert sum(plan.parts.values()) == pytest.approx(plan.step)
        assert plan.parts["bubble"] > 0
    assert Plan(job, 2, 1, 3, recompute).parts["bubble"] == pytest.approx(0, abs=1e-12)


def test_weights_of_a_real_model_go_where_its_layers_go():
    model = transformer(12, 64, 32, 1000)
    plan = Plan(Job(model, 8, Machine(4, 1e9, 1e12), STATES["momentum"]), 1, 4, 4, "stage")
    assert sum(plan.state) == 12 * model.parameters
    assert sum(plan.balance) == 14
    assert plan.memory[plan.fullest] == max(plan.memory)
    assert plan.short == max(plan.memory) - 0.9e9
    assert plan.fits
    assert (plan.timeline.source, plan.timeline.unit) == ("planned", "s")
    assert plan.timeline.makespan == plan.step


def test_interleaved_with_one_stage_on_each_device_takes_as_long_as_1f1b():
    for K, M in ((2, 4), (4, 8)):
        one = Plan(EVEN_JOB, 1, K, M, schedule="interleaved", V=1)
        plain = Plan(EVEN_JOB, 1, K, M)
        assert (one.balance, one.step) == (plain.balance, plain.step)


def test_mfu_counts_no_operation_twice():
    job = Job(transformer(6, 32, 16, 300), 24, Machine(16, 1e9, 1e9, peak=2e9))
    for recompute in RECOMPUTES:
        plan = Plan(job, 2, 2, 4, recompute, tensor=2)
        work = 3 * 24 * sum(layer.work for layer in job.model.layers)
        assert plan.mfu == pytest.approx(work / plan.step / 8 / 2e9)
        assert plan.tokens_per_second == pytest.approx(24 * 16 / plan.step)


WRONG = [
    ({"batch": 0}, ValueError, "batch is 0; it must be at least 1"),
    ({"batch": 2.5}, TypeError, "batch is 2.5; it must be a whole number"),
    ({"state": BytesPerParameter(4, -4, 0)}, ValueError, "state gradient is -4"),
    ({"activation": -4}, ValueError, "activation is -4"),
    ({"machine": DEVICES._replace(devices=0)}, ValueError, "devices is 0"),
    ({"machine": DEVICES._replace(memory=0)}, ValueError, "memory is 0; it must be more than 0"),
    ({"machine": DEVICES._replace(memory=float("nan"))}, ValueError, "memory is nan"),
    ({"machine": DEVICES._replace(memory="16 GB")}, TypeError, "memory is '16 GB'; it must be a number"),
    ({"machine": DEVICES._replace(speed=-1)}, ValueError, "speed is -1"),
    ({"machine": DEVICES._replace(speed=None)}, TypeError, "speed is None"),
    ({"machine": DEVICES._replace(link=0)}, ValueError, "link is 0; it must be more than 0"),
    ({"machine": DEVICES._replace(network=-2)}, ValueError, "network is -2"),
    ({"machine": DEVICES._replace(latency=-1)}, ValueError, "latency is -1"),
    ({"machine": DEVICES._replace(node=0)}, ValueError, "node is 0"),
    ({"machine": DEVICES._replace(bandwidth=0)}, ValueError, "bandwidth is 0"),
    ({"machine": DEVICES._replace(peak=-1)}, ValueError, "peak is -1"),
    ({"machine": DEVICES._replace(overhead=-1)}, ValueError, "overhead is -1"),
    ({"machine": DEVICES._replace(reserve=1)}, ValueError, "reserve is 1; it must be at least 0 and below 1"),
]


@each("change, error, says", WRONG)
def test_jobs_that_cannot_be_planned_are_refused(change, error, says):
    with pytest.raises(error, match=says):
        Plan(Job(EVEN, 64, DEVICES)._replace(**change), 1, 1, 1, "none")


@each(
    "arguments, error, says",
    [
        ((1, 9, 1, "none"), ValueError, "D is 1 and K is 9, but there are 8 devices"),
        ((3, 3, 1, "none"), ValueError, "D is 3 and K is 3, but there are 8 devices"),
        ((0, 1, 1, "none"), ValueError, "D is 0"),
        ((1, 0, 1, "none"), ValueError, "K is 0"),
        ((2, 2, 33, "none"), ValueError, "D is 2 and M is 33, but the mini-batch has 64 samples"),
        ((1, 2, 1.0, "none"), TypeError, "M is 1.0"),
        ((1, 2, 1, "never"), ValueError, "recompute is 'never'; it must be one of none, selective, full, stage"),
    ],
)
def test_plans_that_do_not_fit_their_job_are_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        Plan(Job(EVEN, 64, DEVICES), *arguments)


@each(
    "knobs, error, says",
    [
        ({"schedule": "naive"}, ValueError, "schedule is 'naive'; it must be one of gpipe, 1f1b, interleaved"),
        ({"zero": 4}, ValueError, "zero is 4; it must be one of 0, 1, 2, 3"),
        ({"V": 0, "schedule": "interleaved"}, ValueError, "V is 0"),
        ({"V": 2}, ValueError, "V is 2, but 1f1b has 1 stage on each device"),
        ({"V": 1, "schedule": "zero_bubble_v"}, ValueError, "V is 1, but zero_bubble_v has 2 stages on each device"),
        ({"tensor": 0}, ValueError, "tensor is 0"),
        ({"tensor": 3}, ValueError, "tensor is 3, but a node has 8 devices"),
        ({"tensor": 16}, ValueError, "D is 1 and K is 1 of 16 devices each, but there are 8 devices; 16 are too many"),
        ({"context": 0}, ValueError, "context is 0"),
        ({"context": 8}, ValueError, "context is 8, but a sample has 4 tokens"),
    ],
)
def test_knobs_that_cannot_be_are_refused(knobs, error, says):
    job = Job(transformer(2, 8, 4, 8), 64, DEVICES._replace(node=8))
    with pytest.raises(error, match=says):
        Plan(job, 1, 1, 1, **knobs)


def test_layers_that_nothing_shares_make_no_tensor_group():
    with pytest.raises(ValueError, match="tensor is 2, but no layer of MLP of 2 layers can be shared; use 1"):
        Plan(Job(mlp([4, 4, 4]), 8, DEVICES), 1, 1, 1, tensor=2)


def test_more_stages_than_layers_are_refused():
    with pytest.raises(ValueError, match="2 layers cannot fill 3 stages"):
        Plan(Job(mlp([4, 4, 4]), 8, DEVICES), 1, 3, 1, "none")


def test_long_texts_leave_zero_bubble_little_to_fill_its_gaps_with():
    """Llama 3 8B at 131,072 tokens, eight stages of eight devices: attention has no weights, and so no W."""
    job = presets.job(presets.model("llama3-8b", context=131072), 64, "h100", 64)
    plan = Plan(job, 1, 8, 16, schedule="zero_bubble", tensor=8)
    assert plan.step == pytest.approx(78.0, abs=0.1)
    assert plan.bubble == pytest.approx(0.306, abs=0.001)
    for k in range(8):
        assert plan.costs.I[k] + plan.costs.W[k] == pytest.approx(plan.costs.B[k])


def test_without_traffic_and_messages_an_op_takes_what_its_products_do():
    model = transformer(8, 64, 256, 10)
    block = model.layers[1]
    plan = Plan(Job(model, 8, Machine(4, 1e12, 1e9)), 1, 4, 8, schedule="zero_bubble", balance=(3, 2, 2, 3))
    costs = ge.Costs.of_transformer(64, 256)
    for kind in "FIW":
        expected = 2 * block.work / 1e9 * getattr(costs, kind)
        assert getattr(plan.costs, kind)[1] == pytest.approx(expected)
