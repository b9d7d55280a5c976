"""A check says whose text it judges where the last cell that was to define the function ended in an error."""

import builtins
import sys

import pytest

from gpipe_edu.course import NotYet, check
from gpipe_edu.course.notebook import frontend
from gpipe_edu.course.notebook.earlier_text import earlier_text

WRONG = """def clock(K, M):
    return [[(m, k)] for m in range(M) for k in range(K)]"""
RIGHT = """def clock(K, M):
    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]"""


@pytest.fixture
def shell(monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell

    # It takes these for its own, and other tests go on without it.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for where, names in ((sys, ("ps1", "ps2", "ps3")), (builtins, ("__IPYTHON__", "display"))):
        for name in names:
            monkeypatch.setattr(where, name, "", raising=False)
    shell = InteractiveShell()
    shell.history_manager.enabled = False  # nothing of it is for the disk
    monkeypatch.setattr(frontend, "jupyter_shell", lambda: shell)
    yield shell
    shell.history_manager.end_session()


def run(shell, *cells):
    """Each as a notebook does."""
    return [shell.run_cell(text, store_history=True).success for text in cells]


@pytest.mark.parametrize(
    "failing",
    [RIGHT.replace("):", ")", 1), "import no_such_package\n" + RIGHT, f"@no_such_name\n{RIGHT}", f"{RIGHT}\n  # \n ]"],
)
def test_a_cell_that_failed_is_named_with_the_one_that_is_judged(shell, failing, capsys):
    assert run(shell, "import gpipe_edu", WRONG, failing) == [True, True, False]
    told = (
        "Cell [3] has another clock, but ended in an error before it was defined. What is judged here is that of cell"
    )
    capsys.readouterr()
    with pytest.raises(NotYet):
        check("ex02/clock", shell.user_ns["clock"])
    assert capsys.readouterr().out.startswith(f"{told} [2].\nex02/clock: not yet.")
    assert run(shell, RIGHT) == [True]
    capsys.readouterr()
    check("ex02/clock", shell.user_ns["clock"])
    assert capsys.readouterr().out.startswith("ex02/clock: passed")


def test_nothing_is_said_where_the_last_cell_did_define_it(shell):
    run(shell, RIGHT, WRONG + "\n", "clock(2, 2)", f"{RIGHT}\nclock(1)", 'text = """\n    def clock(K, M)"""')
    assert earlier_text(shell.user_ns["clock"]) == ""
    run(shell, "def another(K, M)", "def clocks(K, M)", "judged = clock")
    assert earlier_text(shell.user_ns["judged"]) == ""
    assert earlier_text(print) == earlier_text(lambda: None) == ""


def test_a_class_is_known_by_its_methods(shell):
    text = "class MyGPipe:\n    name = 1\n    def forward(self, x):\n        return x"
    run(shell, text, f"{text} +", "1")
    assert "Cell [2] has another `MyGPipe`" in earlier_text(shell.user_ns["MyGPipe"])
    run(shell, text)
    assert earlier_text(shell.user_ns["MyGPipe"]) == ""


def test_without_a_notebook_nothing_is_said(monkeypatch):
    monkeypatch.setattr(frontend, "jupyter_shell", lambda: None)
    assert earlier_text(run) == ""
