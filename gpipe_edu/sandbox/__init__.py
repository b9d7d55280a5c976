"""A learner's function, run where it can do no harm: asked from outside, answered inside, in plain data."""
