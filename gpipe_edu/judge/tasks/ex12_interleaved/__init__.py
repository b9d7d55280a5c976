"""Exercise 12: interleaved 1F1B for any number of stages per device."""
