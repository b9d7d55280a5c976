"""Exercise 15, first part: the memory of each device, in bytes."""
