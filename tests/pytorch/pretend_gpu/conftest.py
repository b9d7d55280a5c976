"""Every test here runs in a process of its own, in which torch.cuda is pretended."""

import multiprocessing
import sys

import pytest

from . import forked
from .build import COMPILER, built


def pytest_collection_modifyitems(items):
    missing = {
        "the pretend GPU is compiled, and there is no C++ compiler (c++)": COMPILER is None,
        "the pretend GPU is tested on Linux only": sys.platform != "linux",
        "this Python forks no processes": "forkserver" not in multiprocessing.get_all_start_methods(),
    }
    for item in items:
        if item.path.parent.name == "pretend_gpu":
            for reason in (reason for reason, applies in missing.items() if applies):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True, scope="session")
def compiled():
    """Before the first test, whose own time it is not to count."""
    return built()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    function = pyfuncitem.function
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    told = forked.run(function.__module__, function.__name__, arguments)
    if told:
        pytest.fail(told, pytrace=False)
    return True
