"""Exercise 17, first part: the bytes that tokens on their way to experts put on each link."""
