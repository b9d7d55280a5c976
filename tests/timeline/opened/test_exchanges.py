"""What a profile says of exchanges among experts is what was put into it, or what the routing of a real run gives."""

import json
from functools import partial

import pytest

import gpipe_edu as ge
from gpipe_edu.timeline.opened import open_files
from gpipe_edu.timeline.opened.exchanges import sizes_of_call, sizes_of_kernel
from tests.processes import PATIENCE

from . import traces

SENT = 1000
DEEP_EP = "void deep_ep::intranode::{}<8, 768, 8192>(int4*, float*, int*, long*)"


def with_experts(trace, rows, got, hidden=0, names=("ncclDevKernel_SendRecv",) * 2, told=True):
    """GPU spans of 100 us: 10 of attention, 20 on the way to experts, 40 of theirs, 20 on the way back, 10 of a sum;
    another stream computes for the first `hidden` microseconds of each exchange."""
    host = rows[0].start
    for _, op, start, _ in rows:
        trace.add("user_annotation", f"PP:{op.stage}{op.kind}{op.micro_batch}", host, 40)
        for at, length, name, sizes in (
            (0, 10, "ampere_sgemm", None),
            (10, 20, names[0], (SENT, got)),
            (30, 40, "cutlass::grouped_gemm", None),
            (70, 20, names[1], (got, SENT)),
            (90, 10, "void at::native::add", None),
        ):
            trace.launch(host + 1, 1, name, start + at, start + at + length, stream=20 if sizes else 7)
            if sizes and told:
                about = {"Collective name": "all_to_allv", "In msg nelems": sizes[0], "Out msg nelems": sizes[1]}
                trace.events[-1]["args"] |= about
            if sizes and hidden:
                trace.launch(host + 1, 1, "shared_expert", start + at, start + at + hidden, stream=9)
        host += 50


def saved(folder, got, schedule=None, **options):
    """Traces of the ranks of a pipeline and its replicas; got: for each replica, numbers that a stage's device gets."""
    step = ge.simulate(schedule or ge.gpipe(2, 2), ge.Costs(F=1e-4, B=1e-4))
    K = step.devices
    for replica, mine in enumerate(got):
        ranks = [replica * K + k for k in range(K)]
        for k, rank in enumerate(ranks):
            trace = traces.Trace(rank, K * len(got), [("mesh_pp", ranks)], "nccl")
            with_experts(trace, traces.later(step.row(k), 0), mine[k], **options)
            trace.save(folder / f"rank{rank}_trace.json.gz")
    return step


@pytest.mark.parametrize(("hidden", "exposed"), [(0, 40), (5, 30), (20, 0)])
def test_an_exchange_is_as_long_as_its_kernels_and_exposed_where_nothing_else_runs(tmp_path, hidden, exposed):
    step = saved(tmp_path, [[SENT, SENT]], hidden=hidden)
    opened = open_files(tmp_path)
    found = opened.found
    assert found.makespan == pytest.approx(step.makespan)
    assert set(found.exchanges) == {span.op for span in step.spans}
    for one in found.exchanges.values():
        assert (one.time, one.exposed, one.uneven) == pytest.approx((40e-6, exposed * 1e-6, 0))
        assert (one.mean, one.most) == (SENT, SENT)
    said = f"40.0% of F, {exposed:.1f}% exposed; 40.0% of B, {exposed:.1f}% exposed. On stage 0 the busiest device got"
    assert any(said in line for line in opened.said)
    assert found.messages == ()  # an all-to-all is no message between stages, though its kernel has the same name
    diagnosis = ge.diagnose(found)
    assert (diagnosis.exchange, diagnosis.exposed) == pytest.approx((0.4, exposed / 100))
    named = [one for one in diagnosis.findings if "exchange between experts" in one.sentence]
    assert len(named) == (exposed > 0)
    assert all(one.gain == pytest.approx(step.makespan * exposed / 100) for one in named)


def test_who_got_most_shows_among_the_ranks_of_all_pipelines(tmp_path):
    """Stage 1 of the second pipeline gets 1.6 times the mean: the first one's waits for it."""
    saved(tmp_path, [[1000, 400], [1000, 1600]])
    for replica, (exposed, uneven) in enumerate(((4e-5 - 2e-5, 1e-5), (4e-5, 1.5e-5))):
        found = ge.load(tmp_path, replica=replica)
        assert found.imbalances == pytest.approx({0: 1, 1: 1.6})
        for op, one in found.exchanges.items():
            wanted = (exposed, uneven) if op.stage else (4e-5, 0)
            assert (one.exposed, one.uneven) == pytest.approx(wanted), (replica, op)
    [told] = [one.sentence for one in ge.diagnose(found).findings if "not used evenly" in one.sentence]
    assert "on stage 1 the busiest device gets 1.60 times the mean" in told
    assert any("On stage 1 the busiest device got 1.60 times the mean" in line for line in found.notes)


