"""The table of habits: equal to 1e-10, or one clear sentence on all ranks; there is no third."""

from functools import partial

import pytest
import torch

from tests.amount import third

from . import table
from .ways import run

pytestmark = pytest.mark.slow

AS_PLAIN = [
    table.relu_in_place,
    table.layer_norm,
    table.group_norm,
    table.instance_norm,
    table.weight_norm,
    table.pruned,
    table.embedding,
    table.sparse_gradients,
    table.transposed_between,
    table.an_identity_for_a_stage,
    table.expanded_between,
    table.a_transformer,
    table.a_function_of_ones_own,
    table.a_loss_injected_in_a_backward,
    table.a_checkpoint_inside_a_layer,
    table.one_activation_used_everywhere,
    table.a_weight_that_is_not_used,
    table.complex_numbers,
    table.dropout_of_nothing,
    table.dropout_while_evaluating,
    table.frozen_first_layers,
    table.frozen_last_layers,
    table.frozen_between_two_steps,
    table.hooks_on_weights,
    table.forward_hooks_on_layers,
    table.backward_hooks_on_layers,
    table.hooks_on_activations,
    table.a_weight_replaced_by_another,
    table.a_weight_tied_inside_a_stage,
    table.names_of_weights,
    table.adam,
    table.an_optimizer_over_the_net,
    table.clipped_by_value,
    table.clipped_by_norm,
    table.several_optimizers,
    table.gradients_added_up,
    table.an_average_of_weights,
    table.evaluated_in_between,
    table.batches_of_other_sizes,
    table.two_nets_in_turn,
    *[partial(table.losses, name=name) for name in table.LOSSES],
]

IN_PIECES = [
    table.batch_norm,
    table.batch_norm_of_ragged_batches,
    table.instance_norm_with_statistics,
    table.instance_norm_with_statistics_of_ragged_batches,
    table.spectral_norm,
    table.a_buffer_that_counts_calls,
]
"""Layers that look at all samples of a batch: as one device that is fed one micro-batch after the other."""

REFUSED = {
    table.relu_in_place_first_in_a_stage: "stage 0: a layer changes the input of its stage in place",
    table.inputs_that_want_a_gradient: "x requires a gradient, and a pipeline of processes gives none to its input",
    table.shuffled_by_what_dropout_draws_from: "draw its order by a generator that nothing else uses",
    table.lazy_layers: "lazy",
    table.a_net_without_numbers: "meta",
    table.data_parallel_around: "net is a DataParallel; it must be an nn.Sequential",
}


def name(habit):
    return "losses-" + habit.keywords["name"].replace(" ", "-") if isinstance(habit, partial) else habit.__name__


def is_as_one_device(group, ranks, habit, pieces=False):
    for told in run(group, ranks, habit, pieces):
        for schedule, apart in told.items():
            assert not isinstance(apart, str), f"{schedule}: {apart}"
            assert apart < 1e-10, schedule


@pytest.mark.sweep
@pytest.mark.parametrize("habit", AS_PLAIN, ids=name)
def test_two_ranks_are_as_one_device(group, habit):
    is_as_one_device(group, 2, habit)


def test_whole_numbers_go_from_stage_to_stage(group):
    is_as_one_device(group, 2, table.whole_numbers_between)


@pytest.mark.sweep
@pytest.mark.parametrize("habit", third(AS_PLAIN), ids=name)
def test_three_ranks_are_as_one_device(group, habit):
    is_as_one_device(group, 3, habit)


@pytest.mark.sweep
@pytest.mark.parametrize("habit", IN_PIECES, ids=name)
@pytest.mark.parametrize("ranks", [2, 3])
def test_layers_that_look_at_all_samples_see_a_micro_batch(group, habit, ranks):
    is_as_one_device(group, ranks, habit, pieces=True)


@pytest.mark.parametrize("habit", REFUSED, ids=name)
@pytest.mark.parametrize("ranks", [2, 3])
def test_what_is_refused_is_refused_on_every_rank(group, habit, ranks):
    for told in run(group, ranks, habit):
        assert all(isinstance(said, str) and REFUSED[habit] in said for said in told.values()), told


def test_the_table_would_notice_a_difference(group):
    def forgetful(way):
        model = way.wrap(table.mlp(), torch.nn.functional.mse_loss, table.batch(6))
        model.step(table.batch(6), table.batch(3) + (0 if type(way).__name__ == "Way" else 1e-6))
        return table.held(model)

    assert all(apart > 1e-10 for told in run(group, 2, forgetful) for apart in told.values())
