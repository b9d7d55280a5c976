"""Replicas of a pipeline have one set of buffers and make the same calls, or all of them are told."""

import re

from . import replicas
from .on_ranks import run


def test_buffers_are_those_of_replica_0_on_every_replica(group, tmp_path):
    """A running centre, which the forward uses, and running statistics, against two replicas in plain PyTorch."""
    for told in run(group, 4, replicas.trained, str(tmp_path), 6):
        assert told["steps"] == list(range(6))
        assert told["losses"] < 1e-12
        assert told["buffers"] < 1e-12
        assert told["outputs"] < 1e-12


def test_a_resume_of_replicas_goes_on_with_the_same_buffers(group, tmp_path):
    run(group, 4, replicas.trained, str(tmp_path), 3)
    for told in run(group, 4, replicas.trained, str(tmp_path), 6):
        assert told["steps"] == [3, 4, 5]
        assert told["losses"] < 1e-12
        assert told["buffers"] < 1e-12
        assert told["outputs"] < 1e-12


def test_replicas_that_are_called_unlike_are_told_and_may_go_on(group):
    """On every rank of both: one that was not told would wait for the others, or add up what is not of one kind."""
    for said, apart in run(group, 4, replicas.called_unlike):
        assert len(said) == 5
        for words, sentence in said.items():
            assert words in sentence
        assert re.fullmatch(
            r"rank (2 was given of=26, and rank 0|3 was given of=26, and rank 1) of=None; all ranks must make the same "
            "calls with the same arguments; replicas have samples of their own",
            said["of=26"],
        )
        assert "reduce=False, and rank" in said["reduce=False"]
        assert "a call of step(); all ranks must make the same calls" in said["a call of predict()"]
        assert apart < 1e-12, "a step behind all that is right"


def test_a_hook_on_one_replica_has_gradients_added_up_on_all(group):
    found = run(group, 4, replicas.hooked_on_one)
    assert [apart < 1e-12 for _, apart in found] == [True] * 4
    assert [seen > 0 for seen, _ in found] == [False, False, True, True]
