"""The environment check: true here, honest where something is missing or too old, the same ranges as pyproject.toml."""

import re
import tomllib
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from gpipe_edu.course import environment

ROOT = Path(__file__).resolve().parents[2]


def test_everything_the_tests_run_with_is_found():
    assert [finding.name for finding in environment.look() if finding.required and not finding.ok] == []


def test_a_missing_or_old_package_is_named_with_the_way_to_get_it(monkeypatch):
    versions = {"numpy": "1.25.9", "matplotlib": "", "cloudpickle": ""}
    monkeypatch.setattr(environment, "_find_version", lambda name: versions.get(name, "99.0"))
    bad = {finding.name: finding for finding in environment.look() if finding.required and not finding.ok}
    assert set(bad) == {"numpy >= 1.26", "matplotlib >= 3.10", "cloudpickle >= 3.1"}
    assert bad["numpy >= 1.26"].found == "1.25.9"
    assert bad["matplotlib >= 3.10"].cure == 'python -m pip install "matplotlib>=3.10"'
    assert bad["cloudpickle >= 3.1"].cure == 'python -m pip install "cloudpickle>=3.1,<3.1.3"'


def test_a_browser_is_asked_for_what_it_can_have(monkeypatch):
    monkeypatch.setattr(environment.sys, "platform", "emscripten")
    names = {finding.name.partition(" ")[0] for finding in environment.look()}
    assert names == {
        "Python", "numpy", "threadpoolctl", "cloudpickle", "packaging", "matplotlib", "ipywidgets", "anywidget",
        "traitlets", "markdown-it-py",
    }  # fmt: skip


def test_versions_compare_as_numbers(monkeypatch):
    right, wrong = ["2.11.0+cu130", "2.13.0", "3.0rc1"], ["2.9.1", "2.11rc1", "unknown", ""]
    for found, ok in [*((text, True) for text in right), *((text, False) for text in wrong)]:
        monkeypatch.setattr(environment, "_find_version", lambda name, found=found: found if name == "torch" else "99")
        torch = next(finding for finding in environment.look() if finding.name.startswith("torch"))
        assert torch.ok is ok, found


def test_the_ranges_are_those_of_pyproject_and_the_pins_lie_inside():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]  # those of teachers are no learner's
    stated = project["dependencies"] + extras["notebooks"] + extras["torch"]
    parts = [re.fullmatch(r"([\w-]+)>=([\d.]+)(?:,<([\d.]+))?", requirement).groups() for requirement in stated]
    ranges = {name: f">={oldest}" + (f",<{below}" if below else "") for name, oldest, below in parts}
    assert {name: oldest for name, oldest, _ in parts} == dict(entry[:2] for entry in environment._PACKAGES)
    assert {name: below for name, _, below in parts if below} == environment._TRIED_BELOW
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert pins.keys() == ranges.keys()
    for name, pin in pins.items():
        assert Version(pin) in SpecifierSet(ranges[name]), name
