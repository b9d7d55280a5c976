"""What the puzzles' notebook says of its numbers."""

# %% puzzle-11
assert proof.proved
assert proof.makespan == 11

# %% puzzle-13
assert free.makespan == 10
