"""Exercise 13, second part: an optimizer step whose state is divided among replicas."""
