"""Exercise 11: the order of ZB-H1."""
