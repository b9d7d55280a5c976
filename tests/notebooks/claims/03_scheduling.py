"""What lesson 03 says of its numbers."""

# %% sched-needs
assert first.device == 3

# %% sched-violations
assert contradictions(plan) == []

# %% sched-mirror-check
right = ge.simulate(ge.gpipe(3, 3), ge.Costs(F=1, B=1))
assert contradictions(right) == []
assert (wrong.makespan, wrong.bubble_fraction) == (right.makespan, right.bubble_fraction)

# %% sched-early
assert len(contradictions(early)) == 2

# %% sched-deadlock
assert harmless.problems()[0].code == "deadlock"

# %% sched-loop
assert (loop.makespan, pipeline.makespan) == (32, 14)

# %% sched-grid
assert all(plan.idle(k) == (4 - 1) * (1 + 2) for k in range(4))
assert all(agree(*case) for case in cases)
for K, M, B in cases:
    planned = ge.simulate(ge.gpipe(K, M), ge.Costs(F=1, B=B)).makespan
    assert planned == (M + K - 1) * (1 + B) == ge.formulas.makespan(K, M, 1, B)

# %% sched-step-seconds
assert np.isclose(seconds, ge.formulas.makespan(8, 24, 0.05, 0.1))

# %% sched-two-formulas-run
assert np.isclose(plan.bubble_fraction, 3 / 11)
assert ge.formulas.bubble_over_ideal(4, 8) == 0.375

# %% sched-bubble-4k
assert round(ge.formulas.bubble_fraction(4, 16), 3) == 0.158
one_device = 8 * 4 * (1 + 2)  # M = 8 micro-batches through K = 4 stages, one op after another
assert np.isclose(one_device / plan.makespan, ge.formulas.speedup(4, 8))

# %% sched-uneven
assert (even.makespan, slow.makespan, sending.makespan) == (21, 33, 21 + 6 * 0.5)
assert sum(span.end - span.start for span in slow.critical_path() if span.device == 2) == 24

# %% sched-small
assert (none.makespan, late.makespan, early.makespan) == (33, 44, 41)
assert late.bubble_fraction == none.bubble_fraction
assert round(early.bubble_fraction, 3) == 0.220

# %% sched-memory
assert one.makespan == none.makespan == 33
assert one.bubble_fraction == none.bubble_fraction
assert none.peak_in_flight == (8, 8, 8, 8)
assert one.peak_in_flight == (4, 3, 2, 1)

# %% sched-other-m
assert ge.simulate(ge.one_f_one_b(4, 13)).bubble_fraction == ge.simulate(ge.gpipe(4, 13)).bubble_fraction

# %% sched-printed-try
mended = printed.replace("1F1", "1F0").replace("1F2", "1F1")
assert ge.Schedule.parse(mended) == ge.one_f_one_b(2, 2)

# %% sched-recap
assert ge.formulas.bubble_fraction(8, 8) == 7 / 15
assert round(7 / 15, 3) == 0.467
assert all(
    ge.simulate(ge.one_f_one_b(K, M)).peak_in_flight == tuple(min(M, K - k) for k in range(K))
    for K, M in product((2, 4, 8), (1, 4, 16))
)
uneven, slow_links = ge.Costs(F=[2, 1, 1, 1], B=[4, 2, 2, 2]), ge.Costs(send=0.5)
for costs, times in ((uneven, [51, 57]), (slow_links, [41, 36])):
    assert [ge.simulate(recipe(4, 8), costs).makespan for recipe in (ge.one_f_one_b, ge.gpipe)] == times
assert ge.simulate(ge.one_f_one_b(3, 4)).makespan == ge.simulate(ge.gpipe(3, 4)).makespan == 18

# %% museum-no-bubble
assert (flawless.bubble_fraction, len(contradictions(flawless))) == (0, 12)

# %% museum-formulas
for name, formula in formulas.items():
    right = all(np.isclose(formula(K, M), ge.simulate(ge.gpipe(K, M)).bubble_fraction) for K, M in grid)
    assert right == (name == "(K-1)/(M+K-1)")

# %% museum-other-m
assert ge.simulate(ge.gpipe(4, 13)).bubble_fraction == ge.simulate(ge.one_f_one_b(4, 13)).bubble_fraction
for recipe, quoted, only in ((ge.gpipe, 0.43, 4), (ge.one_f_one_b, 0.19, 13)):
    found = [M for M in range(1, 65) if round(ge.simulate(recipe(4, M)).bubble_fraction, 2) == quoted]
    assert found == [only]

# %% museum-mend-try
goal = ge.simulate(ge.gpipe(3, 3), ge.Costs(F=1, B=1))
assert goal.makespan == 10
assert contradictions(goal) == []
