"""Several tensors between ranks, skips, and mini-batches of other shapes: as on one device, for every schedule."""

from functools import partial

import pytest

import gpipe_edu as ge
from gpipe_edu.cluster.newest import Newest

from . import jobs, values
from .test_pipeline import RECIPES


def run(crew, K, function, *arguments, **named):
    return crew.run([partial(jobs.unwatched, function, *arguments, **named) for _ in range(K)], seconds=300).values


@pytest.mark.sweep
@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("name", values.NETWORKS)
def test_what_goes_between_layers_may_be_several_tensors_and_skips(crew, name, K):
    """For each recipe; 13 samples are cut unevenly."""
    schedules = {recipe: make(K, 4) for recipe, make in RECIPES.items()}
    for told in run(crew, K, values.differences, name, list(schedules.values())):
        found = dict(zip(schedules, told, strict=True))
        assert {recipe: apart for recipe, apart in found.items() if apart > 1e-10} == {}


def test_a_skip_travels_through_the_stages_between(crew):
    """5 numbers of 8 bytes each: of the value, "far", the two of "pair", and, where it is needed, "near"."""
    told = run(crew, 3, values.messages_of_skips, ge.one_f_one_b(3, 4))
    assert told == 3 * [[40, 5 * 40, 4 * 40, 24]]


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["1f1b", "zero_bubble", "interleaved"])
def test_sequences_of_several_lengths_and_ragged_batches_train_and_predict(crew, name):
    for told in run(crew, 2, values.lengths, RECIPES[name](2, 3)):
        assert told["apart"] < 1e-10
        assert told["kept"] == 8 < told["sizes"], "engines have memory for what is under way; the oldest go"
        assert "stage 0 can't be run with samples of shape (5, 1)" in told["said"]


def test_what_was_used_last_is_kept():
    kept = Newest(2)
    for key in "ab":
        kept.keep(key, key.upper())
    assert kept.get("a") == "A"
    kept.keep("c", "C")
    assert [kept.get(key) for key in "abc"] == ["A", None, "C"]
    assert len(kept) == 2
