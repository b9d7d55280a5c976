"""No test, and no notebook that is run as one, reads or changes the answers of the person who runs it."""

import os
import shutil
import tempfile


def pytest_configure(config):
    config.learner = os.environ["GPIPE_EDU_HOME"] = tempfile.mkdtemp(prefix="gpipe_edu_learner_")


def pytest_unconfigure(config):
    shutil.rmtree(config.learner, ignore_errors=True)
