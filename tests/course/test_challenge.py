"""Challenges are judged by what an answer reaches, and a solved one is kept."""

import math
from itertools import chain, combinations, pairwise, permutations

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.base import store
from gpipe_edu.course import attempt, challenge
from gpipe_edu.data import digits
from gpipe_edu.schedule.recompute import add_recompute
from gpipe_edu.timeline import order_micro_batches
from tests.each import each


def parts(op):
    """A backward's two halves, one after the other."""
    return [ge.Op(kind, op.micro_batch, op.stage) for kind in "IW"] if op.kind == "B" else [op]


LEAN = "F0 F1 F2 B0 F3 B1 B2 B3\nF0 F1 B0 F2 B1 F3 B2 B3\nF0 B0 F1 B1 F2 B2 F3 B3"


V = """F0@0 F1@0 F0@3 B0@3 F1@3 B1@3 B0@0 B1@0
F0@1 F0@2 F1@1 F1@2 B0@2 B0@1 B1@2 B1@1"""
IN_TURN = ge.Schedule([[op for each in row for op in parts(each)] for row in ge.one_f_one_b(3, 4).rows])
BACK_AND_FORTH = "F0@0 F0@2 B0@2 B0@0 F1@0 F1@2 B1@2 B1@0\nF0@1 F0@3 B0@3 B0@1 F1@1 F1@3 B1@3 B1@1"
PACKS = ge.Costs(micro_batches=challenge._wishes()["17/order"]["packs"])
WANTED = {
    "00/repair": "a schedule that can run, as text: 2 lines, one for each device, with the ops of all 2 micro-batches.",
    "01/largest-batch": "the largest mini-batch that fits into 8 MB, as a whole number of samples.",
    "02/cut": "3 numbers such as (3, 3, 3) whose sum is 9, so that no stage costs more than 6. "
    "The layers cost 6, 1, 1, 1, 2, 1, 2, 2, 2.",
    "03/by-hand": "3 lines, one for each device, with the ops of all 4 micro-batches; its step takes at most 18 units.",
    "05/two-peaks": "of one layer a device holds at its peak. M divides N, and K divides L.",
    "06/worker": "Hand over the function itself, without a call.",
    "05/recompute-few": "so that no device holds more than 32 blocks and the step takes at most 38 units.",
    "06/own-order": "all 4 micro-batches; the devices, from 0 on, hold at most 2, 1 micro-batches.",
    "09/by-hand": "all 2 micro-batches in all 4 stages, such as F0@3; its step takes at most 7.5 units.",
    "02/pieces": "the sizes of 4 micro-batches into which 14 samples are cut as evenly as possible, and the "
    "weight of each in the mean loss.",
    "02/sends-little": "so that no stage costs more than 36 and the cuts send at most 32 numbers per sample, where the "
    "layers put out 128, 16, 128, 128, 128, 16, 128, 10. The layers cost 8, 2, 2, 16, 16, 2, 2, 1.",
    "08/fit": "the Transformer of the lesson on 4 devices of 0.8 GB with 48 sequences a step, as a dict with some of "
    "D, K, M, tensor, zero, recompute and schedule, that fits and whose step takes at most 0.41 seconds.",
    "09/zero-bubble-by-hand": "all 4 micro-batches, each backward as an I and a W; its step takes at most 14 units; "
    "the devices, from 0 on, hold at most 3, 3, 3 micro-batches.",
    "09/v-by-hand": "such as F0@3, where stages 0 to 3 are on devices 0, 1, 1, 0; its step takes at most 8 units.",
    "13/largest-rate": "although each gradient is seven updates old. A number, in decimal form.",
    "14/fit": "recompute and schedule, that fits and whose step takes at most 38 seconds.",
    "15/order": "all 4 micro-batches; its step takes at most 13 units.",
    "16/link-copies": "Copies on the link from device 1 to device 0. A number, in copies.",
    "16/exposed": "how much longer the pair takes than its products. A number, in ms.",
    "17/pack-work": "if a token in a text of s k costs 6 + s. A number, in units of the lesson.",
    "17/order": "the numbers of the packs in the order in which they run under 1F1B, a list such as [0, 1, 2, 3, 4, 5, "
    "6, 7], so that the planned step takes at most 505.",
    "17/fits": "so that no device holds more than 18, and the planned step takes at most 165.",
    "17/encoder": 'the order of the packs and the layers of each stage, as a dict such as {"order": [0, 1, 2, 3, 4, '
    '5], "cut": (4, 4, 4, 3)}, so that no device holds more than 12, and the planned step takes at most 112.',
    "03/lean": "its step takes at most 18 units; the devices, from 0 on, hold at most 3, 2, 1 micro-batches.",
}


