import socket
from pathlib import Path

import pytest
from jupyter_client.connect import LocalPortCache

from . import ports


@pytest.mark.parametrize(
    "choose", [ports.free, lambda: LocalPortCache.instance().find_available_port("127.0.0.1")], ids=["ours", "kernels"]
)
def test_a_port_is_one_that_nobody_has(choose):
    port = choose()
    with socket.create_server(("127.0.0.1", port + 1)):
        following = choose()
    assert ports.FIRST <= port < ports.LAST
    assert following > port + 1


def test_the_system_gives_none_of_them_to_another_process():
    chosen = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not chosen.exists():
        pytest.skip("this system does not tell from which ports it chooses")
    assert int(chosen.read_text().split()[0]) >= ports.LAST
