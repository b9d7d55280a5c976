"""Answers that try to hold a check up, to fool it or to leave something behind, and machines that do so."""

import os
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from gpipe_edu.course import NotYet, check, reset, solution, tries_and_hints
from gpipe_edu.course.building import build, places
from gpipe_edu.judge import judging, pool, worker
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.learner_process import LearnerProcess, MachineBusy
from gpipe_edu.process import child, time_limit
from gpipe_edu.process.packing import pack
from tests.processes import printed, running

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
linux = pytest.mark.skipif(sys.platform != "linux", reason="signals, forks and spawned processes as Linux has them")


@pytest.fixture(autouse=True)
def _home(home):
    return home


def clock(K, M):
    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]


@linux
@pytest.mark.parametrize("leaves", [False, True])
def test_what_an_answer_has_forked_neither_holds_the_check_up_nor_lives_on(monkeypatch, leaves):
    monkeypatch.setenv("TO_BE_FOUND", mark := f"mark-{os.getpid()}-{leaves}")

    def forks(K, M):
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            time.sleep(600)
        if leaves:
            os._exit(0)
        return clock(K, M)

    if leaves:
        with pytest.raises(NotYet, match="ended its own process"):
            check("ex02/clock", forks)
    else:
        check("ex02/clock", forks)
    pool.close_idle()
    assert set(running(mark)) <= {os.getpid()}


@linux
def test_a_judge_that_was_stopped_is_told_and_ended():
    def stops_it(K, M):
        os.kill(os.getppid(), 19)

    with pytest.raises(RuntimeError, match="not judged: its process was stopped"):
        check("ex02/clock", stops_it)


@pytest.fixture
def late(monkeypatch):
    """Have judges begin late, with `program` in the place of their own."""

    def begin(program=""):
        *python, usual = child.command(worker.__name__)
        slow = [*python, f"import sys, time; time.sleep(1.2)\n{program or usual}"]
        monkeypatch.setattr(child, "command", lambda module: slow)

    pool.close_idle()
    yield begin
    pool.close_idle()


MEGABYTE = os.urandom(1_000_000)


def test_a_judge_that_starts_late_gets_all_of_a_long_message(late):
    late()

    def long(K, M):
        return clock(K, M) if len(MEGABYTE) == 1_000_000 else []

    check("ex02/clock", long)


def test_a_judge_that_has_much_to_say_is_heard_to_the_end(late):
    late(
        """
import sys
sys.path.append(ROOT)
from gpipe_edu.judge.findings import Report, Success
from gpipe_edu.process import frames, plain
frames.read(sys.stdin.buffer)
sys.stderr.write("x" * 1_000_000)
report = Report("ex02/clock", "passed", 1, 1, None, Success("y" * 1_000_000))
frames.write(sys.stdout.buffer, plain.encode({"report": report}))
""".replace("ROOT", repr(str(ROOT)))
    )
    report = pool.judge_apart(find_exercise("ex02/clock"), pack(lambda K, M: MEGABYTE), 1)
    assert report.success.words == "y" * 1_000_000


def test_a_judge_that_ends_before_it_has_read_a_long_message_is_told(late):
    late("raise SystemExit('no room for NumPy')")
    with pytest.raises(RuntimeError, match="not judged: no room for NumPy"):
        check("ex02/clock", lambda K, M: MEGABYTE)


def test_without_pytorch_an_answer_that_needs_it_is_not_judged_and_is_no_try(monkeypatch, late):
    late(f"sys.modules['torch'] = None\n{child.command(worker.__name__)[-1]}")
    with pytest.raises(RuntimeError) as caught:
        check("ex13/ring", lambda *everything: None)
    assert str(caught.value) == (
        "Your answer was not judged: ex13/ring needs PyTorch, which is not here: "
        'python -m pip install "gpipe_edu[torch]"'
    )
    assert tries_and_hints.state("ex13/ring")["tries"] == 0


def test_a_loop_that_runs_when_the_function_is_unpacked_has_the_answer_s_time():
    class Slow:
        def __reduce__(self):
            return exec, ("while True: pass",)

    slow = Slow()
    with LearnerProcess("gpipe_edu.judge.tasks.ex02_clock.perform", pack(lambda K, M: slow), 0.5) as sandbox:
        assert sandbox(K=1, M=1).trouble.kind == "stopped"


@pytest.fixture(params=[True, False], ids=["threads told", "threads not told"])
def _threads(request, monkeypatch):
    """Linux tells what each thread is doing, and how long it has waited for a CPU; other systems don't."""
    if not request.param:
        monkeypatch.setattr(time_limit, "_is_awake", lambda pid: False)
        monkeypatch.setattr(time_limit, "_QUEUES_ARE_TOLD", False)


