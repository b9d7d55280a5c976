"""Exercise 15, second part: a plan that fits a machine."""
