"""What lesson 07 says of its numbers."""

# %% grow-plot
assert max(grown["nothing"] + grown["LayerNorm"]) < 1e-12
assert min(grown["BatchNorm"]) > 0.1
assert grown["BatchNorm"][-1] > 2 * grown["BatchNorm"][0]
assert difference(pipelined(network(nets["BatchNorm"]), 1), exact) < 1e-12  # M = 1: the whole batch

# %% alike
assert apart < 1e-12

# %% two
assert all(torch.allclose(values, torch.tensor([-1.0, 1.0]), atol=1e-3) for values in normalized)

# %% train-plot
same, other = runs["LayerNorm", 1][0], runs["LayerNorm", 32][0]
assert len(same) == 110
assert max(abs(a - b) for a, b in zip(same, other, strict=True)) < 1e-6
assert sum(runs["BatchNorm", 8][0][-22:]) > sum(runs["BatchNorm", 1][0][-22:])  # the last epoch
assert runs["BatchNorm", 1][1] > 0.93
assert 0.4 < runs["BatchNorm", 32][1] < 0.85

# %% newest-check
assert all(abs(share_of_newest(M) - (1 - 0.9**M)) < 0.02 for M in (1, 8, 32))

# %% moe-balance
assert losses[1] < 1.15 < losses[16] < losses[64]

# %% global-share
assert np.allclose(list(shared.values()), losses[1], rtol=1e-12)

# %% recompute
assert agree[True] == 1
assert 0.45 < agree[False] < 0.55

# %% first-run
assert masks_if(0, 1) != masks_if(1, 0)

# %% noting-plot
assert all(torch.equal(mask, again) for mask, again in zip(*rows.values(), strict=True))

# %% dropout-same-run
assert max(apart) < 1e-12

# %% device
assert min(difference(alone, base), difference(deeper, base)) > 0.1

# %% judge
assert sum(map(safe, candidates.values())) == 3


# %% answer
def noisy(mode):
    np.random.seed(0)
    layer = Do(lambda x: x + torch.tensor(np.random.rand(*x.shape)))
    return pipelined(network(lambda: layer), 8, K=1, checkpoint=mode)


plain, deferred = (pipelined(network(nets["BatchNorm"]), 8, deferred_batch_norm=on) for on in (False, True))
assert difference(deferred, plain) < 1e-12
assert safe(lambda: nn.GroupNorm(8, 64))
assert difference(noisy("always"), noisy("never")) > 1e-3

# %% one
assert "more than 1 value per channel" in message

# %% second
assert found[True][0] < 1e-12
assert 1e-4 < found[True][1] < 0.1
assert min(found[False]) > 1

# %% counted
assert net[1].num_batches_tracked == 2

# %% counted-engine
assert counted == {"never": 8, "always": 8}

# %% average
assert apart[2] < apart[0] / 3

# %% numpy
assert apart < 1e-12

# %% kept-masks
assert round(masks, 1) == 2.1
