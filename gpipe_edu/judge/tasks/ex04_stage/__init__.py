"""Exercise 04: re-materialization by hand."""
