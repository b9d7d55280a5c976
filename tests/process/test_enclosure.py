"""What is needed of an enclosure and what it holds are two things, and nothing is said to be shut that is open."""

import os
from pathlib import Path

import pytest

from gpipe_edu.judge import worker
from gpipe_edu.judge.pool import Judges, Workplace
from gpipe_edu.process import unprivileged
from gpipe_edu.process.child import command
from gpipe_edu.process.enclosure import CONTAINER, SANDBOX, SINGLE
from gpipe_edu.process.probes import Confinement


@pytest.mark.parametrize("enclosure", [SANDBOX, CONTAINER])
def test_among_classmates_all_has_to_be_shut(enclosure):
    assert enclosure.missing(Confinement()) == ["files", "processes", "network", "calls"]
    assert enclosure.missing(Confinement(files=True, processes=True, calls=True)) == ["network"]
    assert enclosure.missing(Confinement(True, True, True, True)) == []


def test_alone_in_a_container_only_the_judge_has_to_be_out_of_reach():
    assert SINGLE.missing(Confinement()) == ["processes"]
    assert SINGLE.missing(Confinement(processes=True)) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else")
def test_a_worker_says_only_that_shut_which_is(tmp_path):
    """Here /tmp is open to everybody: that is not needed in Gradescope's container, and is not claimed either."""
    assert os.stat("/tmp").st_mode & 0o002
    with Judges(1, place=Workplace(SINGLE, tuple(command(worker.__name__)))) as judges:
        held = judges.probe()
    assert (held.files, held.processes, held.calls) == (False, True, True)


def test_a_package_that_others_cannot_reach_is_told_with_what_to_do(monkeypatch):
    def closed(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", closed)
    told = r"may not read \S*gpipe_edu: it lies below a folder that others can't enter\. Move it to .* \(chmod o\+x\)"
    with pytest.raises(PermissionError, match=told):
        unprivileged._check_package_is_readable()
