"""Ports that a test can promise to a process it starts: the system gives them to nobody else.

A port that the system has chosen as free can be another process's before the one it was meant for binds it; a kernel
of Jupyter, which is told five of them, then dies. The system chooses from 32,768 on.
"""

import itertools
import os
import socket

from jupyter_client.connect import LocalPortCache

FIRST, LAST = 10_000, 32_000
_START = os.getpid() * 97 % (LAST - FIRST)  # workers side by side begin at different places
_PORTS = itertools.cycle([*range(FIRST + _START, LAST), *range(FIRST, FIRST + _START)])


def free(address="127.0.0.1"):
    """A port at which nobody listens, another one each time."""
    return next(port for port in _PORTS if _is_free(address, port))


def for_kernels():
    """Let Jupyter take its kernels' ports from here."""
    LocalPortCache.find_available_port = lambda _, address: free(address)


def _is_free(address, port):
    with socket.socket() as asked:
        try:
            asked.bind((address, port))
        except OSError:
            return False
    return True
