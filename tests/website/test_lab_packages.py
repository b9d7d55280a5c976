"""What the lab's lock file says of packages, and that no other file than Pyodide's own is taken for one."""

import pytest

from tests.website.conftest import ROOT
from website import fetched, lab, wheel


def test_our_wheel_needs_what_a_browser_needs_of_it(tmp_path):
    entry = lab._entry(wheel.build(ROOT, tmp_path), {})
    assert entry["name"] == "gpipe-edu"
    assert entry["depends"] == list(wheel.NEEDED)


def test_a_package_needs_nothing_that_is_for_other_systems(tmp_path, monkeypatch):
    needs = (
        "Some.Thing",
        'shell; sys_platform != "emscripten"',
        'page; sys_platform == "emscripten"',
        'x; extra == "y"',
    )
    monkeypatch.setattr(wheel, "NEEDED", needs)
    entry = lab._entry(wheel.build(ROOT, tmp_path), {"gpipe-edu": {"imports": ["a"], "depends": ["b"]}})
    assert entry["depends"] == ["some-thing", "page"], (
        "and nothing that Pyodide's own lock file says of another version"
    )
    assert entry["imports"] == ["a"]


def test_a_file_with_another_sum_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(fetched, "CACHE", tmp_path)
    monkeypatch.setattr(fetched, "COMPILED", ("numpy",))
    right = "9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0"
    monkeypatch.setattr(fetched, "read_lock", lambda: {"packages": {"numpy": {"file_name": "n.whl", "sha256": right}}})
    (tmp_path / "n.whl").write_bytes(b"aaa")
    assert fetched.fetch() == [tmp_path / "n.whl"]
    (tmp_path / "n.whl").write_bytes(b"aab")
    with pytest.raises(ValueError, match=r"n\.whl has the sum .* another file"):
        fetched.fetch()
