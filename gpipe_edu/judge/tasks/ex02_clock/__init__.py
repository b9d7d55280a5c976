"""Exercise 02: forward through a pipeline, tick by tick."""
