"""Exercise 15's second part: replicas times micro-batches divide the samples, also where no plan is right."""

from itertools import product

import pytest

from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.judging import judge
from gpipe_edu.process.packing import pack
from tests.solutions.bank.ex15_choice import count_bytes, divisors, tries_all


def or_if_none(allowed):
    """Right, but where no plan divides the samples it gives one for whose D and M `allowed(D, M, batch)` holds."""

    def choose(model, devices, node, memory, batch):
        try:
            return tries_all(model, devices, node, memory, batch)
        except ValueError:
            for T, K, M in product(divisors(node), divisors(devices), divisors(batch)):
                D = devices // (T * K)
                if devices == T * D * K and model["blocks"] % K == 0 and batch >= D * M and allowed(D, M, batch):
                    V = max(V for V in divisors(model["blocks"] // K) if V == 1 or (K > 1 and M % K == 0))
                    plan = {"T": T, "D": D, "K": K, "V": V, "M": M, "recompute": "none"}
                    rows = count_bytes(model, plan | {"samples": batch // (D * M)})
                    if 5 * (K - 1) <= V * M + K - 1 and max(map(sum, rows)) <= memory:
                        return plan
            raise

    return choose


@pytest.mark.parametrize(
    "allowed",
    [lambda D, M, batch: batch // D % M == 0, lambda D, M, batch: batch % D == 0 == batch % M],
    ids=["replicas are rounded down", "each divides, but not both"],
)
def test_one_that_forgets_the_divisor_is_told_so_and_that_there_is_no_plan(allowed):
    found = judge(find_exercise("ex15/choice"), pack(or_if_none(allowed)), 0).finding
    assert found.slip == "samples"
    assert found.call == "choose(dict(blocks=12, width=1024, vocabulary=50000, tokens=2048), 8, 1, 72e9, 12)"
    assert found.difference == "12 samples, D M = 8"
    assert found.expected == "ValueError, as no plan meets all conditions"
