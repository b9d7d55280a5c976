"""The doctor against the oracle on thousands of broken schedules: none accepted, and no healthy one refused."""

import re
from collections import Counter

import pytest
from hypothesis import given

from gpipe_edu import Op, Schedule
from gpipe_edu.schedule import CODES
from tests.amount import examples, fewer
from tests.each import each
from tests.oracle import expected_code, inputs, plain, play
from tests.recipes import recompute_and_split, small_schedules
from tests.strategies import RANDOM, SLIPS, slipped

pytestmark = pytest.mark.slow

LEGAL = [*small_schedules(3, 4), *(recompute_and_split(K, M) for K in (1, 2, 3) for M in (1, 2, 3))]


def build(rows):
    return Schedule([Op(*op) for op in row] for row in rows)


def spots(rows):
    return [(device, position) for device, row in enumerate(rows) for position in range(len(row))]


def edited(rng, slips=SLIPS):
    rows = plain(rng.choice(LEGAL))
    for _ in range(rng.randint(1, 4)):
        rows = slipped(rng, rows, slips)
    return rows


def test_the_doctor_agrees_with_the_oracle_on_the_first_broken_rule():
    seen: Counter = Counter()

    @examples(3000)
    @given(RANDOM)
    def agrees(rng):
        rows = edited(rng)
        expected = expected_code(rows)
        problems = build(rows).problems()
        assert (problems[0].code if problems else None) == expected, "\n" + str(build(rows))
        seen[expected] += 1

    agrees()
    assert set(seen) == {None, *CODES} - {"unreadable"}
    assert min(seen.values()) >= 3
    assert min(seen[None], seen.total() - seen[None]) > seen.total() / 10


@examples(1000)
@given(RANDOM)
def test_every_problem_names_an_op_that_is_there_or_one_that_is_missing(rng):
    rows = edited(rng)
    there = {op for row in rows for op in row}
    for problem in build(rows).problems():
        if problem.code == "empty":
            assert problem.op is None
            continue
        assert (tuple(problem.op) in there) == (problem.code != "missing"), problem
        assert str(problem.op) in problem.message
        assert re.search(r"device \d", problem.message)


LINK = re.compile(r"(\S+) on device (\d+) waits for ([^\s,]+).* device (\d+)(?: runs after ([^\s,;]+))?")


def read(word):
    kind, m, k = re.fullmatch(r"(\w)(\d+)@(\d+)", word).groups()
    return kind, int(m), int(k)


def test_every_link_of_every_deadlock_is_true():
    lengths = []

    @examples(2000)
    @given(RANDOM)
    def true(rng):
        rows = edited(rng, ["swap", "shift"])
        if expected_code(rows) != "deadlock":
            return
        (problem,) = build(rows).problems()
        links = problem.message.removeprefix("deadlock: ").split(f";\n{' ' * 10}")
        lengths.append(len(links))
        there, ran = {op for row in rows for op in row}, set(play(rows))
        stages = 1 + max(k for _, _, k in there)
        for link, following in zip(links, links[1:] + links[:1], strict=True):
            waiting, device, awaited, neighbour, before = LINK.match(link).groups()
            if before is None:  # "which is next on device 1" and the like: the awaited op is itself at the head
                before = awaited
            else:
                row = rows[int(neighbour)]
                assert row.index(read(awaited)) > row.index(read(before)), "an op does not stand behind itself: " + link
            assert following.startswith(f"{before} on device {neighbour}")
            assert read(before) not in ran
            assert read(waiting) in rows[int(device)]
            assert read(awaited) in inputs(read(waiting), there, stages)
            assert not {read(waiting), read(awaited)} & ran
        assert tuple(problem.op) == read(links[0].split()[0])

    true()
    assert len(lengths) >= fewer(80)
    assert max(lengths) >= 3


@each("schedule", LEGAL)
def test_every_legal_schedule_is_accepted_by_doctor_and_oracle(schedule):
    assert schedule.problems() == []
    assert expected_code(plain(schedule)) is None


def test_a_dropped_op_is_missing_unless_its_absence_leaves_another_legal_schedule_or_gap():
    for schedule in LEGAL:
        if schedule.devices < 2 or schedule.micro_batches < 2:
            continue  # there a drop can empty a device or leave a number unused
        for device, position in spots(schedule.rows):
            rows = plain(schedule)
            kind, m, k = rows[device].pop(position)
            problems = build(rows).problems()
            if kind == "R":
                assert problems == [], "without its R a micro-batch simply is not recomputed"
                continue
            assert [problem.code for problem in problems] == ["missing"]
            # A finisher that is gone is asked for by its plainest name among those that are used elsewhere.
            used = {letter for row in rows for letter, _, _ in row}
            finishers = "BI" if ("R", m, k) in rows[device] else "BCI"
            wanted = next((one for one in finishers if one in used), "B") if kind in "BC" else kind
            assert problems[0].op == Op(wanted, m, k)


def test_an_op_that_is_there_twice_is_a_duplicate_wherever_the_second_one_stands():
    for schedule in LEGAL:
        for device, position in spots(schedule.rows):
            for place in (0, len(schedule.rows[device])):
                rows = plain(schedule)
                op = rows[device][position]
                rows[device].insert(place, op)
                assert [(p.code, p.op) for p in build(rows).problems()] == [("duplicate", Op(*op))]


def test_an_op_moved_to_another_device_splits_its_stage():
    for schedule in LEGAL:
        for device, position in spots(schedule.rows):
            for other in range(schedule.devices):
                rows = plain(schedule)
                if other == device or sum(op[2] == rows[device][position][2] for op in rows[device]) < 2:
                    continue
                op = rows[device].pop(position)
                rows[other].append(op)
                problems = build(rows).problems()
                assert {problem.code for problem in problems} == {"split-stage"}
                if sum(op[2] == other_op[2] for other_op in rows[device]) > 1:
                    assert [problem.op for problem in problems] == [Op(*op)]


def test_a_backward_before_its_forward_is_an_order_problem():
    for schedule in LEGAL:
        for device, row in enumerate(plain(schedule)):
            for position, (kind, m, k) in enumerate(row):
                if kind in "BCI":
                    rows = plain(schedule)
                    rows[device].insert(0, rows[device].pop(position))
                    problems = build(rows).problems()
                    assert problems[0].code == "order"
                    assert problems[0].op == Op(kind, m, k)
