"""Exercise 06: cut layers into stages by cost."""
