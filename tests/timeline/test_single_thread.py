"""Ticks of calls that one thread hands out: by the clock as long as the plan, in other orders as their closed forms."""

import itertools

from gpipe_edu import gpipe, simulate
from gpipe_edu.timeline.single_thread import dispatch_calls
from tests.each import each

SIZES = list(itertools.product(range(1, 5), range(1, 6)))


@each("K, M", SIZES)
def test_handing_out_by_the_clock_takes_as_long_as_the_plan(K, M):
    ticks = dispatch_calls([(t - k, k) for t in range(M + K - 1) for k in range(K) if 0 <= t - k < M])
    starts = {(m, k): t for t, tick in enumerate(ticks) for m, k in tick}
    planned = {(op.micro_batch, op.stage): start for _, op, start, _ in simulate(gpipe(K, M)).spans if op.kind == "F"}
    assert starts == planned


@each("K, M", SIZES)
def test_other_orders_wait_as_their_closed_forms_say(K, M):
    by_stage = dispatch_calls([(m, k) for k in range(K) for m in range(M)])
    one_by_one = dispatch_calls([(m, k) for m in range(M) for k in range(K)])
    if M > 1:
        assert len(by_stage) == K * (M - 1) + 1
    if K > 1:
        assert len(one_by_one) == M * (K - 1) + 1
