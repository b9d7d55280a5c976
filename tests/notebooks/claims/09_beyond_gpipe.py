"""What lesson 09 says of its numbers."""

# %% bey-ledger-setup
assert exact.size == 257_290  # parameters

# %% bey-ledger-first
assert (flush.peak_in_flight, one.peak_in_flight) == ((8, 8, 8, 8), (4, 3, 2, 1))
assert flush.makespan == one.makespan == 33
assert ledger["1f1b"][-1] < ledger["gpipe"][-1] / 2

# %% bey-pair
assert (both.makespan, both.peak_in_flight) == (41, (4, 3, 2, 1))
assert [both.idle(k) for k in range(4)] == [one.idle(k) for k in range(4)] == [9] * 4

# %% bey-interleaved
assert all((one.idle(k), two.idle(k)) == (9, 4.5) for k in range(4))
assert (two.makespan, messages(ge.interleaved(4, 8, 2)), messages(ge.one_f_one_b(4, 8))) == (28.5, 112, 48)
assert ledger["1f1b"][-1] < ledger["interleaved V=2"][-1] < ledger["gpipe"][-1]
full, equal = (ge.simulate(ge.interleaved(4, 9, 2, groups), ge.Costs(F=0.5, B=1)) for groups in ("full", "equal"))
assert (round(full.bubble_fraction, 3), round(equal.bubble_fraction, 3)) == (0.217, 0.143)
assert max(equal.peak_in_flight) > max(full.peak_in_flight)

# %% bey-hand-run
assert np.allclose(flat(result.grads), exact, rtol=0, atol=1e-12)

# %% bey-breadth
assert wide.makespan == two.makespan == 28.5
assert messages(ge.breadth_first(4, 8, 2)) == messages(ge.interleaved(4, 8, 2))
assert (wide.peak_in_flight, max(two.peak_in_flight)) == ((16, 16, 16, 16), 11)
assert np.isclose(ledger["breadth first V=2"][-1], 1.2 * ledger["gpipe"][-1])

# %% bey-link-seconds
assert round(1e3 * 4 * 32 * 67e6 / 50e9) == 172

# %% bey-slow
assert (links[5], links[30]) == (0.5, 3)
assert [times[5] for times in curves.values()] == [36, 41, 33, 35.5]
assert [times[30] for times in curves.values()] == [72, 81, 73, 94]

# %% bey-zb
assert [h1.idle(k) for k in range(4)] == [3] * 4
assert h1.makespan == ge.formulas.makespan_zero_bubble(4, 8, F=1, I=1, W=1) == 27
assert h1.peak_in_flight == (4, 4, 4, 4)

# %% bey-zb-check
assert ledger["zero bubble"][-1] > 1.5 * ledger["1f1b"][-1]

# %% bey-long-plot
assert [round(shares["Llama 3 8B"][texts.index(tokens)]) for tokens in (8192, 131072)] == [49, 89]
assert [round(left(4096, 13, tokens, causal=True)) for tokens in (8192, 131072)] == [42, 81]


def left_without_scores(tokens, causal=False):
    costs = ge.Costs.of_transformer(4096, tokens, matrices=13 * 4096**2, causal=causal)
    again = (costs.F - costs.W) / 2  # queries with keys, half of what attention costs in a forward
    return 100 * ge.formulas.idle_left_by_zero_bubble(costs.F, costs.I + again, costs.W)


assert [round(left_without_scores(tokens)) for tokens in (8192, 131072)] == [51, 90]
assert [round(left_without_scores(tokens, causal=True)) for tokens in (8192, 131072)] == [43, 83]

# %% bey-rest
assert (mixed.makespan, two.makespan, h1.makespan) == (25.5, 28.5, 27)
assert all(mixed.idle(k) == h1.idle(k) / 2 for k in range(4))
assert all(h2.row(k)[-1].end - h2.row(k)[0].start == h2.busy(k) == 24 for k in range(4))
assert (h2.peak_in_flight, h1.peak_in_flight) == ((7, 7, 7, 7), (4, 4, 4, 4))
assert ledger["ZB-H2"][-1] > 1.3 * ledger["zero bubble"][-1]
home = ge.zero_bubble_v(4, 8).device_of_stage
assert [home[stage] for stage in range(8)] == [0, 1, 2, 3, 3, 2, 1, 0]
assert all(v.row(k)[-1].end - v.row(k)[0].start == v.busy(k) == 24 for k in range(4))
assert v.peak_in_flight == (8, 8, 8, 8)  # half-size stages: as much as 4 whole ones
assert messages(ge.zero_bubble_v(4, 8)) == 96


def bubble_of_dualpipe(P, together, B, W):  # the paper's formula, idle time of a device
    return (P / 2 - 1) * (together + B - 3 * W)


assert [one.idle(0), h1.idle(0), bubble_of_dualpipe(4, together=3, B=2, W=1)] == [9, 3, 2]
paper = [bubble_of_dualpipe(8, together, B=1, W=0.5) for together in (1.5, 1)]  # of 8 stages, half as long
hidden, beside = (rows[f"{name}, hidden"][1] for name in ("DualPipeV", "combined 1F1B V=2"))
assert (d.makespan, hidden.makespan) == (27, 22)
assert [d.idle(3), hidden.idle(3)] == paper == [3, 1.5]
assert ledger["DualPipeV"][-1] < ledger["zero bubble V"][-1]
assert (d.peak_in_flight, v.peak_in_flight) == ((9, 9, 9, 9), (8, 8, 8, 8))
assert (c.makespan, beside.makespan) == (two.makespan, 23) == (28.5, 23)
assert (max(c.peak_in_flight), max(two.peak_in_flight)) == (12, 11)

# %% bey-questions-check
assert ge.simulate(ge.zero_bubble_v(4, 8), ge.Costs(F=0.5, B=1)).makespan > 24
