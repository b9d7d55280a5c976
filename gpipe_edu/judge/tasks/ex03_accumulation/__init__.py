"""Exercise 03: gradient accumulation that equals the full batch."""
