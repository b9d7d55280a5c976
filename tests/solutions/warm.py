"""Hundreds of answers are judged, each in a process of its own; these are forked from one that has loaded everything.

What such a process has not loaded, a fresh one has not either: nothing of the answers or of the tests is in it, and it
has never trained. That `check` itself starts fresh ones is what tests/course is for.
"""

import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import threading

from gpipe_edu.process import forked


class Warm:
    """A process that waits, ready to be forked, with these modules loaded. `start` is one way to start a `Child`."""

    def __init__(self, *modules):
        self.modules, self.turn = modules, threading.RLock()  # what prints without end is stopped by another thread
        self.begin()

    def begin(self):
        self.socket, theirs = socket.socketpair()
        code = f"from {__name__} import serve; serve({theirs.fileno()}, {self.modules})"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        fds = [theirs.fileno()]
        self.process = subprocess.Popen([sys.executable, "-c", code], pass_fds=fds, env=environment)
        theirs.close()

    def close(self):
        self.socket.close()
        self.process.wait(60)

    def start(self, module, environment, session):
        if self.process.poll() is not None:  # with a test that has failed
            self.socket.close()
            self.begin()
        pipes = [os.pipe() for _ in range(3)]  # (read, write) for what it hears, says and prints
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        environment = {**environment, forked.FORKED: "1"}  # what an answer starts, too, as where a class is graded
        answer = self.ask({"module": module, "environment": environment, "session": session}, theirs)
        for end in theirs:
            os.close(end)
        return Forked(self, answer["pid"], pipes[0][1], pipes[1][0], pipes[2][0])

    def ask(self, question, ends=()):
        data = json.dumps(question).encode()
        with self.turn:
            socket.send_fds(self.socket, [len(data).to_bytes(4, "big")], list(ends))
            self.socket.sendall(data)
            return json.loads(self.socket.recv(1000))


class Forked(forked.Forked):
    """One that another process has forked, which alone may wait for it."""

    def __init__(self, warm, pid, stdin, stdout, stderr):
        super().__init__(pid, stdin, stdout, stderr)
        self.warm = warm

    def wait(self, timeout=None):
        return self._asked(0)

    def poll(self):
        return self._asked(os.WNOHANG)

    def _asked(self, how):
        with self.warm.turn:
            if self.returncode is None:
                self.returncode = self.warm.ask({"wait": self.pid, "how": how})["status"]
        return self.returncode


def serve(descriptor, modules):
    """Fork for every question until nobody asks any more."""
    from gpipe_edu import reference, simulate  # noqa: F401
    from gpipe_edu.judge.exercise import all_exercises

    for module in modules:
        importlib.import_module(module)
    for exercise in all_exercises().values():
        _ = exercise.perform, exercise.check
    gc.collect()
    gc.freeze()  # else each fork's collector goes through all of it, and copies its pages
    with socket.socket(fileno=descriptor) as ours:
        while True:
            head, ends, _, _ = socket.recv_fds(ours, 4, 3)
            if not head:
                return
            size, data = int.from_bytes(head, "big"), b""
            while len(data) < size:
                data += ours.recv(size - len(data))
            ours.sendall(json.dumps(_obey(json.loads(data), ends)).encode())


def _obey(question, ends):
    if "wait" in question:
        pid, status = os.waitpid(question["wait"], question["how"])
        return {"status": os.waitstatus_to_exitcode(status) if pid else None}
    pid = os.fork()
    if pid == 0:
        forked.become(ends, **question)
    for end in ends:
        os.close(end)
    return {"pid": pid}
