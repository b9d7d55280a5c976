"""Exercise 15, first part: bills that leave something out, or count it for somebody else."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import gpipe_edu as ge
from tests.solutions.bank import Bank

BANK = Bank("ex15/bill")


@BANK.right
def by_the_rules(model, plan):
    L, h, v, s = model["blocks"], model["width"], model["vocabulary"], model["tokens"]
    T, D, K, V, M = plan["T"], plan["D"], plan["K"], plan["V"], plan["M"]
    b = plan["samples"]
    rows = []
    for k in range(K):
        weights = 12 * h * h * (L // K)
        if k == 0:
            weights += v * h
        if k == K - 1:
            weights += v * h
        weights /= T
        state = 2 * weights + 4 * weights + 12 * weights / D
        ahead = K - 1 - k if V == 1 else 2 * (K - 1 - k) + (V - 1) * K
        flying = min(V * M, ahead + 1)
        blocks = L // (K * V)
        if plan["recompute"] == "none":
            activations = flying * blocks * 34 * b * s * h / T
        else:
            activations = flying * blocks * 2 * b * s * h / T + 34 * b * s * h / T
        if k == K - 1:
            activations += 4 * b * s * v / T
        rows.append((state, activations))
    return rows


class Bytes(Enum):
    WEIGHT = 2
    GRADIENT = 4
    OPTIMIZER = 12
    KEPT = 34


class Row(NamedTuple):
    state: float
    activations: float


@dataclass(frozen=True)
class Device:
    k: int
    last: bool

    def weights(self, model, plan):
        tables = (self.k == 0) + self.last
        width = model["width"]
        return (12 * width**2 * model["blocks"] // plan["K"] + tables * model["vocabulary"] * width) / plan["T"]

    def stages_in_flight(self, plan):
        K, V = plan["K"], plan["V"]
        ahead = K - 1 - self.k
        if V > 1:
            ahead = 2 * ahead + (V - 1) * K
        return min(V * plan["M"], 1 + ahead)


@BANK.right
def device_by_device(model, plan):
    tokens = plan["samples"] * model["tokens"] / plan["T"]
    rows = []
    for k in range(plan["K"]):
        device = Device(k, k == plan["K"] - 1)
        each = Bytes.WEIGHT.value + Bytes.GRADIENT.value + Bytes.OPTIMIZER.value / plan["D"]
        blocks = device.stages_in_flight(plan) * model["blocks"] // (plan["K"] * plan["V"])
        kept = blocks * Bytes.KEPT.value if plan["recompute"] == "none" else 2 * blocks + Bytes.KEPT.value
        logits = 4 * tokens * model["vocabulary"] * device.last
        rows.append(Row(device.weights(model, plan) * each, kept * tokens * model["width"] + logits))
    return rows


@BANK.right
def asks_the_simulator(model, plan):
    K, V, M, n = plan["K"], plan["V"], plan["M"], plan["samples"] * model["tokens"] / plan["T"]
    schedule = ge.interleaved(K, M, V) if V > 1 else ge.one_f_one_b(K, M)
    state, activations = [], []
    for k, held in enumerate(ge.simulate(schedule).peak_in_flight):
        tables = [0, K - 1].count(k) + (K == 1) - ([0, K - 1].count(k) == 2)
        weights = 12 * model["width"] ** 2 * model["blocks"] / K + tables * model["vocabulary"] * model["width"]
        state.append(weights / plan["T"] * (6 + 12 / plan["D"]))
        blocks = held * model["blocks"] / (K * V)
        kept = 2 * blocks + 34 if plan["recompute"] == "full" else 34 * blocks
        activations.append(n * (kept * model["width"] + (4 * model["vocabulary"] if k == K - 1 else 0)))
    return zip(state, activations, strict=True)


@BANK.right
class rows_of_a_generator:
    def __new__(cls, model, plan):
        return ([state, activations] for state, activations in by_the_rules(model, plan))


@BANK.right
def in_fractions(model, plan):
    from fractions import Fraction

    return [tuple(map(Fraction, row)) for row in by_the_rules(model, plan)]


@BANK.right
def in_numpy(model, plan):
    import numpy as np

    return np.array(by_the_rules(model, plan), dtype=np.float64)


FIRST, LAST = "if k == 0:\n            weights", "if k == K - 1:\n            weights"
LOGITS = "if k == K - 1:\n            activations"
AHEAD = "K - 1 - k if V == 1 else 2 * (K - 1 - k)"
INSIDE = " + 34 * b * s * h / T\n        if k"
PAIR = "rows.append((state, activations))"


def change(slip, name, old, new):
    BANK.changed(slip, name, old, new, of=by_the_rules)


change("sixteen", "sixteen_bytes", "4 * weights", "2 * weights")
change("weights-alone", "no_optimizer", " + 12 * weights / D", "")
change("no-zero", "an_optimizer_on_each_replica", "12 * weights / D", "12 * weights")
change("zero-2", "gradients_divided_too", "4 * weights +", "4 * weights / D +")
change("zero-3", "all_divided", "2 * weights + 4 * weights + 12 * weights / D", "18 * weights / D")
change("over-all-devices", "over_stages_too", "12 * weights / D", "12 * weights / (D * K)")
change("over-all-devices", "over_the_group_too", "12 * weights / D", "12 * weights / (D * T)")
change("no-embedding", "no_embedding", FIRST, FIRST.replace("==", "<"))
change("no-head", "one_table_alone", LAST, LAST.replace("K - 1", "K"))
change("tables-everywhere", "everybody_looks_words_up", FIRST, FIRST.replace("==", ">="))
change("cut-nothing", "groups_hold_all", "weights /= T", "weights /= 1")
change("whole-model", "all_blocks_everywhere", "(L // K)", "L")
change("one-stage", "one_of_v_stages", "(L // K)", "(L // (K * V))")
change(
    "one-table",
    "first_or_last",
    "        if k == K - 1:\n            weights",
    "        elif k == K - 1:\n            weights",
)
change("other-block", "attention_alone", "12 * h * h", "4 * h * h")
change("other-block", "without_attention", "12 * h * h", "8 * h * h")
change("rounded-down", "whole_bytes", "12 * weights / D", "12 // D * weights")
change("never-more-than-m", "no_more_than_m", "min(V * M, ahead + 1)", "min(M, ahead + 1)")
change("more-than-m", "one_more_than_all", "min(V * M, ahead + 1)", "min(V * M, ahead) + 1")
change("always-interleaved", "one_formula_for_all", AHEAD, "2 * (K - 1 - k)")
change("short-warm-up", "there_but_not_back", AHEAD, "K - 1 - k")
change("samples-of-all", "samples_of_all_replicas", 'b = plan["samples"]', 'b = plan["samples"] / D')
change("inside-without-input", "its_input_is_there", INSIDE, INSIDE.replace("34", "32"))
change("inside-in-flight", "all_recompute_at_once", INSIDE, INSIDE.replace("34", "34 * flying"))
change("all-in-flight", "as_under_gpipe", "min(V * M, ahead + 1)", "V * M")
change("as-the-first", "as_the_first_device", AHEAD, AHEAD.replace(" - k", ""))
change("upside-down", "the_last_holds_most", AHEAD, AHEAD.replace("K - 1 - k", "k"))
change("one-in-flight", "one_at_a_time", "min(V * M, ahead + 1)", "1")
change("more-than-m", "more_than_there_are", "min(V * M, ahead + 1)", "ahead + 1")
change("not-interleaved", "as_without_interleaving", "min(V * M, ahead + 1)", "min(K - k, M)")
change("whole-device", "all_of_the_device", "blocks = L // (K * V)", "blocks = L // K")
change("without-the-last", "the_warm_up_alone", "min(V * M, ahead + 1)", "min(V * M, ahead)")
change("one-sample", "of_one_sample", 'b = plan["samples"]', "b = 1")
change("recompute-ignored", "recompute_is_ignored", 'plan["recompute"] == "none"', "True")
change("no-inside", "nothing_while_recomputing", INSIDE, "\n        if k")
change("inside-of-all", "a_stage_at_a_time", INSIDE, INSIDE.replace("34", "34 * blocks"))
change("input-of-stages", "as_in_gpipe", "flying * blocks * 2", "flying * 2")
change("no-logits", "no_logits", "activations += 4 * b * s * v / T", "activations += 0")
change("logits-in-16", "logits_in_16_bit", "activations += 4 * b", "activations += 2 * b")
change("logits-everywhere", "logits_everywhere", LOGITS, LOGITS.replace("==", "<="))
change("logits-in-flight", "logits_of_all", "activations += 4 * b", "activations += flying * 4 * b")
change("logits-whole", "logits_of_a_whole_group", "4 * b * s * v / T", "4 * b * s * v")
change("no-inside-kept", "boundaries_alone", "flying * blocks * 34", "flying * blocks * 2")
change("from-behind", "last_device_first", "return rows", "return rows[::-1]")
change("both-on-the-first", "both_tables_first", LAST, LAST.replace("K - 1", "0"))
change("samples-of-a-step", "samples_of_all_micro_batches", 'b = plan["samples"]', 'b = plan["samples"] * M')
change("always-recompute", "none_is_true", 'plan["recompute"] == "none"', 'not plan["recompute"]')
change("logits-on-the-first", "logits_first", LOGITS, LOGITS.replace("K - 1", "0"))
change("logits-in-flight", "logits_of_m", "activations += 4 * b", "activations += M * 4 * b")
change("unit", "in_gigabytes", PAIR, "rows.append((state / 1e9, activations / 1e9))")
change("one-number", "sums", PAIR, "rows.append(state + activations)")
change("exchanged", "the_other_way_round", PAIR, "rows.append((activations, state))")
change("columns", "two_rows", "return rows", "return list(zip(*rows, strict=True))")
change("rows", "each_stage", "return rows", "return [row for row in rows for _ in range(V)]")
change("input-changed", "takes_it_away", 'b = plan["samples"]', 'b = plan.pop("samples")')
change("not-numbers", "with_units", PAIR, 'rows.append((f"{state} B", f"{activations} B"))')
change("no-return", "prints_it", "return rows", "print(rows)")
change("no-copy", "moments_alone", "12 * weights / D", "8 * weights / D")
change("other-block", "llamas_own", "12 * h * h", "13 * h * h")
change("upside-down", "from_the_last_without_interleaving", AHEAD, AHEAD.replace("K - 1 - k if", "k if"))
change("upside-down", "from_the_last_with_interleaving", AHEAD, AHEAD.replace("(K - 1 - k)", "k"))
change("without-the-last", "one_less_ahead", AHEAD, AHEAD.replace("K - 1 - k if", "K - 2 - k if"))
change("cut-nothing-kept", "blocks_of_a_whole_group", "blocks * 34 * b * s * h / T", "blocks * 34 * b * s * h")
change("cut-nothing-kept", "inside_of_a_whole_group", INSIDE, INSIDE.replace(" / T", ""))
change("one-sample", "logits_of_one_sample", "4 * b * s * v / T", "4 * s * v / T")
change("no-input", "the_inside_alone", "flying * blocks * 2 * b * s * h / T + 34", "34")
BANK.changed(
    "sixteen", "sixteen_and_no_head", "4 * weights", "2 * weights", LAST, LAST.replace("K - 1", "K"), of=by_the_rules
)


@BANK.wrong("cut-nothing-kept")
def sequence_is_whole(model, plan):
    rows = []
    for k, (state, activations) in enumerate(by_the_rules(model, plan)):
        logits = 4 * plan["samples"] * model["tokens"] * model["vocabulary"] / plan["T"] if k == plan["K"] - 1 else 0
        rows.append((state, (activations - logits) * plan["T"] + logits))
    return rows


@BANK.wrong("no-tables")
def blocks_alone(model, plan):
    none = by_the_rules({**model, "vocabulary": 0}, plan)
    return [(state, activations) for (state, _), (_, activations) in zip(none, by_the_rules(model, plan), strict=True)]


@BANK.wrong("tables-whole")
def tables_on_each_of_a_group(model, plan):
    rows = []
    for k, (state, activations) in enumerate(by_the_rules(model, plan)):
        tables = model["vocabulary"] * model["width"] * ((k == 0) + (k == plan["K"] - 1))
        rows.append((state + tables * (1 - 1 / plan["T"]) * (6 + 12 / plan["D"]), activations))
    return rows


@BANK.wrong("not-rows")
def a_dict(model, plan):
    return dict(enumerate(by_the_rules(model, plan)))


@BANK.wrong("state-off")
def buffers_on_top(model, plan):
    return [(state * 1.1, activations) for state, activations in by_the_rules(model, plan)]


@BANK.wrong("activations-off")
def some_reserve(model, plan):
    return [(state, activations + 2**30) for state, activations in by_the_rules(model, plan)]


_asked = {}


@BANK.wrong("remembers")
def counts_calls(model, plan):
    key = str((model, plan))
    _asked[key] = _asked.get(key, 0) + 1
    return [(state * _asked[key], activations) for state, activations in by_the_rules(model, plan)]
