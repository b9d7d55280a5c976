"""What lesson 12 says of its numbers."""

# %% cap-book
assert (V, len(book.train)) == (73, 207_778)

# %% cap-frequency
assert round(counts.sum() / counts[order[0]]) == 6  # the space

# %% cap-batch
assert (pieces[:, 1:] == targets[:, :-1]).all()

# %% cap-first-loss
assert abs(first - np.log(V)) < 0.5

# %% cap-causal
assert (moved > 0).tolist() == [False] * (T - 1) + [True]

# %% cap-profile
assert sum(layer.activations for layer in layers[1:5]) > 0.9 * sum(layer.activations for layer in layers)

# %% cap-logits
assert round(logits / 1e9, 1) == 4.2

# %% cap-exact
assert difference(ours, exact) < 1e-10

# %% cap-curves-check
assert apart < 0.02
assert np.mean(piped_losses[-20:]) < min(lines.values())

# %% cap-memory-plot
assert memory["gpipe, recompute"][0] < memory["1f1b"][0] < memory["gpipe"][0] / 3
assert memory["1f1b, recompute"][0] < memory["gpipe, recompute"][0]
from gpipe_edu.sizing import transformer

block = transformer(1, 128, 32, 100).layers[1]
assert block.stored == 16 * block.output
assert 9 < memory["gpipe"][0] < 9.6
assert memory["gpipe, recompute"][1] < 0.7 * memory["gpipe, recompute"][0]
assert abs(memory["1f1b"][1] / memory["1f1b"][0] - 1) < 0.05

# %% cap-schedules
assert lopsided[1] > 1.5 * even[1]

# %% cap-more
assert test_loss < lines["knows the character before"] - 0.05

# %% cap-write-run
assert len(sample) == 18 + 250

# %% cap-latency
assert [str(span.op) for span in steps.spans] == ["F0@0", "F0@1"]
assert steps.spans[1].start >= steps.spans[0].end

# %% cap-tied
assert apart < 1e-12
sizes = [sum(weight.numel() for weight in Block(d).parameters()) for d in (64, 128)]
assert 3.9 < sizes[1] / sizes[0] < 4
