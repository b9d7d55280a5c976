"""What lesson 00 says of its numbers."""

# %% digits
assert data.x_train.shape == (1437, 64)
assert data.x_test.shape == (360, 64)

# %% stages
assert len(layers) == 7

# %% microbatches
assert [len(piece) for piece in pieces] == [64, 64, 64, 64]

# %% plan
assert plan.makespan == 21
assert round(plan.bubble_fraction, 3) == 0.429

# %% compare
assert abs(result.loss - loss) < 1e-12 * loss
assert apart < 1e-12

# %% curves
assert max(abs(a - b) for a, b in zip(single_losses, piped_losses, strict=True)) < 1e-9

# %% accuracy
assert (guesses[0] == guesses[1]).all()
assert accuracy > 0.95

# %% refused
import pytest

with pytest.raises(ge.ScheduleError) as refused:
    ref.train_pipeline(layers, x, y, swapped)
assert refused.value.problems[0].code == "deadlock"

# %% fixed
assert ref.gradient_difference(runs[0].grads, grads) < 1e-12

# %% one
assert max(differences) < 1e-12
