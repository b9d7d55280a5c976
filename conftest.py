"""For every test and every notebook: whose answers are touched, what runs together, and what everyday work leaves out.

No test, and no notebook that is run as one, reads or changes the answers of the person who runs it. And all see a
machine without a GPU, so that they mean the same everywhere: tests/pytorch/pretend_gpu stands in for one, and what only
a real one can answer is asked by `make gpu`.
"""

import os
import re
import shutil
import signal
import tempfile
from collections import Counter

import pytest

from tests import ports, preloaded
from tests.notebooks import heights

SLOW = (
    "tests/authoring/",
    "tests/benchmarks/test_gpu_rehearsal.py",
    "tests/benchmarks/test_gpu_run.py",
    "tests/browser/",
    "tests/cluster/habits/",
    "tests/cluster/test_accumulation.py",
    "tests/cluster/test_devices.py",
    "tests/cluster/test_faults.py",
    "tests/cluster/test_gate.py",
    "tests/cluster/test_layer_building.py",
    "tests/cluster/test_optimizer_checks.py",
    "tests/cluster/test_pipeline.py",
    "tests/cluster/test_refused.py",
    "tests/cluster/test_resume.py",
    "tests/cluster/test_saving.py",
    "tests/cluster/test_ties.py",
    "tests/cluster/test_train.py",
    "tests/cluster/test_two_hosts.py",
    "tests/cluster/test_values.py",
    "tests/cli/",
    "tests/distributed/",
    "tests/course/test_check.py",
    "tests/course/test_check_held_up.py",
    "tests/course/test_judge_process.py",
    "tests/course/predictions/test_widget.py",
    "tests/course/notebook/test_silent_cells.py",
    "tests/judge/test_asking.py",
    "tests/judge/test_host.py",
    "tests/grading/test_class.py",
    "tests/grading/test_container.py",
    "tests/grading/test_disk.py",
    "tests/grading/test_grade.py",
    "tests/grading/test_gradescope.py",
    "tests/grading/test_killed.py",
    "tests/grading/test_marks.py::test_beside",
    "tests/grading/test_nbgrader.py",
    "tests/grading/test_refused.py::TestAClass",
    "tests/grading/test_by_hand.py",
    "tests/grading/test_forged.py",
    "tests/grading/test_gradebook.py::test_a_class",
    "tests/grading/test_late.py::test_a_class",
    "tests/grading/test_on_ours.py::test_an_error",
    "tests/process/test_bubblewrap.py",
    "tests/process/test_limited.py",
    "tests/process/test_packing.py",
    "tests/puzzles/test_board.py",
    "tests/puzzles/test_par.py",
    "tests/puzzles/test_score.py",
    "tests/pytorch/habits/",
    "tests/pytorch/pretend_gpu/",
    "tests/pytorch/test_as_plain.py",
    "tests/pytorch/test_batchnorm.py",
    "tests/pytorch/test_checkpoint.py",
    "tests/pytorch/test_equality.py",
    "tests/pytorch/test_errors.py",
    "tests/pytorch/test_guards.py",
    "tests/pytorch/test_models.py",
    "tests/pytorch/test_uncompiled.py::test_a_compiled_pipe_is_the_net[always",
    "tests/pytorch/test_uncompiled.py::test_a_compiled_pipe_is_the_net[except_last",
    "tests/pytorch/test_uncompiled.py::test_gradients_go_on",
    "tests/pytorch/test_workers.py",
    "tests/schedule/test_doctor_random.py",
    "tests/sizing/test_brute_force.py",
    "tests/sizing/test_flags.py",
    "tests/sizing/test_measurement.py",
    "tests/sizing/test_published.py",
    "tests/solutions/test_edits.py",
    "tests/solutions/test_gates.py",
    "tests/solutions/test_same_process.py",
    "tests/test_docs_cluster.py",
    "tests/test_lab.py",
    "tests/test_wheel.py",
    "tests/test_windows.py",
    "tests/view/test_gantt_widget.py",
    "tests/website/",
)
"""What `--quick` leaves out: a browser, processes that start others, notebooks that run, sweeps and searches."""

TOGETHER = ("tests/browser/", "tests/website/")
"""Folders whose files run in one worker, as they share what takes long to start or to build."""

SAMPLE = 1
"""Of each exercise's bank, so many answers are judged with `--quick`."""


def pytest_addoption(parser):
    parser.addoption("--whole-site", action="store_true", help="build and test all pages and the lab in a browser")
    parser.addoption(
        "--whole-class",
        action="store_true",
        help="grade 40 hand-ins of all exercises, and the whole bank; takes an hour",
    )
    parser.addoption("--container", choices=("podman", "docker"), help="also grade in a real container of this engine")
    parser.addoption(
        "--whole", action="store_true", help="all that is drawn at random or large, of which else a part is"
    )
    parser.addoption("--quick", action="store_true", help="leave out what takes long, for everyday work")


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background, where tests want to hear Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # read when PyTorch first asks, and inherited by what tests start
    ports.for_kernels()
    config.learner = os.environ["GPIPE_EDU_HOME"] = tempfile.mkdtemp(prefix="gpipe_edu_learner_")


def pytest_unconfigure(config):
    heights.end()
    shutil.rmtree(config.learner, ignore_errors=True)


def pytest_collection_modifyitems(config, items):
    items[:] = heights.after_their_cells(items)
    for item in items:
        if ".ipynb::" in item.nodeid:
            item.add_marker(pytest.mark.random_order(disabled=True))  # cells have an order
    if hasattr(config, "workerinput"):
        items.sort(key=_length, reverse=True)  # else one worker would be left alone with something long at the end
    if not config.getoption("whole"):
        _leave_out(config, items, _most_of_a_sweep(items))
    if config.getoption("quick"):
        _leave_out(config, items, _what_takes_long(items))


@pytest.hookimpl(tryfirst=True)  # before nbval starts the kernel
def pytest_runtest_setup(item):
    if ".ipynb::" in item.nodeid:
        os.environ["JUPYTER_PATH"] = preloaded.kernels()
    else:
        os.environ.pop("JUPYTER_PATH", None)


def _leave_out(config, items, which):
    left_out = set(which)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _most_of_a_sweep(items):
    """A third of its cases is left, going through all values of each parameter: 0, 5, 7, 9, 14 ..."""
    seen = Counter()
    for item in items:
        if item.get_closest_marker("sweep"):
            place = seen[item.function]
            seen[item.function] += 1
            if (place + place // 3) % 3:
                yield item


def _what_takes_long(items):
    judged = Counter()
    for item in items:
        exercise = _exercise(item.nodeid)
        judged[exercise] += 1
        if judged[exercise] > SAMPLE if exercise else item.nodeid.startswith(SLOW):
            yield item


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With several workers a file runs in one of them, as a notebook has to; of the bank, one exercise."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return _exercise(nodeid) or next(filter(nodeid.startswith, TOGETHER), nodeid.partition("::")[0])

    config.option.loadscopereorder = False  # but as they were sorted
    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


def _length(item):
    together = item.nodeid.startswith(TOGETHER)
    return together, bool(item.nodeid.startswith((*SLOW, "notebooks/")) or _exercise(item.nodeid))


def _exercise(nodeid):
    """The exercise whose bank a test is about, "" for other tests."""
    found = re.search(r"test_bank\.py::.*\[(ex\d\d/[\w-]+)", nodeid)
    return found[1] if found else ""
