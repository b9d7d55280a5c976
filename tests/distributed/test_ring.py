"""A process sends to its right neighbour and receives from its left one."""

import numpy as np
import pytest

from gpipe_edu.distributed import ring_links, run_processes
from gpipe_edu.distributed.diary import NoNeighbour

pytestmark = pytest.mark.slow


def pass_on(rank):
    with ring_links(rank, 3) as (send, receive):
        mine = np.full((2, 2), float(rank))
        send(mine)
        mine[:] = -1  # what was sent is a copy
        send(np.arange(rank + 1))
        return receive(mine), receive(np.arange((rank - 1) % 3 + 1))


def test_each_gets_what_its_left_neighbour_had_when_it_sent():
    for rank, (first, second) in enumerate(run_processes(pass_on, 3)):
        left = (rank - 1) % 3
        assert np.array_equal(first, np.full((2, 2), float(left)))
        assert np.array_equal(second, np.arange(left + 1))
        assert second.dtype == np.arange(1).dtype


def test_one_process_alone_has_no_neighbour():
    with ring_links(0, 1) as (send, receive):
        with pytest.raises(NoNeighbour, match="the only one"):
            send(np.ones(1))
        with pytest.raises(NoNeighbour, match="the only one"):
            receive(np.ones(1))
