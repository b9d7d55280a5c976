"""What lesson 04 says of its numbers."""

# %% acc-rounding-check
assert distance(weights @ parts, exact) < 1e-12
assert (0.1 + 0.2) + 0.3 != 0.1 + (0.2 + 0.3)

# %% acc-pipeline
assert all(distance(flat(run.grads), exact) < 1e-12 for run in runs)

# %% acc-lone-cut
assert chunk_sizes == [16, 16, 16, 16, 1]

# %% acc-lone-error
assert np.isclose(counted.sum(), 1)
assert np.isclose(counted[-1] / counted[0], 16)
assert 0.02 < distance(parts.mean(axis=0), exact) < 0.03 < 0.9 < distance(chunk_parts.mean(axis=0), exact) < 1.1

# %% acc-labels-make
assert counts.sum() == 48

# %% acc-labels-engine
assert distance(flat(result.grads) / 48, whole) < 1e-12  # reduction="sum": the engine only adds up
assert distance(means.mean(axis=0), whole) > 0.05

# %% acc-again-plot
assert np.allclose(too_small, [256, 64, 16, 4])

# %% acc-zero-loop
assert distance(accumulate(zero_inside=False), torch_exact) < 1e-10

# %% acc-zero-inside
assert distance(inside, grad()) < 1e-10

# %% acc-zero-forgot-run
assert distance(grad(), 2 * torch_exact) < 1e-10

# %% acc-precision-run
assert errors["bfloat16"][-1] > 5 * errors["float32"][-1]

# %% acc-buffer
assert 4 * parameters == 282e9

# %% acc-update-compare
waiting, F1 = ge.simulate(ge.naive(4, 4)), ge.Op("F", 1, 0)
starts = [span.start for timeline in (waiting, plan) for span in timeline.row(0) if span.op == F1]
assert starts == [12, 1]
assert (waiting.makespan, plan.makespan) == (48, 21)

# %% acc-run-check
assert furthest < 1e-9
assert closest > 1e10 * furthest

# %% acc-challenge-try
bx, by = data.x_train[:129], data.y_train[:129]
assert distance(65 / 129 * gradient(bx[:65], by[:65]) + 64 / 129 * gradient(bx[65:], by[65:]), gradient(bx, by)) < 1e-12
assert distance(sum(means), 4 * means.mean(axis=0)) < 1e-12
for norm, breaks in ((None, False), ("layer", False), ("batch", True)):
    model = ref.mlp([64, 32, 32, 32, 10], norm=norm)
    on_four, (_, on_one) = ref.train_pipeline(model, x, y, ge.gpipe(4, 4)).grads, ref.train_sequential(model, x, y)
    assert (distance(flat(on_four), flat(on_one)) > 0.01) == breaks
at_once, in_pieces = (ref.train_pipeline(layers, x, y, ge.naive(1, M)).peak_memory[0] for M in (1, 4))
assert in_pieces < 0.3 * at_once  # gradient accumulation on one device

# %% acc-noise-check
assert np.isclose(worth, 20)
assert 0.8 < wrong / right[Ns.index(20)] < 1.25
