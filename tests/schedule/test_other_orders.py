"""Orders of other projects, against the recipes that they are."""

from collections import Counter

import pytest

import gpipe_edu as ge
from gpipe_edu.schedule import read_megatron_order, read_zero_bubble
from tests.each import each


def printed(schedule, with_messages):
    """As zero bubble prints it: kinds for both gradients and for one alike, capitals for a device's second chunk."""
    lines = []
    for device, row in enumerate(schedule.rows):
        words = []
        for op in row:
            letter = {"I": "B"}.get(op.kind, op.kind)
            word = f"{letter.lower() if op.stage == device else letter}{op.micro_batch}"
            received = [f"r{word}"] if with_messages and op.kind == "F" and op.stage else []
            sent = [f"s{word}"] if with_messages and op.kind == "I" and op.stage else []
            words += [*received, word, *sent]
        lines.append(" ".join(words))
    return "\n".join(lines)


@each(
    "schedule",
    [recipe(K, M) for recipe in (ge.zero_bubble, ge.one_f_one_b, ge.gpipe) for K in (1, 2, 4) for M in (1, 3, 8)]
    + [recipe(K, M) for recipe in (ge.zero_bubble_v, ge.dual_pipe_v) for K in (1, 2, 4) for M in (1, 3, 8)]
    + [ge.interleaved(K, M, 2) for K in (2, 4) for M in (4, 8)],
)
def test_what_zero_bubble_prints(schedule):
    for with_messages in (False, True):
        assert read_zero_bubble(printed(schedule, with_messages)) == schedule


def test_a_word_that_zero_bubble_does_not_write_is_named():
    with pytest.raises(ge.ScheduleError, match='line 3: cannot read "x0"'):
        read_zero_bubble("f0 b0\n\nf0 x0")


def megatron(K, M, V, k):
    """Megatron-LM's tables for rank k, from what they say: groups of K micro-batches, chunk by chunk."""
    table = [chunk for first in range(0, M, K) for chunk in range(1, V + 1) for _ in range(first, min(first + K, M))]
    forward, backward = table, [chunk - V - 1 for chunk in table]
    warm_up = min(M * V, 2 * (K - 1 - k) + (V - 1) * K) if V > 1 else min(M, K - 1 - k)
    order = forward[:warm_up]
    for index in range(warm_up, M * V):
        order += [forward[index], backward[index - warm_up]]
    return order + (backward[-warm_up:] if warm_up else [])


@each("K, M, V", [(2, 2, 1), (4, 8, 1), (3, 2, 1), (2, 4, 2), (4, 8, 2), (2, 6, 3), (4, 4, 3)])
def test_megatrons_orders_are_our_recipes(K, M, V):
    found = read_megatron_order([megatron(K, M, V, k) for k in range(K)])
    assert found == (ge.one_f_one_b(K, M) if V == 1 else ge.interleaved(K, M, V))


def test_a_ragged_order_of_megatrons_can_run():
    found = read_megatron_order([megatron(3, 5, 2, k) for k in range(3)]).check()
    assert Counter(op.kind for op in found.rows[0]) == {"F": 10, "B": 10}


def test_what_is_no_chunk_is_named():
    with pytest.raises(ValueError, match=r"order\[1\]\[2\] is 0; chunks count from 1"):
        read_megatron_order([[1, -1], [1, -1, 0]])
    with pytest.raises(TypeError, match=r"order\[0\]\[0\] is 'one'"):
        read_megatron_order([["one"]])
