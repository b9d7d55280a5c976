"""The kill table: every wrong answer is refused for the right reason, every right one is accepted."""

import re
import tomllib
from functools import cache

import pytest

from gpipe_edu.judge.exercise import all_exercises, find_exercise
from gpipe_edu.schedule.doctor import CODES
from gpipe_edu.teaching.authoring import texts, verdicts
from gpipe_edu.teaching.authoring.material import Material
from gpipe_edu.timeline import formulas
from tests.amount import one_of_each

from .bank import bank, everything
from .judged import task
from .shares import share_of

DUE = one_of_each(everything(), lambda entry: (entry.key, entry.slip or entry.name))
"""Every right answer, and every misconception; of several answers that show the same one daily one."""


@cache
def verdict(entry, worker):
    """Two tests ask for it, and some take seconds."""
    return worker.report(task(entry))


@pytest.mark.parametrize("entry", DUE, ids=lambda entry: f"{entry.key} {entry.name}")
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


LATE = formulas.makespan_late(4, 6)
TOLD = {
    "ex01/splitting": ("into pieces of ", [7, 7, 6, 6, 6, 6, 6, 6]),
    "ex02/clock": ("The 24 forwards took ", [4 + 6 - 1]),
    # Of 64 digits in float64: six layers of 32 outputs twice, then four of 32 and one of 10; with it, two boundaries.
    "ex04/checkpoint": ("layers' outputs took ", [64 * 8 * (2 * 6 * 32 + 4 * 32 + 10), 64 * 8 * 2 * 32]),
    "ex07/1f1b": ("they hold at most ", [4, 3, 2, 1]),
    "ex09/early": ("early recompute takes ", [LATE - 3 - 1, LATE]),  # this one leaves an R out
    "ex11/order": ("a device idles for ", [4 - 1]),
    "ex12/interleaved": ("each device idles for ", [9, 9 / 2, 9 / 4]),
    "ex13/ring": ("device 0 sent ", [2 * 3 / 4 * 1002]),
    "ex13/zero1": ("had m and v for its ", [1002 // 4, 2 * (1002 // 4), 2 * 1002]),
}
"""The numbers after these words, in what is said of a right answer, worked out here."""


@pytest.mark.parametrize("key", all_exercises())
def test_what_is_said_of_a_right_answer_is_true(key, worker):
    right = next(entry for entry in bank(key) if not entry.slip)
    words = verdict(right, worker).success.words
    errors = [float(found) for found in re.findall(r"\d+e-\d+", words)]
    assert all(error < (1e-2 if key == "ex14/buffer" else 1e-12) for error in errors), words
    after, wanted = TOLD.get(key, ("", []))
    rest = words.partition(after)[2] if after else ""
    found = re.findall(r"\d+(?:,\d{3})+|\d+(?:\.\d+)?", rest)[: len(wanted)]
    assert [float(number.replace(",", "")) for number in found] == wanted, words


ELSEWHERE = {
    "empty-stage": "in 06 the cut that it finds is wrong; in 05 a balance that was given is not refused",
    "eval-mode": "in 04 other stages run again than those asked for; elsewhere a mode is not put back",
    "layer-mode": "in 04 the recompute then runs in another mode than the forward",
    "other-cut": "in 05 the layers of a stage, in 14 the samples of a mini-batch",
    "overwritten": "in 04 what the stage before has kept, in 11 what no one reads again",
    "unfrozen": "in 03 the next step trains what is frozen; in 05 nothing is trained",
}
"""Slips that cost a promise in one task and the pass in another, and what makes them two slips of one name."""


def test_a_slip_costs_the_same_in_every_task():
    told = [tomllib.loads(Material(key).messages.read_text(encoding="utf-8"))["slips"] for key in all_exercises()]
    promises = [find_exercise(key).promises for key in all_exercises()]
    somewhere = {slip for each in promises for slip in each}
    costly = {slip for slips, kept in zip(told, promises, strict=True) for slip in slips if slip not in kept}
    assert somewhere & costly == ELSEWHERE.keys()


@pytest.mark.parametrize("key", all_exercises())
def test_bank_and_sentences_are_whole(key):
    """What `exercise check` says of them without judging: tests/authoring breaks each."""
    material = Material(key)
    assert list(texts.sentences(material)) == []
    assert list(texts.slips(material, bank(key))) == []
    assert list(texts.bank(material, bank(key))) == []


@pytest.mark.parametrize("key", all_exercises())
def test_each_misconception_has_a_sentence_of_its_own(key, worker):
    reports = [verdict(entry, worker) for entry in DUE if entry.key == key and entry.slip]
    findings = [found for report in reports for found in report.findings]
    assert list(verdicts.sentences(Material(key), findings)) == []


def test_every_sentence_that_exercises_share_is_met_by_an_answer():
    assert list(texts.shared_slips(everything())) == []
    assert {entry.slip for entry in everything()} & set(CODES)  # what the doctor says is told under its own codes
