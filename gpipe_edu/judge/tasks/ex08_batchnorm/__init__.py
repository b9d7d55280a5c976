"""Exercise 08: BatchNorm under micro-batches."""
