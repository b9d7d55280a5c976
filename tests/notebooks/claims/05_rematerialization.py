"""What lesson 05 says of its numbers."""

# %% remat-recompute
assert (before, stage.held_bytes) == (1 * block, 9 * block)

# %% remat-ledger-check
for recompute, blocks in ((None, 72), ("late", 16), ("early", 16)):
    schedule = ge.gpipe(K, M, recompute)
    planned = peak_memory(ge.simulate(schedule), boundary=block, interior=8 * block)
    assert planned == run(schedule).peak_memory == (blocks * block,) * 4

# %% remat-formula-grid
ragged = max(run(ge.gpipe(4, 3, "early"), L=30).peak_memory)  # stages of 8, 8, 7, 7; micro-batches of 342, 341, 341
assert 0.99 < ragged / (sample * (N + 8 * 342)) <= 1
assert max(run(ge.gpipe(4, 8, "early")).peak_memory) == sample * (N + L // K * N // M)

# %% remat-gigabytes
assert round(boundary * (1 + 8 * 16), 1) == 8.7

# %% remat-raise-check
assert peak_of[1] == max(run(ge.gpipe(K, 1)).peak_memory)
assert peak_of[64] / peak_of[8] == 0.5625

# %% remat-r-plot
assert ge.formulas.peak_memory(32, 4, 8, layer=1) == 1 + 1  # of 9 without recompute
assert ge.formulas.peak_memory(32, 4, 8, layer=16) == 1 + 16  # of 129

# %% remat-devices-check
assert np.isclose(peaks[Ks.index(4)] / peaks[Ks.index(8)], 4 / 3)
assert [ge.formulas.peak_memory(32, devices, 8, layer=16) for devices in (4, 8)] == [17, 9]
assert (uncut, cut, both) == (33 * N * sample, 9 * N * sample, 2 * N * sample)

# %% remat-same
assert all(np.allclose(a, b, rtol=1e-12, atol=0) for a, b in pairs)

# %% remat-price
assert np.isclose(more_work, 1 / 3)

# %% puzzle
assert [sum(span.op.kind in "RC" for span in plan.critical_path()) for plan in (late, early)] == [11, 8]
assert (late.makespan, early.makespan) == (44, 41)
for devices, count, R in product((1, 2, 4, 8), (1, 8, 32), (0.5, 1, 2)):
    costs = ge.Costs(F=1, B=2, R=R)
    slow, fast = (ge.simulate(ge.gpipe(devices, count, when), costs) for when in ("late", "early"))
    assert slow.makespan - fast.makespan == (devices - 1) * R
shares = [3 / ge.formulas.makespan_late(4, count) for count in (8, 32)]
assert [round(share, 3) for share in shares] == [0.068, 0.021]

# %% remat-last
assert (peak, ge.simulate(schedule).makespan) == (16, early.makespan - 1)  # except_last

# %% remat-thin
assert saved[32] > 0.75 > 0.5 > saved[4]
assert round(1 - (1 + 16 / 8) / (1 + 16), 2) == 0.82  # r = 16

# %% remat-one-f-check
assert [K + r * (L - L // K) for r in (1, 16)] == [28, 388]
assert max(run(one).peak_memory) == (K + L) * N // 32 * sample < max(run(gpipe).peak_memory)
assert (ge.simulate(one).makespan, ge.simulate(gpipe).makespan) == (105, 137)

# %% remat-pays-check
assert keep[Ks.index(4)] < spend[Ks.index(4)]
assert keep[Ks.index(5)] > spend[Ks.index(5)]
assert (keep[Ks.index(8)], spend[Ks.index(8)]) == (5.625, 4.328125)
assert 8 * (1 + 16 * 8) - 16 * 8 == 904  # r = 16
for schedule in (ge.gpipe(8, 8), ge.gpipe(8, 64, "early")):
    assert peak_memory(ge.simulate(schedule), boundary=1, interior=8) == (72,) * 8
assert ge.formulas.peak_memory(48, 4, 16, boundary=512, layer=512) == 896
assert ge.formulas.peak_memory(48, 4, 16, boundary=512, layer=16 * 512) == 6656
keep_all = ge.simulate(ge.gpipe(4, 8))
assert (round(keep_all.bubble_fraction, 2), round(early.bubble_fraction, 2)) == (0.27, 0.22)
assert (keep_all.makespan, early.makespan) == (33, 41)

# %% remat-offload-count
assert model.layers[1].stored / model.layers[1].output == 17  # r, with fused kernels
assert 0.1 < move < work < move * 20.5 / 17 < 0.2
