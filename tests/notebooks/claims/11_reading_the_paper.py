"""What lesson 11 says of its numbers."""

# %% ratios
assert [model for model, table in paper.THROUGHPUT.items() if table[2, 1] == 1] == ["AmoebaNet-D", "Transformer"]
assert round(paper.THROUGHPUT["Transformer"][8, 32] / paper.THROUGHPUT["Transformer"][2, 32], 2) == 3.5
assert round(paper.THROUGHPUT["AmoebaNet-D"][8, 32] / paper.THROUGHPUT["AmoebaNet-D"][2, 32], 2) == 2.88

# %% capacity-each
assert round(each, 1) == 13.5

# %% bytes
odd = paper.CAPACITY["Transformer"][0]
assert round(odd.activation_bytes / odd.parameters, 1) == 11.2
assert odd.parameter_bytes / odd.parameters > 40

# %% count
room = [16 - row.parameter_bytes / row.accelerators / 1e9 for row in found]
assert np.allclose(each["counted, scores"], each["reported"], rtol=0.03)
assert all(np.array(each["counted, scores"]) < room)
assert all(np.array(each["and two sentences"]) > room)

# %% factors
assert [round(factor, 1) for factor in factors.values()] == [22.0, 297.3, 2.8]
assert max(each) < 1.02 * min(each)  # the level bars

# %% small-print-run
assert [round(ge.formulas.bubble_fraction_early(K, 4 * K), 3) for K in (2, 4, 8)] == [0.086, 0.123, 0.141]

# %% quality
assert len(lost) == 2
assert paper.IMAGENET_BEFORE < paper.IMAGENET_TOP_1 < paper.IMAGENET_PRIVATE_DATA
assert round(paper.TRANSLATION[2].bleu - paper.TRANSLATION[0].bleu, 2) == 1.79

# %% exhibit-six
for K, M in ((2, 1), (8, 1), (8, 32), (8, 1024)):
    held = max(peak_memory(ge.simulate(ge.gpipe(K, M, "late")), boundary=1 / M, interior=L / (K * M)))
    assert np.isclose(held, 1 + L / (K * M))
    for value in (L / K, L / (K * M), 1 + K / (L * M), L / K + L / M):
        assert not np.isclose(held, value)
K, M, L = 4, 8, 40
assert (round(L / (L / K + L / M), 1), round(L / (1 + L / (K * M)), 1)) == (2.7, 17.8)
assert ge.formulas.bubble_fraction(4, 1) == 0.75
assert ge.formulas.bubble_fraction(4, 2) == 0.6

# %% museum-h1
assert (one.idle(0), h1.idle(0)) == (9, 3)

# %% museum-h2
assert all(h2.row(k)[-1].end - h2.row(k)[0].start == h2.busy(k) for k in range(3))  # no gap inside
assert h2.peak_in_flight == (5, 5, 5)

# %% museum-dual
for K in (4, 8):
    for M in (K, 2 * K):
        assert ge.simulate(ge.dual_pipe_v(K, M)).bubble_fraction > (0.25 if M == K else 0.05)

# %% first-row
for K in (2, 4, 8):
    assert np.isclose(1 / throughput(even(K), 1), 3 + 1 / K)
    assert np.isclose(throughput(even(K), 1, recompute=None), 1 / 3)

# %% errors
assert all(abs(deviations(planned, "Transformer")[K, 32]) < 0.051 for K in (2, 4, 8))
assert deviations(planned, "AmoebaNet-D")[8, 32] > 0.7

# %% scan-check
assert best == {"AmoebaNet-D": 1 / 16, "Transformer": 1}
assert qs[qs > 1][curves["AmoebaNet-D"][qs > 1].argmin()] == 8
assert round(error(1, "AmoebaNet-D"), 2) == 0.44
assert round(error(best["AmoebaNet-D"], "AmoebaNet-D"), 2) == 0.14

# %% residual
assert all(deviations(fitted["Transformer"], "Transformer")[cell] < -0.1 for cell in ((2, 4), (4, 4), (8, 4), (8, 1)))
assert all(deviations(fitted["AmoebaNet-D"], "AmoebaNet-D")[K, 4] > 0 for K in (2, 4, 8))

# %% impossible
assert max(highest.values()) < 3.9 < paper.THROUGHPUT["Transformer"][8, 4]
assert max(highest, key=highest.get) == 0

# %% table-three
for q in (1 / 16, 8):
    assert 1 - throughput(falling(q)(2), 32) / throughput(even(2), 32) > 0.25
assert all((most < 0.14) == (fit != ("AmoebaNet-D", 1)) for fit, most in off_by.items())
