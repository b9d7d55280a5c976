"""Several tensors between ranks, skips, and mini-batches of other shapes: as on one device, for every schedule."""

import pytest

from gpipe_edu.cluster.engine import Newest
from tests.amount import third

from . import values
from .on_ranks import run
from .test_pipeline import RECIPES

pytestmark = pytest.mark.slow


@pytest.mark.sweep
@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("name", values.NETWORKS)
def test_what_goes_between_layers_may_be_several_tensors_and_skips(group, name, K):
    """For each recipe, of which a third is tried daily; 13 samples are cut unevenly."""
    schedules = {recipe: RECIPES[recipe](K, 4) for recipe in third(list(RECIPES))}
    for told in run(group, K, values.differences, name, list(schedules.values())):
        found = dict(zip(schedules, told, strict=True))
        assert {recipe: apart for recipe, apart in found.items() if apart > 1e-10} == {}


def test_each_rank_may_make_dictionaries_with_keys_in_another_order(group):
    for told in run(group, 2, values.differences, "keys in another order", [RECIPES["1f1b"](2, 4)]):
        assert max(told) < 1e-10


@pytest.mark.parametrize("name", ["1f1b", "zero_bubble"])
def test_what_is_conjugated_or_negated_when_it_is_read_travels_as_it_reads(group, name):
    for told in run(group, 2, values.differences, "lazily changed", [RECIPES[name](2, 4)]):
        assert max(told) < 1e-10


def test_a_layer_that_gives_something_else_in_evaluation_is_told(group):
    first, last = run(group, 2, values.another_form)
    assert first == ""
    assert last.startswith(
        "ValueError: stage 1 gives shape (3,) and type torch.float64 now, and gave shape (3,) and type torch.float64 "
        "and shape (5,) and type torch.float64 when it was tried on other numbers"
    )


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "zero_bubble"])
def test_a_skip_goes_straight_to_the_rank_that_takes_it_and_costs_nothing_between(group, name):
    """500 numbers of 8 bytes for each of 13 samples, beside 5 that go from layer to layer. As PyTorch counts sends."""
    schedule = RECIPES[name](3, 4)
    value, skip = 13 * 5 * 8, 13 * 500 * 8
    without = run(group, 3, values.sent_of_skips, schedule, False)
    assert without == [[{1: value}, {1: value}], [{0: value, 2: value}, {2: value}], [{1: value}, {}]]
    first, between, last = run(group, 3, values.sent_of_skips, schedule, True)
    assert between == without[1]
    assert first == [{1: value, 2: skip}, {1: value, 2: skip}]
    assert last == [{1: value, 0: skip}, {}]


@pytest.mark.parametrize("name", ["1f1b", "zero_bubble"])
def test_far_skips_of_replicas_stay_in_their_pipeline(group, name):
    """Three stages each; only replicas of the same stage meet."""
    assert max(run(group, 6, values.skips_of_replicas, RECIPES[name](3, 3))) < 1e-10


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["1f1b", "zero_bubble", "interleaved"])
def test_sequences_of_several_lengths_and_ragged_batches_train_and_predict(group, name):
    for told in run(group, 2, values.lengths, RECIPES[name](2, 3)):
        assert told["apart"] < 1e-10
        assert told["kept"] == 8 < told["sizes"], "engines have memory for what is under way; the oldest go"
        assert "stage 0 can't be run with samples of shape (5, 1)" in told["said"]


def test_engines_go_with_their_pipeline(group):
    """They have buffers for all that is under way, on a GPU perhaps."""
    assert run(group, 2, values.let_go, RECIPES["1f1b"](2, 4)) == [[True, True]] * 2


def test_what_was_used_last_is_kept():
    kept = Newest(2)
    for key in "ab":
        kept.keep(key, key.upper())
    assert kept.get("a") == "A"
    kept.keep("c", "C")
    assert [kept.get(key) for key in "abc"] == ["A", None, "C"]
    assert len(kept) == 2
