"""Who shows things, and what waits behind an open question; tests/browser asks real frontends, hosts and all."""

import sys
from types import SimpleNamespace

import pytest

from gpipe_edu.course.notebook import frontend, output


def under(monkeypatch, shell):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))


def test_a_kernel_gives_back_what_waits(monkeypatch):
    kernelbase = pytest.importorskip("ipykernel.kernelbase", reason="only ipykernel has cells that wait")
    name = "_abort_queues"
    assert callable(getattr(kernelbase.Kernel, name))
    given_back = []
    under(monkeypatch, SimpleNamespace(kernel=SimpleNamespace(**{name: lambda: given_back.append("all")})))
    frontend.current().abort_queued_cells()
    assert given_back == ["all"]


def test_where_nothing_can_be_given_back_all_cells_run(monkeypatch):
    under(monkeypatch, SimpleNamespace(kernel=SimpleNamespace()))
    frontend.current().abort_queued_cells()


@pytest.mark.parametrize("shell", [None, SimpleNamespace()])
def test_without_a_kernel_words_are_printed(monkeypatch, capsys, shell):
    under(monkeypatch, shell)
    output.show("**Solved.**")
    assert (frontend.current(), capsys.readouterr().out) == (None, "Solved.\n")


def test_who_says_so_shows_everything_until_somebody_else_does(monkeypatch, capsys):
    monkeypatch.setattr(frontend, "_given", [])
    under(monkeypatch, SimpleNamespace(kernel=SimpleNamespace()))
    shown = []
    for name in ("first", "second"):
        frontend.use(SimpleNamespace(display=lambda data, name=name: shown.append((name, data["text/plain"]))))
        output.show("**Solved.**")
    assert shown == [("first", "Solved."), ("second", "Solved.")]
    assert capsys.readouterr().out == ""
