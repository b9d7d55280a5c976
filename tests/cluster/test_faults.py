"""Whatever ends one rank ends all of them, soon, with a sentence that names rank, stage and micro-batch."""

import os
import re
import signal
import socket
import struct
import subprocess
import threading
from contextlib import ExitStack, suppress

import pytest

from gpipe_edu.cluster import watch
from tests import ports, preloaded
from tests.amount import third
from tests.processes import PATIENCE

from . import starting
from .faulty import CAUGHT, wait_until_seen

pytestmark = pytest.mark.slow


def ended(processes):
    """What each has printed, once all have ended, and that none ended well: by itself a rank would sleep for longer."""
    told = {}
    for k, process in processes.items():
        told[k] = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode not in (0, None), f"rank {k}: {told[k]}"
    return told


def none_runs(processes):
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def pid(folder, rank):
    return int((folder / f"rank {rank}").read_text())


def job(folder, what):
    return ("-m", "tests.cluster.faulty", str(folder), what)


def one_sentence_each(told, words):
    """Nothing else: no C++ frames, no page of PyTorch's."""
    for rank, text in told.items():
        assert words in text
        assert len(text.strip().splitlines()) == 1, text
        assert f"So rank {rank} ends too" in text


def test_a_rank_that_raises(tmp_path):
    with starting.ranks(3, job(tmp_path, "raise")) as processes:
        starting.wait_for(tmp_path / "there")
        told = ended(processes)
    words = "rank 2 failed at F1 of stage 2, micro-batch 1: ValueError: a layer went wrong"
    raised = told.pop(2)
    one_sentence_each(told, words)
    assert words in raised
    assert "faulty.py" in raised, "the layer's own lines"
    assert os.path.join("torch", "distributed") not in raised
    assert "The above exception" not in raised


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("raise in the loss", "rank 1 failed at F0 of stage 1, micro-batch 0: ValueError: the loss went wrong"),
        ("detach", "micro-batch 3: RuntimeError: the loss depends on nothing that requires a gradient, so there is"),
    ],
)
def test_a_loss_that_raises(tmp_path, what, words):
    """The others have a step's end behind them when the rank of the last stage finds that it has trained nothing."""
    with starting.ranks(2, job(tmp_path, what)) as processes:
        starting.wait_for(tmp_path / "rank 1")
        told = ended(processes)
    assert all(words in text for text in told.values())
    one_sentence_each({0: told[0]}, words)
    assert ("? So rank 0 ends too" if what == "detach" else ". So rank 0 ends too") in told[0]


@pytest.mark.parametrize("what", CAUGHT)
def test_a_rank_whose_loop_catches_what_a_layer_raises_ends_all_with_that(tmp_path, what):
    with starting.ranks(2, job(tmp_path, what)) as processes:
        told = ended(processes)
    words = "rank 1 failed at F1 of stage 1, micro-batch 1: RuntimeError: a layer went wrong"
    assert words in told[1]
    one_sentence_each({0: told[0]}, words)


@pytest.mark.parametrize(("size", "victim"), [(2, 0), (2, 1), (3, 1), *third([(3, 0), (3, 2), (4, 2)])])
def test_a_rank_that_is_killed_is_named_by_all(tmp_path, size, victim):
    with starting.ranks(size, job(tmp_path, "sleep")) as processes:
        wait_until_seen(tmp_path, size)
        os.kill(pid(tmp_path, victim), signal.SIGKILL)
        processes.pop(victim).communicate()
        told = ended(processes)
    last = "F1" if victim == size - 1 else "[FB][0-3]"
    for text in told.values():
        assert re.search(rf"rank {victim} \(.*, process \d+\) has ended without a word, last seen at {last} of", text)
    one_sentence_each(told, "it was killed")


@pytest.mark.parametrize("victim", [1, 0])
def test_a_rank_that_is_stopped_is_named_by_all_and_by_itself(tmp_path, victim):
    with starting.ranks(3, job(tmp_path, "sleep")) as processes:
        wait_until_seen(tmp_path, 3)
        os.kill(pid(tmp_path, victim), signal.SIGSTOP)
        stopped = {victim: processes.pop(victim)}
        told = ended(processes)
        os.kill(pid(tmp_path, victim), signal.SIGCONT)
        [itself] = ended(stopped).values()
    one_sentence_each(told, f"has sent no heartbeat for {watch.SILENCE:g} s")
    assert all(text.strip().startswith(f"rank {victim} (") for text in told.values())
    assert itself.strip().startswith(f"rank {victim} ")
    assert len(itself.strip().splitlines()) == 1


def test_one_that_ends_itself_in_the_middle(tmp_path):
    with starting.ranks(2, job(tmp_path, "sys.exit(3)")) as processes:
        told = ended(processes)
        assert processes[1].returncode == 3
    words = "rank 1 has ended itself at F1 of stage 1, micro-batch 1: sys.exit(3)"
    assert told[1].strip() == words
    one_sentence_each({0: told[0]}, words)


def test_one_that_ends_without_python_s_knowing(tmp_path):
    with starting.ranks(2, job(tmp_path, "os._exit(0)")) as processes:
        starting.wait_for(tmp_path / "there")
        processes.pop(1).communicate()
        told = ended(processes)
    assert told[0].strip().startswith("rank 1 (")
    one_sentence_each(told, "has ended without a word")


