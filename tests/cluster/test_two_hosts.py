"""Two machines as docs/cluster.md has them: two network namespaces with a cable between, a torchrun in each.

Each is told a host name that leads nowhere, as on many machines, so the ranks must find the way to each other.
"""

import os
import signal
import subprocess
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpipe_edu.cluster import watch
from gpipe_edu.cluster.wire import towards
from tests import preloaded
from tests.amount import third
from tests.processes import PATIENCE, runs, until

from . import starting
from .faulty import wait_until_seen

pytestmark = pytest.mark.slow

HOSTS = tuple(f"gpipe{os.getpid()}{letter}" for letter in "ab")
CABLE = tuple(f"v{os.getpid()}{letter}" for letter in "ab")
ADDRESSES = ("10.0.0.1", "10.0.0.2")


def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=PATIENCE).stdout


@pytest.fixture(scope="module")
def hosts():
    try:
        for name in HOSTS:
            ip("netns", "add", name)
        ip("link", "add", CABLE[0], "type", "veth", "peer", "name", CABLE[1])
        for name, end, address in zip(HOSTS, CABLE, ADDRESSES, strict=True):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield HOSTS
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"two network namespaces can't be made here: {getattr(error, 'stderr', '') or error}")
    finally:
        for name in HOSTS:  # the cable goes with them
            with suppress(OSError):
                subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=PATIENCE)


@contextmanager
def torchruns(*arguments):
    """The page's two lines, one on each host."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        processes = []
        for number, name in enumerate(HOSTS):
            python = folder / name
            python.write_text(f'#!/bin/sh\nexec {preloaded.python()} -m tests.cluster.on_host {name} "$@"\n')
            python.chmod(0o755)
            command = [python, "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={number}"]
            command += ["--nproc-per-node=1", "--master-addr=10.0.0.1", "--master-port=29500", *arguments]
            process = subprocess.Popen(
                command,
                env=starting.environment(PYTHON_EXEC=str(python)),  # with which torchrun starts its rank
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            stack.callback(end, name)
            processes.append(process)
        yield processes


def end(host):
    """All that runs there."""
    for pid in ip("netns", "pids", host).split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def test_the_lines_of_the_page_train_on_both(hosts):
    with torchruns(*starting.JOB) as processes:
        told = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told
    assert "2 on 2 hosts: 1 replica of 2 devices" in told[0]
    assert "epoch 1" not in told[1]


@pytest.mark.parametrize("victim", third([1, 0]))
def test_one_is_killed_and_the_other_says_so(hosts, tmp_path, victim):
    with torchruns("-m", "tests.cluster.faulty", str(tmp_path), "sleep") as processes:
        wait_until_seen(tmp_path, 2)
        end(HOSTS[victim])
        told = processes[1 - victim].communicate(timeout=PATIENCE)[0]
        assert processes[1 - victim].returncode != 0
    assert f"rank {victim} ({HOSTS[victim]}, process " in told
    assert "frame #" not in told.partition("Traceback")[0], "what torchrun prints comes after"


def test_the_cable_is_pulled_and_both_say_so(hosts, tmp_path):
    """No connection is closed then: a question to the other machine just stays without an answer."""
    with torchruns("-m", "tests.cluster.faulty", str(tmp_path), "sleep") as processes:
        wait_until_seen(tmp_path, 2)
        ranks = [int((tmp_path / f"rank {k}").read_text()) for k in range(2)]
        ip("-n", HOSTS[0], "link", "set", CABLE[0], "down")
        try:
            until(lambda: not any(runs(rank) for rank in ranks))
        finally:
            ip("-n", HOSTS[0], "link", "set", CABLE[0], "up")
        for name in HOSTS:
            end(name)
        told = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert f"rank 1 ({HOSTS[1]}, process " in told[0]
    assert f"rank 0 ({HOSTS[0]}, process " in told[1]
    assert all(f"has sent no heartbeat for {watch.SILENCE:g} s" in text for text in told)


def test_the_way_to_this_machine_itself_names_no_interface():
    assert towards("127.0.0.1") is None
    assert towards("127.0.1.1") is None
    assert towards("no.such.host.invalid") is None
