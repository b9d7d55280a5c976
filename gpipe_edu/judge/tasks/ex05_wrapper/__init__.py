"""Exercise 05: the GPipe wrapper."""
