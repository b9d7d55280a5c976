"""What has been judged is not judged again, unless what judges it is another."""

import shutil
from pathlib import Path

import pytest

import gpipe_edu
from gpipe_edu.teaching.grading.journal import judge_version


@pytest.mark.parametrize("changed", ["judging.py", "tasks/ex01_splitting/check.py", "messages.toml"])
def test_a_change_to_what_judges_is_another_version(changed, tmp_path, monkeypatch):
    package = shutil.copytree(Path(gpipe_edu.__file__).parent, tmp_path / "gpipe_edu")
    before = judge_version.__wrapped__()
    monkeypatch.setattr(gpipe_edu, "__file__", str(package / "__init__.py"))
    assert judge_version.__wrapped__() == before
    with open(package / "judge" / changed, "a", encoding="utf-8") as file:
        file.write("\n")
    assert judge_version.__wrapped__() != before
