"""Exercise 07: 1F1B from its rule."""
