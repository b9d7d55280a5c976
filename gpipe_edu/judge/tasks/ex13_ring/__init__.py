"""Exercise 13: an all-reduce in a ring of processes."""
