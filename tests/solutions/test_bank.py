"""The kill table: every wrong answer is refused for the right reason, every right one is accepted."""

from functools import cache

import pytest

from gpipe_edu.course.judging import judge
from gpipe_edu.course.task import CHECKS, task_of
from gpipe_edu.process.packing import pack

from .bank import bank, everything

SEED = 20181116


@cache
def verdict(entry):
    """Two tests ask for it, and some take seconds."""
    return judge(entry.key, pack(entry.function), SEED)


@pytest.mark.parametrize("entry", everything(), ids=lambda entry: f"{entry.key} {entry.name}")
def test_an_answer_gets_its_verdict(entry, record_property):
    record_property("bank", (entry.key, "wrong" if entry.slip else "right"))
    report = verdict(entry)
    if entry.slip:
        assert report.state == "wrong"
        assert report.finding.slip == entry.slip, report.finding
    else:
        assert report.state == "passed", report.finding


@pytest.mark.parametrize("key", CHECKS)
def test_the_bank_is_large_enough_and_names_each_misconception_once(key):
    slips = [entry.slip for entry in bank(key) if entry.slip]
    assert len(slips) >= 8
    assert len(set(slips)) == len(slips)
    assert sum(not entry.slip for entry in bank(key)) >= 2


@pytest.mark.parametrize("key", CHECKS)
def test_each_misconception_has_a_sentence_of_its_own(key):
    findings = [verdict(entry).finding for entry in bank(key) if entry.slip not in ("", "endless")]
    assert len({finding.because for finding in findings}) == len(findings)
    for finding in findings:
        assert (
            finding.because[0].isupper()
            or finding.because[0] in "`("
            or finding.because.startswith(("N ", "M ", "1F1B"))
        )
        assert finding.because.endswith((".", "?", "`"))
        assert len(finding.because) <= 300


@pytest.mark.parametrize("key", CHECKS)
def test_hints_grow(key):
    hints = task_of(key).hints
    assert len(hints) == 3
    assert all(40 <= len(text) <= 500 for text in hints)
