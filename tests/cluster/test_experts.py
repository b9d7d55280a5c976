"""Replicas that divide the experts of a mixture among themselves are as one device that has all of them."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

import gpipe_edu as ge

from . import expert_jobs, starting
from .on_ranks import run
from .test_faults import ended

pytestmark = pytest.mark.slow


def test_experts_on_two_replicas_are_as_on_one_device(group):
    schedules = [ge.one_f_one_b(2, 3), ge.zero_bubble(2, 3), ge.interleaved(2, 3, 2), ge.gpipe(2, 3, recompute="late")]
    for told in run(group, 4, expert_jobs.differences, schedules):
        assert [off < 1e-10 for off, _ in told] == [True] * len(schedules), told
        assert [weights for _, weights in told] == [8, 8, 16, 8], "of 4 experts with 4 weights, 2 are here"


def test_experts_without_tokens_keep_step_with_the_others(group):
    told = run(group, 4, expert_jobs.without_tokens)
    assert max(off for off, _ in told) < 1e-10
    assert [idle for _, idle in told] == [[], [], [True] * 8, []]


def test_ranks_that_build_their_layers_have_their_own_experts(group):
    assert max(run(group, 4, expert_jobs.built_by_ranks)) < 1e-10


def test_the_lines_of_the_page_do_it(group):
    page = Path(__file__).resolve().parents[2] / "docs" / "cluster.md"
    [block] = re.findall(r"\n((?: {4}.*\n|\n(?= {4}))*.*experts=\[.*\n)", page.read_text(encoding="utf-8"))
    assert max(run(group, 4, expert_jobs.as_the_page_says, dedent(block))) < 1e-10


@pytest.mark.parametrize(("ranks", "K"), [(4, 2), (2, 2), (4, 1)])
def test_a_training_goes_on_with_as_many_replicas_with_one_and_with_more(group, tmp_path, ranks, K):
    """Two replicas of two stages, then the same; one that has all experts; four of one stage, with one expert each."""
    run(group, 4, expert_jobs.training, str(tmp_path), 2, 2)
    for first, off in run(group, ranks, expert_jobs.training, str(tmp_path), K, 5):
        assert first == 2
        assert off < 1e-10


SAID = {
    "same_numbers": r"ranks 0 and 2 have an expert '0\.experts\.0\.0\.weight' each, and replicas have no copies of .*",
    "another_router": r"rank [23] has built another network than rank [01], first at 1\.router\.weight: the numbers .*",
    "another_layer": r"rank [23] has built another network than rank [01], first at .*Identity\(\): there it is .*",
    "no name": r"experts has '\*\.expert\.\*', which is the name of no weight and no buffer; names are 0\.rou.*",
    "a word": r"experts is '\*\.experts\.\*'; it must be a list of names or patterns: experts=\['\*\.experts\.\*'\]",
    "not on one": r"rank [23] has experts \('\*\.experts\.\*', '\*'\), and rank [01] has \('\*\.experts\.\*',\): .*",
    "few samples": r"rank [23] was given 2 micro-batches, and rank [01] 3 micro-batches; all ranks must .*",
    "ZeRO": r"ZeroRedundancyOptimizer steps each weight on one replica and copies it to the others, but an expert .*",
    "ZeRO for others": "None",
}


def test_experts_that_would_not_fit_are_refused_on_every_rank(group):
    for said, off in run(group, 4, expert_jobs.refusals):
        assert said.keys() == SAID.keys()
        for what, sentence in said.items():
            assert re.fullmatch(SAID[what], sentence), (what, sentence)
        assert off < 1e-10, "a step behind all that is right"


@pytest.mark.parametrize(
    ("what", "words"), [("kill", r"rank 3 \(.* has ended without a word"), ("raise", "rank 3 fail")]
)
def test_a_rank_that_dies_while_others_wait_for_its_tokens_is_named_by_all(what, words):
    with starting.ranks(4, ("-m", "tests.cluster.faulty_experts", what)) as processes:
        told = ended(processes)
    if what == "kill":
        assert told.pop(3) == ""
    assert len(told) == 3 + (what == "raise")
    for rank, text in told.items():
        assert re.search(words, text), f"rank {rank}: {text}"
        assert what == "kill" or "F1 of stage 1, micro-batch 1: ValueError: an expert went wrong" in text
