"""Exercise 16: what is wrong in a profile of all ranks."""
