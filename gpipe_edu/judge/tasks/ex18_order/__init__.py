"""Exercise 18: the order of packs that cost differently."""
