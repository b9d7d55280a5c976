"""What lesson 14 says of its numbers."""

# %% way-bill-count
assert [70 * sum(each) for each in zip(*bill.values(), strict=True)] == [1260, 525, 280, 157.5]  # GB

# %% way-selective
assert (stored["selective"] / block.output, stored["none"] / block.output) == (16, 56)
assert round(block.scores_work / (3 * block.work), 3) == 0.009

# %% bey-all-reduce
assert all(np.allclose(np.concatenate(device), exact, rtol=0, atol=1e-12) for device in pieces)
assert (P, sent) == (257_290, 2 * (4 - 1) * P)

# %% bey-traffic
assert 5 < replicas_send() / stages_send(256) < 7
assert replicas_send() < stages_send(4096)

# %% bey-zero
assert all(np.allclose(np.concatenate(device), old - 0.1 * exact, rtol=0, atol=1e-12) for device in weights)
assert sent == 2 * (4 - 1) * P

# %% bey-tp
assert np.allclose(sum(partial), np.maximum(h @ W1, 0) @ W2)

# %% bey-equal-traffic
assert [round(limit, 1) for limit in equal.values()] == [2.0, 8.6, 24.8]

# %% bey-hybrid-exact
assert np.allclose((flat(runs[0].grads) + flat(runs[1].grads)) / 2, exact, rtol=0, atol=1e-12)

# %% bey-hybrid-plot
best = [min(plans, key=lambda plan: step_time(*plan, speed)) for speed in (5_000, 15_000, 100_000)]
assert best == [(1, 8), (2, 4), (8, 1)]

# %% way-zero-m
assert [half_rings(zero, 8) for zero in (1, 2, 3)] == [2, 9, 24]
assert [half_rings(zero, 8, True) for zero in (1, 2, 3)] == [2, 2, 3]

# %% way-norm
assert np.isclose(sum(squares), exact @ exact)
assert np.allclose(together, 0.5 * exact, rtol=0, atol=1e-12)
assert not np.allclose(alone, 0.5 * exact, rtol=0, atol=1e-6)

# %% way-tied
assert not np.allclose(from_words, from_scores)
nudge = np.zeros_like(E)
nudge[3, 2] = 1e-6
loss = [np.sum((np.tanh((E + s * nudge)[words]) @ (E + s * nudge).T - targets) ** 2) / 2 for s in (-1, 1)]
assert np.isclose((loss[1] - loss[0]) / 2e-6, (from_words + from_scores)[3, 2])

# %% way-budget
assert (ge.formulas.bubble_fraction(8, 128), ge.formulas.bubble_fraction(8, 8)) == (7 / 135, 7 / 15)
assert looped < 0.2

# %% way-plan
assert (found.best.K, found.best.group.tensor) == (2, 8)

# %% way-plan-sharded
assert (found.best.zero, found.best.D, found.best.M, round(plain.short / 1e9)) == (1, 4, 128, 30)
assert 1.04 < found.alone.step / found.best.step < 1.06
assert (found.alone.zero, found.alone.group.tensor, found.alone.recompute) == (3, 1, "full")

# %% way-each
assert round(each, 1) == 39.7

# %% way-questions-check
assert np.isclose(2 * 7 / 8 / (2 * 3 / 4), 7 / 6)

# %% way-sequence
assert all(np.allclose(np.concatenate(device), np.tanh(np.maximum(h @ W1, 0) @ W2)) for device in parts)
assert sent == 2 * (4 - 1) * 256 * 128

# %% way-context-run
assert equal == [True] * 4

# %% way-causal
assert len(set(first_with_last)) == 1
assert round(C * max(equal_runs) / looks(range(s)), 2) == 1.75

# %% way-bound-count
assert [round(h100.speed / rate, -1) for rate in (h100.link, h100.network)] == [1590, 14300]
in_node, between = (7 * h100.speed / rate / 3 for rate in (h100.link, h100.network))
assert 3650 < in_node < min(width.values())
assert max(width.values()) < between < 33_500

# %% way-bound-context
assert most == [226, 25]

# %% way-measure
assert all(torch.equal(a, b) for name in grads for a, b in zip(grads[name], grads["none"], strict=True))

# %% way-measure-check
assert np.isclose(memory["none"] - memory["selective"], 2 * 2 * scores, rtol=0.01)  # of 2 blocks and micro-batches
assert memory["selective"] + scores < 0.65 * memory["none"]
assert memory["full"] < 0.55 * memory["none"]
