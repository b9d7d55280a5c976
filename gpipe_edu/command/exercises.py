"""`build`, `progress` and `reset`: the exercises, from a terminal."""

from __future__ import annotations

from gpipe_edu.course import progress as how_far
from gpipe_edu.course import reset as start_anew
from gpipe_edu.course.building.build import ROOT
from gpipe_edu.course.building.build import build as build_all
from gpipe_edu.course.building.glossary_links import define_terms

from .common import bad_arguments


def build(beside: bool) -> int:
    """Write exercises/ from solutions/, and definitions into lessons; returns 1 if a notebook was left alone."""
    with bad_arguments():
        built = build_all(beside=beside)
        defined = define_terms(ROOT)
    for one in built:
        print(one)
    for path in defined:
        print(f"{path.name}: definitions from the glossary written")
    return int(any(one.what == "kept" for one in built))


def progress() -> int:
    """Print what is solved."""
    print(how_far())
    return 0


def reset(key: str) -> int:
    """Start one exercise anew."""
    with bad_arguments():
        start_anew(key)
    return 0
