"""A resume is the training: the same losses to the last digit after kill -9, and from the newest step that is whole."""

import errno
import json
import os
import random
import subprocess
from pathlib import Path

import pytest

import gpipe_edu as ge
from gpipe_edu.cluster.saving import saved_steps
from gpipe_edu.distributed import ProcessError
from tests.amount import third

from . import resume_jobs
from .on_ranks import run

pytestmark = pytest.mark.slow


def train(group, schedule, folder, steps, **how):
    size = schedule.devices * how.get("copies", 1)
    return run(group, size, resume_jobs.training, schedule, str(folder), steps, **how)[0]


# Killed


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("schedule", "how"),
    [
        (ge.one_f_one_b(2, 3), {}),
        (ge.gpipe(1, 3), {"copies": 2}),
        (ge.gpipe(1, 3), {"copies": 2, "zero": True}),
        (ge.gpipe(3, 2), {}),
    ],
)
def test_kills_at_random_moments_change_no_digit(group, tmp_path, schedule, how):
    """Random numbers of each rank, where one was in the data, a plateau and an optimizer's counts all go on."""
    expected, rate = train(group, schedule, tmp_path / "whole", 12, **how)
    assert rate < 0.1, "the plateau has lowered it"
    moments, size, killed = random.Random(0), schedule.devices * how.get("copies", 1), 0
    while True:
        kill = [None] * size
        kill[moments.randrange(size)] = moments.uniform(0.02, 0.4)
        try:
            later, end = train(group, schedule, tmp_path / "parts", 12, kill=kill if killed < 3 else None, **how)
            break
        except ProcessError:
            killed += 1
    assert killed == 3
    assert later.items() <= expected.items()
    assert end == rate
    told = [json.loads(line) for line in Path(f"{tmp_path / 'parts'}-losses").read_text().splitlines()]
    assert {step for step, *_ in told} == set(range(12))
    assert [(step, loss) for step, loss, _ in told if loss != expected[step]] == []


@pytest.mark.sweep
@pytest.mark.parametrize(("then", "copies"), [(ge.gpipe(1, 3), 1), (ge.one_f_one_b(3, 3), 1), (ge.gpipe(1, 3), 2)])
def test_other_stages_and_replicas_go_on_with_the_same_samples(group, tmp_path, then, copies):
    """What all ranks had alike, as generators without dropout, goes on wherever it may be divided anew."""
    expected, rate = train(group, ge.gpipe(2, 3), tmp_path / "whole", 8, dropout=False)
    train(group, ge.gpipe(2, 3), tmp_path / "parts", 4, dropout=False)
    later, end = train(group, then, tmp_path / "parts", 8, dropout=False, copies=copies)
    assert sorted(later) == [4, 5, 6, 7]
    assert later == pytest.approx({step: expected[step] for step in later}, rel=1e-10)
    assert end == rate


