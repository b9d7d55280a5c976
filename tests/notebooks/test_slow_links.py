"""What lesson 09 says of slow links, and what it says of updates that wait for all devices."""

import gpipe_edu as ge

K, M = 4, 8


def with_warm_up(forwards):
    """1F1B whose device k starts with `forwards(k)` forwards."""
    rows = []
    for k in range(K):
        first = min(M, forwards(k))
        row = [ge.Op("F", m, k) for m in range(first)]
        for m in range(M):
            row += [ge.Op("F", m + first, k)] * (m + first < M) + [ge.Op("B", m, k)]
        rows.append(row)
    return ge.Schedule(rows)


def test_a_longer_warm_up_sends_both_ways_at_once():
    costs = ge.Costs(F=1, B=2, link=3)
    assert with_warm_up(lambda k: K - 1 - k).rows == ge.one_f_one_b(K, M).rows
    longer = with_warm_up(lambda k: 3 * (K - 1 - k))
    times = [ge.simulate(one, costs).makespan for one in (ge.gpipe(K, M), ge.one_f_one_b(K, M), longer)]
    assert times == [72, 81, 51]


def test_a_common_update_takes_half_of_zb_v_s_gain():
    bound = 3 * M
    zb_v = ge.simulate(ge.zero_bubble_v(K, M), ge.Costs(F=0.5, B=1, I=0.5, W=0.5)).makespan
    zb_h1 = ge.simulate(ge.zero_bubble(K, M)).makespan
    assert (zb_h1, zb_v) == (27, 25.5)
    assert (zb_h1 - zb_v) / (zb_h1 - bound) == 0.5
