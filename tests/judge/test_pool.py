"""Judges at work: outcomes come while tasks are still being found, and what was disturbed is judged again."""

import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from gpipe_edu.judge import pool, worker
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.findings import Finding, Report, Trouble
from gpipe_edu.judge.learner_process import FOLDERS
from gpipe_edu.judge.pool import Judges, Outcome, Task, Worker, Workplace
from gpipe_edu.process.enclosure import CONTAINER, SANDBOX
from gpipe_edu.process.packing import Packed, pack
from gpipe_edu.teaching.grading.grade import Wish
from tests.processes import PATIENCE, ROOT

GRADING = Path(ROOT) / "docs" / "grading.md"


def task(name, key="ex02/clock"):
    return Task(name, find_exercise(key), Packed("clock", b"", {}, {}, ""), 1)


def started(code):
    """How a worker that runs this program is started."""
    pipe = subprocess.PIPE
    return lambda *_: subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe)


def judged(monkeypatch, ask, tasks, jobs=1):
    """What comes out of judging where a worker answers `ask(name)`: a word, and whether it was disturbed."""
    with Judges(jobs) as judges:
        monkeypatch.setattr(judges, "_ask", lambda _, one, student: (Outcome(None, ask(one.name)[0]), ask(one.name)[1]))
        yield from ((one.name, outcome.why) for one, outcome in judges.judge(tasks))


def test_the_first_outcome_comes_while_tasks_are_still_being_found(monkeypatch):
    deadline = time.monotonic() + PATIENCE

    def tasks():
        yield task("first")
        while time.monotonic() < deadline:  # hand-ins without anything new
            time.sleep(0.001)
            yield None

    assert next(judged(monkeypatch, lambda name: ("judged", False), tasks())) == ("first", "judged")
    assert time.monotonic() < deadline


def test_every_task_has_its_outcome_however_many_judges_there_are(monkeypatch):
    tasks = [None, *map(task, range(20)), None]
    for jobs in (1, 3, 30):
        found = list(judged(monkeypatch, lambda name: (f"of {name}", False), tasks, jobs))
        assert sorted(found) == [(name, f"of {name}") for name in range(20)]
    assert list(judged(monkeypatch, lambda name: ("", False), [])) == []


def test_answers_that_never_end_take_so_much_time_of_a_class_and_no_more(monkeypatch):
    asked = []

    def ask(_, one, student):
        asked.append(one.name)
        endless = one.name[0] == "stalls" or one.name[1] == 1
        trouble = Trouble("stopped", "", seconds=one.exercise.seconds) if endless else None
        return Outcome(Report("ex02/clock", "wrong", 1, 1, Finding("", "", trouble=trouble), None)), False

    names = [(who, number) for who in ("stalls", "has one endless loop") for number in range(5)]
    seconds = find_exercise("ex02/clock").seconds
    with Judges(1, stalled=3 * seconds) as judges:
        monkeypatch.setattr(judges, "_ask", ask)
        found = {
            one.name: outcome for one, outcome in judges.judge([*map(task, names[:5]), None, *map(task, names[5:])])
        }
    assert asked == names[:3] + names[5:], "the third of the endless ones used up the time"
    assert [name for name, outcome in found.items() if outcome.report is None] == names[3:5]
    assert {outcome.why for outcome in found.values() if not outcome.report} == {pool._TOO_LONG.format(seconds=12)}
    assert Wish(()).stalled == 120
    assert "Once they have taken 120 seconds for one student" in " ".join(GRADING.read_text(encoding="utf-8").split())


def test_what_was_disturbed_is_judged_once_more_at_the_end(monkeypatch):
    found = list(judged(monkeypatch, lambda name: (f"of {name}", name == 0), map(task, range(5)), 2))
    assert found[-1] == (0, "of 0")
    assert len(found) == 5


def test_without_pytorch_what_needs_it_is_not_judged_and_what_does_not_is():
    code = f"import sys; sys.modules['torch'] = None; sys.path.append({ROOT!r})\n"
    code += f"from {worker.__name__} import main; main()"
    answer = pack(lambda *everything: None)
    with Judges(1, trust=True, place=Workplace(SANDBOX, (sys.executable, "-c", code))) as judges:
        tasks = [task(key, key)._replace(packed=answer) for key in ("ex05/wrapper", "ex02/clock", "ex13/ring")]
        found = {task.name: outcome for task, outcome in judges.judge(tasks)}
    for key in ("ex05/wrapper", "ex13/ring"):
        why = f'{key} needs PyTorch, which is not here: python -m pip install "gpipe_edu[torch]"'
        assert found[key] == Outcome(None, why)
    assert found["ex02/clock"].report.state == "wrong"


def test_a_worker_that_reads_nothing_is_given_up_on_in_time(monkeypatch):
    """A pipe does not hold the question; whoever writes all of it would wait for a reader."""
    monkeypatch.setattr(pool, "_FAREWELL", 0.5)
    one = Worker(started("import time; time.sleep(600)"))
    assert one.ask({"packed": "x" * 1_000_000, "student": 0}, 1) == {"why": "it did not come to an end", "again": True}


def test_a_report_that_nobody_can_read_is_its_answer_s_alone(monkeypatch):
    def ask(message, seconds):
        if message["seed"]:
            raise MemoryError("too long")
        return {"why": "late", "again": False}

    with Judges(2) as judges:
        for one in judges._workers:
            monkeypatch.setattr(one, "ask", ask)
        found = {task.name: outcome for task, outcome in judges.judge([task(n)._replace(seed=n % 2) for n in range(6)])}
    unread = "the judge's report can't be read (MemoryError: too long)"
    assert {n: outcome.why for n, outcome in found.items()} == {n: unread if n % 2 else "late" for n in range(6)}


def test_in_a_container_each_student_has_a_new_one_and_one_that_is_not_clean_is_the_last(tmp_path):
    noted = tmp_path / "started"
    code = (
        f"import sys; sys.path.append({ROOT!r}); open({str(noted)!r}, 'a').write('x')\n"
        "from gpipe_edu.process import frames, plain\n"
        "while True:\n"
        "    asked = plain.decode(frames.read(sys.stdin.buffer))\n"
        "    frames.write(sys.stdout.buffer, plain.encode({'why': asked['key'], 'last': asked['key'] == 'leaves'}))\n"
    )
    with closing(Worker(started(code), one_student=True)) as one:
        for student, key, containers in [
            (None, "looks around", 1),
            (0, "first", 2),
            (0, "leaves", 2),
            (0, "third", 3),
            (1, "first", 4),
            (1, "second", 4),
        ]:
            assert one.ask({"student": student, "key": key}, PATIENCE) == {"why": key}
            assert len(noted.read_text()) == containers, key


def test_what_an_answer_has_left_is_seen_in_a_container_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert not worker._something_is_left(CONTAINER.name)
    (tmp_path / "another's").mkdir()
    assert not worker._something_is_left(CONTAINER.name)
    tempfile.mkdtemp(prefix=FOLDERS)
    assert worker._something_is_left(CONTAINER.name)
    assert not worker._something_is_left(SANDBOX.name)
