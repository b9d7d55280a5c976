"""A preloaded Python in another network namespace, with a host name of its own: `on_host.py NAMESPACE ARGUMENTS`."""

import ctypes
import os
import socket
import sys

from tests import preloaded

NEW_UTS, NEW_NET = 0x04000000, 0x40000000


def enter(name):
    """Go on in this namespace; threads that are started from now on are in it, too."""
    system = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/var/run/netns/{name}", os.O_RDONLY)
    if system.setns(namespace, NEW_NET) or system.unshare(NEW_UTS):
        raise OSError(ctypes.get_errno(), f"the network namespace {name} can't be entered")
    os.close(namespace)
    socket.sethostname(name)


if __name__ == "__main__":
    enter(sys.argv[1])
    preloaded.run(sys.argv[2:])
