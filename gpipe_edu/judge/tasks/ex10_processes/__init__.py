"""Exercise 10: two processes that send activations and gradients."""
