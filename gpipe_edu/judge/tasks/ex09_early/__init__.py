"""Exercise 09: recompute early, in the bubble."""