def said(capsys, key, answer):
    assert attempt(key, answer) is None
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("00/repair", "F0 F1 B0 B1\nF0 F1 B0 B1"),
        ("00/repair", "F0 B0 F1 B1\nF0 B0 F1 B1"),
        ("01/largest-batch", 108),
        ("03/by-hand", ge.gpipe(3, 4)),
        ("03/by-hand", LEAN),
        ("02/cut", (1, 5, 3)),
        ("02/cut", [1, 5, 3]),
        ("03/lean", LEAN),
        ("03/lean", ge.one_f_one_b(3, 4)),
        ("05/recompute-few", [0, 1, 2, 3, 4]),
        ("05/recompute-few", {4, 3, 2, 1, 0}),
        ("05/recompute-few", range(5)),
        ("06/own-order", ge.one_f_one_b(2, 4)),
        ("09/by-hand", ge.interleaved(2, 2, 2)),
        ("02/pieces", ([4, 4, 3, 3], [4 / 14, 4 / 14, 3 / 14, 3 / 14])),
        ("02/pieces", [(3, 4, 3, 4), (3 / 14, 4 / 14, 3 / 14, 4 / 14)]),
        ("02/sends-little", (2, 4, 2)),
        ("08/fit", {"D": 2, "K": 2, "M": 8}),
        ("08/fit", {"K": 4, "M": 12, "recompute": "none"}),
        ("09/zero-bubble-by-hand", ge.zero_bubble(3, 4)),
        ("09/v-by-hand", V),
        ("13/largest-rate", 0.21),
        ("16/link-copies", 4),
        ("16/exposed", 2),
        ("14/fit", {"D": 1, "K": 4, "M": 128, "tensor": 8}),
        ("14/fit", {"D": 32, "M": 4, "zero": 3, "recompute": "full"}),
        ("15/order", ge.zero_bubble(2, 4)),
        ("17/pack-work", 11.0),
        ("17/order", [4, 7, 0, 3, 6, 5, 2, 1]),
        ("17/order", order_micro_batches(ge.one_f_one_b(4, 8), PACKS).order),
        ("17/fits", (0, 4, 3, 7, 2, 6, 1, 5)),
        ("17/encoder", {"order": [0, 2, 1, 4, 3, 5], "cut": (2, 3, 5, 5)}),
    ],
)
def test_any_way_there_is_right_and_is_kept(capsys, key, answer):
    assert said(capsys, key, answer).startswith("Solved.")
    assert challenge.solved() == [key]
    assert store.read("challenges") == {key: "solved"}


