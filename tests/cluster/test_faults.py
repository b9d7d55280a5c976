"""Whatever ends one rank ends all of them, soon, with a sentence that names rank, stage and micro-batch."""

import os
import signal
import socket
import subprocess
from time import monotonic, sleep

import pytest

from tests import preloaded

from . import starting
from .faulty import SEEN

pytestmark = pytest.mark.timeout(180)

LIMIT = 20
"""Seconds after a fault within which every other rank has ended."""


def ended(processes, seconds=LIMIT):
    """What each has printed, once all have ended, and that none ended well."""
    end = monotonic() + seconds
    told = {}
    for k, process in processes.items():
        told[k] = process.communicate(timeout=max(0.1, end - monotonic()))[0]
        assert process.returncode not in (0, None), f"rank {k}: {told[k]}"
    return told


def none_runs(processes):
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def job(folder, what):
    return ("-m", "tests.cluster.faulty", str(folder), what)


def test_a_rank_that_raises(tmp_path):
    with starting.ranks(2, job(tmp_path, "raise")) as processes:
        starting.wait_for(tmp_path / "there")
        told = ended(processes)
    assert "rank 1 failed at F1 of stage 1, micro-batch 1: ValueError: a layer went wrong" in told[1]
    assert "rank 1 failed at F1 of stage 1, micro-batch 1: ValueError: a layer went wrong" in told[0]
    assert "rank 0 ends too" in told[0]


def test_a_loss_that_raises(tmp_path):
    with starting.ranks(2, job(tmp_path, "raise in the loss")) as processes:
        starting.wait_for(tmp_path / "there")
        told = ended(processes)
    for text in told.values():
        assert "rank 1 failed at F0 of stage 1, micro-batch 0: ValueError: the loss went wrong" in text


@pytest.mark.parametrize("victim", [1, 0])
def test_a_rank_that_is_killed(tmp_path, victim):
    with starting.ranks(2, job(tmp_path, "sleep")) as processes:
        starting.wait_for(tmp_path / "there")
        sleep(SEEN)
        processes[victim].kill()
        processes.pop(victim).communicate()
        [told] = ended(processes).values()
    if victim == 1:
        assert "rank 1 (" in told
        assert "gave no sign of life" in told
        assert "last seen at F1 of stage 1, micro-batch 1" in told
    else:
        assert "so rank 0 or the torchrun that holds it has ended" in told


def test_a_rank_that_never_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("PATIENCE", "3")
    with starting.ranks(3, job(tmp_path, "sleep"), started=[0, 2]) as processes:
        told = ended(processes, LIMIT + 60)  # they start within
    assert "rank 1 has not started within 3 s, so rank 0 ends: 3 ranks were announced" in told[0]
    assert "rank 1 has not started" in told[2] or "the store at" in told[2]


def test_a_rank_with_another_schedule(tmp_path):
    with starting.ranks(2, job(tmp_path, "other schedule")) as processes:
        told = ended(processes, LIMIT + 60)
    assert any("rank 1 has another schedule than rank 0" in text for text in told.values())
    assert all("rank 1" in text for text in told.values())
    assert "F0 F1 B0 F2" in told[0]


def test_a_port_in_use(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with starting.ranks(2, job(tmp_path, "sleep"), port=port, started=[0]) as processes:
            told = ended(processes, LIMIT + 60)
    assert f"port 127.0.0.1:{port} is in use" in told[0]
    assert "--master-port" in told[0]


def test_the_names_of_the_ranks_are_missing(tmp_path):
    found = subprocess.run(
        [preloaded.python(), *job(tmp_path, "sleep")],
        env={**starting.environment(RANK="0"), "WORLD_SIZE": "2"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode != 0
    assert "MASTER_ADDR, MASTER_PORT not set: start this with torchrun" in found.stderr


def test_ctrl_c_ends_all_of_them(tmp_path):
    with starting.torchrun(*job(tmp_path, "sleep")) as process:
        starting.wait_for(tmp_path / "there")
        sleep(SEEN)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        told = process.communicate(timeout=LIMIT)[0]
        assert process.returncode != 0
    assert "rank 1 was interrupted at F1 of stage 1, micro-batch 1" in told
    none_runs([int((tmp_path / f"rank {k}").read_text()) for k in range(2)])


def test_torchrun_ends_with_an_error_and_leaves_nobody(tmp_path):
    with starting.torchrun(*job(tmp_path, "sleep")) as process:
        starting.wait_for(tmp_path / "there")
        sleep(SEEN)
        children = [int((tmp_path / f"rank {k}").read_text()) for k in range(2)]
        os.kill(children[1], signal.SIGKILL)
        told = process.communicate(timeout=LIMIT)[0]
        assert process.returncode != 0
    assert "rank 1 (" in told
    assert "gave no sign of life" in told
    none_runs(children)
