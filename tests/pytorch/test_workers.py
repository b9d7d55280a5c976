"""Threads: as many as devices, started once, gone with the pipe; and no program waits for them."""

import gc
import re
import threading
import time

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.workers import Workers
from tests.processes import printed, until

from . import bench

pytestmark = pytest.mark.slow


@pytest.fixture
def workers():
    """The workers that were started since the test began."""
    others = set(threading.enumerate())

    def started():
        now = set(threading.enumerate()) - others
        return [thread for thread in now if thread.name.startswith("stage worker")]

    return started


def end(workers):
    gc.collect()
    until(lambda: not workers())


def test_they_end_with_the_pipe(workers):
    pipe = GPipe(bench.mlp(), 3, 2)
    pipe.step(*bench.data(4), bench.mse)
    assert len(workers()) == 3
    pipe.step(*bench.data(4), bench.mse)
    assert len(workers()) == 3, "started once, kept for all steps"
    del pipe
    end(workers)


def test_twenty_pipes_leave_none(workers):
    for index in range(20):
        pipe = GPipe(bench.mlp(), 1 + index % 4, 2)
        pipe.step(*bench.data(4), bench.mse)
        loss = bench.mse(pipe(bench.data(4)[0]), bench.data(4)[1])
        loss.backward()
        del pipe, loss
    end(workers)


def test_a_pipe_that_failed_leaves_none_either(workers):
    class Fails(nn.Module):
        def forward(self, x):
            raise KeyError

    pipe = GPipe(nn.Sequential(nn.Linear(4, 4), Fails(), nn.Linear(4, 4)), 3, 2)
    with pytest.raises(KeyError):
        pipe.step(*bench.data(4), bench.mse)
    del pipe
    end(workers)


def test_a_program_with_a_pipe_ends():
    ends = ("pass", "raise SystemExit(0)", "out = pipe(x)", "del pipe")
    said = printed(
        """
        import os, signal, sys, torch
        from torch import nn
        from gpipe_edu.pytorch import GPipe
        for end in sys.argv[1:]:
            if child := os.fork():  # each end is a program of its own that need not load PyTorch again
                print(os.waitpid(child, 0)[1], flush=True)
                continue
            signal.alarm(300)
            pipe, x = GPipe(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), 2, 2), torch.randn(4, 4)
            pipe.step(x, x, nn.functional.mse_loss)
            exec(end)
            break
        """,
        *ends,
    )
    assert said.split() == ["0"] * len(ends)


def test_layers_run_on_the_worker_of_their_device_forward_and_backward():
    seen = []

    class Note(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.k = k
            seen.append(("F", k, threading.current_thread().name))
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            seen.append(("B", ctx.k, threading.current_thread().name))
            return gradient, None

    class Layer(nn.Linear):
        def __init__(self, k):
            super().__init__(4, 4)
            self.k = k

        def forward(self, x):
            return Note.apply(super().forward(x), self.k)

    for way in bench.WAYS:
        seen.clear()
        pipe = GPipe(nn.Sequential(*(Layer(k) for k in range(3))), 3, 2, checkpoint="never")
        bench.train(pipe, *bench.data(4), bench.mse, way)
        assert {(k, name) for _, k, name in seen} == {(k, f"stage worker {k}") for k in range(3)}
        assert len(seen) == 12


def test_the_users_number_of_threads_stays():
    torch.set_num_threads(2)
    pipe = GPipe(bench.mlp(), 2, 2)
    pipe.step(*bench.data(4), bench.mse)
    assert torch.get_num_threads() == 2
    got = []
    thread = threading.Thread(target=lambda: got.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert got == [2], "threads that the user starts later have another number of BLAS threads"


def test_cores_are_shared_out():
    torch.set_num_threads(4)
    seen = []

    class Look(nn.Module):
        def forward(self, x):
            # What OpenMP gives this thread; torch.get_num_threads() tells the number of the whole process.
            seen.extend(re.findall(r"omp_get_max_threads\(\) : (\d+)", torch.__config__.parallel_info()))
            return x

    GPipe(nn.Sequential(Look(), Look()), 2, 2)(bench.data(4)[0])
    assert set(seen) == {"2"}


def test_the_first_exception_is_raised_once_all_jobs_have_ended():
    pool, ended = Workers(2, None), []

    def fails():
        raise KeyError("first")

    def slow():
        time.sleep(0.05)
        ended.append(True)

    with pytest.raises(KeyError, match="first"):
        pool.run([fails, slow], lambda: None)
    assert ended == [True]
    pool.run([slow, slow], lambda: None)
    assert len(ended) == 3


def test_two_threads_of_the_user_may_share_a_pipe_one_after_another():
    net, (x, y) = bench.mlp(), bench.data(7)
    pipe = GPipe(net, 2, 3)
    pipe.step(x, y, bench.mse)
    expected = bench.grads(net)
    net.zero_grad()
    bench.within(lambda: pipe.step(x, y, bench.mse))
    bench.assert_same(bench.grads(net), expected, tolerance=0)


def test_gradients_do_not_depend_on_the_timing_of_threads():
    class Jitter(nn.Module):
        def forward(self, x):
            time.sleep(next(waits))
            return x * 1

    results = []
    for offset in range(3):
        waits = iter([((i * 7 + offset * 3) % 5) / 1000 for i in range(1000)])
        torch.manual_seed(0)
        net = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3), Jitter()) for _ in range(3)))
        pipe = GPipe(net, 3, 4, schedule="1f1b")
        pipe.step(*bench.data(8), bench.mse)
        results.append([*bench.grads(net).values(), torch.rand(2)])
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))