def test_one_that_leaves_while_others_still_train(tmp_path):
    """As where one rank has a loader of fewer batches than the others."""
    with starting.ranks(3, job(tmp_path, "fewer batches")) as processes:
        starting.wait_for(tmp_path / "rank 2")
        told = ended(processes)
    for text in told.values():
        assert re.search(r"rank 2 has left without an error, but rank 0 at B3 of .* and rank 1 at B3 of", text)
        assert "still wait for a message: every rank must make the same steps" in text


def test_one_that_is_told_to_end(tmp_path):
    with starting.ranks(2, job(tmp_path, "sleep")) as processes:
        wait_until_seen(tmp_path, 2)
        os.kill(pid(tmp_path, 0), signal.SIGTERM)  # it is inside a receive
        told = ended(processes)
    assert told[0].strip().startswith("rank 0 was told to end (SIGTERM) at ")
    one_sentence_each({1: told[1]}, "rank 0 was told to end (SIGTERM) at ")


def test_a_rank_inside_a_receive_is_interrupted(tmp_path):
    with starting.ranks(2, job(tmp_path, "sleep")) as processes:
        wait_until_seen(tmp_path, 2)
        os.kill(pid(tmp_path, 0), signal.SIGINT)
        told = ended(processes)
    assert told[0].strip().startswith("rank 0 was interrupted at ")
    one_sentence_each({1: told[1]}, "rank 0 was interrupted at ")


def test_a_rank_that_never_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("PATIENCE", "10")
    monkeypatch.setenv("BESIDE", "0 2")  # how long loading takes does not count
    with starting.ranks(3, job(tmp_path, "sleep"), started=[0, 2]) as processes:
        told = ended(processes)
    assert all("rank 1 has not started within 10 s, and 3 ranks were announced" in text for text in told.values())
    assert "So rank 2 ends too" in told[2]


def test_rank_0_never_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("PATIENCE", "3")
    with starting.ranks(2, job(tmp_path, "sleep"), started=[1]) as processes:
        told = ended(processes)
    assert "rank 1 reached nobody at 127.0.0.1:" in told[1]
    assert "frame #" not in told[1]


def test_rank_0_ends_while_others_look_for_it(tmp_path, monkeypatch):
    """Its port is there, and each connection to it breaks."""
    monkeypatch.setenv("PATIENCE", "2")
    with socket.socket() as dying:
        dying.bind(("127.0.0.1", 0))
        dying.listen()

        def end_each():
            with suppress(OSError):
                while True:
                    found = dying.accept()[0]
                    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    found.close()

        thread = threading.Thread(target=end_each)
        thread.start()
        with starting.ranks(2, job(tmp_path, "sleep"), port=dying.getsockname()[1], started=[1]) as processes:
            told = ended(processes)
        dying.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert "rank 1 reached nobody at 127.0.0.1:" in told[1]
    assert "frame #" not in told[1]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (
            {"RANK": "1", "WORLD_SIZE": "3"},
            r"rank 1 \(.*\) has WORLD_SIZE 3, and rank 0 \(.*\) has 2: start all of them",
        ),
        ({"RANK": "1", "WORLD_SIZE": "3", "also": "1"}, r"two processes were started as rank 1: .*process \d+ and .*"),
    ],
)
def test_ranks_that_were_numbered_wrongly(tmp_path, second, words):
    """As by a loop in a shell, which is easily off by one."""
    size = "3" if "also" in second else "2"
    port = str(ports.free())
    with ExitStack() as stack:
        processes = {}
        for number, more in enumerate(
            [{"RANK": "0", "WORLD_SIZE": size}, second, *([second] if "also" in second else [])]
        ):
            known = starting.environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **more)
            processes[number] = stack.enter_context(starting.process(job(tmp_path, "sleep"), known))
        told = ended(processes)
    assert all(re.search(words, text) for text in told.values()), told


def test_a_rank_with_another_schedule(tmp_path):
    with starting.ranks(2, job(tmp_path, "other schedule")) as processes:
        told = ended(processes)
    assert any("rank 1 has another schedule than rank 0" in text for text in told.values())
    assert all("rank 1" in text for text in told.values())
    assert "F0 F1 B0 F2" in told[0]


def test_a_port_in_use(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with starting.ranks(2, job(tmp_path, "sleep"), port=port, started=[0]) as processes:
            told = ended(processes)
    assert f"port 127.0.0.1:{port} is in use" in told[0]
    assert "--master-port" in told[0]


def test_the_names_of_the_ranks_are_missing(tmp_path):
    found = subprocess.run(
        [preloaded.python(), *job(tmp_path, "sleep")],
        env={**starting.environment(RANK="0"), "WORLD_SIZE": "2"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert found.returncode != 0
    assert "MASTER_ADDR, MASTER_PORT not set: start this with torchrun" in found.stderr


def test_ctrl_c_ends_all_of_them(tmp_path):
    with starting.torchrun(*job(tmp_path, "sleep")) as process:
        wait_until_seen(tmp_path, 2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        told = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode != 0
    assert "rank 1 was interrupted at F1 of stage 1, micro-batch 1" in told
    none_runs([pid(tmp_path, k) for k in range(2)])


def test_torchrun_ends_with_an_error_and_leaves_nobody(tmp_path):
    with starting.torchrun(*job(tmp_path, "sleep")) as process:
        wait_until_seen(tmp_path, 2)
        children = [pid(tmp_path, k) for k in range(2)]
        os.kill(children[1], signal.SIGKILL)
        told = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode != 0
    assert "rank 1 (" in told
    assert "has ended without a word, last seen at F1 of stage 1, micro-batch 1" in told
    none_runs(children)
