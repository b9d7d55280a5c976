"""Exercise 02: f-then-B, GPipe's schedule."""
