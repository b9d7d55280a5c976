"""Nets and losses that would train something else than was meant are refused, or are right."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

import gpipe_edu as ge
from gpipe_edu.distributed import LocalGroup
from tests import losses, wrapped
from tests.processes import PATIENCE

from . import refused
from .on_ranks import run

pytestmark = pytest.mark.slow


def exchange(net):
    net[8] = nn.Linear(6, 3).double()


def append(net):
    net.append(nn.Tanh())


def delete(net):
    del net[3]


def hook(net):
    net.register_forward_hook(lambda module, inputs, output: 2 * output)


CHANGES = {
    "exchanged": (exchange, "ValueError: layers of the net were exchanged, deleted or inserted"),
    "appended": (append, "ValueError: layers of the net were exchanged, deleted or inserted"),
    "deleted": (delete, "ValueError: layers of the net were exchanged, deleted or inserted"),
    "a hook": (hook, "ValueError: net, a Sequential, has hooks of its own"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_net_that_was_changed_since_is_refused_on_every_rank(group, name):
    change, words = CHANGES[name]
    for said in run(group, 2, refused.after, change):
        assert len(said) == 2
        assert all(one.startswith(words) for one in said)


def test_a_rank_goes_on_without_the_net_and_keeps_only_its_layers(group):
    first, last = run(group, 2, refused.without_net)
    assert first == [True] * 5 + [False] * 4
    assert last == [False] * 5 + [True] * 4


def test_a_parameter_in_place_of_another_is_trained(group):
    assert max(run(group, 2, refused.other_weight)) < 1e-10


@pytest.mark.parametrize("loss", [refused.constant, refused.detached])
def test_a_loss_without_graph_is_refused_and_leaves_no_gradients(group, loss):
    _, (said, gradients) = run(group, 2, refused.loss_without_graph, loss)
    assert said.startswith("RuntimeError: the loss depends on nothing that requires a gradient")
    assert all(gradient is None for gradient in gradients)


def test_lazy_layers_are_refused_in_plain_words(group):
    for said in run(group, 2, refused.lazy):
        assert said == (
            "ValueError: the lazy layer 0 has no weights before its first forward; run one first: "
            "with torch.no_grad(): net(x)"
        )


def test_a_compiled_function_may_call_a_pipeline(group):
    assert max(run(group, 2, refused.compiled)) < 1e-10


def test_compiled_layers_that_ran_a_whole_backward_are_right_under_zero_bubble(group):
    assert max(run(group, 2, refused.compiled_layers)) < 1e-10


def test_a_selective_checkpoint_under_zero_bubble_is_explained(group):
    (_, first), (said, last) = run(group, 2, refused.selective)
    assert said.startswith("create_selective_checkpoint_contexts stores what serves one backward")
    assert max(first, last) < 1e-10, "under 1F1B it is right"


@pytest.mark.parametrize("write", [None, refused.hold_it_in_another_type])
def test_a_buffer_that_two_ranks_share_may_be_read(group, write):
    for again, predicted, off in run(group, 2, refused.shared_buffer, write):
        assert again == predicted == ""
        assert off < 1e-10


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_layer_of_all_blocks_may_be_read_by_all_ranks_and_written_to_by_none(group, ranks):
    """Also where one rank has all stages that share it: in which order they write depends on the schedule."""
    for said, off in run(group, 2, refused.one_layer_for_all, None, ranks):
        assert said == ""
        assert off < 1e-10
    for said, _ in run(group, 2, refused.one_layer_for_all, refused.add_in_place, ranks):
        assert said.startswith("ValueError: a layer has written to a buffer that several stages share (Masked.mask in")


@pytest.mark.parametrize("write", [refused.add_in_place, refused.hold_another])
def test_but_not_written_to(group, write):
    for again, predicted, _ in run(group, 2, refused.shared_buffer, write):
        assert again == predicted
        assert again.startswith("ValueError: a layer has written to a buffer that several stages share (")
        assert "Masked.mask in stage 0, Masked.mask in stage 1" in again


def test_a_module_of_all_blocks_may_have_buffers_that_are_read(group, tmp_path):
    """Also with several stages a rank; and what one number of stages has saved, another one loads."""
    schedules = (ge.one_f_one_b(2, 4), ge.interleaved(2, 4, 2), ge.gpipe(2, 4, recompute="late"))
    for done, schedule in enumerate(schedules):
        for off, names, found in run(group, 2, refused.one_rotary, schedule, str(tmp_path)):
            assert off < 1e-12
            assert names == ["0.rotary.cos", "0.rotary.sin"]
            assert found == done
    [[off, _, found]] = group.run([partial(refused.one_rotary, ge.gpipe(1, 4), str(tmp_path))], PATIENCE).values
    assert off < 1e-12
    assert found == 3


def test_ranks_are_told_of_a_clip_of_their_own_and_of_lbfgs(group):
    for told in run(group, 2, refused.of_one_rank):
        (clip,) = told["local"]
        assert "knows the weights of one rank only" in clip
        assert told["common"] == []
        assert told["LBFGS"].startswith("ValueError: LBFGS computes one step length from all weights")


@pytest.mark.parametrize("make", [refused.lstm, refused.encoder])
def test_layers_that_would_get_pieces_of_time_are_refused_and_right_where_they_transpose(group, make):
    for said, _ in run(group, 2, refused.time_first, make, False):
        assert "of stage 0 takes time first (batch_first=False) and got shape (22, 6, 8)" in said
        assert said.endswith("; give it batch_first=True, and x and y with the samples first: x.transpose(0, 1)")
    for said, off in run(group, 2, refused.time_first, make, True):
        assert said == ""
        assert off[0] < 1e-10


ONE_RANKS = "a GradScaler sees the gradients of one rank, and would leave out a step there that the other ranks make"


def test_a_scaler_that_knows_one_rank_ends_the_job_where_the_loss_uses_it(preloaded_python):
    """Before the other rank finds that its own has no scale, of which PyTorch says something else."""
    with LocalGroup() as group, pytest.raises(ValueError, match=ONE_RANKS):
        run(group, 2, refused.scaled, torch.amp.GradScaler)


@pytest.mark.parametrize("fused", [False, True])
def test_a_scaler_that_knows_one_rank_is_refused_where_each_has_used_it(group, fused):
    for said, _ in run(
        group, 2, refused.scaled, torch.amp.GradScaler, ready=True, unscaled=True, fused=fused, overflows=-1
    ):
        assert said.startswith(ONE_RANKS)
        assert "take ShardedGradScaler of torch.distributed.fsdp.sharded_grad_scaler" in said


@pytest.mark.parametrize("fused", [False, True])
def test_a_scaler_that_asks_all_ranks_leaves_out_a_step_on_all(group, fused):
    """The first rank's gradients overflow; later the scale grows again."""
    for apart, scales in run(group, 2, refused.scaled, ShardedGradScaler, ready=True, unscaled=True, fused=fused):
        assert apart < 1e-12
        assert scales == 0


