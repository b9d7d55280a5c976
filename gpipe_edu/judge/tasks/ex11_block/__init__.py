"""Exercise 11: the two halves of a block's backward."""