@pytest.mark.parametrize("zero", [False, True])
def test_a_rank_without_weights_has_an_optimizer_and_goes_on(group, tmp_path, zero):
    """The second of two stages has activations alone; one pipeline, and two with ZeRO-1, against one device."""
    size = 4 if zero else 2
    run(group, size, resume_jobs.without_weights, str(tmp_path), 2, zero)
    found = run(group, size, resume_jobs.without_weights, str(tmp_path), 5, zero)
    assert {first for first, _, _ in found} == {2}
    assert [weights for _, _, weights in found] == [10, 0] * (size // 2)
    assert max(apart for _, apart, _ in found) < 1e-12


def test_every_optimizer_and_scheduler_goes_on_to_the_last_digit(group, tmp_path):
    assert run(group, 2, resume_jobs.kinds, str(tmp_path), third(resume_jobs.KINDS)) == [[], []]


@pytest.mark.sweep
@pytest.mark.parametrize("scheduler", ["none", "polynomial", "one cycle", "chained", "plateau"])
def test_a_group_without_weights_on_a_rank_goes_on_with_its_rate(group, tmp_path, scheduler):
    """Of four ranks the first has none with decay, two have none without; each part of the training saves again."""
    four = [[0], [1], [], [1]]
    for schedule, steps, expected in (
        (ge.gpipe(4, 2), 2, four),
        (ge.gpipe(4, 2), 4, four),
        (ge.gpipe(2, 2), 6, [[], []]),
        (ge.one_f_one_b(4, 2), 8, four),
    ):
        told = run(
            group, schedule.devices, resume_jobs.groups_without_weights, schedule, str(tmp_path), steps, scheduler
        )
        assert [empty for _, _, empty in told] == expected
        for apart, (mine, single), _ in told:
            assert apart < 1e-12
            assert mine == pytest.approx(single, rel=1e-12)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("by", "then", "copies", "found"),
    [
        ("rank", ge.gpipe(2, 2), 2, [0, 1, 2, 3]),
        ("rank", ge.gpipe(1, 2), 2, "differed from rank to rank"),
        ("replica", ge.gpipe(1, 2), 2, [0, 1]),
        ("replica", ge.gpipe(2, 2), 1, "an extra 'place' that differed from rank to rank, so it can only be loaded"),
        ("all", ge.gpipe(3, 2), 1, [0, 0, 0]),
    ],
)
def test_an_extra_of_each_rank_goes_where_it_belongs(group, tmp_path, by, then, copies, found):
    folder = str(tmp_path / "run")
    run(group, 4, resume_jobs.own_places, folder, ge.gpipe(2, 2), 2, by)
    told = run(group, then.devices * copies, resume_jobs.own_places, folder, then, copies, by)
    if isinstance(found, str):
        assert all(found in words for words in told)
    else:
        assert told == [{"of": whose} for whose in found]


def test_what_would_be_lost_is_refused_on_every_rank(group, tmp_path):
    for said in run(group, 2, resume_jobs.refusals, str(tmp_path)):
        assert said["the same order"] == "1"
        assert "in group 1, and here it is in group 0" in said["another order"]
        assert "a scheduler of 2 groups of weights, and this optimizer has 1" in said["one group"]
        assert "the optimizer has a scheduler, which would begin anew" in said["a plateau"]
        assert said["a plateau as extra"].endswith("step-00000001")
        assert "was saved with an extra 'rate', which would be lost" in said["an extra not given"]
        assert "was saved without an extra 'more'; leave it out" in said["an extra too many"]
        assert "extra['seen'] is a int; give a dict" in said["a number"]
        assert "does not: give it pipeline.parameter_groups()" in said["a foreign weight"]
        assert "state that belongs to no weight" in said["state of no weight"]
        assert "extras of other names" in said["other names"]


# Damaged


