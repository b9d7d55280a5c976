"""What is needed of an enclosure and what it holds are two things, and nothing is said to be shut that is open."""

import os

import pytest

from gpipe_edu.grading.judges import Judges, Workplace
from gpipe_edu.grading.skins import gradescope_worker
from gpipe_edu.process.cage import Held
from gpipe_edu.process.child import command
from gpipe_edu.process.enclosure import CAGE, CONTAINER, SINGLE


@pytest.mark.parametrize("enclosure", [CAGE, CONTAINER])
def test_among_classmates_all_has_to_be_shut(enclosure):
    assert enclosure.missing(Held()) == ["files", "signals", "network"]
    assert enclosure.missing(Held(files=True, signals=True)) == ["network"]
    tcp_only = Held(files=True, signals=True, network="TCP")
    assert enclosure.missing(tcp_only) == []
    assert enclosure.missing(tcp_only, talks=True) == ["network"]
    assert enclosure.missing(Held(True, True, "own"), talks=True) == []


def test_alone_in_a_container_only_the_judge_has_to_be_out_of_reach():
    assert SINGLE.missing(Held()) == ["signals"]
    assert SINGLE.missing(Held(signals=True), talks=True) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else")
def test_a_worker_says_only_that_shut_which_is(tmp_path):
    """Here /tmp is open to everybody: that is not needed in Gradescope's container, and is not claimed either."""
    assert os.stat("/tmp").st_mode & 0o002
    with Judges(1, place=Workplace(SINGLE, tuple(command(gradescope_worker.__name__)))) as judges:
        held = judges.probe()
    assert (held.files, held.signals, held.processes) == (False, True, False)
