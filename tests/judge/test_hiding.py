"""What gives an answer away is hidden under every name that it has, and has all of them again afterwards."""

import gc
import sys
from types import ModuleType

import pytest

import gpipe_edu
from gpipe_edu.judge.guest.hiding import Hidden
from tests import processes

SPLIT = {"gpipe_edu.split_batch": "split"}


@pytest.fixture
def module(monkeypatch):
    """Makes a module with these names, as an import does."""

    def made(name, **names):
        new = ModuleType(name)
        vars(new).update(names)
        monkeypatch.setitem(sys.modules, name, new)
        return new

    return made


def refuses(function):
    with pytest.raises(RuntimeError, match="split_batch is not available in this exercise: write `split` without it"):
        function([1, 2], 2)
    return True


def test_every_name_goes_and_comes_back(module):
    split = gpipe_edu.split_batch

    def pipeline(*, cut=split):
        return cut

    own = module("own", alias=split, table={"split": split, "other": len}, pipeline=pipeline)
    with Hidden(SPLIT):
        for found in (
            own.alias,
            own.table["split"],
            own.pipeline(),
            gpipe_edu.split_batch,
            gpipe_edu.split.split_batch,
        ):
            assert refuses(found)
        assert own.table["other"] is len
    for found in (own.alias, own.table["split"], own.pipeline(), gpipe_edu.split_batch, gpipe_edu.split.split_batch):
        assert found is split


def test_what_is_imported_later_is_hidden_too_and_has_the_function_afterwards(module):
    split = gpipe_edu.split_batch
    hidden = Hidden(SPLIT)
    early = module("early", split=split)
    with hidden:
        assert refuses(early.split)
        late = module("late", split=gpipe_edu.split_batch)
        assert refuses(late.split)
    assert early.split is late.split is split
    with hidden:
        assert refuses(early.split)
        assert refuses(late.split)
    assert early.split is late.split is split


def test_hide_stays_until_show():
    split, hidden = gpipe_edu.split_batch, Hidden(SPLIT)
    hidden.hide()
    try:
        assert refuses(gpipe_edu.split_batch)
    finally:
        hidden.show()
    assert gpipe_edu.split_batch is split


def test_a_collector_that_passes_over_what_is_there_changes_nothing():
    gc.freeze()
    try:
        with Hidden(SPLIT):
            assert refuses(gpipe_edu.split_batch)
    finally:
        gc.unfreeze()


def test_what_has_no_name_to_hide_is_an_error(module):
    module("own", __getattr__=lambda name: lambda: None)
    with pytest.raises(RuntimeError, match=r"own\.answer can't be hidden"):
        Hidden({"own.answer": "answer"})


def test_of_no_exercise_the_collector_knows_a_name_that_is_left():
    """It knows all dicts there are, those of modules, tables and defaults among them, and so is slow but sees all."""
    program = """
        import gc
        from importlib import import_module
        from gpipe_edu.judge.guest import main as inside
        from gpipe_edu.judge.exercise import all_exercises
        from gpipe_edu.judge.guest.hiding import Hidden

        for key, exercise in all_exercises().items():
            paths = [path.rpartition(".") for path in getattr(exercise.perform, "HIDDEN", {})]
            functions = [getattr(import_module(module), name) for module, _, name in paths]
            with Hidden(getattr(exercise.perform, "HIDDEN", {})):
                tables = [table for table in gc.get_referrers(*functions) if isinstance(table, dict)]
                left = {str(name) for table in tables for name, value in table.items() if value in functions}
            print(key, len(functions), *left)
    """
    left = {key: (int(count), names) for key, count, *names in map(str.split, processes.printed(program).splitlines())}
    assert {"ex01/splitting", "ex04/stage", "ex05/wrapper", "ex07/1f1b"} <= {
        key for key, (count, _) in left.items() if count
    }
    assert [key for key, (_, names) in left.items() if names] == []
