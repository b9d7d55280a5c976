"""No test opens a window, and what the tests of the exercises have counted is printed at the end.

It is printed from here because pytest-xdist's main process loads no conftest of a folder further down.
"""

import gc
import os
import sys
from collections import defaultdict
from contextlib import closing

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from gpipe_edu.base import store
from gpipe_edu.judge import pool
from tests import preloaded
from tests.amount import DAILY, WHOLE, pick_by
from tests.processes import end_all_since

os.environ.setdefault("MPLBACKEND", "agg")

# The same examples in every run, none too slow: a busy machine changes nothing, nor do the modules that others have
# loaded, from whose numbers hypothesis would draw some.
providers.is_local_module_file = lambda path: False
for _profile, _examples in ((DAILY, 50), (WHOLE, 100)):
    settings.register_profile(
        _profile,
        max_examples=_examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


@pytest.fixture(autouse=True, scope="module")
def _no_judge_waits():
    """Judges that wait for another check end with the tests that started them."""
    yield
    pool.close_idle()


def pytest_configure(config):
    settings.load_profile(WHOLE if config.getoption("whole", False) else DAILY)
    if config.getoption("random_order_enabled", False):  # then its seed is printed
        pick_by(int(config.getoption("random_order_seed")))


@pytest.fixture(autouse=True, scope="module")
def little_to_go_through():
    """Thousands of tests and all that is imported stay to the end: Python's collector is to pass over them."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A learner's folder of this test's own."""
    folder = tmp_path / "learner"
    monkeypatch.setenv(store.HOME, str(folder))
    return folder


@pytest.fixture(scope="module")
def preloaded_python():
    """What a module's tests start with `sys.executable` has loaded PyTorch already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", preloaded.python())
        yield


@pytest.fixture(scope="session")
def worker():
    """Hundreds of answers are judged by the same one, each in a process of its own."""
    with closing(pool.Worker()) as one:
        yield one


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" and report.failed:
        end_all_since(call.start)
    return report


def pytest_terminal_summary(terminalreporter):
    """What the tests have counted, as Markdown."""
    found = defaultdict(list)
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", []):
                found[name].append((outcome == "passed", *value))
    if found["bank"]:
        _kill_table(terminalreporter, found["bank"])
    if found["reasons"]:
        _reasons(terminalreporter, found["reasons"])


def _kill_table(terminal, found):
    """`killed / total, alternatives accepted` for each task."""
    table = defaultdict(lambda: {"wrong": [0, 0], "right": [0, 0]})
    for passed, key, kind in found:
        table[key][kind][0] += passed
        table[key][kind][1] += 1
    terminal.section("kill table")
    rows = [(key, *table[key]["wrong"], *table[key]["right"]) for key in sorted(table)]
    rows.append(("all", *(sum(row[column] for row in rows) for column in range(1, 5))))
    terminal.line("| task | wrong answers killed | other right answers accepted |")
    terminal.line("|---|---|---|")
    for key, killed, wrong, accepted, right in rows:
        terminal.line(f"| {key} | {killed} / {wrong} | {accepted} / {right} |")


def _reasons(terminal, found):
    """How often a check names the right reason for a schedule that a random edit has broken."""
    terminal.section("random edits")
    terminal.line("| task | edits that break it | right reason named |")
    terminal.line("|---|---|---|")
    rows = [row[1:] for row in found]
    for key, wrong, misnamed in [*rows, ("all", *(sum(row[column] for row in rows) for column in (1, 2)))]:
        terminal.line(f"| {key} | {wrong} | {1 - misnamed / wrong:.2%} |")
