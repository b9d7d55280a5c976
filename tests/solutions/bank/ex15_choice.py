"""Exercise 15, second part: choices that forget one of the conditions, or a device."""

from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import NamedTuple

from tests.solutions.bank import Bank

BANK = Bank("ex15/choice")


def divisors(number):
    return [one for one in range(1, number + 1) if number % one == 0]


def count_bytes(model, plan):
    L, h, v = model["blocks"], model["width"], model["vocabulary"]
    T, D, K, V, M = (plan[name] for name in "TDKVM")
    n, rows = plan["samples"] * model["tokens"], []
    for k in range(K):
        weights = (12 * h * h * L / K + v * h * ((k == 0) + (k == K - 1))) / T
        ahead = K - 1 - k if V == 1 else 2 * (K - 1 - k) + (V - 1) * K
        kept = min(V * M, ahead + 1) * L / (K * V)
        kept = kept * 2 + 34 if plan["recompute"] == "full" else kept * 34
        logits = 4 * n * v / T if k == K - 1 else 0
        rows.append((weights * (6 + 12 / D), kept * n * h / T + logits))
    return rows


@BANK.right
def tries_all(model, devices, node, memory, batch):
    for T in divisors(node):
        for K in divisors(devices):
            if devices % (T * K) != 0 or model["blocks"] % K != 0:
                continue
            D = devices // (T * K)
            for V in divisors(model["blocks"] // K):
                if V > 1 and K == 1:
                    continue
                for M in divisors(batch):
                    if batch % (D * M) != 0:
                        continue
                    if V > 1 and M % K != 0:
                        continue
                    if 5 * (K - 1) > V * M + K - 1:
                        continue
                    for recompute in ("none", "full"):
                        plan = {"T": T, "D": D, "K": K, "V": V, "M": M, "samples": batch // (D * M)}
                        plan["recompute"] = recompute
                        needed = [state + activations for state, activations in count_bytes(model, plan)]
                        if max(needed) <= memory:
                            return plan
    raise ValueError("no plan fits")


class Recompute(Enum):
    NONE = "none"
    FULL = "full"


class Shape(NamedTuple):
    T: int
    D: int
    K: int


@dataclass
class Machine:
    devices: int
    node: int
    memory: float

    def shapes(self):
        for T in divisors(self.node):
            for K in divisors(self.devices // T) if self.devices % T == 0 else []:
                yield Shape(T, self.devices // T // K, K)


@BANK.right
def shape_by_shape(model, devices, node, memory, batch):
    machine = Machine(devices, node, memory)
    for shape in machine.shapes():
        if model["blocks"] % shape.K or batch % shape.D:
            continue
        for V in divisors(model["blocks"] // shape.K):
            for M in divisors(batch // shape.D):
                if (V > 1 and (shape.K == 1 or M % shape.K)) or V * M < 4 * (shape.K - 1):
                    continue
                for recompute in Recompute:
                    plan = shape._asdict() | {"V": V, "M": M, "recompute": recompute.value}
                    rows = count_bytes(model, plan | {"samples": batch // (shape.D * M)})
                    if max(state + activations for state, activations in rows) <= machine.memory:
                        return plan
    raise ValueError(f"nothing fits {machine}")


@BANK.right
def deep_pipelines_first(model, devices, node, memory, batch):
    numbers = product(divisors(devices)[::-1], divisors(node)[::-1], divisors(model["blocks"]), divisors(batch)[::-1])
    for K, T, V, M in numbers:
        D = devices // (T * K)
        whole = devices % (T * K) == 0 == model["blocks"] % (K * V) and batch % (D * M) == 0
        if not whole or (V > 1 and (K == 1 or M % K)) or (K - 1) / (V * M + K - 1) > 0.2:
            continue
        for recompute in ("none", "full"):
            plan = {"T": T, "D": D, "K": K, "V": V, "M": M, "recompute": recompute}
            if all(sum(row) <= memory for row in count_bytes(model, plan | {"samples": batch // (D * M)})):
                return plan
    raise ValueError("no plan fits")


@BANK.right
def the_one_with_most_room(model, devices, node, memory, batch):
    best = None
    for T, K in product(divisors(node), divisors(devices)):
        D = devices // (T * K)
        if devices != T * D * K or model["blocks"] % K or batch % D:
            continue
        for V, M in product(divisors(model["blocks"] // K) if K > 1 else [1], divisors(batch // D)):
            if (V > 1 and M % K) or V * M < 4 * (K - 1):
                continue
            for recompute in ("none", "full"):
                plan = {"T": T, "D": D, "K": K, "V": V, "M": M, "recompute": recompute, "samples": batch // D // M}
                most = max(map(sum, count_bytes(model, plan)))
                if most <= memory:
                    best = min([best, (most, plan)] if best else [(most, plan)], key=lambda one: one[0])
                    break
    if best is None:
        raise ValueError("no plan fits")
    return best[1]


@BANK.right
def by_recursion(model, devices, node, memory, batch):
    names = "TKVM"
    choices = [divisors(node), divisors(devices), divisors(model["blocks"]), divisors(batch)]

    def look(chosen):
        if len(chosen) < 4:
            for value in choices[len(chosen)]:
                if (found := look([*chosen, value])) is not None:
                    return found
            return None
        plan = dict(zip(names, chosen, strict=True))
        T, K, V, M = chosen
        D = devices // (T * K)
        if devices != D * T * K or model["blocks"] % (K * V) or batch % (D * M):
            return None
        if (V > 1 and (K == 1 or M % K)) or K - 1 > 0.2 * (V * M + K - 1) + 1e-9:
            return None
        for plan["recompute"] in ("none", "full"):
            plan["D"] = D
            if max(map(sum, count_bytes(model, plan | {"samples": batch // (D * M)}))) <= memory:
                return plan
        return None

    if (found := look([])) is None:
        raise ValueError("no plan fits")
    return found


def change(slip, name, old, new):
    BANK.changed(slip, name, old, new, of=tries_all)


change("one-sample", "a_bill_for_one_sample", '"samples": batch // (D * M)', '"samples": 1')
change("bubble", "forgets_the_bubble", "if 5 * (K - 1) > V * M + K - 1:", "if False:")
change("bubble", "the_bubble_over_work", "5 * (K - 1) > V * M + K - 1", "3 * (K - 1) > V * M")
change("samples", "uneven_micro_batches", "if batch % (D * M) != 0:", "if batch < D * M:")
change("groups-of-k", "forgets_groups", "if V > 1 and M % K != 0:", "if False:")
change(
    "v-of-one",
    "interleaves_one_device",
    'for V in divisors(model["blocks"] // K):\n                if V > 1 and K == 1:',
    'for V in divisors(model["blocks"] // K)[::-1]:\n                if False:',
)
change("blocks", "uneven_stages", 'for V in divisors(model["blocks"] // K):', "for V in (3, 2, 1):")
change("across-nodes", "groups_over_nodes", "for T in divisors(node):", "for T in divisors(devices)[::-1]:")
change("across-nodes", "any_group_in_a_node", "for T in divisors(node):", "for T in range(node, 0, -1):")
change("recompute-for-nothing", "recompute_first", '("none", "full")', '("full", "none")')
change("recompute-for-nothing", "recomputes_always", '("none", "full")', '("full",)')
change("recompute-for-nothing", "a_device_is_never_full", "max(needed) <= memory", "max(needed) < memory")
change(
    "recompute-for-nothing",
    "a_tenth_in_reserve",
    "max(needed) <= memory",
    "max(needed) <= (memory if recompute == 'full' else 0.9 * memory)",
)
change("bubble", "one_forward_too_few", "if 5 * (K - 1) > V * M + K - 1:", "if 5 * (K - 1) > V * M + K:")
change(
    "found-none",
    "smallest_v_with_a_small_bubble",
    "                    for recompute",
    """                    if any(4 * (K - 1) <= U * M for U in divisors(model["blocks"] // K) if U < V):
                        continue
                    for recompute""",
)
change(
    "found-none",
    "groups_of_powers_of_two",
    "for T in divisors(node):",
    "for T in (1, 2, 4, 8):\n        if node % T: continue",
)
change("found-none", "whole_nodes_alone", "for T in divisors(node):", "for T in [1, node]:")
change("found-none", "less_than_a_fifth", "if 5 * (K - 1) > V", "if 5 * (K - 1) >= V")
change("found-none", "idle_over_work", "5 * (K - 1) > V * M + K - 1", "5 * (K - 1) > V * M")
change("bubble", "a_vth_of_the_bubble", "5 * (K - 1) > V * M + K - 1", "5 * (K - 1) > V * (M + K - 1)")
change(
    "last-too-full",
    "none_if_device_0_has_room",
    "if max(needed) <= memory",
    "if (needed[0] if recompute == 'none' else max(needed)) <= memory",
)
change("found-none", "a_pipeline_in_any_case", "for K in divisors(devices):", "for K in divisors(devices)[1:]:")
change("found-none", "all_samples_of_a_replica", '"samples": batch // (D * M)}', '"samples": batch // D}')
change("found-none", "never_recomputes", '("none", "full")', '("none",)')
change("found-none", "pipelines_alone", "for T in divisors(node):", "for T in [1]:")
change("found-none", "never_interleaves", 'for V in divisors(model["blocks"] // K):', "for V in [1]:")
change("found-none", "adds_up_all_devices", "max(needed) <= memory", "sum(needed) <= memory")
change("too-full", "looks_at_the_last", "max(needed)", "needed[-1]")
change("last-too-full", "looks_at_the_first", "max(needed)", "needed[0]")
change("too-full", "looks_at_the_mean", "max(needed)", "sum(needed) / K")
change("too-full", "state_alone", "state + activations for", "state for")
change("state-too-large", "activations_alone", "state + activations for", "activations for")
change("no-refusal", "gives_none", 'raise ValueError("no plan fits")', "return None")
change("state-too-large", "gives_the_last", 'raise ValueError("no plan fits")', "return plan")
change("other-error", "another_error", 'raise ValueError("no plan fits")', 'raise RuntimeError("no plan fits")')
change("devices-left", "some_devices_idle", "if devices % (T * K) != 0 or", "if devices < T * K or")
change("missing", "no_t", "return plan\n    raise", 'return {name: plan[name] for name in "DKVM"}\n    raise')
change("not-a-plan", "a_tuple", "return plan\n    raise", "return T, D, K, V, M, recompute\n    raise")
FOUND = "return plan\n    raise"
change("recompute-word", "says_true", FOUND, 'return plan | {"recompute": recompute == "full"}\n    raise')
change("not-whole", "halves", "D = devices // (T * K)", "D = devices / (T * K)")
change("input-changed", "takes_blocks_away", FOUND, f"model.clear()\n{28 * ' '}{FOUND}")


@BANK.wrong("no-return")
def prints(model, devices, node, memory, batch):
    print(tries_all(model, devices, node, memory, batch))


@BANK.wrong("too-many-devices")
def replicas_on_top(model, devices, node, memory, batch):
    plan = tries_all(model, devices, node, memory, batch)
    return plan | {"D": plan["D"] * 2}


@BANK.wrong("state-too-large")
def data_parallel(model, devices, node, memory, batch):
    if memory < 10e9:
        raise ValueError("no")
    if batch % devices:
        return tries_all(model, devices, node, memory, batch)
    return {"T": 1, "D": devices, "K": 1, "V": 1, "M": 1, "recompute": "none"}


@BANK.wrong("samples")
def leaves_samples_out_rather_than_none(model, devices, node, memory, batch):
    try:
        return tries_all(model, devices, node, memory, batch)
    except ValueError:
        return tries_all(model, devices, node, memory, batch // devices * devices)


BANK.changed("samples", "rounds_the_samples_of_a_replica_down", " or batch % shape.D:", ":", of=shape_by_shape)
change("samples", "each_divides_but_not_both", "if batch % (D * M) != 0:", "if batch < D * M or batch % D + batch % M:")
