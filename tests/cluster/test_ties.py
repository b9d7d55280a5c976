"""A weight that stages on several ranks hold trains as the one weight that it is on one device."""

import pytest
import torch

import gpipe_edu as ge
from tests.amount import third
from tests.rounding import apart_after_adam

from . import ties
from .on_ranks import run
from .test_pipeline import RECIPES

pytestmark = pytest.mark.slow


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["adam", "sgd"])
@pytest.mark.parametrize("K", [2, 3])
def test_a_transformer_whose_embedding_is_its_head_trains_as_on_one_device(group, K, kind):
    schedules = {name: RECIPES[name](K, 3) for name in third(list(RECIPES))}
    steps = 20
    most = apart_after_adam(steps, **ties.ADAM) if kind == "adam" else 1e-10
    told = run(group, K, ties.trained, list(schedules.values()), kind, steps)
    for name, ranks in zip(schedules, zip(*told, strict=True), strict=True):
        assert max(apart for apart, _ in ranks) < most, name
        copies = [copy for _, copy in ranks if copy is not None]
        assert len(copies) >= 1, name
        assert len(set(copies)) == 1, f"{name}: the copies are equal to the last bit"


@pytest.mark.parametrize("K", [2, 3])
def test_layers_and_weights_in_several_stages_add_up_and_count_once(group, K):
    for name in third(list(RECIPES)):
        for told in run(group, K, ties.gradients, RECIPES[name](K, 4)):
            assert told["apart"] < 1e-12
            assert told["norm"] < 1e-12
            assert not {"2.weight", "4.weight", "4.bias"} & set(told["names"]), "each has the name of the first place"


@pytest.mark.parametrize(("K", "copies"), [(2, 1), (3, 1), (2, 2)])
def test_weights_that_each_rank_has_in_an_order_of_its_own_get_their_own_gradients(group, K, copies):
    schedules = {name: RECIPES[name](K, 3) for name in ("gpipe", "interleaved", "zero_bubble")}
    told = run(group, K * copies, ties.in_opposite_order, list(schedules.values()), copies)
    for name, ranks in zip(schedules, zip(*told, strict=True), strict=True):
        assert max(apart for apart, _ in ranks) < 1e-12, name
        held = [copies for _, copies in ranks]
        for weight in ("0.weight", "1.weight", "2.weight"):
            assert len({copies[weight] for copies in held if weight in copies}) == 1, "equal to the last bit"
        assert sum("0.weight" in copies for copies in held) == 2 * copies, "two ranks of each replica have it"


CHANGES = {
    ties.untie: "ValueError: ranks 0, 1 hold the weight '0.weight', a copy each, and another was put in its place on "
    "rank 1; change its numbers, under torch.no_grad(), or make another Pipeline",
    ties.hold_another: "and another was put in its place on rank 0",
    ties.tie_another: "ValueError: layers of the ranks 0, 1 hold one weight now, and did not when the Pipeline was",
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_ranks_share_stays_as_it_was_built(group, change):
    for said, _ in run(group, 2, ties.after, change):
        assert all(CHANGES[change] in one for one in said), said


def test_a_copy_that_is_frozen_alone_is_refused_on_every_rank(group):
    words = "ValueError: the weight '0.weight' is frozen on rank 0 and trains on rank 1, and each has a copy of it; do"
    for said, _ in run(group, 2, ties.after, ties.freeze_one_copy):
        assert all(one.startswith(words) for one in said), said


@pytest.mark.parametrize("change", [ties.freeze, ties.fill])
def test_a_shared_weight_may_be_frozen_on_all_ranks_or_get_other_numbers(group, change):
    for said, off in run(group, 2, ties.after, change):
        assert said == ["", ""]
        assert off < 1e-12


APART = "and step them with other settings, so that they drift apart: "
DIFFER = "and their numbers differ by now"
STEPPED = {
    ties.by_kind: (2, APART + "weight_decay=0.0 in group 0 on rank 0; weight_decay=0.5 in group 1 on rank 1. Do the"),
    ties.by_rank: (2, APART + "optimizer=Adam in group 0 on rank 0; optimizer=SGD in group 0 on rank 1"),
    ties.one_only: (2, DIFFER + ": no optimizer of rank 0 steps it. Do the same with both, by the name"),
    ties.of_rates_that_part: (4, APART + "lr=0.1 in group 0 on rank 0; lr=0.2 in group 0 on rank 1"),
    ties.by_hand: (2, DIFFER + ". Do the same with both, by the name in pipeline.named_parameters()"),
}
"""The step that says it: the comparison is made in steps 1, 2, 4, ..."""


@pytest.mark.parametrize("choose", STEPPED)
def test_copies_that_optimizers_step_otherwise_are_named_on_every_rank(group, choose):
    step, words = STEPPED[choose]
    for said in run(group, 2, ties.stepped, choose):
        assert said[:-1] == [""] * (step - 1)
        assert said[-1].startswith(f"ValueError: ranks 0 and 1 have a copy each of the weight '0.weight', {words}")


def test_a_group_chosen_by_name_is_right(group):
    assert run(group, 2, ties.stepped, ties.by_name) == [[""] * 5] * 2


def test_hooks_on_a_shared_weight_see_the_sum_once_a_mini_batch(group):
    for calls, apart in run(group, 2, ties.hooks, ge.one_f_one_b(2, 4)):
        assert calls == 2
        assert apart < 1e-12


@pytest.mark.sweep
@pytest.mark.parametrize(("kind", "off"), [(torch.float64, 1e-12), (torch.bfloat16, 0.1)])
@pytest.mark.parametrize("reductions", [(True, True), (False, False, True, True, False, True)])
def test_shared_weights_add_up_over_stages_and_replicas(group, reductions, kind, off):
    """Three replicas: a sum of two numbers is the same in any order, and of three it is not."""
    told = run(group, 6, ties.replicas, ge.one_f_one_b(2, 3), reductions, kind)
    assert max(apart for apart, _ in told) < off
    for after in zip(*(held for _, held in told), strict=True):
        for name in {name for here in after for name in here}:
            assert len({here[name] for here in after if name in here}) == 1, f"{name}: equal to the last bit"


def test_a_weight_that_the_other_stage_does_not_use_has_the_gradient_of_the_first(group):
    assert run(group, 2, ties.unused) == [[], ["2.bias"]]


def test_a_sparse_gradient_adds_to_a_dense_one(group):
    assert max(run(group, 2, ties.sparse)) < 1e-12


@pytest.mark.parametrize("zero", [False, True])
def test_a_shared_weight_is_saved_as_one_and_resumed_by_other_stages_and_replicas(group, tmp_path, zero):
    """Two stages and two replicas, then four stages, and six steps without a break; ZeRO-1 where there are replicas."""

    def trained(K, copies, folder, steps):
        schedule = ge.one_f_one_b(K, 3)
        return run(group, K * copies, ties.resumed, schedule, tmp_path / folder, steps, copies, zero and copies > 1)

    whole = trained(2, 2, "whole", 6)
    trained(2, 2, "broken", 3)
    resumed = trained(4, 1, "broken", 6)
    assert resumed[0][0] == pytest.approx(whole[0][0][3:], abs=1e-10)
    for told in (whole, resumed):
        copies = [copy for _, copy in told if copy is not None]
        assert len(copies) > 1
        assert len(set(copies)) == 1
