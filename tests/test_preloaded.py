"""A Python that has loaded PyTorch does, and ends, as a fresh one."""

import os
import signal
import subprocess
import sys

import pytest

from . import preloaded
from .processes import PATIENCE, printed, until

pytestmark = pytest.mark.skipif(not preloaded.has_pidfds(), reason="without pidfds no process is forked for another")
LONG = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


def start(*arguments, **how):
    return subprocess.Popen(
        [preloaded.python(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how
    )


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        ("import sys; print(sys.argv[1:], 'torch' in sys.modules)", 0, "['a', 'b'] True"),
        ("import os; print(os.environ['MARK'], os.getcwd())", 0, "here /"),
        ("import atexit; atexit.register(print, 'the end')", 0, "the end"),
        ("raise SystemExit('no')", 1, "no"),
        ("import sys; sys.exit(7)", 7, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        ("import gpipe_edu; print('gpipe_edu.pytorch' in __import__('sys').modules)", 0, "False"),
    ],
)
def test_it_ends_as_a_fresh_one_does(program, status, said):
    environment = {**os.environ, "MARK": "here", "PYTHONPATH": preloaded.ROOT}
    with start("-P", "-c", program, "a", "b", env=environment, cwd="/") as process:
        printed, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == status
    assert said in printed + errors


def test_a_signal_reaches_it_and_who_ends_the_one_ends_the_other():
    with start("-c", LONG) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == -signal.SIGINT
    with start("-c", LONG) as process:
        pid = int(process.stdout.readline())
        process.kill()
    until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_kernel_ends_with_who_has_started_it():
    starts = f"""
        import os, subprocess, sys
        os.environ["JPY_PARENT_PID"] = str(os.getpid())
        kernel = subprocess.Popen([{preloaded.python()!r}, "-c", {LONG!r}], stdout=subprocess.PIPE)
        print(kernel.stdout.readline().decode(), flush=True)
        os._exit(0)
    """
    pid = int(printed(starts))
    until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_when_a_failed_test_has_ended_all_it_starts_anew():
    preloaded.python()
    _, server = preloaded._server(os.getpid())
    server.kill()
    server.wait(PATIENCE)
    with start("-c", "print('anew')") as process:
        assert process.communicate(timeout=PATIENCE)[0] == "anew\n"


def test_nothing_outlives_the_tests():
    starts = f"""
        import subprocess
        from tests import preloaded
        process = subprocess.Popen([preloaded.python(), "-c", {LONG!r}], stdout=subprocess.PIPE)
        print(process.stdout.readline().decode(), flush=True)
    """
    pid = int(printed(starts))
    until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_the_same_arguments_run_a_module_and_a_file(tmp_path):
    (tmp_path / "named.py").write_text("import sys; print(__name__, sys.argv[1:], sys.path[0])")
    for python in (sys.executable, preloaded.python()):
        for what in (("-m", "named"), (tmp_path / "named.py",)):
            told = subprocess.run([python, *what, "x"], capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE)
            assert told.stdout.split()[:2] == ["__main__", "['x']"], told.stderr
            assert told.stdout.split()[2:] in ([], [str(tmp_path)])
