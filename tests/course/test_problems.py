"""The problems at each lesson's end: every answer worked out in another way than the file has it, and the judge."""

import math

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu.base import store
from gpipe_edu.course import attempt, challenge
from gpipe_edu.course.lessons import LESSONS
from gpipe_edu.data import paper
from gpipe_edu.sizing import Machine, costs, presets
from gpipe_edu.timeline import peak_memory
from tests.each import each

PROBLEMS = challenge._entries("problems.toml")


def idle_left(costs):
    """What zero bubble leaves of 1F1B's idle time, by simulation."""
    return ge.simulate(ge.zero_bubble(4, 8), costs).idle(0) / ge.simulate(ge.one_f_one_b(4, 8), costs).idle(0)


def step(schedule, **costs):
    return ge.simulate(schedule, ge.Costs(**costs)).makespan


def bubble(schedule, **costs):
    return 100 * ge.simulate(schedule, ge.Costs(**costs)).bubble_fraction


def busy_bound(costs):
    """By planning: the share of work in what a hundred more micro-batches take, so without filling and draining."""
    few, many = (step(ge.one_f_one_b(len(costs), M), F=costs, B=costs) for M in (100, 200))
    return 100 * 100 * 2 * sum(costs) / (len(costs) * (many - few))


def least(fits):
    return next(count for count in range(1, 10_000) if fits(count))


def messages(schedule):
    home = schedule.device_of_stage
    return 2 * schedule.micro_batches * sum(home[k] != home[k + 1] for k in range(schedule.stages - 1))


def sent_in_a_ring(D, numbers):
    """Numbers that device 0 hands on while every device comes to hold the sum: counted piece by piece."""
    pieces, sent = [numbers / D] * D, 0.0
    for _half in ("reduce-scatter", "all-gather"):
        sent += sum(pieces[(0 - turn) % D] for turn in range(D - 1))
    return sent


def tokens_of_equal_work(thousands):
    """As many as a block of width 4,096 gets through in 1e15 operations, in texts of so many k."""
    h, s = 4096, 1024 * thousands
    return 1e15 / (2 * 12 * h * h + 2 * 2 * s * h)


EIGHT_NODES = Machine(64, memory=1, speed=1, link=1e15, network=50e9, node=8)


def state_of_the_first(dense, experts, devices, group):
    """Bytes on device 0: for each part of the weights its holders are listed, who divide the optimizer's state."""
    parts = [(dense, range(devices)), *((experts / group, range(part, devices, group)) for part in range(group))]
    return sum(size * (6 + 12 / len(holders)) for size, holders in parts if 0 in holders)


def agree(p, places=1_000_000):
    one, other = np.random.default_rng(0).random((2, places)) < p
    return 100 * (one == other).mean()


def newest(M, momentum=0.1):
    running = 0.0
    for _ in range(M):
        running += momentum * (1 - running)
    return 100 * running


def first_device(r=16, boundary=67e6):
    plan = ge.simulate(ge.one_f_one_b(4, 40))
    return max(peak_memory(plan, boundary=boundary, interior=8 * r * boundary)) / 1e9


def table_one():
    [row] = [row for row in paper.CAPACITY["AmoebaNet-D"] if row.accelerators == 4]
    return row.parameter_bytes / row.parameters


