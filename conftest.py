"""For every test and every notebook: whose answers are touched, what runs together, and what everyday work leaves out.

No test, and no notebook that is run as one, reads or changes the answers of the person who runs it. And all see a
machine without a GPU, so that they mean the same everywhere: tests/pytorch/pretend_gpu stands in for one, and what only
a real one can answer is asked by `make gpu`.
"""

import gc
import os
import re
import shutil
import signal
import tempfile
from collections import Counter

import pytest

from tests import ports, preloaded
from tests.amount import is_due
from tests.notebooks import heights, lesson_claims

TOGETHER = ("tests/browser/", "tests/website/")
"""Folders whose files run in one worker, as they share what takes long to start or to build."""

SAMPLE = 1
"""Of each exercise's bank, so many answers are judged where what is slow is left out."""


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


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background, where tests want to hear Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # read when PyTorch first asks, and inherited by what tests start
    ports.for_kernels()
    config.learner = os.environ["GPIPE_EDU_HOME"] = tempfile.mkdtemp(prefix="gpipe_edu_learner_")


def pytest_unconfigure(config):
    heights.end()
    shutil.rmtree(config.learner, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """All that is imported and collected stays: to go through it again and again took a third of that time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    items[:] = lesson_claims.behind_their_cells(list(heights.after_their_cells(items)))
    judged = Counter()
    for item in items:
        if exercise := _exercise(item.nodeid):
            judged[exercise] += 1
            if judged[exercise] > SAMPLE:
                item.add_marker(pytest.mark.slow)
        if ".ipynb::" in item.nodeid:
            item.add_marker(pytest.mark.random_order(disabled=True))  # cells have an order
    _leave_out(config, items, _most_of_a_sweep(items))
    result = yield  # what is slow is left out, and the rest shuffled, where that is asked for
    if hasattr(config, "workerinput"):
        items.sort(key=_length, reverse=True)  # else one worker would be left alone with something long at the end
    return result


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
    """What of sweeps is not due today; with --whole nothing."""
    seen = Counter()
    for item in items:
        if item.get_closest_marker("sweep"):
            place = seen[item.function]
            seen[item.function] += 1
            if not is_due(place):
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
    return together, bool(item.get_closest_marker("slow") or item.nodeid.startswith("notebooks/"))


def _exercise(nodeid):
    """The exercise whose bank a test is about, "" for other tests."""
    found = re.search(r"test_bank\.py::.*\[(ex\d\d/[\w-]+)", nodeid)
    return found[1] if found else ""
