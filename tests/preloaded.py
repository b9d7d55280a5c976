"""Python with PyTorch already loaded: a child of a test starts in 0.05 s of CPU time, and not in 1.3 or 2.6.

`python()` names a program that takes Python's arguments (-m, -c or a file; of flags, -P). It passes them, its
environment, folder, standard streams and signals on to a process forked from one that has only imported libraries, none
of this project's, and ends as that ends; if it is killed, so is the other.

It is no `process.fork_server`, because nothing of this project may be loaded in what it starts.

Not for what a fork does not have: another network namespace, a mark in /proc/PID/environ, no library loaded yet.
"""

import atexit
import functools
import gc
import importlib
import json
import marshal
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

LIBRARIES = (
    "torch.distributed.launcher.api",
    "torch.distributed.pipelining",
    "ipykernel.kernelapp",
    "matplotlib.pyplot",
)
PASSED_ON = [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1")]
SIZE = 1 << 20  # an environment is far smaller
ROOT = str(Path(__file__).resolve().parents[1])


def python():
    """A Python program that has nothing to load; the usual one where the system has no pidfds."""
    if not has_pidfds():
        return sys.executable
    place, server = _server(os.getpid())
    if server.poll() is not None:  # a failed test ends all that it has started
        _server.cache_clear()
        place, _ = _server(os.getpid())
    return str(place / "python")


@functools.cache
def has_pidfds():
    """Whether this is a Linux on which one process can wait for another's end."""
    with suppress(AttributeError, OSError):
        os.close(os.pidfd_open(os.getpid()))
        return True
    return False


def kernels():
    """A folder for JUPYTER_PATH, where the kernel "python3" is such a Python."""
    program = python()
    folder = Path(program).parent
    if program == sys.executable:
        return ""
    described = folder / "kernels" / "python3" / "kernel.json"
    if not described.exists():
        described.parent.mkdir(parents=True)
        argv = [program, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        described.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    return str(folder)


@functools.cache
def _server(_pid):
    place = Path(tempfile.mkdtemp(prefix="preloaded"))
    program = place / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {__file__} {place / "socket"} "$@"\n')
    program.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, __file__, place / "socket"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    atexit.register(_end, place, server)
    server.stdout.readline()  # it listens
    return place, server


def _end(place, server):
    server.stdin.close()
    server.wait()
    server.stdout.close()
    shutil.rmtree(place)


def serve(address):
    """Fork a keeper for each that asks, until standard input ends. Returns, in what it keeps, the arguments."""
    gc.disable()
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.enable()
    gc.collect()
    gc.freeze()  # else each fork's collector goes through all of them, and copies their pages
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(address)
    listening.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a keeper
    os.write(1, b"\n")
    while sys.stdin not in select.select([sys.stdin, listening], [], [])[0]:
        client, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            return keep(client)
        client.close()
    os._exit(0)


def keep(client):
    """Fork a process, pass signals on to it, and say how it ended; it ends with who has asked, and with the server."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, streams, _, _ = socket.recv_fds(client, SIZE, 3)
    pid = os.fork()
    if pid == 0:
        client.close()
        return _become(*marshal.loads(request), streams)
    for stream in streams:
        os.close(stream)
    with suppress(PermissionError):  # it was first, and runs another program
        os.setpgid(pid, pid)
    handle, number = os.pidfd_open(pid), 0
    while number != signal.SIGKILL and handle not in (ready := select.select([sys.stdin, client, handle], [], [])[0]):
        number = ((client in ready and client.recv(1)) or [signal.SIGKILL])[0]
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(pid, number)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):  # who has asked may have been killed
        client.send(marshal.dumps(status))
    os._exit(0)


def _become(arguments, environment, folder, streams):
    """What a fresh interpreter would find."""
    import numpy

    with suppress(PermissionError):  # its parent was first
        os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    os.chdir(folder)
    environment.pop("JPY_PARENT_PID", None)  # whose end is seen by `ask`
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.executable = str(Path(sys.argv[1]).with_name("python"))  # what it starts is preloaded, too
    numpy.random.seed()
    return arguments


def ask(address, arguments):
    """Have a process forked, be to it what a terminal would be, and end as it ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(address)
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: server.send(bytes([number])))
        request = marshal.dumps((arguments, dict(os.environ), os.getcwd()))
        socket.send_fds(server, [request], (0, 1, 2))
        parent = int(os.environ.get("JPY_PARENT_PID", 0))  # a kernel ends with who has started it
        server.settimeout(1 if parent else None)
        while True:
            with suppress(TimeoutError):
                status = marshal.loads(server.recv(16))
                break
            if os.getppid() != parent:
                os._exit(1)
    if status < 0:
        with suppress(OSError):  # nobody hears SIGKILL
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def run(arguments):
    """As Python does with these arguments."""
    for number, argument in enumerate(arguments):
        if argument in ("-m", "-c"):
            what, sys.argv = arguments[number + 1], [argument, *arguments[number + 2 :]]
            if "-P" not in arguments[:number]:
                sys.path.insert(0, "")
            if argument == "-m":
                runpy.run_module(what, run_name="__main__", alter_sys=True)
            else:
                exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
            return
        if not argument.startswith("-"):
            sys.argv = arguments[number:]
            sys.path.insert(0, str(Path(argument).resolve().parent))
            runpy.run_path(argument, run_name="__main__")
            return
    raise SystemExit(f"preloaded Python was given {arguments}; it takes -m, -c or a file")


def end_as(main):
    """End as Python does behind `main`, but leave the memory alone: to take apart what a fork shares costs seconds."""
    status = 0
    try:
        main()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if status and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        ask(sys.argv[1], sys.argv[2:])
    del sys.path[0]  # this file's folder
    end_as(functools.partial(run, serve(sys.argv[1])))
