"""Exercise 01: cut a mini-batch into micro-batches."""