@pytest.mark.parametrize(
    ("key", "answer", "told"),
    [
        ("00/repair", "F0 B0 F1 B1\nF0 F1 B0 B1", "It cannot run: "),
        ("00/repair", "F0 B0 Q", "It cannot run: "),
        (
            "00/repair",
            ge.gpipe(3, 3),
            "has 3 devices, 3 micro-batches, and needs 2 devices with a stage each and 2 micro-batches",
        ),
        ("01/largest-batch", 109, "it does not fit"),
        ("01/largest-batch", 107, "a larger one fits, too"),
        ("01/largest-batch", 0, "at least one sample"),
        ("03/by-hand", ge.naive(3, 4), "it takes 36 units and may take 18"),
        ("02/cut", (3, 3, 3), "The stages cost 8, 4, 6: stage 0 is over 6."),
        ("02/cut", (3, 3, 4), "There are 9 layers, and yours are 10."),
        ("02/cut", (3, 6), "There are 3 stages, and you gave 2 numbers."),
        ("02/cut", (0, 6, 3), "Stage 0 gets no layer"),
        ("03/lean", ge.gpipe(3, 4), "the devices hold 4, 4, 4 micro-batches and may hold 3, 2, 1"),
        ("03/lean", ge.naive(3, 4), "it takes 36 units"),
        ("05/recompute-few", list(range(8)), "the step takes 41 units: it fits, and can be faster."),
        ("05/recompute-few", [], "A device holds up to 72 blocks, and the step takes 33 units: there is room for 32"),
        ("06/own-order", ge.gpipe(2, 4), "the devices hold 4, 4 micro-batches and may hold 2, 1"),
        ("09/by-hand", ge.one_f_one_b(2, 2), "it has 2 devices, 2 stages, 2 micro-batches, and needs 2 devices with 4"),
        ("09/by-hand", BACK_AND_FORTH, "it takes 12 units and may take 7.5"),
        ("02/pieces", ([4, 4, 4, 2], [0.25] * 4), "Sizes 4, 4, 4, 2 differ by more than one sample."),
        ("02/pieces", ([5, 5, 4], [1] * 3), "There are 4 micro-batches, and you gave 3 sizes and 3 weights."),
        ("02/pieces", ([4, 4, 4, 4], [0.25] * 4), "There are 14 samples, and yours are 16."),
        ("02/pieces", ([4, 4, 3, 3], [0.25] * 4), "a sample in a smaller micro-batch would then count for more"),
        ("02/pieces", ([4, 4, 3, 3], [4, 4, 3, 3]), "each sample counts for 1 / N"),
        ("02/sends-little", (3, 1, 4), "and the cuts send 256 numbers per sample: 32 are allowed."),
        ("08/fit", {"D": 4, "K": 1, "M": 4}, "lacks 0.348 GB (D=4, K=1, M=4"),
        ("08/fit", {"D": 2, "K": 2, "M": 8, "recompute": "stage"}, "a step takes 0.505 seconds (planned)"),
        ("09/zero-bubble-by-hand", ge.one_f_one_b(3, 4), "it has backwards that are not split into an I and a W"),
        ("09/zero-bubble-by-hand", IN_TURN, "it takes 16 units and may take 14"),
        ("09/v-by-hand", ge.interleaved(2, 2, 2), "its stages are on devices 0, 1, 0, 1 and belong on 0, 1, 1, 0"),
        ("13/largest-rate", 0.25, "the weight swings ever further out"),
        ("13/largest-rate", 0.3, "0.3 is too large."),
        ("16/link-copies", 3, "each gets a copy"),
        ("16/exposed", 0, "but not always at the right time"),
        ("14/fit", {"D": 4, "K": 8, "M": 8, "zero": 1}, "lacks 738 GB (D=4, K=8, M=8, ZeRO-1, 1f1b, recompute none)"),
        ("14/fit", {"D": 2, "K": 2, "M": 8, "tensor": 8, "zero": 1, "recompute": "full"}, "a step takes 49.5 seconds"),
        ("14/fit", {"D": 33}, "It cannot be: D is 33"),
        (
            "14/fit",
            {"replicas": 2},
            "There is no replicas: the names are D, K, M, tensor, zero, recompute and schedule.",
        ),
        ("15/order", ge.one_f_one_b(2, 4), "it takes 15 units and may take 13"),
        ("17/pack-work", 10, "That is the mean over texts."),
        ("17/order", [1, 2, 5, 3, 6, 0, 7, 4], "The step takes 506 (planned): a shorter step is possible."),
        ("17/order", list(range(1, 9)), "There is no pack 8; they are 0 to 7."),
        ("17/order", [0, 1, 2, 3, 4, 5, 6, 6], "Pack 6 comes 2 times; each runs once."),
        ("17/order", [0, 1, 2, 3], "Missing from the order: 4, 5, 6, 7."),
        (
            "17/fits",
            [0, 4, 3, 1, 5, 7, 2, 6],
            "takes 136 (planned), and the fullest device holds 22: there is room for 18.",
        ),
        ("17/fits", range(8), "and the fullest device holds 14: a shorter step is possible."),
        ("17/encoder", {"order": range(6), "cut": (3, 4, 4, 4)}, "the fullest device holds 18: there is room for 12."),
        ("17/encoder", {"order": [0, 2, 1, 4, 3, 5], "cut": (3, 4, 4)}, "There are 4 stages, and you gave 3 numbers."),
        ("17/encoder", {"order": [0, 2, 1, 4, 3, 5], "cut": (3, 4, 4, 5)}, "There are 15 layers, and yours are 16."),
        ("05/recompute-few", [0, 8], "There is no micro-batch 8; they are 0 to 7."),
    ],
)
def test_what_is_missing_is_said(capsys, key, answer, told):
    text = said(capsys, key, answer)
    assert text.startswith("Not yet.")
    assert told in text
    assert WANTED[key] in text, "what is wanted is said again"
    assert challenge.solved() == []