def halve(path):
    os.truncate(path, path.stat().st_size // 2)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def plain(group, folder, steps, K=2, **how):
    """Losses of the last rank; what the first was warned of; what every rank was told."""
    told = run(group, K, resume_jobs.simple, ge.gpipe(K, 3), str(folder), steps, **how)
    assert len({said.partition("(rank")[0] for *_, said in told}) == 1, "all ranks are told the same"
    return told[-1][0], told[0][1], told[0][2]


@pytest.fixture(scope="module")
def expected(group, tmp_path_factory):
    return plain(group, tmp_path_factory.mktemp("expected"), 5)[0]


DAMAGES = {
    "half of rank 0's tensors": ("__0_0.distcp", halve, "__0_0.distcp has "),
    "half of rank 1's tensors": ("__1_0.distcp", halve, "__1_0.distcp has "),
    "one bit of them": ("__1_0.distcp", flip, "__1_0.distcp has other bytes than were saved"),
    "no tensors": ("__0_0.distcp", Path.unlink, "__0_0.distcp is missing"),
    "no metadata": (".metadata", Path.unlink, ".metadata is missing"),
    "half of the metadata": (".metadata", halve, ".metadata has "),
    "half of the settings": ("settings.pt", halve, "settings.pt has "),
    "one bit of a rank's own": ("replica-0-rank-1.pt", flip, "replica-0-rank-1.pt has other bytes than were saved"),
    "no manifest": ("manifest.json", Path.unlink, "manifest.json is missing"),
    "half of the manifest": ("manifest.json", halve, "manifest.json can't be read"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_step_is_named_and_the_one_before_is_taken(group, tmp_path, expected, name):
    file, damage, words = DAMAGES[name]
    plain(group, tmp_path, 3)
    damage(tmp_path / "step-00000003" / file)
    later, heard, said = plain(group, tmp_path, 5)
    assert said == ""
    assert later == {step: expected[step] for step in (2, 3, 4)}
    [warning] = heard
    assert f"{tmp_path}/step-00000003 is damaged: {words}" in warning
    assert warning.endswith("Going on from step-00000002, the newest that is whole")
    assert "\n" not in warning


def test_nothing_is_begun_anew_where_all_is_damaged(group, tmp_path):
    plain(group, tmp_path, 2)
    for path in saved_steps(tmp_path):
        halve(path / "settings.pt")
    later, heard, said = plain(group, tmp_path, 3)
    assert (later, heard) == ({}, [])
    assert "step-00000002 is damaged: settings.pt has " in said
    assert "step-00000001 is damaged: settings.pt has " in said
    assert said.startswith("ValueError")
    assert said.endswith("None is whole; remove the folder to begin anew")


def test_a_damaged_step_does_not_count_among_those_that_are_kept(group, tmp_path):
    plain(group, tmp_path, 3)
    halve(tmp_path / "step-00000003" / "__0_0.distcp")
    run(group, 2, resume_jobs.skipping, ge.gpipe(2, 3), str(tmp_path), 4)
    assert [path.name for path in saved_steps(tmp_path)] == ["step-00000002", "step-00000004"]


def test_a_file_that_can_not_be_written_is_told_on_every_rank_and_earlier_steps_stay(group, tmp_path, expected):
    first, _, said = plain(group, tmp_path, 3, limit=1000)
    assert sorted(first) == [0, 1]
    assert said == f"OSError: {tmp_path}/step-00000002 can't be written: {os.strerror(errno.EFBIG)} (rank 1)"
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    assert plain(group, tmp_path, 5)[0] == {step: expected[step] for step in (1, 2, 3, 4)}


def test_why_a_large_tensor_can_not_be_written_is_told_in_the_system_s_words(group, tmp_path):
    """PyTorch's are others if the disk is full in the middle of one."""
    *_, said = plain(group, tmp_path, 3, limit=40_000, width=600)
    assert said == f"OSError: {tmp_path}/step-00000002 can't be written: {os.strerror(errno.EFBIG)} (rank 1)"


def test_ranks_that_do_not_see_one_folder_are_told(group, tmp_path):
    """As on machines that have no disk in common."""
    for rank, said in enumerate(run(group, 2, resume_jobs.apart, str(tmp_path))):
        assert (
            f"{tmp_path}/{rank}/step-00000001 can't be written: replica-0-rank-1.pt, which another rank wrote" in said
        )
        assert "all ranks need the same folder" in said
    assert not list(tmp_path.glob("*/step-????????"))


@pytest.mark.sweep
@pytest.mark.parametrize("size", [144, 200, 232])
def test_a_full_disk_is_told_and_the_newest_whole_step_is_taken(group, tmp_path, expected, size):
    """On a real one, of so many KiB that one step fits, and not two: it is full at another file each time."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("file systems can't be mounted here")
    try:
        first, _, said = plain(group, disk, 5)
        assert said.startswith(f"OSError: {disk}/step-")
        assert "can't be written: No space left on device (rank " in said
        steps = saved_steps(disk)
        assert [path.name for path in steps] == ["step-00000001"]
        assert not list(disk.glob("*.partial"))
        subprocess.run(["mount", "-o", "remount,size=10m", disk], check=True)
        later, heard, _ = plain(group, disk, 5)
        assert heard == []
        assert sorted(later) == [1, 2, 3, 4]
        assert first | later == expected
    finally:
        subprocess.run(["umount", disk], check=True)
