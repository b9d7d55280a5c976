"""The kill table: every wrong answer is refused for the right reason, every right one is accepted."""

import dataclasses
import enum
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from gpipe_edu import exercises as room
from gpipe_edu.exercises import all_exercises, find_exercise
from gpipe_edu.exercises.judging import judge
from gpipe_edu.process.packing import pack
from gpipe_edu.schedule.doctor import CODES

from .bank import bank, everything

SEED = 20181116


@cache
def verdict(entry, start):
    """Two tests ask for it, and some take seconds."""
    return judge(find_exercise(entry.key), pack(entry.function), SEED, start=start)


@pytest.mark.parametrize("entry", everything(), ids=lambda entry: f"{entry.key} {entry.name}")
def test_an_answer_gets_its_verdict(entry, start, record_property):
    record_property("bank", (entry.key, "wrong" if entry.slip else "right"))
    report = verdict(entry, start)
    if entry.slip:
        assert report.state == "wrong"
        assert report.finding.slip == entry.slip, report.finding
    else:
        assert report.state == "passed", report.finding


@pytest.mark.parametrize("key", all_exercises())
def test_the_bank_is_large_enough(key):
    assert len({entry.slip for entry in bank(key) if entry.slip}) >= 8
    assert len({entry.name for entry in bank(key)}) == len(bank(key))
    assert sum(not entry.slip for entry in bank(key)) >= 2


@pytest.mark.parametrize("key", all_exercises())
def test_right_answers_have_helpers_of_every_kind(key):
    """Python makes a dataclass, an Enum and a NamedTuple in ways of its own, and each has to travel."""
    modules = {sys.modules[entry.function.__module__] for entry in bank(key) if not entry.slip}
    known = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    helpers = [one for one in known if one.__module__ in {module.__name__ for module in modules}]
    assert any(dataclasses.is_dataclass(one) for one in helpers)
    assert any(issubclass(one, enum.Enum) for one in helpers)
    assert any(issubclass(one, tuple) for one in helpers)


@pytest.mark.timeout(900)  # alone it judges the whole bank
@pytest.mark.parametrize("key", all_exercises())
def test_each_misconception_has_a_sentence_of_its_own(key, start):
    findings = [verdict(entry, start).finding for entry in bank(key) if entry.slip not in ("", "endless")]
    slips = {finding.because: finding.slip for finding in findings}
    assert set(slips.values()) == {finding.slip for finding in findings}
    assert all(slips[finding.because] == finding.slip for finding in findings)
    for finding in findings:
        assert (
            finding.because[0].isupper()
            or finding.because[0] in "`("
            or finding.because.startswith(("N ", "M ", "1F1B"))
        )
        assert finding.because.endswith((".", "?", "`"))
        assert len(finding.because) <= 300


@pytest.mark.parametrize("key", all_exercises())
def test_every_slip_with_a_sentence_is_met_by_an_answer(key):
    """A sentence that no answer in the bank ever gets is one that nobody has seen to be true."""
    said = tomllib.loads(Path(find_exercise(key).check.__file__).with_name("said.toml").read_text(encoding="utf-8"))
    assert set(said["slips"]) <= {entry.slip for entry in bank(key)}


def test_every_sentence_that_exercises_share_is_met_by_an_answer():
    shared = tomllib.loads(Path(room.__file__).with_name("said.toml").read_text(encoding="utf-8"))["slips"]
    met = {entry.slip for entry in everything()}
    assert met & set(CODES)  # what the doctor says is told as "cannot-run", under the doctor's own codes,
    tested_with_the_check = {"cannot-run", "strange"}  # and what breaks the judge in test_check.py
    assert set(shared) - tested_with_the_check <= met


@pytest.mark.parametrize("key", all_exercises())
def test_hints_grow(key):
    hints = find_exercise(key).hints
    assert len(hints) == 3
    assert all(40 <= len(text) <= 500 for text in hints)
