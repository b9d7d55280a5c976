"""What an answer may read: wherever packages are installed, and no other place on the path."""

import sys

from gpipe_edu.process import bubblewrap


def test_packages_are_readable_wherever_they_are_installed(tmp_path, monkeypatch):
    mine, shared, work = (tmp_path / name for name in ("mine/site-packages", "shared/dist-packages", "work"))
    for place in (mine, shared, work):
        place.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(work), *sys.path, str(mine), str(shared), str(tmp_path / "site-packages")])
    found = bubblewrap.readable_paths()
    assert {str(mine), str(shared)} <= set(found)
    assert str(work) not in found
    assert str(tmp_path / "site-packages") not in found  # it does not exist
