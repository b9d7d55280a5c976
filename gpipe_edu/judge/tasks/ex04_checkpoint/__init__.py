"""Exercise 04: re-materialization in PyTorch."""
