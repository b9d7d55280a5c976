"""What lesson 10 says of its numbers."""

# %% skip-traffic-check
assert (main, skips) == (1920, 1536)

# %% skip-equal-run
assert abs(loss - exact_loss) < 1e-10
assert max(difference(ours, exact)) < 1e-10

# %% skip-carried
assert torch.equal(net(noisy[:4]), unet()(noisy[:4]))

# %% skip-carried-run
totals = {name: sum(way.bytes for way in ways) // 4 for name, ways in (("straight", sent), ("carried", along))}
assert totals == {"straight": 3456, "carried": 7040}
assert round(totals["carried"] / totals["straight"], 2) == 2.04
assert [max(way.bytes for way in ways) // 4 for ways in (sent, along)] == [1024, 2 * 1024]  # the largest

# %% skip-memory
assert carried_mb[2] > 10 * straight_mb[2]

# %% skip-memory-plot
assert np.allclose(straight_mb[0], carried_mb[0])
assert np.allclose(straight_mb[4], carried_mb[4])
passing = 256 * 1024 * 4 / 1e6  # skip 8x8 of the mini-batch: 256 samples of 1024 numbers of 4 bytes
assert np.allclose(np.subtract(carried_mb, straight_mb)[[1, 3]], passing, rtol=1e-6)
assert np.allclose(carried_mb[2] - straight_mb[2], 1.5 * passing, rtol=1e-6)

# %% skip-facts
assert (round(faster, 2), round(leaner, 2)) == (0.06, -0.22)

# %% skip-real
assert round(kept, 2) == 1.07

# %% skip-send
assert (straight_plan.makespan, carried_plan.makespan) == (40, 44)
assert plan("slow", 2).makespan > 40 + 8 * 1.5  # where messages queue, it is more than 8 crossings

# %% skip-detached
assert wrong_loss == exact_loss

# %% skip-detached-plot
assert errors[0] > 0.1
assert max(errors[1:]) < 1e-12

# %% skip-cut-run
assert (totals[3], totals[5], totals[6]) == (1280, 2048, 1664)

# %% skip-train-run
assert max(abs(a - b) for a, b in zip(single_losses, piped_losses, strict=True)) < 0.01
assert piped_losses[-1] < piped_losses[0] / 3
assert buggy > 1.03 * right

# %% skip-result
assert loss_fn(restored, clean_test) < loss_fn(noisy_test, clean_test) / 2

# %% skip-work
assert sum(crossing(ge.balance_by_cost(work, 3))) == 3072
assert largest_share((3, 11)) > 0.9 > 0.6 > largest_share((10, 4))

# %% skip-try
from itertools import combinations

cuts = [(a, b - a, 14 - b) for a, b in combinations(range(1, 14), 2)]
solutions = [cut for cut in cuts if largest_share(cut) <= 0.6 and sum(crossing(cut)) < 1600]
assert len(solutions) == 1
near = nn.Sequential(nn.Linear(4, 4), Stash("a"), nn.Linear(4, 4), Take("a", torch.add))
assert sum(way.bytes for way in traffic(near, torch.zeros(1, 4), (2, 2))) == 2 * 4 * 4
assert counted(carry_skips(unet()), checkpoint="never")[2] > 2 * counted(unet(), checkpoint="never")[2]