TABLE_TWO = paper.THROUGHPUT["Transformer"]
WORKED_OUT = {
    "00/boxes": lambda: sum(len(row) for row in ge.gpipe(3, 5).rows),
    "00/largest-piece": lambda: max(map(len, ge.split_batch(np.arange(100), 8))),
    "00/idle-share": lambda: 100 * 4 * (60 - 42) / (4 * 60),
    "01/adam-bill": lambda: 8 * (2 + 4 + 4 + 4 + 4),
    "01/naive-idle-seconds": lambda: ge.simulate(ge.naive(16, 1), ge.Costs(F=1, B=2)).idle(5),
    "01/devices-for-405b": lambda: least(lambda n: n * (80 - 8) >= 405.8 * 18),
    "02/largest-stage": lambda: max(ge.balance_uniform(22, 4)),
    "02/head-on-the-last-stage": lambda: busy_bound([4] * 7 + [6]),
    "02/link-gigabytes": lambda: sum(1e6 * 4096 * 2 / 1e9 for way in ("forward", "back")),
    "03/bubble": lambda: bubble(ge.gpipe(8, 32)),
    "03/held-by-device-2": lambda: 1.5 * ge.simulate(ge.one_f_one_b(8, 64)).peak_in_flight[2],
    "03/micro-batches-for-a-tenth": lambda: least(lambda M: ge.formulas.bubble_fraction(16, M) <= 0.1),
    "04/last-weight": lambda: 1 - 30 / 64 - 30 / 64,
    "04/loss-over-tokens": lambda: np.mean([2.0] * 3000 + [3.0] * 1000),
    "04/accumulation-steps": lambda: least(lambda M: 32 * 2 * M == 8 * 2 * 16),
    "05/late-step": lambda: step(ge.gpipe(4, 12, "late"), F=10, B=20),
    "05/peak": lambda: max(peak_memory(ge.simulate(ge.gpipe(8, 16, "late")), boundary=4, interior=16 * 4 * 4)),
    "05/first-device-gigabytes": first_device,
    "06/nap-step": lambda: step(ge.gpipe(4, 13), F=5, B=10),
    "06/lost-in-the-ops": lambda: 100 * (1 - (450 - 420) / (450 - 300)),
    "06/launches": lambda: max(200 * 10, 200 * 4) / 1000,
    "07/newest-share": lambda: newest(16),
    "07/largest-M": lambda: max(M for M in range(1, 513) if min(map(len, ge.split_batch(np.arange(512), M))) >= 32),
    "07/masks-agree": lambda: agree(0.2),
    "08/best-M": lambda: min(range(1, 400), key=lambda M: (M + 4) * (2 + 800 / M)),
    "08/largest-gain": lambda: 4 * busy_bound([2, 1, 1, 1]) / 100,
    "08/bubble-of-a-plan": lambda: bubble(ge.one_f_one_b(8, 1024 // 8 // 2)),
    "09/interleaved-bubble": lambda: bubble(ge.interleaved(8, 32, 4), F=1 / 4, B=1 / 2),
    "09/zb-h1-long-texts": lambda: 100 * idle_left(ge.Costs.of_transformer(4096, 32768)),
    "09/messages-gigabytes": lambda: messages(ge.interleaved(8, 32, 4)) * 67e6 / 1e9,
    "10/carried-numbers": lambda: sum(1024 for boundary in range(4)) - 1024,
    "10/passing-megabytes": lambda: np.zeros((256, 1024), dtype=np.float32).nbytes / 1e6,
    "10/bottom-cut": lambda: (
        sum(side * side * depth for side, depth in ((64, 64), (32, 128), (16, 256), (8, 512))) * 2e-6
    ),
    "11/four-to-eight": lambda: TABLE_TWO[8, 32] / TABLE_TWO[4, 32],
    "11/bytes-per-parameter": table_one,
    "11/ratio-by-formula": lambda: step(ge.gpipe(2, 32), F=4, B=8) / step(ge.gpipe(8, 32)),
    "12/first-loss": lambda: -math.log(1 / 50_257),
    "12/head-and-blocks": lambda: busy_bound([8, 8, 8, 9.84]),
    "12/step-seconds": lambda: 1e6 * 8.03e9 * (2 + 4) / (64 * 0.4 * 989e12),
    "13/missed-updates": lambda: ge.simulate(ge.one_f_one_b(16, 40)).peak_in_flight[3] - 1,
    "13/stashed-gigabytes": lambda: ge.simulate(ge.one_f_one_b(4, 40)).peak_in_flight[1] * 8 * 2 / 4,
    "13/hours-saved": lambda: 100 * 8 * (1 + 2) / step(ge.one_f_one_b(4, 8)),
    "14/ring-gigabytes": lambda: sent_in_a_ring(8, 8e9) * 4 / 1e9,
    "14/zero-1-gigabytes": lambda: 70 * 18 - 70 * 12 * 15 / 16,
    "14/405b-per-device": lambda: presets.model("llama3-405b").parameters / 8 / 16 * (6 + 12 / 128) / 1e9,
    "15/messages": lambda: messages(ge.one_f_one_b(4, 12)) / 3,
    "15/milliseconds-on-the-link": lambda: 1000 * 4 * np.zeros((8192, 4096), dtype=np.float16).nbytes / 25e9,
    "15/saving-seconds": lambda: 70e9 * 3 * 4 / 64 / 2e9,
    "16/crossing-share": lambda: 100 * sum(a != b for a in range(16) for b in range(16)) / 16**2,
    "16/dispatch-milliseconds": lambda: 1e3 * costs.exchange(7168, 8, 64, 1, 0, False, EIGHT_NODES) * 4096,
    "16/state-gigabytes": lambda: state_of_the_first(dense=1, experts=16, devices=32, group=16),
    "17/padding": lambda: 100 * np.mean([[token >= text for token in range(16)] for text in (16, 8, 4, 4, 2, 2, 2, 2)]),
    "17/gpipe-step": lambda: ge.simulate(ge.gpipe(4, 4), ge.Costs(micro_batches=[3, 8, 1, 6])).makespan,
    "17/equal-work-tokens": lambda: tokens_of_equal_work(1) / tokens_of_equal_work(32),
}


def said(capsys, key, answer=None):
    assert attempt(key, answer) is None
    return " ".join(capsys.readouterr().out.split())


def test_every_lesson_has_three():
    assert list(PROBLEMS) == list(WORKED_OUT)
    for one in LESSONS:
        assert sum(key.startswith(f"{one.number}/") for key in PROBLEMS) == 3, one.number


@pytest.mark.parametrize("key", PROBLEMS)
def test_the_answer_is_right_and_no_slip_is_taken_for_it(capsys, key):
    problem = PROBLEMS[key]
    worked_out = WORKED_OUT[key]()
    assert math.isclose(worked_out, problem["answer"], rel_tol=0 if isinstance(problem["answer"], int) else 0.003)
    given = round(worked_out) if isinstance(problem["answer"], int) else float(f"{worked_out:.3g}")
    assert said(capsys, key, given).startswith("Solved.")
    assert challenge.solved() == [key]
    assert problem["wrong"]
    for slip in problem["wrong"]:
        told = said(capsys, key, slip["answer"])
        assert told.startswith(f"Not yet. {slip['because']}"), told


def test_another_number_is_told_on_which_side_it_is_and_a_question_mark_shows_the_way(capsys):
    assert '0.5 is too small. ("?" in its place shows how it is worked out.)' in said(capsys, "03/bubble", 0.5)
    assert "99 is too large." in said(capsys, "03/bubble", 99)
    assert said(capsys, "03/bubble", "?") == "Worked out: (K−1)/(M+K−1) = 7/39 = 17.9 %."
    assert store.read("challenges") == {}


def test_without_a_number_the_question_is_asked(capsys):
    text = said(capsys, "03/bubble")
    assert text.startswith("Wanted: Eight even stages")
    assert text.endswith("A number, in per cent.")


@each("answer", ["17.9", "17,9", True, float("nan"), [17.9], np.zeros(3)])
def test_what_is_no_number_is_a_type_error(answer):
    with pytest.raises(TypeError, match="must be a number, in per cent"):
        attempt("03/bubble", answer)


@pytest.mark.parametrize("answer", [17.9, 18, np.float64(17.95), np.float32(17.9)])
def test_a_number_may_be_rounded_and_of_any_kind(capsys, answer):
    assert said(capsys, "03/bubble", answer).startswith("Solved.")


def test_all_of_them_may_be_left_out():
    assert all(challenge.optional(key) for key in PROBLEMS)