@linux
@pytest.mark.usefixtures("_threads")
def test_time_that_others_take_is_not_the_answer_s():
    """Ten loops that never end share the CPUs with it; on the clock it takes longer than its half second."""

    def works(batch, M):
        until = time.process_time() + 0.35
        while time.process_time() < until:
            pass
        return [1]

    loop = [sys.executable, "-c", "while True: pass"]
    with LearnerProcess("gpipe_edu.judge.tasks.ex01_splitting.perform", pack(works), 0.5) as sandbox:
        busy = [os.posix_spawn(loop[0], loop, os.environ, setsid=True) for _ in range(10)]
        try:
            reply = sandbox(batch=[1], M=1)
        finally:
            for pid in busy:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
    assert reply.trouble is None


@linux
def test_the_time_of_a_thread_counts(monkeypatch):
    def waits_for_a_thread(batch, M):
        def forever():
            while True:
                pass

        thread = threading.Thread(target=forever)
        thread.start()
        thread.join()

    with LearnerProcess("gpipe_edu.judge.tasks.ex01_splitting.perform", pack(waits_for_a_thread), 0.5) as sandbox:
        assert sandbox(batch=[1], M=1).trouble.kind == "stopped"


def test_an_answer_that_was_kept_from_working_is_judged_again_and_never_called_wrong(monkeypatch, home):
    monkeypatch.setattr(time_limit, "wall", lambda seconds: 0.2)
    monkeypatch.setattr(time_limit.TimeLimit, "over", False)
    with (
        pytest.raises(MachineBusy),
        LearnerProcess("gpipe_edu.judge.tasks.ex02_clock.perform", pack(lambda K, M: time.sleep(60)), 5) as sandbox,
    ):
        sandbox(K=1, M=1)
    asked = []

    def busy(*arguments):
        asked.append(arguments)
        raise judging.NotJudged("busy", busy=True)

    monkeypatch.setattr(sys.modules["gpipe_edu.course.check"], "judge_apart", busy)
    with pytest.raises(RuntimeError, match="not judged"):
        check("ex02/clock", clock)
    assert len(asked) == 2
    assert not home.exists()


def test_what_the_environment_tells_python_to_load_is_not_the_judge_s(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        textwrap.dedent("""
        import sys
        if "gpipe_edu.judge.worker" in " ".join(sys.orig_argv):
            import gpipe_edu.judge.worker as judging
            from gpipe_edu.judge.findings import Report, Success
            judging.judge = lambda key, packed, seed, path: Report(key, "passed", seed, success=Success("mine"))
        """)
    )
    (tmp_path / "gpipe_edu").mkdir()
    (tmp_path / "gpipe_edu" / "__init__.py").write_text("raise SystemExit(0)")
    program = f"""
    import os
    from gpipe_edu.course import check, NotYet
    os.environ["PYTHONPATH"] = {str(tmp_path)!r}
    try:
        check("ex02/clock", lambda K, M: 7)
    except NotYet:
        print("REFUSED")
    """
    assert "REFUSED" in printed(program)


def test_a_notebook_s_open_is_python_s():
    program = """
    from IPython.core.interactiveshell import InteractiveShell
    shell = InteractiveShell.instance()
    shell.run_cell("def f():\\n    return open('/dev/null').read()")
    from gpipe_edu.process.packing import pack, unpack
    assert unpack(pack(shell.user_ns["f"]).body)() == ""
    """
    printed(program)


def test_a_function_that_a_decorator_has_named_as_python_s_travels_itself():
    program = """
    import functools, math
    from gpipe_edu.process.packing import pack, unpack
    @functools.wraps(math.floor)
    def mine(x):
        return "mine"
    @functools.wraps(functools.reduce)
    def other(x):
        return "other"
    assert unpack(pack(lambda: mine(1) + other(1)).body)() == "mineother"
    """
    printed(program)


def test_no_temporary_folder_is_left(monkeypatch, tmp_path):
    there = tmp_path / "temporary"
    there.mkdir()
    monkeypatch.setenv("TMPDIR", str(there))

    def clutters(K, M):
        import tempfile

        tempfile.mkdtemp()
        return clock(K, M)

    check("ex02/clock", clutters)
    assert list(there.iterdir()) == []


def test_without_solutions_both_ways_out_say_something_sensible(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(places, "ROOT", tmp_path)
    solution("ex02/clock", give_up=True)
    assert "not in this copy of the course" in capsys.readouterr().out
    monkeypatch.setattr(build.reset, "__defaults__", (tmp_path,))
    monkeypatch.setattr(build.fresh, "__defaults__", (tmp_path,))
    reset("ex02/clock")
    assert "no fresh exercise_02_clock.ipynb is left" in capsys.readouterr().out
    (tmp_path / ".fresh").mkdir()
    text = (ROOT / "exercises" / "exercise_02_clock.ipynb").read_text(encoding="utf-8")
    (tmp_path / ".fresh" / "exercise_02_clock.ipynb").write_text(text, encoding="utf-8")
    reset("ex02/clock")
    assert "is as new" in capsys.readouterr().out
    assert (tmp_path / "exercises" / "exercise_02_clock.ipynb").read_text(encoding="utf-8") == text
