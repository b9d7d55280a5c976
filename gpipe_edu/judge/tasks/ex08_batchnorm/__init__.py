"""Exercise 08: batchNorm under micro-batches."""
