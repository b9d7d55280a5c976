"""What lesson 08 says of its numbers."""

# %% exp-guide-why
assert (found.best.D, found.best.K) == (4, 1)

# %% exp-when-code
free = guide(slow._replace(machine=slow.machine._replace(overhead=0)), plain).rows()
assert min(free, key=lambda plan: plan.step).K == 4
assert guide(small, plain).alone is None
assert guide(slow, plain).best.K > 1
assert (text_model.parameters, 2 * job.batch * 256 * 512) == (46_152_704, 12_582_912)
assert guide(small, shared).best.K == 1
assert (guide(small).best.K, guide(small).best.zero) == (1, 3)

# %% exp-oom
assert flush[4].activations == flush[16].activations

# %% exp-best-m
assert ge.formulas.bubble_fraction(2, 32) == 1 / 33

# %% exp-fit
assert min(b_F, b_B) > 0

# %% exp-formula-check
assert abs(min(max(best_M(2, A, C), 1), 32) - best_planned) < 1

# %% exp-deeper
assert np.isclose(five / two, 2)

# %% exp-deals-plot
assert memory["never", 2] == memory["never", 8] == memory["never", 32]
assert memory["always", 2] > memory["always", 8] > memory["always", 32]
for M in (2, 8, 32):
    assert memory["except_last", M] == memory["always", M]

# %% exp-memory-k
never, always = bars.values()
on_paper = [ge.formulas.peak_memory(16, K, 8, boundary=layer, layer=layer) for K in Ks[1:]]
assert np.allclose(always[1:], on_paper, rtol=0.07)
assert np.allclose(never[1:], [layer + 16 / K * layer for K in Ks[1:]], rtol=0.1)
assert 0.6 < always[3] / always[1] < 0.7
real = [ge.formulas.peak_memory(16, K, 8, layer=16) for K in (2, 8)]
assert round(real[1] / real[0], 2) == 0.29  # r = 16

# %% exp-eighty
for K, M in ((2, 8), (2, 64), (16, 64), (16, 512)):
    assert 1.2 < M * 30 / ge.simulate(ge.gpipe(K, M), lopsided(K)).makespan < 1 / 0.8 == 1.25

# %% exp-cost-run
assert largest(by_cost) <= largest(by_count)

# %% exp-head
assert [round(blocks, 2) for blocks in worth] == [1.84, 1.06, 0.61]

# %% exp-machine
assert paper.parameters == sum(weight.numel() for weight in network().parameters())
for mode, recompute in {"never": "none", "always": "stage"}.items():
    plan = Plan(here, 1, 2, 8, recompute, schedule="gpipe")
    assert 0.97 < max(plan.activations) / 1e6 / memory[mode, 8] < 1.03

# %% exp-try
assert judge(link=1.8) == "solved!"

# %% exp-efficiency-check
for M in (1, 4, 16, 64):
    curve = [efficiency(K, M) for K in range(1, 17)]
    assert curve == sorted(curve, reverse=True)
assert all(np.isclose(efficiency(K, 1), 1 / K) for K in range(1, 17))
assert efficiency(16, 1) / efficiency(16, 4) < 1 < efficiency(1, 1) / efficiency(1, 4)
