"""What lesson 13 says of its numbers."""

# %% wof-two-steps
assert (2 * one.makespan, two.makespan) == (66, 57)

# %% bey-endless
assert np.isclose(endless.bubble_fraction, 3 / 803)
assert endless.makespan / 100 < 24.1

# %% bey-versions
for k, row in enumerate(ge.one_f_one_b(4, 8).rows):
    assert sum(op.kind == "B" for op in row[: row.index(ge.Op("F", 6, k))]) == 6 - (3 - k)

# %% wof-mixed
assert np.isclose(gradient_of_a(0.5, 1, 1), nudged(b=1))
assert np.isclose(gradient_of_a(0.5, 0.5, 0.5), nudged(b=0.5))

# %% wof-mixed-run
assert not any(np.isclose(values["mixed"], values[name]) for name in ("old b", "new b"))

# %% wof-bytes
assert (stashed[0], stashed[-1]) == (140, 17.5)

# %% bey-limit
assert np.allclose([limit(delay) for delay in range(4)], [2, 1, 0.618, 0.445], atol=0.001)

# %% bey-stale-plot
assert fresh[50:150].mean() < 0.8 * stale[50:150].mean()
assert stale[50:150].mean() < 0.8 * mixed[50:150].mean()

# %% wof-2bw
assert groups_known(1) == [{-3}, {-2}, {-1}, {0}]
assert all(min(late) >= -1 for M in (3, 8) for late in groups_known(M))
assert min(groups_known(2)[0]) == -2

# %% wof-2bw-train
assert fresh[50:150].mean() < 0.8 * double[50:150].mean()
assert 0.8 * double[50:150].mean() < stale[50:150].mean() < 0.7 * deeper[50:150].mean()

# %% wof-table
assert ge.simulate(ge.zero_bubble(4, 8)).makespan == 27
assert groups_known(1)[0] == {-3}

# %% wof-questions-check
row = ge.one_f_one_b(8, 20).rows[2]
known = sum(op.kind == "B" for op in row[: row.index(ge.Op("F", 12, 2))])
assert 12 - known == 5
assert ge.simulate(ge.one_f_one_b(8, 20)).peak_in_flight[2] == 6