@pytest.mark.parametrize("key", WANTED)
def test_without_an_answer_it_says_what_is_wanted_and_in_which_form(capsys, key):
    attempt(key)
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("Wanted: ")
    assert text.endswith(WANTED[key])
    assert challenge.solved() == []


@each(
    "key, answer",
    [
        ("00/repair", 3),
        ("02/cut", "1 5 3"),
        ("02/cut", (1.0, 5, 3)),
        ("01/largest-batch", "108"),
        ("05/recompute-few", 5),
        ("05/recompute-few", [True]),
        ("13/largest-rate", "0.21"),
        ("02/pieces", [4, 4, 3, 3]),
        ("14/fit", (2, 2, 64)),
        ("17/order", "0 1 2 3"),
        ("17/order", [0.0, 1, 2]),
        ("17/encoder", [0, 1, 2, 3, 4, 5]),
        ("17/encoder", {"order": [0, 1, 2, 3, 4, 5]}),
        ("17/encoder", {"order": [0, 1, 2, 3, 4, 5], "cut": "3 4 4 4"}),
    ],
)
def test_an_answer_of_another_kind_is_a_type_error(key, answer):
    with pytest.raises(TypeError, match="it must be"):
        attempt(key, answer)


def test_a_challenge_that_does_not_exist_is_told():
    with pytest.raises(ValueError, match="there are 00/repair"):
        attempt("00/mend", "")


def test_the_largest_batch_is_the_one_that_the_engine_holds():
    data, layers = digits(), ref.mlp([64] + [128] * 16 + [10], seed=0)
    fixed = 3 * sum(array.nbytes for layer in layers for array in layer.params.values())

    def needed(N):
        step = ref.train_pipeline(layers, data.x_train[:N], data.y_train[:N], ge.naive(1, 1))
        return fixed + step.peak_memory[0]

    assert needed(108) <= 8e6 < needed(109)


def test_the_best_cut_is_the_one_asked_for_and_even_counts_are_not():
    wish = challenge._wishes()["02/cut"]
    costs, K = wish["costs"], wish["K"]

    def largest(counts):
        bounds = [0, counts[0], counts[0] + counts[1], len(costs)]
        return max(sum(costs[a:b]) for a, b in pairwise(bounds))

    assert largest(ge.balance_by_cost(costs, K)) == wish["largest"] < largest(ge.balance_uniform(len(costs), K))


def test_no_choice_of_recomputed_micro_batches_that_fits_is_faster_than_asked_for():
    """By the engine's bytes: a layer saves as much as a boundary sends, so a block is one array of a micro-batch."""
    wish = challenge._wishes()["05/recompute-few"]
    layers, x = ref.mlp([4] * 33 + [2], seed=0), np.ones((8, 4))
    counts = [2 * wish["interior"]] * 3 + [2 * wish["interior"] + 1]
    fitting = []
    for chosen in chain.from_iterable(combinations(range(8), count) for count in range(9)):
        schedule = add_recompute(ge.gpipe(wish["K"], wish["M"]), chosen, "some")
        held = ref.train_pipeline(layers, x, np.zeros(8, int), schedule, balance=counts).peak_memory
        if max(held) <= wish["room"] * x[:1].nbytes:
            fitting.append(ge.simulate(schedule).makespan)
    assert min(fitting) == wish["makespan"]


