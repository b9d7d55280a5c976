"""Exercise 05: a network cut into stages."""