def test_a_fused_optimizer_needs_gradients_that_are_unscaled_or_ranks_are_not_asked(group):
    for said, _ in run(group, 2, refused.scaled, ShardedGradScaler, ready=True, fused=True):
        assert said.startswith(ONE_RANKS)
        assert said.endswith("unscale_(optimizer) before step")


def test_a_scaler_that_is_off_is_none(group):
    for apart, _ in run(
        group, 2, refused.scaled, partial(torch.amp.GradScaler, enabled=False), ready=True, overflows=-1
    ):
        assert apart < 1e-12


@pytest.mark.parametrize("kind", [wrapped.Eight, wrapped.EightOfParts])
def test_weights_that_wrap_others_are_none_with_one_memory(group, kind):
    assert max(run(group, 2, refused.eight_bits, kind)) < 1e-10


def test_a_loss_with_a_mask_for_the_whole_mini_batch_is_explained(group):
    [said] = run(group, 1, refused.loss_of_the_whole)
    assert "a layer or the loss gets a micro-batch, here 3 of the mini-batch's 12 samples" in said


def test_losses_that_give_something_else_in_micro_batches_are_told_where_the_last_stage_is(group):
    first, last = run(group, 2, refused.told_of_losses, {**losses.APART, **losses.UNEVEN})
    assert set(map(len, first.values())) == {0}
    assert {name: len(said) for name, said in last.items()} == dict.fromkeys(last, 1)
    assert all(said[0].startswith("loss_fn does not separate") for name, said in last.items() if name in losses.APART)
    assert last["dice"][0].endswith("in one micro-batch; check_loss=False says that you know")


def test_and_no_others(group):
    for found, options in ((losses.ALIKE, {"steps": 2}), (losses.APART, {"check_loss": False})):
        for said in run(group, 2, refused.told_of_losses, found, **options):
            assert not any(said.values()), said