def test_the_largest_rate_is_the_one_with_which_late_updates_still_come_to_rest():
    def far_out(rate, delay=7, steps=20_000):
        w = [1.0] * (delay + 1)
        for _ in range(steps):
            w = [*w[-delay:], w[-1] - rate * w[-1 - delay]]
        return abs(w[-1])

    limit = challenge._wishes()["13/largest-rate"]["answer"]
    assert far_out(limit - 0.001) < 1 < far_out(limit + 0.001)


def test_the_largest_rate_is_worked_out(capsys):
    attempt("13/largest-rate", "?")
    by_formula = 2 * math.sin(math.pi / (2 * (2 * 7 + 1)))
    assert f"the limit is 2 sin(π / (2 (2d + 1))), here 2 sin(π / 30) = {by_formula:.3f}" in capsys.readouterr().out


def test_one_cut_sends_little_and_neither_even_costs_nor_even_counts_find_it():
    wish = challenge._wishes()["02/sends-little"]
    costs, widths, L = wish["costs"], wish["widths"], len(wish["costs"])
    fitting = {
        (a, b - a, L - b): widths[a - 1] + widths[b - 1]
        for a, b in combinations(range(1, L), 2)
        if max(sum(costs[:a]), sum(costs[a:b]), sum(costs[b:])) <= wish["largest"]
    }
    assert [cut for cut, sent in fitting.items() if sent <= wish["sends"]] == [(2, 4, 2)]
    assert (2, 4, 2) not in (ge.balance_by_cost(costs, 3), ge.balance_uniform(L, 3))


def test_orders_that_a_sorted_list_or_the_rule_finds_do_not_solve_what_is_to_be_found_by_hand():
    """And what is asked for is within 4 % of the best of all 40,320 orders."""
    one_f_one_b = ge.one_f_one_b(4, 8)

    def step(row):
        return ge.simulate(one_f_one_b, ge.Costs(micro_batches=row)).makespan

    for key, memory in (("17/order", None), ("17/fits", 18)):
        wish = challenge._wishes()[key]
        up = sorted(wish["packs"])
        least = order_micro_batches(one_f_one_b, ge.Costs(micro_batches=up), memory).makespan
        assert least <= wish["makespan"] < 1.04 * least
        for row in (up, up[::-1], wish["packs"], up[::2] + up[1::2][::-1]):
            fits = max(sum(row[at : at + 4]) for at in range(8)) <= wish.get("memory", math.inf)
            assert step(row) > wish["makespan"] or not fits


def test_no_order_solves_the_encoder_with_the_cut_by_mean_costs():
    wish = challenge._wishes()["17/encoder"]
    cuts = {"by the mean": (3, 4, 4, 4), "moved": (2, 3, 5, 5)}
    assert ge.balance_by_cost([sum(wish["packs"]) / 6] * 3 + [1] * 12, 4) == cuts["by the mean"]
    shortest = dict.fromkeys(cuts, math.inf)
    for name, cut in cuts.items():
        ends = list(pairwise([0, *np.cumsum(cut)]))
        for order in set(permutations(wish["packs"])):
            rows = [list(order)] * 3 + [[1] * 6] * 12
            stages = [np.sum(rows[start:end], axis=0) for start, end in ends]
            plan = ge.simulate(ge.one_f_one_b(4, 6), ge.Costs(micro_batches=[row.tolist() for row in stages]))
            if most_held(plan, stages) <= wish["memory"]:
                shortest[name] = min(shortest[name], plan.makespan)
    assert shortest == {"by the mean": 126, "moved": 111}


def most_held(plan, stages):
    """By the spans of the plan: the most that a device keeps from the start of an F to the end of its B."""
    spans = {(span.op.kind, span.op.micro_batch, span.device): span for span in plan.spans}
    return max(
        sum(row[m] for m in range(len(row)) if spans["F", m, k].start <= spans["F", at, k].start < spans["B", m, k].end)
        for k, row in enumerate(stages)
        for at in range(len(row))
    )
