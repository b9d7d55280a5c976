"""What lesson 15 says of its numbers."""

# %% bom-lower
assert [len(actions[rank]) for rank in range(2)] == [len(row) for row in schedule.rows]

# %% bom-run-run
assert first["loss"] is None

# %% bom-equal-run
assert len(grads) == len(list(single.parameters()))
assert apart < 1e-5

# %% bom-slow-link
assert round(134e6 / 0.125e9, 2) == 1.07

# %% bom-bytes
assert sent(8) == 2 * sent(4) == 16
assert sent(8) * (512 // 8) == sent(4) * (512 // 4)

# %% bom-torchrun-run
assert code == 0

# %% bom-resume
assert code == 0
assert "epoch 1: made by an earlier run" in out

# %% bom-interval
assert (round(T / 3600, 1), round(54 * 24 / 419, 1)) == (2.7, 3.1)  # hours, assumed and counted by Llama 3's authors
assert [round((2 * s * T) ** 0.5 / 60) for s in (6, 60)] == [6, 18]

# %% bom-program-run
assert code != 0
assert told

# %% bom-questions-check
assert 2 * 8 == 16
