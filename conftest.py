"""For every test and every notebook: whose answers are touched, what runs together, and what everyday work leaves out.

No test, and no notebook that is run as one, reads or changes the answers of the person who runs it.
"""

import os
import shutil
import tempfile

import pytest

SLOW = (
    "tests/browser/",
    "tests/command/",
    "tests/distributed/",
    "tests/solutions/test_gates.py",
    "tests/course/exercise/test_adding_one.py",
    "tests/course/test_sandbox.py",
    "tests/puzzles/test_par.py",
    "tests/pytorch/test_checkpoint.py",
    "tests/pytorch/test_equality.py",
    "tests/pytorch/test_worker.py",
    "tests/test_lab.py",
)
"""What `--quick` leaves out: a browser, processes that start others, notebooks that run, sweeps and searches."""

SAMPLE = 1
"""Of each exercise's bank, so many answers are judged with `--quick`."""


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out what takes long, for everyday work")


def pytest_configure(config):
    config.learner = os.environ["GPIPE_EDU_HOME"] = tempfile.mkdtemp(prefix="gpipe_edu_learner_")


def pytest_unconfigure(config):
    shutil.rmtree(config.learner, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """With several workers a file runs in one of them, as a notebook has to; of the bank, one exercise."""
    judged = {}
    kept, left_out = [], []
    for item in items:
        file = item.nodeid.partition("::")[0]
        group = _exercise(item) if file.endswith("test_bank.py") else file
        item.add_marker(pytest.mark.xdist_group(group))
        judged[group] = judged.get(group, 0) + 1
        too_long = file.startswith(SLOW) or (file.endswith("test_bank.py") and judged[group] > SAMPLE)
        (left_out if config.getoption("quick") and too_long else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _exercise(item):
    given = item.callspec.params
    return given["key"] if "key" in given else given["entry"].key