def test_of_one_pipeline_alone_its_own_ranks_tell_and_without_sizes_none(tmp_path):
    saved(tmp_path, [[1000, 1600]])
    assert ge.load(tmp_path).imbalances == pytest.approx({0: 1, 1: 1.6})
    names = DEEP_EP.format("dispatch"), DEEP_EP.format("combine")
    saved(tmp_path, [[1000, 1600]], names=names, told=False)
    found = open_files(tmp_path)
    assert found.found.imbalances == {}
    assert ge.diagnose(found.found).imbalance == 1
    assert {round(one.time * 1e6) for one in found.found.exchanges.values()} == {40}
    assert any("Record shapes" in line for line in found.said)


def test_kernels_of_other_messages_are_no_exchange(tmp_path):
    for name, args in (
        ("ncclDevKernel_SendRecv", {}),
        ("ncclDevKernel_SendRecv", {"Collective name": "recv", "In msg nelems": 8, "Out msg nelems": 8}),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", {"Collective name": "allreduce"}),
        ("void deep_ep::internode::get_dispatch_layout<256, 32, 8>(long const*)", None),
        ("void deep_ep::elastic::dispatch_copy_epilogue_impl<true>(void*)", {}),
        ("dispatch_softmax_forward", []),
    ):
        assert sizes_of_kernel(name, args) is None
    for kernel in (
        *("internode::notify_dispatch<true>", "intranode::cached_notify_combine<8>", "internode_ll::combine"),
        *("legacy::intranode::dispatch<8, 768, 8192>", "elastic::hybrid_dispatch_impl<true>"),
    ):
        assert sizes_of_kernel(f"void deep_ep::{kernel}(int)", {}) == (0, 0)
    saved(tmp_path, [[1000, 1000]], told=False)
    opened = open_files(tmp_path)
    assert opened.found.exchanges == {}
    assert not any("experts" in line for line in opened.said)
    assert "experts" not in str(ge.diagnose(opened.found))


def test_on_a_cpu_an_exchange_ends_with_gloo_s_annotation_and_operations_hide_it(tmp_path):
    trace = traces.Trace(0, 1, [])
    for start, name, more in ((0, "PP:0F0", {"Input Dims": [[6, 4], [8, 4]]}), (200, "PP:0B0", {})):
        trace.add("user_annotation", name, start, 100)
        trace.add("cpu_op", "autograd::engine::evaluate_function: Exchange", start + 4, 90)  # holds the call
        trace.add("cpu_op", "c10d::alltoall_base_", start + 20, 2, **more)
        trace.add("user_annotation", "gloo:all_to_all", start + 25, 35, tid=9)
        trace.add("cpu_op", "aten::mm", start + 30, 10)
        trace.add("cpu_op", "aten::add", start + 55, 25)
    found = ge.load(trace.save(tmp_path / "rank0_trace.json"))
    for one in found.exchanges.values():
        assert (one.time, one.exposed) == pytest.approx((40e-6, 25e-6))


@pytest.mark.parametrize(
    ("args", "sizes"),
    [
        ({"Input Dims": [[96, 256], [64, 256], [], []]}, (64 * 256, 96 * 256)),
        ({"Input Dims": [[[96, 2], [4, 2]], [[64, 2], [8, 2]], []]}, (144, 200)),
        ({"Input Dims": [[], [7]]}, (7, 0)),
        ({"Input Dims": [["x"], [-7]]}, (0, 0)),
        ({"Input Dims": [[3.5], [9] * 1000]}, (0, 0)),
        ({"Input Dims": 3}, (0, 0)),
        ({}, (0, 0)),
        (None, (0, 0)),
    ],
)
def test_sizes_are_those_of_the_recorded_shapes(args, sizes):
    assert sizes_of_call(args) == sizes


@pytest.mark.slow
def test_real_mixtures_tell_what_their_routing_gives(tmp_path, preloaded_python):
    pytest.importorskip("torch", minversion="2.12", reason="this test profiles real runs of PyTorch")
    from gpipe_edu.distributed import LocalGroup

    from . import mixture_runs as runs

    cases = {"even": (0.5, True), "uneven": (0.9, True), "no shapes": (0.9, False)}
    with LocalGroup() as group:
        for name, given in cases.items():
            (tmp_path / name).mkdir()
            group.run([partial(runs.profile_mixture, str(tmp_path / name), *given)] * 4, PATIENCE)
    for name, (_, shapes) in cases.items():
        opened = open_files(tmp_path / name)
        routed = [json.loads((tmp_path / name / f"got_{rank}.txt").read_text()) for rank in range(4)]
        for step in opened.steps:
            assert len(step.exchanges) == len(step.spans)
            for op, one in step.exchanges.items():
                span = next(span for span in step.spans if span.op == op)
                assert 0 <= one.exposed <= one.time <= span.end - span.start + 1e-9
                got = [sum(routed[2 * op.stage + place][op.micro_batch]) for place in range(2)]
                assert sum(got) == 2 * runs.TOKENS
                wanted = (runs.TOKENS * runs.WIDTH, max(got) * runs.WIDTH) if shapes else (0, 0)
                assert (one.mean, one.most) == pytest.approx(wanted)
        found = ge.diagnose(opened.steps)
        assert 0 < found.exposed <= found.exchange < 1
        uneven = sum(one.uneven for step in opened.steps for one in step.exchanges.values())
        if name == "uneven":
            assert 1.6 < found.imbalance < 2
            assert uneven > 0
        else:
            assert found.imbalance < 1.2
            assert (uneven > 0) == shapes
