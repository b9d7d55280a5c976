"""The learner's way on a pretended Windows: copy, check, watch, processes, a notebook. See `pretend_windows.py`."""

import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
import pytest

from tests import kernels, processes
from tests.amount import third
from tests.processes import PATIENCE

ROOT = Path(processes.ROOT)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="Windows is pretended on Linux only"),
]


SOLVED = ROOT / "solutions"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`run(code)`: what it prints, in a process that takes itself to be on Windows."""
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "AppData"))
    monkeypatch.delenv("GPIPE_EDU_HOME")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def answer(code):
        program = tmp_path / "program.py"
        begin = "from tests import pretend_windows\npretend_windows.pretend()\n"
        program.write_text(begin + textwrap.dedent(code))
        command = [sys.executable, program]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return answer


def test_an_answer_is_checked_in_a_terminal_and_the_result_is_kept_where_windows_keeps_it(run, tmp_path):
    said = run(f"""
        import sys
        from gpipe_edu.cli import main
        sys.argv = ["gpipe-edu", "check", "ex02", "--notebook", {str(SOLVED / "exercise_02_clock.py")!r}]
        try:
            main()
        except SystemExit as end:
            assert not end.code, end.code
        """)
    assert "ex02/clock: passed" in said
    assert "ex02/f-then-b: passed" in said
    assert "passed" in (tmp_path / "AppData" / "gpipe_edu" / "progress.json").read_text()


def test_an_answer_that_does_not_end_is_stopped_and_it_is_said_where(run):
    said = run("""
        from gpipe_edu.course.check import NotYet, check
        from gpipe_edu.judge import pool

        def clock(K, M):
            while True: here = K
        try:
            check("ex02/clock", clock)
        except NotYet:
            pass
        pool.close_idle()
        """)
    assert "It was stopped after" in said
    assert "here = K" in said.partition("it was here:")[2]


def test_an_answer_that_takes_memory_without_end_is_told_so(run):
    """Though of what a process holds there, something is taken off for libraries."""
    said = run("""
        from gpipe_edu.course.check import NotYet, check
        from gpipe_edu.judge import pool

        def clock(K, M):
            kept = []
            while True: kept.append([len(kept)] * 1000)
        try:
            check("ex02/clock", clock)
        except NotYet:
            pass
        pool.close_idle()
        """)
    assert "It takes more memory than there is, or takes more and more" in " ".join(said.split())


@pytest.mark.parametrize("stem", third(["exercise_10_processes", "exercise_13_ring"]))
def test_answers_of_several_processes_are_checked(run, stem):
    said = run(
        f"""
        import sys
        from gpipe_edu.cli import main
        sys.argv = ["gpipe-edu", "check", {f"ex{stem[9:11]}"!r}, "--notebook", {str(SOLVED / f"{stem}.py")!r}]
        try:
            main()
        except SystemExit as end:
            assert not end.code, end.code
        """
    )
    assert said.count(": passed") == (1 if "10" in stem else 2), said


def test_the_course_is_copied_and_jupyterlab_prepared_without_links_users_or_forks(run, tmp_path):
    said = run("""
        from pathlib import Path
        from gpipe_edu.course.commands import set_up
        set_up.copy(Path("mine"))
        environment = {"PATH": "there"}
        set_up.prepare(environment)
        set_up.offer_kernel(environment, Path("kernels"))
        print(set_up._root(), sorted(environment))
        """)
    assert said.endswith("[] ['JUPYTER_CONFIG_PATH', 'JUPYTER_PATH', 'PATH']\n")
    assert not [path for path in (tmp_path / "mine").rglob("*") if path.is_symlink()]


def test_a_notebook_asks_its_questions(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cells = [
        "from tests import pretend_windows\npretend_windows.pretend()",
        "from gpipe_edu.course import predict",
        "predict('03/first-backward')",
    ]
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    kernels.client(notebook).execute()
    [asked] = [output for output in notebook.cells[2].outputs if output.output_type == "display_data"]
    assert "application/vnd.jupyter.widget-view+json" in asked.data
