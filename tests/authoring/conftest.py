"""Clones are slow to make, so that tests that only read share one."""

import pytest

from .clone import REPOSITORY


@pytest.fixture
def clone(tmp_path):
    """Without ex20/way-back."""
    return REPOSITORY.copy(tmp_path / "clone")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """With ex20/way-back as `exercise new` writes it, and with what it printed."""
    clone = REPOSITORY.copy(tmp_path_factory.mktemp("fresh") / "clone")
    clone.printed = clone.exercise("new", "ex20/way-back")
    return clone


@pytest.fixture(scope="module")
def finished(fresh, tmp_path_factory):
    """With ex20/way-back as its author leaves it."""
    return fresh.copy(tmp_path_factory.mktemp("finished") / "clone").finish()


@pytest.fixture
def finished_to_break(finished, tmp_path):
    """For one test alone."""
    return finished.copy(tmp_path / "clone")
