"""Behind an open question the kernel gives back what is lined up; tests/browser asks real frontends, hosts and all."""

import sys
from types import SimpleNamespace

import pytest

from gpipe_edu.course.predictions import queued_cells


def under(monkeypatch, shell):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))


def test_a_kernel_gives_back_what_waits(monkeypatch):
    kernelbase = pytest.importorskip("ipykernel.kernelbase", reason="only ipykernel has cells that wait")
    name = "_abort_queues"
    assert callable(getattr(kernelbase.Kernel, name))
    given_back = []
    under(monkeypatch, SimpleNamespace(kernel=SimpleNamespace(**{name: lambda: given_back.append("all")})))
    queued_cells.give_back()
    assert given_back == ["all"]


@pytest.mark.parametrize("shell", [None, SimpleNamespace(), SimpleNamespace(kernel=SimpleNamespace())])
def test_where_nothing_can_be_given_back_all_cells_run(monkeypatch, shell):
    under(monkeypatch, shell)
    queued_cells.give_back()
