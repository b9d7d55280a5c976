"""PyTorch's engine in several processes: gradients equal those of one-device training, under every schedule."""

import pytest
import torch

import gpipe_edu as ge
from gpipe_edu.schedule import recipes
from tests.amount import third

from . import jobs
from .on_ranks import run

pytestmark = pytest.mark.slow

# PyTorch's engine has no recompute that goes ahead of its backward.
RECIPES = {name: recipe for name, recipe in recipes.RECIPES.items() if name != "gpipe-early"}


@pytest.mark.sweep
@pytest.mark.parametrize("K", [3, 1, 2, 4])
def test_gradients_of_every_schedule_equal_one_devices(group, K):
    """Two steps each, so that gradients add up: 13 samples cut unevenly, and 3, fewer than most M."""
    schedules = {f"{name}, M={M}": RECIPES[name](K, M) for name in RECIPES for M in third(range(1, 10))}
    for told in run(group, K, jobs.differences, list(schedules.values())):
        found = dict(zip(schedules, told, strict=True))
        assert {name: apart for name, apart in found.items() if apart > 1e-10} == {}


def test_a_schedule_written_by_hand_may_run_micro_batches_in_any_order(group):
    """PyTorch's engine takes losses by the order in which they came; ours by their number."""
    schedule = ge.Schedule.parse("F2 F0 F1 B1 B2 B0\nF2 F0 F1 B1 B2 B0").check()
    assert all(max(told) < 1e-10 for told in run(group, 2, jobs.differences, [schedule]))


@pytest.mark.parametrize("K", [2, 3])
def test_of_messages_only_those_that_were_sent_stay_in_memory(group, K):
    """PyTorch keeps these to the end of its step; buffers it would have for all that comes, from the first step on."""
    M = 24
    for rank, found in enumerate(run(group, K, jobs.messages_in_memory, ge.one_f_one_b(K, M))):
        sent = M * ((rank > 0) + (rank < K - 1))
        assert len(found) == 2 * M
        assert max(found) <= sent + 4 * K
        assert found[0] <= 2 * K


@pytest.mark.parametrize("recompute", [None, "late"])
def test_batchnorm_counts_each_micro_batch_once(group, recompute):
    for told in run(group, 2, jobs.batchnorm, recompute):
        assert told["apart"] < 1e-10
        assert told["statistics"] < 1e-10
        assert set(told["counts"]) <= {4}


@pytest.mark.parametrize("kind", [torch.float64, torch.complex128])
def test_gradients_are_clipped_by_the_norm_of_all_stages(group, kind):
    for told in run(group, 2, jobs.clipped, kind):
        assert told["norm"] == pytest.approx(told["expected norm"], rel=1e-12)
        assert told["apart"] < 1e-10


@pytest.mark.parametrize("loss", [torch.nn.MSELoss(), jobs.Scored()], ids=["mean of squares", "with a weight"])
@pytest.mark.parametrize("name", jobs.ENDS)
def test_zero_bubble_where_the_loss_keeps_the_output(group, name, loss):
    """PyTorch detaches the last output after I, and W may begin at the loss."""
    for K in (1, 2):
        assert max(run(group, K, jobs.ends, name, loss, ge.zero_bubble(K, 4))) < 1e-12


def test_recomputed_micro_batches_run_forward_twice_and_others_once(group):
    """The schedule says which: C recomputes, B does not."""
    assert run(group, 2, jobs.recomputed) == [3 + 1, 3 + 2]


@pytest.mark.parametrize(("kind", "off"), [(torch.bfloat16, 0.02), (torch.float32, 1e-6)])
def test_smaller_numbers_travel_as_they_are(group, kind, off):
    """Against one device with the same numbers, micro-batch by micro-batch; they add up in another order."""
    for told in run(group, 2, jobs.smaller, kind):
        assert told["types"] == {kind}
        assert told["apart"] < off


def test_the_layers_of_a_rank_evaluate_and_train_together(group):
    first, last = run(group, 2, jobs.modes)
    assert (first["stages"], last["stages"]) == ([0, 2], [1, 3])
    for told in (first, last):
        assert (told["at first"], told["evaluating"], told["again"]) == ({True}, {False}, {True})


@pytest.mark.parametrize("part", [slice(0, 5), slice(5, None)])
def test_a_frozen_stage_hands_gradients_on_and_gets_none(group, part):
    assert max(run(group, 2, jobs.frozen, part)) < 1e-10


def test_a_mini_batch_that_does_not_fit_is_refused_on_every_rank(group):
    for shape, kind, labels, nothing, gradient, form, second, named in run(group, 2, jobs.unfitting):
        assert "stage 0 can't be run with samples of shape (4,)" in shape
        assert ": RuntimeError: " in shape
        assert "torch.float32" in kind
        assert "example shape (5,) and type torch.float64; shapes may differ" in kind
        assert "x has 13 samples and y 5" in labels
        assert "x has [0] samples" in nothing
        assert "give y.detach()" in gradient
        assert "x is a list; give the whole mini-batch" in form
        assert "x has 13 samples and y 5" in second
        assert "y is dict" in named


def test_ranks_with_other_mini_batches_are_told_and_may_go_on(group):
    for told in run(group, 3, jobs.other_mini_batches):
        for said, words in zip(told["said"], told["expected"], strict=True):
            assert said.startswith("rank 2 was given ")
            assert words in said
            assert said.endswith(
                "every rank of a pipeline must be given the same mini-batch, also those that read nothing of it"
            )
        assert told["apart"] < 1e-12, "a step behind all that is right"


def test_predictions_are_those_of_one_device(group):
    first, last = run(group, 2, jobs.predicted)
    assert first is None
    assert last < 1e-12


@pytest.mark.sweep
@pytest.mark.parametrize("name", RECIPES)
def test_replicas_add_up_to_one_device(group, name):
    """2 x 2 processes; the replicas have 7 and 6 samples, and six steps are accumulated."""
    for told in run(group, 4, jobs.replicas, RECIPES[name](2, 3)):
        assert max(told["apart"]) < 1e-10
        assert told["messages"] == 3, "the gradients travel once, after the last micro-batch that is to be added up"


def test_a_timeline_holds_every_op_of_all_ranks_in_the_order_of_the_schedule(group):
    for timeline, schedule in run(group, 2, jobs.timeline):
        assert timeline.source == "measured"
        for device, row in enumerate(schedule.rows):
            assert [span.op for span in timeline.row(device)] == list(row)


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        (lambda: ge.gpipe(2, 2, recompute="early"), "recomputes when the gradient is there"),
        (lambda: ge.Schedule.parse("F0 B0\n-"), "device 1 has no ops"),
        (lambda: ge.Schedule.parse("F0 B0\nB0 F0"), "B0@1"),
        (lambda: ge.gpipe(3, 2), "start 3 processes"),
    ],
)
def test_what_the_engine_cannot_run_is_refused_before_anything_is_sent(group, schedule, told):
    for said in run(group, 2, jobs.refusal, schedule()):
        assert told in said
