"""What lesson 16 says of its numbers."""

# %% moe-between
assert copies.tolist() == [[6, 2], [4, 4]]
assert copies.sum() == chosen.size

# %% moe-imbalance-count
assert imbalance(chosen, 4) == 1.5

# %% moe-small
assert round(fullest[0], 2) == 1.06
assert 1.5 < fullest[-1] < 1.7
assert fullest == sorted(fullest)
assert 8192 // 64 * 8 / 64 == 16  # copies for an expert of a micro-batch, on average

# %% moe-balance-cut
assert np.isclose(whole, 1)
assert np.allclose(in_pieces, 1.6)

# %% moe-balance-mend
assert np.isclose(np.mean(with_all_counts), whole)
rng = np.random.default_rng(1)
p = rng.dirichlet(np.ones(8), size=600)
pieces, f = np.split(p, 6), shares(p)
assert np.isclose(np.mean([balance_loss(piece, f) for piece in pieces]), balance_loss(p, f))
assert not np.isclose(np.mean([balance_loss(piece, shares(piece)) for piece in pieces]), balance_loss(p, f), rtol=1e-4)

# %% moe-known-count
assert before == [8, 8, 8, 8]
assert [[op.kind for op in row].index("B") for row in ge.one_f_one_b(4, 8).rows] == [4, 3, 2, 1]

# %% moe-bill
assert [(plan.ranks, plan.expert_ranks) for plan in plans] == [(16, 16 // E) for E in Es]
assert job.machine.node == 8
assert sum(layer.routed.parameters for layer in job.model.layers if layer.routed) > 0.9 * job.model.parameters
assert round(job.model.parameters / 1e9, 1) == 30.5

# %% moe-bill-messages
exchanges = [plan.parts["experts"] for plan in plans]
assert exchanges[0] == 0
assert exchanges == sorted(exchanges)
assert exchanges[4] > 4 * exchanges[3]  # beyond a node

# %% moe-pair
together = run(forward(2), backward(2))
assert max(end for *_, end in run(forward(2))) + max(end for *_, end in run(backward(2))) == 26
assert max(end for *_, end in together) == 18
for stream in ("compute", "links"):
    spans = sorted((start, end) for _, its, start, end in together if its == stream)
    assert all(spans[i][1] <= spans[i + 1][0] for i in range(3))

# %% moe-exposed-plot
assert (exposed(forward(4), backward(4)), exposed(forward(4)) + exposed(backward(4))) == (2, 16)
assert max(end for *_, end in run(forward(4), backward(4))) == 20
assert lines["paired"][:4] == [0] * 4

# %% moe-schedules
assert paired.makespan < alone.makespan

# %% moe-sent-count
assert counted.tolist() == [rank["sent"].tolist() for rank in first]
assert counted.sum() == 2 * 512

# %% moe-average
assert all(
    float((sums[name] / 2 - single[name]).abs().max()) < 1e-10 < float((sums[name] - single[name]).abs().max())
    for name in sums
)
assert {sum(name in rank["grads"] for rank in ranks) for name in sums if ".experts." in name} == {1}
assert {sum(name in rank["grads"] for rank in ranks) for name in sums if ".experts." not in name} == {2}
losses = [float(rank["loss"]) for rank in ranks if rank["loss"] is not None]
x, y = mini_batch()
assert abs(sum(losses) / 2 - nn.functional.cross_entropy(network()(x), y).item()) < 1e-10

# %% moe-cut-matters
assert apart > 1e-6
