"""The kill table: every wrong answer is refused for the right reason, every right one is accepted."""

from functools import cache

import pytest

from gpipe_edu.judge.exercise import all_exercises, find_exercise
from gpipe_edu.schedule.doctor import CODES
from gpipe_edu.teaching.authoring import texts, verdicts
from gpipe_edu.teaching.authoring.material import Material

from .bank import bank, everything
from .judged import task
from .shares import share_of


@cache
def verdict(entry, worker):
    """Two tests ask for it, and some take seconds."""
    return worker.report(task(entry))


@pytest.mark.parametrize("entry", everything(), ids=lambda entry: f"{entry.key} {entry.name}")
def test_an_answer_gets_its_verdict(entry, worker, record_property):
    record_property("bank", (entry.key, "wrong" if entry.slip else "right"))
    report = verdict(entry, worker)
    if entry.slip:
        assert report.state == ("passed" if share_of(entry) else "wrong"), report
        assert verdicts.explain(report) == entry.slip, report
        assert not {"inf%", "nan%"} & set(report.first.came.split()), report
    else:
        assert (report.state, report.passed_over) == ("passed", ()), report
        assert report.success.words, report
        assert abs(report.calls - find_exercise(entry.key).cases) <= 2  # learners are told "case 4 of 11"


@pytest.mark.parametrize("key", all_exercises())
def test_bank_and_sentences_are_whole(key):
    """What `exercise check` says of them without judging: tests/authoring breaks each."""
    material = Material(key)
    assert list(texts.sentences(material)) == []
    assert list(texts.slips(material, bank(key))) == []
    assert list(texts.bank(material, bank(key))) == []


@pytest.mark.parametrize("key", all_exercises())
def test_each_misconception_has_a_sentence_of_its_own(key, worker):
    reports = [verdict(entry, worker) for entry in bank(key) if entry.slip]
    findings = [found for report in reports for found in report.findings]
    assert list(verdicts.sentences(Material(key), findings)) == []


def test_every_sentence_that_exercises_share_is_met_by_an_answer():
    assert list(texts.shared_slips(everything())) == []
    assert {entry.slip for entry in everything()} & set(CODES)  # what the doctor says is told under its own codes
