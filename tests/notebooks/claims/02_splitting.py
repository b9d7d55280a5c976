"""What lesson 02 says of its numbers."""

# %% split-remainder
assert remainder_last == [2, 2, 2, 5]

# %% split-bound-formula
assert ge.formulas.utilization_bound([2, 2, 2, 5]) == 11 / 20  # 55 %

# %% split-mlp
assert len(layers) == 17

# %% split-small-best
assert max(stage_costs(costs, ge.balance_by_cost(costs, 3))) == 6
assert max(stage_costs(costs, ge.balance_uniform(8, 3))) == 7

# %% split-brute
assert len(largest) == 21
assert best == max(stage_costs(costs, ge.balance_by_cost(costs, 3)))

# %% split-split
assert np.array_equal(ge.join_batch(pieces), np.arange(10))

# %% split-chunk
assert len(chunked) == 3

# %% split-n-less-m
assert used == {0, 1, 2}

# %% split-ragged-engine
assert ref.gradient_difference(ragged.grads, exact) < 1e-12

# %% split-volume
for M in (1, 7, 16):
    assert traffic(512, M, [256, 256, 64]) == (2 * 3 * M, 2 * 512 * (256 + 256 + 64))

# %% split-message
assert round(1e3 * message / 50e9, 1) == 2.7

# %% split-hourglass-numbers
assert ge.balance_by_cost(costs, 3) == (2, 3, 3)
assert cuts[2, 3, 3][1] == 288
assert cuts[2, 2, 4][1] == 64

# %% turn-sends-try
costs = [8, 2, 2, 16, 16, 2, 2, 1]
widths = [128, 16, 128, 128, 128, 16, 128, 10]
assert (counts, max(stage_costs(costs, counts))) == ((3, 1, 4), 21)
assert widths[2] + widths[3] == 8 * (widths[1] + widths[5]) == 256
assert max(stage_costs(costs, (2, 4, 2))) == 36

# %% split-final-plan
assert (by_count, by_cost) == ((5, 4, 4, 4), (3, 2, 2, 10))
assert planned[1].makespan < planned[0].makespan * 2 / 3

# %% split-final-equal
assert max(apart) < 1e-12

# %% split-recap
assert ge.formulas.utilization_bound([4, 4, 4, 8]) == 0.625
assert [len(piece) for piece in ge.split_batch(np.arange(7), 3)] == [3, 2, 2]
assert traffic(512, 8, [128])[1] * 2 == traffic(512, 8, [256])[1]
